"""Members of Kafka consumer groups (KIP-848) as load, and what they do in a benchmark, with the time it takes.

As the Java client does, a member heartbeats at the interval the broker names, and at once when it has taken over or
given up partitions. A refusal of anything but a broker that is not ready yet is an exception.
"""

import socket
import struct
import time
import uuid
from collections.abc import Sequence
from typing import Final

from benchmarks import group_kafka_wire as wire
from benchmarks.group_rounds import Round, TurningLoad, saturate
from benchmarks.group_sockets import Peer

REBALANCE_TIMEOUT_MS: Final = 60_000
COMMIT_PARTITIONS: Final = 10
_HEARTBEAT, _TIMED_HEARTBEAT, _TIMED_COMMIT = 1, 2, 3
_FIRST_OFFSET: Final = 0x0123456789AB
_OFFSET: Final = struct.Struct(">q")
_NOT_READY: Final = frozenset({14, 15, 16})
RETRY_S: Final = 0.1
_TURN_S: Final = 0.005
_LIMIT_S: Final = 120.0
_QUIET_S: Final = 0.2


class KafkaRefusedError(Exception):
    """The broker refused what a member asked."""


class KafkaGroup:
    """The live members of one group and what they have together."""

    def __init__(self, group_id: str, topic: str, partitions: int) -> None:
        self.group_id = group_id
        self.topic = topic
        self.partitions = partitions
        self.members: list[KafkaMember] = []
        self.owned = 0
        self.unsettled = 0

    def is_stable(self) -> bool:
        """Say whether everything is assigned, acknowledged and evenly shared."""
        if self.owned != self.partitions or self.unsettled:
            return False
        least = self.partitions // len(self.members)
        return all(least <= len(member.owned) <= least + 1 for member in self.members)


