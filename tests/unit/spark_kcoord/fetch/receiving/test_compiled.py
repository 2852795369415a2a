"""Threads that make records give way to one that fetches: while it has its turn, for a moment, and no longer.

Nor does a compiled receive keep the thread that fetches for longer than it says.
"""

import ctypes
import mmap
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from kcoord import ConsumerRecord
from spark_kcoord.fetch.decoding import _native
from spark_kcoord.fetch.decoding.columns import COLUMNS
from spark_kcoord.fetch.decoding.decode import decode
from spark_kcoord.fetch.receiving import compiled
from tests.helpers.record_batches import Row, record_batch

LONGEST_S = 30.0
LEAST_S = 20 * 20e-6
"""What giving way in vain takes at least."""
PR_SET_TIMERSLACK = 29
LATE_S = 0.05
LONGEST_RECEIVE_S = 0.050
"""More than is said, as the last step begins before."""

ROWS = decode(record_batch([Row(b"k", b"v")]), "t", 0, 0, 9, columns=COLUMNS).rows


def make_records() -> None:
    _native.records(ROWS, "t", 0, (), ConsumerRecord)


class Turn(threading.Thread):
    """A thread that has its turn until it is told to end it, and then another time."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.begun = threading.Barrier(2)
        self.go_on = threading.Event()
        self.start()
        self.begun.wait(LONGEST_S)

    def run(self) -> None:
        with compiled.going_first():
            self.begun.wait(LONGEST_S)
            self.go_on.wait(LONGEST_S)

    def end(self) -> None:
        self.go_on.set()
        self.join(LONGEST_S)


@pytest.fixture
def turn() -> Iterator[Turn]:
    made = Turn()
    yield made
    made.end()


def test_nobody_is_given_way_to_where_nobody_fetches() -> None:
    assert not _native.lock_is_wanted()


def test_records_wait_for_a_turn_once_and_not_for_one_that_waits_itself(turn: Turn) -> None:
    assert _native.lock_is_wanted()
    begun_at = time.monotonic()
    make_records()

    assert time.monotonic() - begun_at >= LEAST_S
    assert not _native.lock_is_wanted()


def test_records_wait_no_longer_where_the_system_lets_timers_be_late(turn: Turn) -> None:
    taken_s = []

    def make_late() -> None:
        assert ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, ctypes.c_ulong(int(LATE_S * 1e9))) == 0
        begun_at = time.monotonic()
        make_records()
        taken_s.append(time.monotonic() - begun_at)

    late = threading.Thread(target=make_late)  # whose timers are late until it ends
    late.start()
    late.join()

    assert taken_s[0] < 10 * LATE_S


def test_records_are_made_as_soon_as_the_turn_ends() -> None:
    turn = Turn()
    turn.end()

    assert not _native.lock_is_wanted()


def test_next_turn_is_given_way_to_again(turn: Turn) -> None:
    make_records()
    another = Turn()

    assert _native.lock_is_wanted()
    another.end()
    assert _native.lock_is_wanted()  # the first one's, as nobody has waited for it since
    turn.end()
    assert not _native.lock_is_wanted()


def test_turn_ends_with_an_exception() -> None:
    def go_first_and_fail() -> None:
        with compiled.going_first():
            assert _native.lock_is_wanted()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        go_first_and_fail()

    assert not _native.lock_is_wanted()


@pytest.mark.parametrize("size", [0, 1, 200_000])
def test_decoding_and_receiving_leave_a_turn_as_it_was(size: int) -> None:
    data = record_batch([Row(b"k", b"v" * size)])
    fail = bytearray(data)
    fail[-1] ^= 1

    def use() -> None:
        decode(data, "t", 0, 0, 9, columns=COLUMNS)
        with pytest.raises(Exception, match="checksum"):
            decode(bytes(fail), "t", 0, 0, 9, columns=COLUMNS)
        with pytest.raises(OSError, match="Bad file descriptor"):
            _native.receive(-1, memoryview(bytearray(9)), 0)

    use()
    assert not _native.lock_is_wanted()
    with compiled.going_first():
        use()
        assert _native.lock_is_wanted()
    assert not _native.lock_is_wanted()


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_forked_process_gives_way_to_nobody(turn: Turn) -> None:
    assert _native.lock_is_wanted()
    child = os.fork()
    if not child:
        os._exit(int(_native.lock_is_wanted()))
    _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == 0
    assert _native.lock_is_wanted()


def test_compiled_receive_ends_in_time_also_while_bytes_keep_coming() -> None:
    size = 128 << 20
    listener = socket.create_server(("127.0.0.1", 0))
    ours = socket.create_connection(listener.getsockname())
    broker, _ = listener.accept()
    ours.setblocking(False)
    sender = threading.Thread(target=broker.sendall, args=(bytes(size),), daemon=True)
    sender.start()
    receive = compiled.receive_compiled()
    assert receive is not None
    # Of memory that the system has to clear, so that the sender is the faster of both.
    target = memoryview(mmap.mmap(-1, size))
    taken_s = []
    while target:
        begun_at = time.thread_time()
        with suppress(BlockingIOError):
            target = target[receive(ours.fileno(), target, 0) :]
        taken_s.append(time.thread_time() - begun_at)
    sender.join()
    for sock in (ours, broker, listener):
        sock.close()

    assert max(taken_s) < LONGEST_RECEIVE_S


@pytest.fixture
def forgotten() -> Iterator[None]:
    """Forget which module there is, before and after."""
    kept = (compiled._compiled, compiled.receive_compiled)
    for each in kept:
        each.cache_clear()
    yield
    for each in kept:
        each.cache_clear()


def has_none() -> bool:
    with compiled.going_first():
        return compiled.receive_compiled() is None and not _native.lock_is_wanted()


@pytest.mark.usefixtures("forgotten")
@pytest.mark.parametrize("wish", ["numpy", "fastest"])
def test_without_the_compiled_module_there_are_no_turns_and_no_compiled_receive(
    wish: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("KCOORD_DECODER", wish)

    assert has_none()
    assert not caplog.text


@pytest.mark.usefixtures("forgotten")
def test_module_that_is_older_has_none_of_it_either(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(_native, "RECEIVES")

    assert has_none()
