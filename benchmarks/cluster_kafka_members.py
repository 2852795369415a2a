"""Members of a Kafka group as load that follow their coordinator from broker to broker, as Kafka's clients do.

A member whose connection ends, or whose broker says that it does not coordinate the group, asks the brokers who does,
100 ms apart, and heartbeats there as who it was. All members of this process learn of one answer, and none connects to
a broker that refuses connections: what is measured is Kafka and not the crowd at its door.
"""

import socket
import time
from collections.abc import Mapping
from typing import Final

from benchmarks import group_kafka_wire as wire
from benchmarks.group_kafka_members import RETRY_S, KafkaGroup, KafkaLoad, KafkaMember, ask

_LOADING: Final = 14
_ASK_TIMEOUT_S: Final = 2.0


class FollowingKafkaMember(KafkaMember):
    """A member that goes where its group is coordinated."""

    __slots__ = ("is_back", "load")

    def __init__(self, load: "KafkaClusterLoad", group: KafkaGroup) -> None:
        super().__init__(group)
        self.load = load
        self.is_back = False
        """True when it was answered since the coordinator was killed."""

    def lost(self) -> None:
        """Look for the coordinator."""
        self.load.was_lost(self)

    def was_put_off(self, error: int) -> None:
        """Ask again in a moment, or look for the coordinator."""
        super().was_put_off(error)
        if error != _LOADING:
            self.load.sockets.close(self)
            self.load.was_lost(self)

    def was_served(self) -> None:
        """Be back, in an epoch of the group."""
        self.is_back = True
        self.load.member_epochs.add(self.epoch)

    def _take(self, assignment: dict[bytes, list[int]]) -> None:
        before = set(self.owned)
        super()._take(assignment)
        self.load.moved += len(before ^ set(self.owned))


class KafkaClusterLoad(KafkaLoad):
    """The members of this process on the brokers of a cluster, `ports` by broker id."""

    def __init__(self, ports: Mapping[int, int], source: str) -> None:
        super().__init__(next(iter(ports.values())), source)
        self.ports = dict(ports)
        self.coordinator = 0
        self.moved = 0
        """Partitions that a member was given or asked to give up."""
        self.member_epochs: set[int] = set()
        self._lost: list[FollowingKafkaMember] = []
        self._look_again_s = 0.0

    def connect(self, group: KafkaGroup, members: int) -> None:
        """Connect members to the broker that coordinates their group."""
        self.coordinator = self.find_coordinator(group.group_id)
        for _ in range(members):
            self._go(FollowingKafkaMember(self, group))

    def members_of(self, group: KafkaGroup) -> list[FollowingKafkaMember]:
        """Return the members of a group."""
        return [member for member in group.members if isinstance(member, FollowingKafkaMember)]

    def was_lost(self, member: FollowingKafkaMember) -> None:
        """Have a member go where the coordinator is, when that is known."""
        member.is_waiting = False
        member.buffer = member.unsent = b""
        if member in self._members:
            self._members.remove(member)
        self._lost.append(member)

    def turn(self, timeout_s: float = 0.005) -> list[KafkaMember]:
        """Take what comes, heartbeat, and have who has lost its broker go to another one."""
        answered = super().turn(timeout_s)
        if self._lost and time.perf_counter() >= self._look_again_s:
            self._look_again_s = time.perf_counter() + RETRY_S
            found = self._look(self._lost[0].group.group_id)
            if found is not None:
                self.coordinator = found
                lost, self._lost = self._lost, []
                for member in lost:
                    member.due_s = 0.0
                    self._go(member)
                    self._members.append(member)
        return answered

    def _look(self, group_id: str) -> int | None:
        """Return the broker that the others name, if it takes connections."""
        for number, port in self.ports.items():
            if number == self.coordinator:
                continue
            try:
                error, found = wire.read_find_coordinator(ask(port, wire.find_coordinator(1, group_id)))
            except OSError:
                continue
            if not error and found in self.ports and _takes_connections(self.ports[found]):
                return found
        return None

    def _go(self, member: FollowingKafkaMember) -> None:
        self.sockets.begin(member, "127.0.0.1", self.ports[self.coordinator], self._source)


def _takes_connections(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=_ASK_TIMEOUT_S):
            return True
    except OSError:
        return False
