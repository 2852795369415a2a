"""Ctrl-C at any line of a consumer's code: the next calls return each record once, and nothing is stranded."""

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import spark_kcoord.consumer
from tests.helpers.fake_consuming import Rig, owned

HOME = str(Path(spark_kcoord.consumer.__file__).parent)
KNOWN = {0: list(range(6)), 1: list(range(6))}


class Ctrl:
    """Raises KeyboardInterrupt before one line of the code of a folder, counted from the first; 0 only looks."""

    def __init__(self, at: int, folder: str = HOME) -> None:
        self.at = at
        self.folder = folder
        self.lines: list[tuple[str, int]] = []

    @property
    def is_over(self) -> bool:
        return self.at == len(self.lines)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Note lines, and raise when it is time."""
        before = sys.gettrace()
        gc.disable()  # what is collected has lines of its own
        sys.settrace(None if self.lines and self.is_over else self._trace)
        try:
            yield
        finally:
            sys.settrace(before)
            gc.enable()

    def _trace(self, frame: FrameType, event: str, _: Any) -> Any:
        if not frame.f_code.co_filename.startswith(self.folder):
            return None
        if event == "line":
            self.lines.append((frame.f_code.co_filename, frame.f_lineno))
            if self.is_over:
                sys.settrace(None)
                raise KeyboardInterrupt
        return self._trace


def read_all(rig: Rig, ctrl: Ctrl, read: Callable[[Rig], list[tuple[int, int]]], found: dict[int, list[int]]) -> None:
    """Read until there has been nothing for some calls; what an interrupted call read is not there."""
    empty = calls = 0
    while empty < 3:
        calls += 1
        assert calls < 50, "it ends"
        try:
            with ctrl.watching():
                got = read(rig)
        except KeyboardInterrupt:
            continue
        empty = 0 if got else empty + 1
        for partition, offset in got:
            found.setdefault(partition, []).append(offset)


def by_poll(rig: Rig) -> list[tuple[int, int]]:
    return [(one.partition, one.offset) for records in rig.poll().values() for one in records]


def by_iteration(rig: Rig) -> list[tuple[int, int]]:
    record = next(rig, None)
    return [] if record is None else [(record.partition, record.offset)]


def run(ctrl: Ctrl, read: Callable[[Rig], list[tuple[int, int]]], **settings: Any) -> None:
    """Read two partitions: the first until it is asked back half-way, then the second."""
    found: dict[int, list[int]] = {}
    rig = Rig({("t", 0): 6, ("t", 1): 6}, topics=(), max_poll_records=4, consumer_timeout_ms=0, **settings)
    try:
        for _ in range(3):
            with suppress(KeyboardInterrupt), ctrl.watching():
                rig.subscribe(["t"], listener=rig.listener)  # type: ignore[arg-type]
                break
        read_all(rig, ctrl, read, found)
        assert found == {0: KNOWN[0]}
        rig.member.give(owned(0, is_stopping=True), owned(1))
        rig._bell.ring()
        read_all(rig, ctrl, read, found)
        assert found == KNOWN
        assert {(one.partition, one.offset) for finals in rig.member.released for one in finals} == {(0, 6)}
        assert {one.partition: one.offset for noted in rig.member.noted for one in noted} == {0: 6, 1: 6}
    finally:
        rig.close()


def close(ctrl: Ctrl) -> None:
    """Close a consumer that reads, and once more where that was interrupted."""
    rig = Rig({("t", 0): 6})
    try:
        rig.poll()
        with suppress(KeyboardInterrupt), ctrl.watching():
            rig.close()
        rig.close()
        assert (rig.kafka.is_closed, rig._flows.is_closed) == (True, True)
        assert rig.member.is_closed or rig.member.left_with is not None, "a member that leaves ends by itself"
    finally:
        rig._flows.end()


def at_every_line(run: Callable[[Ctrl], None], least: int, folder: str = HOME) -> None:
    """Interrupt a run at each line that it comes by, the first time and the last."""
    looked, wrong = Ctrl(0, folder), []
    run(looked)
    passes: dict[tuple[str, int], list[int]] = {}
    for at, line in enumerate(looked.lines, 1):
        passes.setdefault(line, []).append(at)
    assert len(passes) > least
    for at in sorted({at for known in passes.values() for at in (known[0], known[-1])}):
        ctrl = Ctrl(at, folder)
        try:
            run(ctrl)
        except Exception as error:  # noqa: BLE001 - all lines are tried, and shown together
            wrong.append(f"{':'.join(map(str, ctrl.lines[-1]))}: {type(error).__name__}: {error}")
        assert ctrl.is_over
    assert not wrong, f"{len(wrong)} lines: " + "\n".join(wrong[:10])


def test_ctrl_c_at_any_line_of_a_close_leaves_nothing_running() -> None:
    at_every_line(close, 50)


@pytest.mark.parametrize("read", [by_poll, by_iteration])
def test_ctrl_c_at_any_line_loses_nothing_and_strands_nothing(read: Callable[[Rig], list[tuple[int, int]]]) -> None:
    at_every_line(lambda ctrl: run(ctrl, read), 200)


@pytest.mark.parametrize("read", [by_poll, by_iteration])
def test_ctrl_c_at_any_line_that_records_spans_loses_nothing(read: Callable[[Rig], list[tuple[int, int]]]) -> None:
    at_every_line(lambda ctrl: run(ctrl, read, otel=True), 60, f"{HOME}/telemetry")
