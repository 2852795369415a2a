"""The work that a large group makes, counted: a death, a ping and a commit for the core, the last two for the server.

    make bench-steps        or: uv run python -m benchmarks.group_steps [--members 5000] [--partitions 50000]

Counted are the calls of functions, Python's and C's, in the steps of the node that the event makes, and those that
encode what is answered. A count is the same on a busy machine and on an idle one, so it shows a change that
`bench-group` loses in the noise; it does not show what a call costs, which the processor time beside it does. The disk
is durable at once, and a member's death is over when its partitions are granted to others and all members are told.
`server_steps` counts what a ping and a commit take from the bytes that were read to those that are written.

The last line is for scripts; it fails when a count is over its bar.
"""

import argparse
import cProfile
import gc
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

from benchmarks import server_steps
from benchmarks.hold_node import Held, must_be_done
from coordinator.core.effects import Effect, WriteSnapshot
from coordinator.core.events import ConnectionClosed, Event, SnapshotWritten
from coordinator.protocol.columns import OffsetToCommit, in_columns
from coordinator.protocol.messages import CommitOffsets, Ping, RegisterConsumer
from coordinator.protocol.parts import Subscription

COMMITTED: Final = 10
"""Partitions of one commit."""
AT_MOST: Final = {"ping_calls": 37.0, "commit_calls": 112.0, **server_steps.AT_MOST}
"""The bars; a commit has its request and what the disk says after it."""
DEATH_CALLS, DEATH_CALLS_A_MEMBER = 5_000.0, 31.0
"""The bar of a death: so many calls, and so many for each member of the group, since all of them are looked at."""
_SESSION_MS: Final = 600_000
_PAUSE_MS: Final = 1_000
_FIRST: Final = 1_000
"""The first offset that is committed."""
_ROUNDS: Final = 5
_SERVED: Final = 500
"""Members whose pings and commits are counted at the server, which has as much to do for one of many as of few."""


@dataclass(slots=True)
class Work:
    """The work of some of a node's steps."""

    steps: int = 0
    calls: int = 0
    cpu_s: float = 0.0


class CountedGroup(Held):
    """A node with one group whose members each have a connection; its work since it was last asked about is counted."""

    def __init__(self, members: int, partitions: int) -> None:
        self._work = Work()
        self._profile: cProfile.Profile | None = None
        super().__init__(partitions, members + 1)
        self.alive = list(range(1, members + 1))
        self._turn = 0
        self._join(1, self.register)
        for connection_id in self.alive[1:]:
            self._join(connection_id, lambda request, its_id: must_be_done(self.ask(request, its_id)))
        self.advance(5_000)
        assert len(self.granted) == partitions, f"{len(self.granted)} of {partitions} partitions are granted"

    @staticmethod
    def _join(connection_id: int, ask: Callable[[RegisterConsumer, int], None]) -> None:
        name = f"m{connection_id}"
        ask(RegisterConsumer("g", name, name, Subscription(("t",)), "c", 1, _SESSION_MS, 60_000), connection_id)

    def die(self) -> None:
        """Close a member's connection, and let everything happen that follows."""
        dead = self.alive.pop()
        lost = self.told.pop(dead)
        before = {number: self.granted[number] for number in lost}
        self._happen(ConnectionClosed(dead, "reset"))
        not_moved = [number for number in lost if self.granted[number] == before[number]]
        assert not not_moved, f"{len(not_moved)} of {len(lost)} partitions of the dead member are not granted anew"

    def ping(self) -> None:
        """Ping as the next member."""
        must_be_done(self.ask(Ping(1), self._next_member()))

    def commit(self) -> None:
        """Commit some partitions of the next member, each time further."""
        owner = self._next_member()
        some = sorted(self.told[owner])[:COMMITTED]
        offsets = in_columns(OffsetToCommit("t", number, _FIRST + self._turn, self.granted[number]) for number in some)
        must_be_done(self.ask(CommitOffsets("g", offsets), owner))

    def _next_member(self) -> int:
        self._turn += 1
        return self.alive[self._turn % len(self.alive)]

    def work_of(self, act: Callable[[], None], *, is_counted: bool) -> Work:
        """Return the work that something makes, its calls only if they are counted: to count them takes long."""
        self._work = Work()
        if not is_counted:
            act()
            return self._work
        self._profile = cProfile.Profile()
        gc.disable()  # it calls the finalizers of whatever the process has had before
        try:
            act()
        finally:
            gc.enable()
        self._work.calls = sum(entry.callcount for entry in self._profile.getstats())
        self._profile = None
        return self._work

    def _step(self, event: Event) -> list[Effect]:
        began_s = time.process_time()
        if self._profile is None:
            effects = super()._step(event)
        else:
            self._profile.enable()
            effects = super()._step(event)
            self._profile.disable()
        self._work.cpu_s += time.process_time() - began_s
        self._work.steps += 1
        return effects

    def _perform(self, effects: list[Effect]) -> None:
        super()._perform(effects)
        for effect in effects:
            if isinstance(effect, WriteSnapshot):
                self._due.append(SnapshotWritten(effect.shard, effect.end_offset, effect.is_last))