class KafkaMember(Peer):
    """One member over one connection, with one request in flight."""

    __slots__ = (
        "_accepted",
        "_commit_pieces",
        "_has_news",
        "_is_unsettled",
        "_offset",
        "_timed",
        "_topic_id",
        "due_s",
        "epoch",
        "group",
        "interval_s",
        "is_waiting",
        "member_id",
        "owned",
    )

    def __init__(self, group: KafkaGroup) -> None:
        super().__init__()
        self.group = group
        self.member_id = str(uuid.uuid4())
        self.epoch = wire.JOIN_EPOCH
        self.owned: list[int] = []
        self.interval_s = 0.0
        self.due_s = 0.0
        self.is_waiting = False
        self._topic_id = b""
        self._is_unsettled = True
        self._has_news = False
        self._timed = b""
        self._offset = _FIRST_OFFSET
        self._commit_pieces: list[bytes] = []
        self._accepted = b""
        group.members.append(self)
        group.unsettled += 1

    # ---- what it asks -----------------------------------------------------------------------------------------------

    def heartbeat(self) -> bytes:
        """Return the heartbeat that is due: to join, to acknowledge, or to say that it lives."""
        self.is_waiting = True
        if self.epoch == wire.JOIN_EPOCH:
            return wire.heartbeat(
                _HEARTBEAT,
                self.group.group_id,
                self.member_id,
                self.epoch,
                topics=[self.group.topic],
                rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
                owned={},
            )
        owned = ({self._topic_id: self.owned} if self.owned else {}) if self._has_news else None
        return wire.heartbeat(_HEARTBEAT, self.group.group_id, self.member_id, self.epoch, owned=owned)

    def leave(self) -> bytes:
        """Return the heartbeat that leaves the group."""
        return wire.heartbeat(_TIMED_HEARTBEAT, self.group.group_id, self.member_id, wire.LEAVE_EPOCH)

    def prepare(self) -> None:
        """Encode a heartbeat and a commit of ten partitions once, for rounds in which nothing else changes."""
        self._timed = wire.heartbeat(_TIMED_HEARTBEAT, self.group.group_id, self.member_id, self.epoch)
        chosen = self.owned[:COMMIT_PARTITIONS]
        encoded = wire.commit(
            _TIMED_COMMIT, self.group.group_id, self.member_id, self.epoch, self.group.topic, chosen, _FIRST_OFFSET
        )
        self._commit_pieces = encoded.split(_OFFSET.pack(_FIRST_OFFSET))
        self._accepted = wire.commit_accepted(_TIMED_COMMIT, self.group.topic, chosen)
        if len(chosen) != COMMIT_PARTITIONS or len(self._commit_pieces) != COMMIT_PARTITIONS + 1:
            raise RuntimeError(f"a member owns {len(chosen)} partitions, too few for a commit of {COMMIT_PARTITIONS}")

    def timed_heartbeat(self) -> bytes:
        """Return the prepared heartbeat."""
        return self._timed

    def timed_commit(self) -> bytes:
        """Return the prepared commit, one further than before."""
        self._offset += 1
        return _OFFSET.pack(self._offset).join(self._commit_pieces)

    # ---- what it hears ----------------------------------------------------------------------------------------------

    def receive(self, body: bytes) -> bool:
        """Take an answer."""
        kind = body[3]
        if kind == _TIMED_COMMIT:
            if body != self._accepted:
                raise KafkaRefusedError(f"a commit was answered {body.hex()}")
            return True
        if kind == _TIMED_HEARTBEAT:
            error = wire.heartbeat_error(body)
            if error:
                raise KafkaRefusedError(f"a heartbeat was answered with error {error}")
            return True
        self.is_waiting = False
        answer = wire.read_heartbeat(body)
        if answer.error in _NOT_READY:
            self.was_put_off(answer.error)
            return False
        if answer.error:
            raise KafkaRefusedError(f"{answer.message} (error {answer.error})")
        self.epoch = answer.epoch
        self.interval_s = answer.interval_ms / 1000
        self.due_s = time.perf_counter() + self.interval_s
        self.was_served()
        if answer.assignment is not None:
            self._take(answer.assignment)
        elif self._has_news:
            self._has_news = False
            self._settle(is_unsettled=False)
        return False

    def _take(self, assignment: dict[bytes, list[int]]) -> None:
        before = len(self.owned)
        self.owned = []
        for topic_id, numbers in assignment.items():
            self._topic_id, self.owned = topic_id, numbers
        self.group.owned += len(self.owned) - before
        self._has_news = True
        self._settle(is_unsettled=True)
        self.due_s = 0.0

    def _settle(self, *, is_unsettled: bool) -> None:
        self.group.unsettled += is_unsettled - self._is_unsettled
        self._is_unsettled = is_unsettled

    def was_put_off(self, error: int) -> None:
        """Ask again in a moment, since the broker does not serve its group now."""
        del error
        self.due_s = time.perf_counter() + RETRY_S

    def was_served(self) -> None:
        """Take note that the broker serves its group."""

    def leave_tally(self) -> None:
        """Take what it has out of its group, because it dies."""
        self.group.members.remove(self)
        self.group.owned -= len(self.owned)
        self.group.unsettled -= self._is_unsettled


