"""The pages of an admin port: a real server of them is asked, and what it says is judged."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus

import pytest

from coordinator.admin.http import Answer, HttpLimits, HttpServer, say
from coordinator.cli.diagnosis import admin_pages
from coordinator.cli.diagnosis.admin_pages import Page, PageError, admin_checks, fsync_check, read_page, ready_check
from coordinator.cli.diagnosis.doctor_check import Check
from coordinator.protocol.text.addresses import Address, format_address
from tests.helpers.loopback_coordinator import unused_address

METRICS = """# HELP kcoord_fsync_seconds Time of one sync of a shard's log.
# TYPE kcoord_fsync_seconds histogram
kcoord_fsync_seconds_bucket{le="0.001"} 3
kcoord_fsync_seconds_sum 0.008
kcoord_fsync_seconds_count 4
kcoord_zk_session_state{state="registered"} 1
kcoord_group_lag{group="kcoord_fsync_seconds_sum 9",topic="t",partition="0"} 5
"""


@pytest.fixture
def admin() -> Iterator[Address]:
    server = HttpServer(
        {
            "/readyz": lambda: say(HTTPStatus.OK, "ready"),
            "/metrics": lambda: Answer(HTTPStatus.OK, (METRICS.encode(),)),
        },
        HttpLimits(),
    )
    yield server.start("127.0.0.1", 0)
    server.close()


def test_a_node_that_is_well_is_ready_syncs_quickly_and_has_its_session(admin: Address) -> None:
    where = format_address(admin)
    assert list(admin_checks((admin,), 10)) == [
        Check("admin", "ok", where, "ready"),
        Check("fsync", "ok", f"{where} 2.00 ms", "mean of 4 since it started"),
        Check("zk-session", "ok", f"{where} registered"),
    ]


def test_a_port_at_which_nobody_answers_fails_and_says_why() -> None:
    (check,) = admin_checks((unused_address(),), 1)
    assert (check.name, check.status, "Connection refused" in check.why) == ("admin", "fail", True)


def test_no_port_that_was_named_is_no_failure() -> None:
    (check,) = admin_checks((), 1)
    assert (check.status, "--admin" in check.why) == ("skip", True)


def test_a_port_of_another_program_fails_without_a_traceback() -> None:
    def no_page() -> Answer:
        return say(HTTPStatus.NOT_FOUND, "Not Found")

    server = HttpServer({"/readyz": no_page, "/metrics": no_page}, HttpLimits())
    address = server.start("127.0.0.1", 0)
    try:
        checks = list(admin_checks((address,), 10))
    finally:
        server.close()
    assert [(check.name, check.status) for check in checks] == [("admin", "fail"), ("fsync", "skip")]


def test_a_page_that_is_too_long_is_cut_at_a_line_and_that_is_told(
    admin: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admin_pages, "MOST_BYTES", 100)
    page = read_page(admin, "/metrics", 10)
    assert (page.is_cut, page.text) == (True, METRICS.splitlines(keepends=True)[0])


def test_a_page_that_is_no_http_is_an_error_with_its_address() -> None:
    with pytest.raises(PageError, match=r"127\.0\.0\.1:\d+/readyz cannot be read"):
        read_page(unused_address(), "/readyz", 1)


@contextmanager
def saying(say_it: Callable[[socket.socket], None]) -> Iterator[Address]:
    """A port of which each connection is said something, until it is closed."""

    def serve() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listening.accept()
                with connection, suppress(OSError):
                    say_it(connection)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve)
        thread.start()
        yield listening.getsockname()
        listening.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.mark.parametrize("head", [b"", b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n"])
def test_a_port_that_trickles_holds_nobody_for_longer_than_the_time_out(head: bytes) -> None:
    is_left = threading.Event()
    is_at_its_end = False

    def trickle(connection: socket.socket) -> None:
        nonlocal is_at_its_end
        connection.sendall(head)
        for _ in range(600):
            connection.sendall(b"x")
            if is_left.wait(0.1):
                return
        is_at_its_end = True

    with saying(trickle) as address:
        with pytest.raises(PageError, match="cannot be read: timed out"):
            read_page(address, "/metrics", 0.5)
        assert not is_at_its_end
        is_left.set()


@pytest.mark.parametrize(
    ("page", "status"),
    [
        (Page(200, "ready\n"), "ok"),
        (Page(200, "ready, but Kafka cannot be reached\n"), "warn"),
        (Page(503, "not ready: it loads its log\n"), "fail"),
    ],
)
def test_a_node_is_ready_by_its_own_word(page: Page, status: str) -> None:
    check = ready_check("h:1", page)
    assert (check.status, check.why.startswith(page.text.strip())) == (status, True)


def test_a_slow_disk_is_a_warning_and_one_that_was_not_used_is_passed_over() -> None:
    slow = fsync_check("h:1", {"kcoord_fsync_seconds_sum": 3.0, "kcoord_fsync_seconds_count": 100.0})
    assert (slow.status, slow.value) == ("warn", "h:1 30.00 ms")
    assert fsync_check("h:1", {}).status == "skip"


def test_a_session_that_is_away_fails() -> None:
    (check,) = admin_pages.session_checks("h:1", 'kcoord_zk_session_state{state="suspended"} 1\n')
    assert (check.status, check.value) == ("fail", "h:1 suspended")
