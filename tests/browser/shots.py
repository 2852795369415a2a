"""`make shots`: pictures of the console's pages for README and docs, of a real coordinator with groups that read.

    python -m tests.browser.shots [DIRECTORY]

The last line is `shots: OK files=N`. Look at each of them: what no test sees is seen there.
"""

import sys
import tempfile
import threading
import time
from pathlib import Path

from coordinator.local.kafka.broker import LocalKafka
from coordinator.local.node import LocalCoordinator
from kcoord import Consumer
from tests.browser.chromium import a_browser
from tests.browser.stage import a_stage
from tests.helpers.kafka_topics import produce_numbers

PICTURES = Path(__file__).resolve().parents[2] / "docs" / "images"
SECONDS = 35.0
"""The time over which groups read before the pictures are taken, so that curve and health have something to show."""

PAGES = (
    ("overview", "/"),
    ("groups", "/groups?sort=lag&order=desc"),
    ("group", "/groups/ingest"),
    ("members", "/groups/ingest/members"),
    ("timeline", "/groups/ingest/timeline"),
    ("acts", "/groups/nightly/acts"),
    ("shards", "/shards"),
)
LOOKS = (("", 1440, 900, "light"), ("-dark", 1440, 900, "dark"), ("-narrow", 390, 844, "light"))
KEPT = ("groups", "group-dark", "members", "timeline")
"""The pictures that are kept in the project, which the pages show; the others are for looking at."""


def main(directory: Path) -> int:
    """Take all pictures; the kept ones come into docs."""
    with (
        tempfile.TemporaryDirectory(prefix="kcoord-shots-") as room,
        LocalKafka(Path(room) / "kafka") as kafka,
        LocalCoordinator(kafka.bootstrap_servers, Path(room) / "node") as node,
    ):
        _take(kafka, node.address, Path(room), directory)
    print(f"shots: OK files={len(list(directory.glob('*.png')))}")
    return 0


def _take(kafka: LocalKafka, node: str, room: Path, directory: Path) -> None:
    topics = ("flights", "orders")
    for name, partitions in zip(topics, (8, 4), strict=True):
        kafka.create_topic(name, partitions)
    stopping = threading.Event()
    readers = [
        threading.Thread(target=_read, args=(node, f"ingest-{number}", pause_s, begin_s, stopping))
        for number, (pause_s, begin_s) in enumerate(((0.2, 0), (0.2, 0), (0.9, 12)), 1)
    ]
    with a_stage(kafka.bootstrap_servers, node, topics, room) as stage, a_browser() as browser:
        for reader in readers:
            reader.start()
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            produce_numbers(kafka.bootstrap_servers, "flights", 8, 0, 400)
            time.sleep(1)
        directory.mkdir(parents=True, exist_ok=True)
        PICTURES.mkdir(exist_ok=True)
        for suffix, width, height, scheme in LOOKS:
            context = browser.new_context(
                base_url=stage.console.url,
                viewport={"width": width, "height": height},
                color_scheme=scheme,  # type: ignore[arg-type]
            )
            page = context.new_page()
            for name, path in PAGES:
                page.goto(path)
                if name == "acts":
                    page.locator("#to").select_option("earliest")
                    page.locator("#form-reset-offsets button").click()
                    page.locator("#do-reset-offsets").wait_for()
                page.wait_for_timeout(600)
                target = f"{name}{suffix}.png"
                page.screenshot(path=directory / target, full_page=True)
                if target.removesuffix(".png") in KEPT:
                    (PICTURES / f"console-{target}").write_bytes((directory / target).read_bytes())
            context.close()
        stopping.set()
        for reader in readers:
            reader.join()


def _read(node: str, name: str, pause_s: float, begin_s: float, stopping: threading.Event) -> None:
    if stopping.wait(begin_s):
        return
    with Consumer(
        "flights", coordinators=node, group_id="ingest", client_id=name, auto_offset_reset="earliest"
    ) as consumer:
        while not stopping.wait(pause_s):
            consumer.poll(timeout_ms=200, max_records=60)
            consumer.commit()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("dist/shots")))
