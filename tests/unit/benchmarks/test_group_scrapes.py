"""The scrapes of a benchmark: counted, and an error where one fails."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from benchmarks.group_scrapes import Scraper
from tests.helpers.waiting import wait_until


@contextmanager
def page(status: int) -> Iterator[tuple[str, list[str]]]:
    """Give the address of a page of 3,000 bytes, and the paths that were asked for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", "3000")
            self.end_headers()
            self.wfile.write(b"x" * 3000)
            asked.append(self.path)

        def log_message(self, *said: object) -> None:
            del said

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"127.0.0.1:{server.server_port}", asked
        server.shutdown()


def test_scrapes_come_once_a_second_and_are_counted_with_the_size_of_the_page() -> None:
    with page(200) as (address, asked):
        began_s = time.monotonic()
        with Scraper(address) as scraper:
            wait_until(lambda: len(asked) >= 2)
        assert time.monotonic() - began_s >= 1
    assert scraper.seen is not None
    wait_until(lambda: len(asked) >= scraper.seen.count)  # a page is noted once it is written
    assert (scraper.seen.count, scraper.seen.most_bytes) == (len(asked), 3000)
    assert asked == ["/metrics"] * len(asked)
    assert 0 < scraper.seen.median_ms <= scraper.seen.most_ms


def scrape_once(address: str, asked: list[str], *, then: Exception | None = None) -> None:
    with Scraper(address):
        wait_until(lambda: len(asked) >= 1)
        if then is not None:
            raise then


def test_a_scrape_that_fails_is_an_error_and_says_why() -> None:
    with page(503) as where, pytest.raises(RuntimeError, match=r"a scrape of .* failed: HTTP status 503"):
        scrape_once(*where)


def test_a_scrape_that_fails_hides_no_other_error() -> None:
    with page(503) as where, pytest.raises(ValueError, match="another"):
        scrape_once(*where, then=ValueError("another"))
