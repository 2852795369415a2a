"""The Chromium that browser tests drive: the one on the PATH. None is downloaded, and without one the tests fail."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
NONE = (
    "No Chromium is on the PATH: install one, for example with `apt install chromium` or `brew install --cask "
    "chromium`, or name it in KCOORD_CHROMIUM."
)


def find_chromium() -> str:
    """Return the path of a Chromium; fails with what to install."""
    named = os.environ.get("KCOORD_CHROMIUM")
    found = named or next(filter(None, map(shutil.which, NAMES)), None)
    assert found, NONE
    return found


@contextmanager
def a_browser() -> Iterator[Browser]:
    """Run a Chromium without a window for the time of a with block."""
    with sync_playwright() as playwright:
        # Chromium's own sandbox does not work for root, as whom containers run; only our own pages are opened.
        flags = ["--no-sandbox"] if os.getuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=[*flags, "--disable-dev-shm-usage"])
        try:
            yield browser
        finally:
            browser.close()
