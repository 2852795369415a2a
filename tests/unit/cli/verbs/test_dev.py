"""Ctrl-C of a local command, wherever it comes."""

import signal
import threading

import pytest

from coordinator.cli.verbs.dev import ending_when_asked


class Finalizer:
    """An object in whose finalizer a signal comes: Python raises nothing out of one."""

    def __del__(self) -> None:
        signal.raise_signal(signal.SIGINT)


@pytest.mark.timeout(60)
def test_a_signal_that_comes_within_a_finalizer_ends_the_block_all_the_same() -> None:
    has_ended_itself = False
    with ending_when_asked():
        Finalizer()
        threading.Event().wait(20)
        has_ended_itself = True
    assert not has_ended_itself


@pytest.mark.timeout(60)
def test_a_signal_that_was_to_come_again_does_not_come_after_the_block_has_ended() -> None:
    has_come = threading.Event()
    before = signal.signal(signal.SIGTERM, lambda *_: has_come.set())
    try:
        with ending_when_asked():
            Finalizer()
        assert not has_come.wait(1)
    finally:
        signal.signal(signal.SIGTERM, before)
