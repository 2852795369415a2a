import contextlib
import json
import os
import threading
from collections import Counter
from collections.abc import Iterator

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from coordinator.runtime.process.log_lines import BackgroundLines, LineLimit
from coordinator.runtime.process.logs import Journal, make_log
from tests.helpers.processes import eventually


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    read, write = os.pipe()
    yield read, write
    os.close(read)
    os.close(write)


def test_lines_are_written_in_order_on_another_thread(pipe: tuple[int, int]) -> None:
    read, write = pipe
    lines = BackgroundLines(write)
    for number in range(100):
        lines.write(f"line {number}")
    assert lines.close(10)
    assert os.read(read, 1 << 16).decode().splitlines() == [f"line {number}" for number in range(100)]


def test_lines_that_come_together_are_written_together(pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    lines = BackgroundLines(pipe[1])
    gathered, sleeping = threading.Event(), threading.Event()

    def sleep(_: float) -> None:
        sleeping.set()
        assert gathered.wait(30)

    monkeypatch.setattr("coordinator.runtime.process.log_lines.time.sleep", sleep)
    written: list[bytes] = []
    monkeypatch.setattr(lines, "_write", written.append)
    lines.write("line 0")
    assert sleeping.wait(30)
    for number in range(1, 1000):
        lines.write(f"line {number}")
    gathered.set()
    assert lines.close(30)
    assert [data.count(b"\n") for data in written] == [1000]


def test_a_reader_that_stopped_costs_lines_and_no_time(pipe: tuple[int, int]) -> None:
    read, write = pipe
    lines = BackgroundLines(write, most_waiting_bytes=100_000)
    for number in range(10_000):  # 1 MB, and a pipe holds 64 KiB
        lines.write(f"{number:5} " + "x" * 94)
    assert not lines.close(0.01)
    said = ""
    shown: list[int] = []
    dropped = 0
    while len(shown) + dropped < 10_000:
        said += os.read(read, 1 << 16).decode()
        *whole, said = said.split("\n")
        shown += [int(line[:5]) for line in whole if "xxx" in line]
        dropped += sum(int(line.split()[1]) for line in whole if "were dropped: standard error was not read" in line)
    assert shown == sorted(shown)
    assert shown[0] == 0
    assert dropped > 5_000
    assert lines.close(10)
    lines.write("after it")
    assert lines.close(10)
    assert os.read(read, 100) == b"after it\n"


def test_a_closed_standard_error_loses_lines_and_nothing_else() -> None:
    read, write = os.pipe()
    os.close(read)
    lines = BackgroundLines(write)
    lines.write("anything")
    assert lines.close(10)
    os.close(write)


def test_a_flood_is_cut_by_kind_and_group_and_counted() -> None:
    now_s = [0.0]
    said: list[str] = []
    limit = LineLimit(3, clock=lambda: now_s[0])
    log = make_log("json", "info", write=said.append, first=[limit])
    for _ in range(5):
        log.warning("stranger", why="w")
        log.info("member-joined", why="w", group="a")
        log.info("member-joined", why="w", group="b")
    assert [json.loads(line)["event"] for line in said].count("stranger") == 3
    assert [json.loads(line).get("group") for line in said].count("b") == 3
    assert limit.take_left_out() == {}
    now_s[0] = 61.0
    assert limit.take_left_out() == {"stranger": 2, "member-joined": 4}
    log.warning("stranger", why="again")
    assert json.loads(said[-1])["why"] == "again"


def test_many_groups_together_are_cut_too() -> None:
    limit = LineLimit(2, clock=lambda: 0.0)
    passed = 0
    for number in range(100):
        try:
            limit(None, "info", {"event": "member-joined", "group": f"g{number}"})
        except structlog.DropEvent:
            continue
        passed += 1
    assert passed == 20
    assert limit.take_left_out(is_last=True) == {"member-joined": 80}


LINES = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["", "g", "h", "i"])), max_size=200)


@given(lines=LINES, most=st.integers(1, 4))
def test_whatever_comes_is_written_within_bounds_or_counted(lines: list[tuple[str, str]], most: int) -> None:
    limit = LineLimit(most, clock=lambda: 0.0)
    passed: Counter[tuple[str, str]] = Counter()
    for kind, group in lines:
        with contextlib.suppress(structlog.DropEvent):
            limit(None, "info", {"event": kind, "group": group})
            passed[kind, group] += 1
    left_out = limit.take_left_out(is_last=True)
    assert all(count <= most for count in passed.values())
    assert passed.total() + sum(left_out.values()) == len(lines)
    for kind in "abc":
        of_kind = Counter(group for each, group in lines if each == kind)
        expected = sum(max(0, count - most) for count in of_kind.values())
        assert left_out.get(kind, 0) == expected, "nothing is left out below its bound"


def test_an_attack_under_ever_new_names_is_bounded_in_lines_and_in_memory() -> None:
    limit = LineLimit(2, clock=lambda: 0.0)
    passed = 0
    for number in range(20_000):
        with contextlib.suppress(structlog.DropEvent):
            limit(None, "warning", {"event": "stranger", "group": f"g{number}", "why": "w" * 100})
            passed += 1
    assert passed == 20
    assert len(limit._seen) == 20
    assert limit.take_left_out(is_last=True) == {"stranger": 19_980}


def test_the_end_of_a_journal_says_what_was_left_out(capfd: pytest.CaptureFixture[str]) -> None:
    journal = Journal("json", "info", most_per_minute=1)
    for _ in range(3):
        journal.log.warning("stranger", why="w")
    journal.close()
    first, last = map(json.loads, capfd.readouterr().err.splitlines())
    assert (first["event"], last["event"], last["count"]) == ("stranger", "lines-left-out", 2)
    assert last["why"].startswith("... and 2 more like this (stranger)")
    assert eventually(lambda: any(thread.name == "kcoord-log-lines" for thread in threading.enumerate()))
