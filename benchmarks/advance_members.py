"""Members that do what Spark's do, as load: each micro-batch finishes the one before it and claims the next.

A micro-batch takes two requests, as in Spark: Advance, and once that is answered ConfirmClaims, for the ranges are
planned then. An answer that is not all that was asked for is an exception.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from operator import add
from typing import Any, Final

from benchmarks.group_load import Group, Load
from benchmarks.group_members import KcoordMember, RefusedError, Tally
from benchmarks.group_sockets import Sockets
from coordinator.protocol.codec import decode_answer, encode_message
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.framing import encode_envelope
from coordinator.protocol.messages import (
    Advance,
    AdvanceResponse,
    ConfirmClaims,
    ConfirmClaimsResponse,
    LeaveGroup,
    LeaveGroupResponse,
    Request,
)
from coordinator.protocol.parts import ClaimStatuses, Outcomes, TopicClaims

_FIRST_END: Final = 1_000_000
_LONGEST_STEP: Final = 100_000
"""Offsets by which a partition goes on with a micro-batch, at most: a third of them take five bytes in the log."""
_STRIDE: Final = 7919
_TIMED: Final = 1
"""The correlation id of all that is timed: a member has one request in flight."""
_TIMED_BYTES: Final = _TIMED.to_bytes(4, "big")
_TURN_S: Final = 0.05
_LIMIT_S: Final = 60.0


class SparkMember(KcoordMember):
    """One query's member; everything that it was granted is in each of its micro-batches."""

    __slots__ = ("_finished", "_running", "_steps", "advances_ms")

    def __init__(self, sockets: Sockets[Any], tally: Tally) -> None:
        super().__init__(sockets, tally)
        self.advances_ms: list[float] = []
        """The time of each Advance from when it was due."""
        self._finished = 0
        self._running: TopicClaims | None = None
        self._steps: tuple[int, ...] = ()

    def prepare(self) -> None:
        """Take note of all that was granted, in the form in which it is said from now on."""
        own = [self.owned[number] for number in sorted(self.owned)]
        self.owned.clear()  # half a million grants as objects would be most of the load
        self._steps = tuple([1 + one.partition * _STRIDE % _LONGEST_STEP for one in own])
        starts = tuple([one.offset for one in own])
        numbers, epochs = tuple([one.partition for one in own]), tuple([one.owner_epoch for one in own])
        self._running = TopicClaims(own[0].topic, own[0].topic_id, numbers, epochs, starts, starts)

    def next_batch(self) -> bytes:
        """Return the Advance that finishes the micro-batch which runs, if one does, and claims the next one."""
        done = self._running
        assert done is not None, "a member is prepared before its first micro-batch"
        is_first = done.until_offsets == done.from_offsets
        until = (_FIRST_END,) * len(self._steps) if is_first else done.until_offsets
        self._running = TopicClaims(
            done.topic,
            done.topic_id,
            done.partitions,
            done.owner_epochs,
            done.until_offsets,
            tuple(map(add, until, self._steps)),
        )
        self._finished = 0 if is_first else len(self._steps)
        return _frame(Advance(() if is_first else (done,), (self._running,)))

    def leave(self) -> bytes:
        """Return the request to leave; what runs is not committed."""
        return _frame(LeaveGroup(()))

    def receive(self, body: bytes) -> bool:
        """Take a frame; a micro-batch is answered when its claims are known to run."""
        if not body.startswith(_TIMED_BYTES):
            return super().receive(body)
        claims = self._running
        assert claims is not None, "what is timed is asked by a member that is prepared"
        answer = decode_answer(memoryview(body)[4:])
        match answer:
            case AdvanceResponse(ErrorCode.NONE, _, finished, offered):
                self.advances_ms.append((time.perf_counter() - self.sent_s) * 1000)
                is_whole = finished == Outcomes(self._finished) and offered == Outcomes(len(self._steps))
                _require(answer, is_whole=is_whole)
                self._sockets.send(self, _frame(ConfirmClaims((claims,))))
                return False
            case ConfirmClaimsResponse(ErrorCode.NONE, _, running):
                _require(answer, is_whole=running == ClaimStatuses(len(self._steps)))
            case _:
                _require(answer, is_whole=answer == LeaveGroupResponse())
        return True


def _frame(request: Request) -> bytes:
    return encode_envelope(_TIMED, encode_message(request))


def _require(answer: object, *, is_whole: bool) -> None:
    if not is_whole:
        raise RefusedError(f"a timed request was answered {str(answer)[:1000]}")


class Queries:
    """The members of this process on one coordinator, each with its connection."""

    def __init__(self, port: int, source: str) -> None:
        self.members: list[SparkMember] = []
        self._load: Load[SparkMember] = Load(port, source)

    @property
    def sockets(self) -> Sockets[SparkMember]:
        """The connections."""
        return self._load.sockets

    def close(self) -> None:
        """Close all connections."""
        self._load.close()

    def join(self, group_ids: Iterable[str], a_group: int, partitions: int) -> None:
        """Have so many members join each of these groups, and share its partitions."""
        groups: list[Group[SparkMember]] = [Group(group_id, "t", partitions) for group_id in group_ids]
        for group in groups:
            self._load.open(group, a_group, SparkMember)
        self._load.join(*groups)
        joined = [member for group in groups for member in group.members]
        for member in joined:
            member.prepare()
        self.members += joined

    def each_once(
        self, members: Sequence[SparkMember], request: Callable[[SparkMember], bytes], in_flight: int
    ) -> None:
        """Let members ask one thing each, so many at once."""
        waiting = iter(members)
        running = 0
        end_s = time.perf_counter() + _LIMIT_S
        while True:
            while running < in_flight and (member := next(waiting, None)) is not None:
                member.sent_s = time.perf_counter()
                self.sockets.send(member, request(member))
                running += 1
            if not running:
                return
            running -= len(self.sockets.turn(_TURN_S))
            if time.perf_counter() > end_s:
                raise RuntimeError(f"{running} requests were not answered in {_LIMIT_S:g} s")

    def end(self, members: Sequence[SparkMember], in_flight: int) -> None:
        """Let members leave their groups, and close their connections."""
        self.each_once(members, SparkMember.leave, in_flight)
        for member in members:
            self.sockets.close(member)
        gone = set(map(id, members))
        self.members = [member for member in self.members if id(member) not in gone]

    def take_advances_ms(self) -> list[float]:
        """Return how long Advances took since the last call, sorted."""
        taken = sorted(ms for member in self.members for ms in member.advances_ms)
        for member in self.members:
            member.advances_ms.clear()
        return taken