def least_work(group: CountedGroup, act: Callable[[], None], before: Callable[[], None] = lambda: None) -> Work:
    """Return the least that something takes of some rounds: a snapshot that falls into one is no part of it."""
    timed, counted = [], []
    for _ in range(_ROUNDS):
        before()
        timed.append(group.work_of(act, is_counted=False))
        before()
        counted.append(group.work_of(act, is_counted=True))
    least = min(counted, key=attrgetter("calls"))
    return Work(least.steps, least.calls, min(work.cpu_s for work in timed))


def measure(group: CountedGroup, requests: int) -> dict[str, float]:
    """Return the calls, steps and processor time that a death, a ping and a commit take."""

    def many(ask: Callable[[], None]) -> Callable[[], None]:
        def ask_all() -> None:
            for _ in range(requests):
                ask()

        return ask_all

    found: dict[str, float] = {}
    for name, pieces, work in (
        ("death", 1, least_work(group, group.die, lambda: group.advance(_PAUSE_MS))),
        ("ping", requests, least_work(group, many(group.ping))),
        ("commit", requests, least_work(group, many(group.commit))),
    ):
        found[f"{name}_calls"] = work.calls / pieces
        found[f"{name}_steps"] = work.steps / pieces
        found[f"{name}_cpu_us"] = work.cpu_s / pieces * 1e6
    return found


def missed_bars(found: Mapping[str, float], members: int) -> list[str]:
    """Return a sentence for each count that is over its bar."""
    bars = {"death_calls": DEATH_CALLS + DEATH_CALLS_A_MEMBER * members, **AT_MOST}
    return [f"{name} is {found[name]:.1f}, over {bar:g}" for name, bar in bars.items() if found[name] > bar]


def main() -> int:
    """Measure, and end with one line for scripts; the exit code is 1 when a count is over its bar."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, default=5000)
    parser.add_argument("--partitions", type=int, default=50_000)
    parser.add_argument("--requests", type=int, default=2000, help="pings, and commits, in one round")
    arguments = parser.parse_args()
    group = CountedGroup(arguments.members, arguments.partitions)
    gc.collect()
    gc.freeze()
    found = measure(group, arguments.requests)
    gc.unfreeze()
    found |= server_steps.measure_server(_SERVED, arguments.requests)
    missed = missed_bars(found, arguments.members)
    for miss in missed:
        print(f"missed: {miss}")
    figures = " ".join(f"{name}={value:.1f}" for name, value in found.items())
    size = f"members={arguments.members} partitions={arguments.partitions}"
    print(f"bench-steps: {'FAILED' if missed else 'OK'} {size} {figures}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
