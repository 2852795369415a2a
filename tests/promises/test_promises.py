"""The frame that runs schedules: what it calls broken, and what its last line says."""

import threading
from pathlib import Path

import pytest

from tests.promises.__main__ import all_schedules, run
from tests.promises.place import Place
from tests.promises.schedule import BrokenError, Schedule, must, must_have


def kept(place: Place) -> None:
    pass


def loses(place: Place) -> None:
    must_have({1, 2}, {1}, what="a sink")


def fails(place: Place) -> None:
    raise RuntimeError("nobody drew that")


def told(capsys: pytest.CaptureFixture[str], tmp_path: Path, *schedules: Schedule) -> tuple[int, str]:
    with Place(tmp_path) as place:
        code = run(schedules, place)
    return code, capsys.readouterr().out.splitlines()[-1].rsplit(" ", 1)[0]


def test_schedules_that_end_keep_their_promise(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert told(capsys, tmp_path, Schedule("one", "it holds", kept)) == (
        0,
        "promises: OK schedules=1 lost=0 stuck=0 wrong=0",
    )


def test_lost_stuck_and_wrong_are_told_apart(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    released = threading.Event()

    def waits(place: Place) -> None:
        released.wait(60)

    schedules = (
        Schedule("a", "nothing is lost", loses),
        Schedule("b", "it ends", waits, timeout_s=0.05),
        Schedule("c", "it does not fail", fails),
        Schedule("d", "it holds", kept),
    )
    try:
        assert told(capsys, tmp_path, *schedules) == (1, "promises: FAILED schedules=4 lost=1 stuck=1 wrong=1")
    finally:
        released.set()


def test_no_schedule_at_all_is_a_failure(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert told(capsys, tmp_path) == (1, "promises: FAILED schedules=0 lost=0 stuck=0 wrong=0")


def test_records_that_nobody_expected_are_wrong() -> None:
    with pytest.raises(BrokenError) as broken:
        must_have({1}, {1, 2}, what="a sink")
    assert broken.value.kind == "wrong"
    with pytest.raises(BrokenError) as broken:
        must(False, "the query ended well", kind="lost")
    assert broken.value.kind == "lost"


def test_names_of_schedules_are_all_different() -> None:
    names = [schedule.name for schedule in all_schedules()]
    assert sorted(names) == sorted(set(names))
