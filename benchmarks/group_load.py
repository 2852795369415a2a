"""The steps of members of kcoord groups in a benchmark, with the time each step takes.

One object is one process's load on one coordinator: joins, deaths, pings and commits over real sockets. Every step
waits for a condition, with a limit on the time. It knows nothing of how the coordinator was started.
"""

import time
from collections import deque
from collections.abc import Sequence
from typing import Any, Final, Generic, TypeVar

from benchmarks.group_members import COMMIT_PARTITIONS, KcoordMember, Tally
from benchmarks.group_rounds import Round, TurningLoad, pace, saturate
from benchmarks.group_sockets import Security

_HOST: Final = "127.0.0.1"
_QUIET_S: Final = 0.2
_ENTERING: Final = 64
"""Connections on their way in at once, of members that come back."""

M = TypeVar("M", bound=KcoordMember)


class Group(Generic[M]):
    """The live members of one group and what they have together."""

    def __init__(self, group_id: str, topic: str, partitions: int) -> None:
        self.tally = Tally(group_id, topic)
        self.partitions = partitions
        self.members: list[M] = []


class Rounds(TurningLoad[M]):
    """Pings and commits of members that are in, measured."""

    def ping_paced(self, members: Sequence[M], interval_ms: float, seconds: float) -> Round:
        """Let each member ping once in so many milliseconds, spread evenly."""
        return pace(self.sockets, members, KcoordMember.ping, len(members) * 1000 / interval_ms, seconds)

    def ping_saturated(self, members: Sequence[M], in_flight: int, seconds: float) -> Round:
        """Keep so many pings in flight."""
        return saturate(self.sockets, members, KcoordMember.ping, in_flight, seconds)

    def commit_saturated(self, members: Sequence[M], in_flight: int, seconds: float) -> Round:
        """Keep so many commits of ten partitions in flight; the members have prepared them."""
        return saturate(self.sockets, members, KcoordMember.commit, in_flight, seconds)

    def commit_paced(self, members: Sequence[M], per_s: float, seconds: float) -> Round:
        """Commit ten partitions so many times a second; the members have prepared that."""
        return pace(self.sockets, members, KcoordMember.commit, per_s, seconds)


class Load(Rounds[M]):
    """The members of this process on one coordinator."""

    def __init__(self, port: int, source: str, security: Security | None = None) -> None:
        super().__init__(security=security)
        self._port = port
        self._source = source

    def connect(self, group: Group[M], members: int, kind: type[M]) -> None:
        """Open connections that have said hello, but register nobody."""
        self.open(group, members, kind)
        self.turn_for(_QUIET_S)

    def open(self, group: Group[M], members: int, kind: type[M]) -> None:
        """Open connections that have said hello, without waiting for the answers."""
        for number in range(members):
            member = kind(self.sockets, group.tally)
            self.sockets.open(member, _HOST, self._port, self._source)
            member.greet()
            group.members.append(member)
            if number % 100 == 0:
                self.sockets.turn(0)

    def join(self, *groups: Group[M]) -> float:
        """Register every member at once; return the milliseconds from the first to stable groups."""
        frames = [(member, member.registration()) for group in groups for member in group.members]
        started_s = time.perf_counter()
        for number, (member, frame) in enumerate(frames):
            self.sockets.send(member, frame)
            if number % 50 == 0:
                self.sockets.turn(0)
        self.wait_until(lambda: all(group.tally.is_stable(group.partitions) for group in groups), "stable groups")
        took_ms = (time.perf_counter() - started_s) * 1000
        self.turn_for(_QUIET_S)
        for group in groups:
            check_shares(group)
        return took_ms

    def die(self, group: Group[M], *, has_claims: bool) -> float:
        """Let one member die; return the milliseconds until others have started all that was its."""
        victim = group.members.pop()
        if has_claims:
            victim.run_claims()
            self.wait_until(lambda: group.tally.unanswered == 0, "running claims")
        self.turn_for(_QUIET_S)
        victim.leave_tally()
        started_s = time.perf_counter()
        self.sockets.close(victim)
        self.wait_until(
            lambda: group.tally.is_stable(group.partitions), "the dead member's partitions started on others"
        )
        return (time.perf_counter() - started_s) * 1000

    def lose(self, group: Group[M]) -> None:
        """Let every connection of a group end, as when its node dies."""
        for member in group.members:
            self.sockets.close(member)
            member.forget()

    def come_back(self, group: Group[M], port: int) -> float:
        """Let members that lost their node come to where it is; return the milliseconds until all is as before."""
        self._port = port
        waiting = deque(group.members)
        started_s = time.perf_counter()

        def is_stable() -> bool:
            while waiting and self.sockets.entering < _ENTERING:
                member = waiting.popleft()
                self.sockets.begin(member, _HOST, port, self._source)
                member.greet()
            return not waiting and group.tally.is_stable(group.partitions)

        self.wait_until(is_stable, "members that came back")
        took_ms = (time.perf_counter() - started_s) * 1000
        check_shares(group)
        return took_ms


def check_shares(group: Group[Any]) -> None:
    """Raise unless the group is stable, every partition has one owner and shares differ by one at most."""
    owners = [number for member in group.members for number in member.owned]
    shares = [len(member.owned) for member in group.members]
    is_shared = len(owners) == group.partitions == len(set(owners)) and max(shares) - min(shares) <= 1
    if not is_shared or not group.tally.is_stable(group.partitions):
        raise RuntimeError(
            f"{group.tally.group_id}: {len(set(owners))} of {group.partitions} partitions are owned, {len(owners)} "
            f"times in all, {min(shares)} to {max(shares)} a member"
        )


def committing(group: Group[M]) -> list[M]:
    """Return the members that own enough for a commit, with their commits prepared."""
    owners = [member for member in group.members if len(member.owned) >= COMMIT_PARTITIONS]
    for member in owners:
        member.prepare_commits()
    return owners
