"""Members of a simulated cluster that are the product's own machine: it finds the leaders, and commits what it owns.

They take the place of the scripted clients, at the same nodes over the same links. What they say and hear goes through
a session of each end, so that it travels as bytes do.
"""

from dataclasses import replace
from random import Random
from typing import Any, Final

from coordinator.protocol.columns import OffsetToCommit
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.ids import TopicPartition
from coordinator.protocol.messages import Push, Response
from coordinator.protocol.parts import FinalOffset
from coordinator.protocol.session import RequestReceived, Role, Session
from spark_kcoord.member.core import effects as e
from spark_kcoord.member.core import events
from spark_kcoord.member.core.machine import Member
from spark_kcoord.member.core.session.states import State
from spark_kcoord.member.settings import MemberSettings
from tests.sim.cluster.checker import ViolationError
from tests.sim.cluster.clients import Clients, Link, Reader
from tests.sim.cluster.mix import ClusterMix
from tests.sim.cluster.process import ClusterProcess
from tests.sim.cluster.world import ClusterWorld

SESSION_MS: Final = 6_000
KILLS: Final = 3
SERVED_AGAIN_MS: Final = 30_000


class Wire:
    """One connection of a machine: what `Clients` knows of it, and the coordinator's end of its session."""

    is_kept_out = True

    def __init__(self, machine: "MachineMember", connection_id: int) -> None:
        self.machine = machine
        self.connection_id = connection_id
        self.group_id = machine.group_id
        self.name = machine.name
        self.session = Session(Role.COORDINATOR)
        self.link: Link | None = None
        self.is_over = False

    def _happen(self, event: events.Event) -> None:
        if not self.is_over:
            self.machine.step(event)

    # ---- what Clients tells -----------------------------------------------------------------------------------------

    def connected(self, link: Link) -> None:
        if self.is_over:
            self.machine.clients.drop(link, "nobody waits for it any more")
            return
        self.link = link
        self._happen(events.Connected(self.connection_id))
        self._happen(events.BytesReceived(self.connection_id, self.session.send_hello()))

    def lost(self, why: str) -> None:
        self._happen(events.ConnectionLost(self.connection_id, why))

    def lost_link(self, link: Link, why: str) -> None:
        link.is_open = False
        self.lost(why)

    def answered(self, link: Link, correlation_id: int, response: Response) -> None:
        link.asked.pop(correlation_id, None)
        self._happen(events.BytesReceived(self.connection_id, self.session.send_response(correlation_id, response)))

    def pushed(self, link: Link, push: Push) -> None:
        del link
        self._happen(events.BytesReceived(self.connection_id, self.session.send_push(push)))

    # ---- what the machine wants -------------------------------------------------------------------------------------

    def send(self, data: bytes) -> None:
        clients, link = self.machine.clients, self.link
        for said in self.session.receive_bytes(data):
            if isinstance(said, RequestReceived) and link is not None and link.is_open:
                link.asked[said.correlation_id] = said.request, {}
                clients.send(link, said.correlation_id, said.request)

    def end(self, why: str) -> None:
        self.is_over = True
        if self.link is not None:
            self.machine.clients.drop(self.link, why)


