"""`kcoord top` on a real terminal: one screen, its keys and its size, and a terminal that is afterwards as it was."""

import fcntl
import io
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, nullcontext

import pytest
from rich.console import Console

from coordinator.cli.verbs.top import screen
from coordinator.cli.verbs.top.seen import Seen, Sorting
from coordinator.protocol.messages import (
    DescribeCluster,
    DescribeClusterResponse,
    DescribeGroup,
    DescribeGroupResponse,
    FetchOffsets,
    FetchOffsetsResponse,
    ListGroups,
    ListGroupsResponse,
)
from coordinator.protocol.parts import GroupSummary, NodeDescription, PartitionDescription, ShardDescription
from tests.helpers.scripted_coordinator import ScriptedCoordinator

GROUPS = tuple(f"group-{number:02}" for number in range(40))
LARGER, SMALLER = "\x1b[?1049h", "\x1b[?1049l"
LIMIT_S = 60.0


def described(request: DescribeGroup) -> DescribeGroupResponse:
    partition = PartitionDescription("t", 0, int(request.group_id[-2:]), 100)
    return DescribeGroupResponse(group_id=request.group_id, state="Stable", partitions=(partition,))


ANSWERS = {
    DescribeCluster: DescribeClusterResponse(
        1, (NodeDescription(1, "ready"),), (ShardDescription(0, "serving", 1, 1, (1,), (1,)),)
    ),
    ListGroups: ListGroupsResponse(tuple(GroupSummary(group, "Stable", 1, 1) for group in GROUPS), shards=(0,)),
    DescribeGroup: described,
    FetchOffsets: FetchOffsetsResponse(),
}


class Terminal:
    """A pseudo-terminal with the program on it; `said` is all that it has written."""

    def __init__(self, port: int, arguments: tuple[str, ...], term: str) -> None:
        self.master, self.slave = pty.openpty()
        self.resize(24, 120)
        self.before = termios.tcgetattr(self.slave)
        self.said = ""
        self._read = 0
        environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "coordinator", "top", "--coordinator", f"127.0.0.1:{port}", *arguments],
            stdin=self.slave,
            stdout=self.slave,
            stderr=subprocess.PIPE,
            env={**environment, "TERM": term},
            start_new_session=True,
        )

    def resize(self, lines: int, columns: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def read_until(self, text: str) -> str:
        """Read until something is said, and return what was said up to it since the last time."""
        end_s = time.monotonic() + LIMIT_S
        while (found := self.said.find(text, self._read)) < 0:
            assert time.monotonic() < end_s, f"{text!r} is not in {self.said[self._read :]!r}"
            if select.select([self.master], [], [], 0.1)[0]:
                self.said += os.read(self.master, 65536).decode()
        begin, self._read = self._read, found + len(text)
        return self.said[begin : self._read]

    def press(self, keys: str) -> None:
        os.write(self.master, keys.encode())

    def end(self) -> int:
        """Wait for the program's end, and return its exit code."""
        self.read_until(SMALLER)
        code = self.process.wait(LIMIT_S)
        while select.select([self.master], [], [], 0)[0]:  # what it said last
            self.said += os.read(self.master, 65536).decode()
        return code


@contextmanager
def on_terminal(*arguments: str, term: str = "xterm") -> Iterator[Terminal]:
    with ScriptedCoordinator(ANSWERS) as coordinator:  # type: ignore[arg-type]
        terminal = Terminal(coordinator.address[1], arguments, term)
        try:
            yield terminal
        finally:
            if terminal.process.poll() is None:
                terminal.process.kill()
            terminal.process.communicate()
            os.close(terminal.master)
            os.close(terminal.slave)


@pytest.mark.parametrize("way", ["q", "ctrl-c", "sigterm"])
def test_terminal_is_afterwards_as_it_was_whichever_way_it_ends(way: str) -> None:
    with on_terminal("--every", "100s") as terminal:
        terminal.read_until("q quit")
        assert termios.tcgetattr(terminal.slave) != terminal.before
        if way == "q":
            terminal.press("q")
        else:
            terminal.process.send_signal(signal.SIGINT if way == "ctrl-c" else signal.SIGTERM)
        code = terminal.end()
        assert code == (143 if way == "sigterm" else 0)
        assert termios.tcgetattr(terminal.slave) == terminal.before
        assert terminal.said.count(LARGER) == terminal.said.count(SMALLER) == 1
        assert terminal.said.rindex("\x1b[?25h") > terminal.said.rindex("\x1b[?25l"), "the cursor is shown again"
        assert terminal.process.stderr is not None
        assert terminal.process.stderr.read() == b""


class InAnEndOfALife(io.StringIO):
    """A terminal's output; while it is written to, a signal comes where an exception is told and goes no further."""

    def __init__(self, number: signal.Signals) -> None:
        super().__init__()
        self._number: signal.Signals | None = number

    def write(self, text: str) -> int:
        number, self._number = self._number, None
        if number is not None:
            EndOfALife(number)
        return super().write(text)


class EndOfALife:
    def __init__(self, number: signal.Signals) -> None:
        self._number = number

    def __del__(self) -> None:
        signal.raise_signal(self._number)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_no_signal_is_lost_wherever_it_comes(number: signal.Signals) -> None:
    console = Console(file=InAnEndOfALife(number), force_terminal=True, width=80, height=24)
    looked: list[object] = []
    first = Seen(0, None, (), ())

    def look(groups: Collection[str]) -> Seen:
        looked.append(groups)
        return first

    with pytest.raises(SystemExit, match="143") if number == signal.SIGTERM else nullcontext():
        screen.run(console, look, first, Sorting.LAG, limit=None, every_s=0.5, times=3)
    assert looked == []


class Stopped(io.StringIO):
    """A terminal that has stopped its output, and a person who asks twice."""

    def __init__(self, number: signal.Signals) -> None:
        super().__init__()
        self._number = number
        self._asked = 0

    def write(self, text: str) -> int:
        while text and self._asked < 2:
            self._asked += 1
            signal.raise_signal(self._number)
        return super().write(text)


@pytest.mark.parametrize(("number", "how"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)])
def test_second_signal_ends_what_a_stopped_terminal_keeps(number: signal.Signals, how: type[BaseException]) -> None:
    console = Console(file=Stopped(number), force_terminal=True, width=80, height=24)
    first = Seen(0, None, (), ())
    before = signal.getsignal(number)
    with pytest.raises(how, match="143" if number == signal.SIGTERM else None):
        screen.run(console, lambda _: first, first, Sorting.LAG, limit=None, every_s=0.1, times=3)
    assert signal.getsignal(number) == before