class KafkaLoad(TurningLoad[KafkaMember]):
    """The members of this process on one broker."""

    def __init__(self, port: int, source: str) -> None:
        super().__init__(_LIMIT_S)
        self._port = port
        self._source = source
        self._members: list[KafkaMember] = []
        self._looked_s = 0.0

    def connect(self, group: KafkaGroup, members: int) -> None:
        """Open connections and make sure that the broker coordinates the group."""
        self.find_coordinator(group.group_id)
        for _ in range(members):
            member = KafkaMember(group)
            self.sockets.open(member, "127.0.0.1", self._port, self._source)

    def find_coordinator(self, group_id: str) -> int:
        """Return the broker that coordinates a group, when there is one; asking makes Kafka create what it needs."""
        end_s = time.perf_counter() + _LIMIT_S
        while True:
            error, broker = wire.read_find_coordinator(ask(self._port, wire.find_coordinator(1, group_id)))
            if not error:
                return broker
            if time.perf_counter() > end_s:
                raise TimeoutError(f"waited {_LIMIT_S:g} s in vain for a coordinator of {group_id}")
            time.sleep(RETRY_S)

    def join(self, group: KafkaGroup) -> float:
        """Let every member join at once; return the milliseconds from the first heartbeat to a stable group."""
        started_s = time.perf_counter()
        self._members += group.members
        for number, member in enumerate(group.members):
            self.sockets.send(member, member.heartbeat())
            if number % 50 == 0:
                self.sockets.turn(0)
        self.wait_until(group.is_stable, f"a stable group {group.group_id}")
        return (time.perf_counter() - started_s) * 1000

    def die(self, groups: Sequence[KafkaGroup]) -> list[float]:
        """Let one member of each group die; return the milliseconds until others own all that was its."""
        self.turn_for(_QUIET_S)
        started_s: dict[str, float] = {}
        took_ms: dict[str, float] = {}
        for group in groups:
            victim = group.members[-1]
            victim.leave_tally()
            self._members.remove(victim)
            started_s[group.group_id] = time.perf_counter()
            self.sockets.close(victim)

        def all_are_stable() -> bool:
            for group in groups:
                if group.group_id not in took_ms and group.is_stable():
                    took_ms[group.group_id] = (time.perf_counter() - started_s[group.group_id]) * 1000
            return len(took_ms) == len(groups)

        self.wait_until(all_are_stable, "the dead members' partitions owned by others")
        return list(took_ms.values())

    def leave(self, group: KafkaGroup) -> None:
        """Let every member leave and close its connection."""
        self.wait_until(lambda: not any(member.is_waiting for member in group.members), "answers")
        self._members = [member for member in self._members if member.group is not group]
        if group.members:
            saturate(self.sockets, group.members, KafkaMember.leave, len(group.members), 0.0)
        for member in group.members:
            self.sockets.close(member)
        group.members.clear()

    def prepare(self, group: KafkaGroup) -> None:
        """Make members ready for rounds: all at one epoch, nothing in flight, their requests encoded."""

        def is_quiet() -> bool:
            is_waiting = any(member.is_waiting for member in group.members)
            return not is_waiting and len({member.epoch for member in group.members}) == 1

        self.wait_until(is_quiet, "one epoch for all members")
        for member in group.members:
            member.prepare()

    def heartbeat_saturated(self, members: Sequence[KafkaMember], in_flight: int, seconds: float) -> Round:
        """Keep so many heartbeats in flight."""
        return saturate(self.sockets, members, KafkaMember.timed_heartbeat, in_flight, seconds)

    def commit_saturated(self, members: Sequence[KafkaMember], in_flight: int, seconds: float) -> Round:
        """Keep so many commits of ten partitions in flight."""
        return saturate(self.sockets, members, KafkaMember.timed_commit, in_flight, seconds)

    def turn(self, timeout_s: float = _TURN_S) -> list[KafkaMember]:
        """Take what comes, and heartbeat; return the members whose timed request was answered."""
        answered = super().turn(timeout_s)
        now_s = time.perf_counter()
        if now_s - self._looked_s >= _TURN_S:
            self._looked_s = now_s
            for member in self._members:
                if not member.is_waiting and member.due_s <= now_s:
                    self.sockets.send(member, member.heartbeat())
        return answered


def ask(port: int, request: bytes) -> bytes:
    """Send one request on a connection of its own and return the answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as sock:
        sock.sendall(request)
        with sock.makefile("rb") as stream:
            (length,) = struct.unpack(">i", stream.read(4))
            return stream.read(length)


def configure(port: int, kind: int, name: str, configs: dict[str, str]) -> None:
    """Set configurations of a topic or a group."""
    for error, message in wire.read_alter_configs(ask(port, wire.alter_configs(1, kind, name, configs))):
        if error:
            raise KafkaRefusedError(f"{name}: {message} (error {error})")
