"""Counting the lines of a node's log."""

import signal
from collections.abc import Iterator

import pytest

from coordinator.runtime.figures.lines import LineFigures


class Interrupted(str):
    """A level in whose counting a signal comes."""

    __slots__ = ()

    def __hash__(self) -> int:
        signal.raise_signal(signal.SIGUSR2)
        return super().__hash__()


@pytest.fixture
def figures() -> Iterator[LineFigures]:
    """Return the figures, with a signal whose handler logs a line too."""
    figures = LineFigures()
    before = signal.signal(signal.SIGUSR2, lambda *_: figures(None, "warning", {"event": "signal-ignored"}))
    yield figures
    signal.signal(signal.SIGUSR2, before)


def counts(figures: LineFigures) -> dict[tuple[str, str], float]:
    """Return the lines counted, by kind and level."""
    return {(dict(labels)["kind"], dict(labels)["level"]): count for _, labels, count in figures.family().samples}


@pytest.mark.timeout(20)
def test_a_signal_that_logs_while_a_line_is_counted_waits_for_nothing(figures: LineFigures) -> None:
    figures(None, Interrupted("info"), {"event": "member-joined"})
    counted = counts(figures)
    assert counted["member-joined", "info"] == 1
    assert counted["signal-ignored", "warning"] >= 1