def test_as_many_groups_are_shown_as_fit_and_a_new_size_is_followed() -> None:
    with on_terminal("--every", "100s") as terminal:
        first = terminal.read_until("q quit")
        terminal.read_until("more groups")
        assert 15 <= sum(group in first for group in GROUPS) <= 18
        terminal.resize(60, 120)
        second = terminal.read_until("q quit")
        assert sum(group in second for group in GROUPS) == 40
        terminal.press("q")
        assert terminal.end() == 0


def test_s_sorts_by_the_next_column_at_once() -> None:
    with on_terminal("--every", "100s", "--sort", "members") as terminal:
        terminal.read_until("sort: members")
        terminal.press("s")
        terminal.read_until("sort: group")
        terminal.press("s")
        terminal.read_until("sort: lag")
        terminal.press("q")
        assert terminal.end() == 0


def test_screen_is_drawn_again_with_each_look_and_the_last_of_some_stays() -> None:
    with on_terminal("--every", "50ms", "--times", "3", "--limit", "2") as terminal:
        assert terminal.end() == 0
        terminal.read_until("group-01")
        last = terminal.said[terminal.said.index(SMALLER) :]
        assert "40 groups: 40 Stable" in last
        assert [group for group in GROUPS if group in last] == ["group-00", "group-01"]


def test_other_forms_and_a_terminal_that_does_not_draw_get_plain_lines() -> None:
    for words, term in ((("-o", "csv"), "xterm"), ((), "dumb")):
        with on_terminal("--times", "1", *words, term=term) as terminal:
            terminal.read_until("group-39")
            assert terminal.process.wait(LIMIT_S) == 0
            assert "\x1b" not in terminal.said