class MachineMember:
    """A member of one group: it commits all that it owns, a few records further each time."""

    def __init__(self, clients: Clients, name: str, group_id: str, paces_ms: tuple[int, ...]) -> None:
        self.clients = clients
        self.name = name
        self.group_id = group_id
        self.paces_ms = paces_ms
        self.last_ack_ms = 0
        self.seen: list[tuple[int, tuple[TopicPartition, ...]]] = []
        """Each change of what it owns, and when."""
        nodes = [(process.name, 7600) for process in clients.processes]
        known = clients.dice.sample(nodes, clients.dice.randint(1, len(nodes)))
        self.member = Member(
            MemberSettings(
                coordinators=tuple(known),
                group_id=group_id,
                client_id=name,
                topics=("t",),
                session_timeout_ms=SESSION_MS,
                rebalance_timeout_ms=5_000,
                coordinator_timeout_ms=10**9,
                join_timeout_ms=10**9,
            ),
            incarnation=f"process-of-{name}",
            pid=1,
            jitter=clients.dice.random,
        )
        self._wires: dict[int, Wire] = {}
        self._calls = 0
        self._committing: dict[int, tuple[OffsetToCommit, ...]] = {}
        self._is_leaving = False
        clients.all.append(self)  # type: ignore[arg-type]

    @property
    def is_member(self) -> bool:
        """True while a node has let it in."""
        return self.member.state is State.JOINED

    @property
    def member_id(self) -> str:
        """The id that it has in its group, or had last."""
        return self.member.member_id

    @property
    def link(self) -> Link | None:
        """The link to the node that it speaks with, if there is one."""
        links = [wire.link for wire in self._wires.values() if wire.link is not None and wire.link.is_open]
        return links[-1] if links else None

    @property
    def owned(self) -> tuple[TopicPartition, ...]:
        """The partitions that it owns."""
        return tuple((part.topic, part.partition) for part in self.member.assignment.partitions)

    def begin(self) -> None:
        """Join, and commit from then on."""
        self._call(events.JoinCall())
        self._work()

    def leave(self, timeout_ms: int | None) -> None:
        """Leave for good, within a time if there is one; nobody counts it any more."""
        self._is_leaving = True
        self.clients.all.remove(self)  # type: ignore[arg-type]
        self._calls += 1
        finals = tuple(
            FinalOffset(part.topic, part.partition, part.owner_epoch, None)
            for part in self.member.assignment.partitions
        )
        self.step(events.CallMade(self._calls, events.LeaveCall(finals), timeout_ms))

    def _call(self, call: events.AnyCall) -> int:
        self._calls += 1
        self.step(events.CallMade(self._calls, call))
        return self._calls

    def _work(self) -> None:
        clients = self.clients
        if self._is_leaving:
            return
        clients.schedule.after(clients.dice.choice(self.paces_ms), self._work)
        parts = self.member.assignment.partitions
        if self._committing or not parts or not self.is_member:
            return
        sent = clients.sent.setdefault(self.group_id, {})
        offsets = []
        for part in parts:
            key = part.topic, part.partition
            offset = max(sent.get(key, 0), part.position) + clients.dice.randint(1, 5)
            sent[key] = offset
            offsets.append(OffsetToCommit(*key, offset, part.owner_epoch))
        self._committing[self._calls + 1] = tuple(offsets)
        self._call(events.CommitCall(tuple(offsets)))

    def step(self, event: events.Event) -> None:
        """Have the machine take in an event, and do what it wants."""
        schedule = self.clients.schedule
        for effect in self.member.step(event, schedule.now_ms):
            self._perform(effect)
        if not self.seen or self.seen[-1][1] != self.owned:
            self.seen.append((schedule.now_ms, self.owned))
            schedule.tell(self.name, f"owns {self.owned}")

    def _perform(self, effect: e.Effect) -> None:
        clients, schedule = self.clients, self.clients.schedule
        match effect:
            case e.Connect(connection_id, host, _):
                self._wires.clear()  # whatever there was is over, whoever ended it
                wire = self._wires[connection_id] = Wire(self, connection_id)
                (process,) = [each for each in clients.processes if each.name == host]
                clients.connect(wire, process)  # type: ignore[arg-type]
            case e.Send(connection_id, data):
                # The machine is in the midst of a step: what answers comes later, as over a network.
                self._wires[connection_id].send(data)
            case e.Disconnect(connection_id, why):
                wire = self._wires.pop(connection_id)
                wire.end(why)
            case e.WakeAt(now_ms) if now_ms is not None:
                schedule.at(now_ms, self._wake, now_ms)
            case e.Completed(call_id, result) if call_id in self._committing:
                self._acknowledged(self._committing.pop(call_id), result)
            case e.Failed(call_id) if self._is_leaving:
                self._committing.pop(call_id, None)  # the leave was answered first
            case e.Failed(call_id, error):
                self._committing.pop(call_id, None)
                raise ViolationError("MembersGoOn", f"{self.name}: {error}")
            case e.Notice(kind, why):
                schedule.tell(self.name, f"{kind.value}: {why}")
                clients.checker.coverage[f"member {kind.value}"] += 1
            case _:
                pass

    def _wake(self, at_ms: int) -> None:
        del at_ms
        self.step(events.Ticked())

    def _acknowledged(self, offsets: tuple[OffsetToCommit, ...], results: Any) -> None:
        clients = self.clients
        accepted = {
            (asked.topic, asked.partition): asked.offset
            for asked, result in zip(offsets, results, strict=True)
            if result.error is ErrorCode.NONE
        }
        if accepted:
            clients.acked += 1
            self.last_ack_ms = clients.schedule.now_ms
            clients.learn(self.group_id, accepted)


class MachineWorld(ClusterWorld):
    """A world whose members are machines; the readers are scripted."""

    reader_paces_ms = (20, 100)

    def __init__(self, seed: int, mix: ClusterMix, dice: Random) -> None:
        super().__init__(seed, mix, dice)
        self.checker.session_ms = SESSION_MS
        self.members: list[MachineMember] = []

    def _begin(self) -> None:
        dice, schedule = self.dice, self.schedule
        for process in self.processes:
            schedule.after(dice.choice((0, 0, 50, 1_500)), process.start)
        for number in range(self.mix.clients):
            group_id = f"g{dice.randrange(max(1, self.mix.clients - 1))}"
            member = MachineMember(self.clients, f"c{number}", group_id, self.mix.paces_ms)
            self.members.append(member)
            schedule.after(dice.choice((0, 500)), member.begin)
            schedule.after(1_000, Reader(self.clients, f"r{number}", group_id, self.reader_paces_ms).begin)


class FailoverWorld(MachineWorld):
    """A world in which nothing happens but that leaders of members' groups are killed, and start again.

    Its invariant is that no member is without anything that it had, not for a moment.
    """

    def __init__(self, seed: int, mix: ClusterMix, dice: Random) -> None:
        super().__init__(seed, replace(mix, faults={}, faulty_ms=0, paces_ms=(50, 200)), dice)

    def run(self) -> None:
        """Run to the end, or to the first broken invariant."""
        super().run()
        begun = {member.name: len(member.seen) for member in self.members}
        for _ in range(KILLS):
            self._kill_a_leader()
            for member in self.members:
                if len(member.seen) > begun[member.name]:
                    raise ViolationError("MembersKeepWhatTheyHave", f"{member.name} owned {member.seen}")

    def _kill_a_leader(self) -> None:
        schedule, shard = self.schedule, self.clients.shard_of(self.dice.choice(self.members).group_id)
        acked = {member.name: member.last_ack_ms for member in self.members}
        (leader,) = [process for process in self.processes if shard in leads(process)]
        leader.end(loses_power=False, why="is killed")
        self.faults += 1
        end_ms = schedule.now_ms + SERVED_AGAIN_MS
        while late := [each.name for each in self.members if each.owned and each.last_ack_ms <= acked[each.name]]:
            if schedule.now_ms >= end_ms:
                raise ViolationError("Liveness", f"{late} had no commit acknowledged since {leader.name} was killed")
            schedule.run_until(schedule.now_ms + 100)
        leader.start()
        self._come_to_rest()


def leads(process: ClusterProcess) -> frozenset[int]:
    """Return the shards that a node leads, none where it has not registered."""
    return frozenset() if process.node.replication is None else process.node.replication.led
