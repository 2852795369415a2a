"""Scripted clients of a simulated cluster: members that commit what they own, and readers of everything.

Each speaks with one node at a time and goes to another when it is refused, not answered or cut off. What was
acknowledged to anybody, and what anybody has read, every later answer has.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import TYPE_CHECKING

from coordinator.core import effects as e
from coordinator.core import events
from coordinator.core.replica.replica import Leader
from coordinator.protocol.columns import OffsetToCommit, in_columns
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    CommitOffsets,
    CommitOffsetsResponse,
    ErrorResponse,
    Fenced,
    FetcherStopped,
    FetcherTaken,
    FetchOffsets,
    FetchOffsetsResponse,
    FindCoordinator,
    FindCoordinatorResponse,
    Ping,
    Push,
    RegisterConsumer,
    RegisterConsumerResponse,
    Request,
    Response,
    StartFetcher,
    StopFetcher,
)
from coordinator.protocol.parts import FinalOffset, StartPartition, Subscription
from spark_kcoord.member.core.session.patience import ANSWER_TIMEOUT_MS
from tests.sim.cluster.checker import SESSION_MS, ClusterChecker, ViolationError
from tests.sim.schedule import Schedule

if TYPE_CHECKING:
    from tests.sim.cluster.process import ClusterProcess

ANSWER_MS = 2_000
TopicPartition = tuple[str, int]


@dataclass(eq=False, slots=True)
class Link:
    """One connection of a client to one life of a node."""

    number: int
    client: "Client"
    process: "ClusterProcess"
    life: int
    is_open: bool = True
    to_node_ms: int = 0
    to_client_ms: int = 0
    asked: dict[int, tuple[Request, dict[TopicPartition, int]]] = field(default_factory=dict)
    """By number: the request, and what an answer to it has to have at least."""


class Clients:
    """All clients, and what they know together."""

    def __init__(
        self,
        dice: Random,
        schedule: Schedule,
        checker: ClusterChecker,
        processes: "list[ClusterProcess]",
        shard_of: Callable[[str], int],
    ) -> None:
        self.dice = dice
        self.schedule = schedule
        self.checker = checker
        self.processes = processes
        self.shard_of = shard_of
        self.links: dict[int, Link] = {}
        self.all: list[Client] = []
        self.known: dict[str, dict[TopicPartition, int]] = {}
        """By group: the offsets that were acknowledged to somebody, or read by somebody."""
        self.sent: dict[str, dict[TopicPartition, int]] = {}
        self.acked = 0
        self.reads = 0
        self._kept_out_ms: dict[int, int] = {}
        """By node: until when members do not reach it."""
        self._owners: dict[tuple[str, str, int, int], str] = {}
        self._numbers = 0

    def delay_ms(self) -> int:
        """Return how long something takes between a client and a node."""
        return self.dice.choice((0, 1, 3))

    def connect(self, client: "Client", process: "ClusterProcess") -> None:
        """Try to connect."""
        self.schedule.after(self.delay_ms(), self._accept, client, process)

    def _accept(self, client: "Client", process: "ClusterProcess") -> None:
        is_kept_out = client.is_kept_out and self._kept_out_ms.get(process.number, 0) > self.schedule.now_ms
        if not process.is_up or process.is_paused or not process.node.is_in_cluster or is_kept_out:
            client.lost("connection refused")
            return
        self._numbers += 1
        link = Link(self._numbers, client, process, process.life)
        self.links[link.number] = link
        process.step(events.ConnectionOpened(link.number, "h"))
        client.connected(link)

    def send(self, link: Link, correlation_id: int, request: Request) -> None:
        """Carry a request."""
        link.to_node_ms = max(link.to_node_ms, self.schedule.now_ms + self.delay_ms())
        self.schedule.at(link.to_node_ms, self._arrive, link, partial(self._request, link, correlation_id, request))

    def _arrive(self, link: Link, work: Callable[[], None]) -> None:
        if link.process.life == link.life:
            link.process.do(work)

    def _request(self, link: Link, correlation_id: int, request: Request) -> None:
        if not link.is_open:
            return
        process, key = link.process, (link.number, correlation_id)
        self.schedule.tell(f"-> {process.name}", request)
        process.request(*key, request)
        replication = process.node.replication
        shard = self.shard_of(getattr(request, "group_id", link.client.group_id))
        if process.is_up and replication is not None and isinstance(replication.replicas[shard].role, Leader):
            self.checker.decided(process, key, shard)

    def drop(self, link: Link, why: str) -> None:
        """Have the client's end closed; the node learns of it."""
        if link.is_open:
            link.is_open = False
            closed = events.ConnectionClosed(link.number, why)
            self.schedule.after(self.delay_ms(), self._arrive, link, partial(link.process.step, closed))

    def keep_out(self, process: "ClusterProcess", ms: int) -> None:
        """Let no member reach a node for a while; readers do."""
        self._kept_out_ms[process.number] = self.schedule.now_ms + ms
        for link in [link for link in self.links.values() if link.process is process and link.client.is_kept_out]:
            self.drop(link, "no route to host")
            link.client.lost_link(link, "no route to host")

    def node_ended(self, process: "ClusterProcess") -> None:
        """Have all connections to a node end."""
        for link in [link for link in self.links.values() if link.process is process]:
            del self.links[link.number]
            if link.is_open:
                link.is_open = False
                self.schedule.after(self.delay_ms(), link.client.lost_link, link, "connection reset by peer")

    # ---- what a node says -------------------------------------------------------------------------------------------

    def respond(self, process: "ClusterProcess", effect: e.Respond) -> None:
        """Carry an answer."""
        link, key = self.links.get(effect.connection_id), (effect.connection_id, effect.correlation_id)
        if link is None:
            return
        request, _ = link.asked.get(effect.correlation_id, (None, {}))
        if not isinstance(effect.response, ErrorResponse | FindCoordinatorResponse) and request is not None:
            shard = self.shard_of(getattr(request, "group_id", link.client.group_id))
            self.checker.spoken(process, key, shard, effect.response)
        self.schedule.tell(f"<- {process.name}", effect.response)
        self._carry(link, partial(link.client.answered, link, effect.correlation_id, effect.response))

    def push(self, process: "ClusterProcess", effect: e.SendPush) -> None:
        """Carry a push; no owner epoch is given to two."""
        link = self.links.get(effect.connection_id)
        if link is None:
            return
        self.schedule.tell(f"<- {process.name}", effect.push)
        if isinstance(effect.push, StartFetcher):
            for part in effect.push.partitions:
                grant = link.client.group_id, part.topic, part.partition, part.owner_epoch
                owner = self._owners.setdefault(grant, link.client.name)
                if owner != link.client.name:
                    raise ViolationError("OwnerEpochUnique", f"{grant} is {owner}'s, and now {link.client.name}'s")
        self._carry(link, partial(link.client.pushed, link, effect.push))

    def close(self, process: "ClusterProcess", effect: e.CloseConnection) -> None:
        """Close a connection after what was said on it."""
        link = self.links.pop(effect.connection_id, None)
        closed = events.ConnectionClosed(effect.connection_id, effect.why)
        process.later(0, partial(process.step, closed))
        if link is not None:
            self._carry(link, partial(link.client.lost_link, link, effect.why))

    def _carry(self, link: Link, work: Callable[[], None]) -> None:
        link.to_client_ms = max(link.to_client_ms, self.schedule.now_ms + self.delay_ms())
        self.schedule.at(link.to_client_ms, self._come, link, work)

    def _come(self, link: Link, work: Callable[[], None]) -> None:
        if link.is_open:
            work()

    # ---- what is known ----------------------------------------------------------------------------------------------

    def forget_lost(self) -> None:
        """Hold nobody to what was acknowledged before: it may be lost, and a person has said that it is."""
        self.known.clear()
        for client in self.all:
            if client.link is not None:
                client.link.asked = {number: (request, {}) for number, (request, _) in client.link.asked.items()}

    def greatest_owner_epoch(self, begin: int = 0) -> tuple[int, int]:
        """Return the least and the greatest owner epoch that was told, of what was told after the first `begin`."""
        epochs = [epoch for *_, epoch in list(self._owners)[begin:]]
        return min(epochs, default=0), max(epochs, default=0)

    @property
    def grants_told(self) -> int:
        """Return how many grants were told to somebody."""
        return len(self._owners)

    def learn(self, group_id: str, offsets: dict[TopicPartition, int]) -> None:
        """Take note of what nobody may contradict from now on."""
        known = self.known.setdefault(group_id, {})
        for partition, offset in offsets.items():
            known[partition] = max(known.get(partition, 0), offset)


class Client:
    """A member of one group, which commits what it owns and reads what was committed."""

    is_kept_out = True
    """It does not reach a node that members are kept out of."""

    def __init__(self, clients: Clients, name: str, group_id: str, paces_ms: tuple[int, ...]) -> None:
        self.clients = clients
        self.name = name
        self.group_id = group_id
        self.paces_ms = paces_ms
        self.member_id = ""
        self.link: Link | None = None
        self.is_member = False
        self.owned: dict[TopicPartition, StartPartition] = {}
        self._awaits_whole = False
        self._at = clients.dice.randrange(len(clients.processes))
        self._correlation_id = 0
        self._acked_ms = 0
        self._attempt = 0
        self.last_ack_ms = 0
        self._is_gone = False
        self._leader_epoch: int | None = None
        """The greatest epoch of a leader that a node has named, which it names when it asks for the next one."""
        self._doubted_since_ms: int | None = None
        clients.all.append(self)

    # ---- coming in --------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Try the next node."""
        clients = self.clients
        if self._is_gone:
            return
        self._attempt += 1
        self._at = (self._at + 1) % len(clients.processes)
        clients.connect(self, clients.processes[self._at])

    def _again(self) -> None:
        self.clients.schedule.after(self.clients.dice.choice((30, 100, 250)), self._begin_if, self._attempt)

    def _begin_if(self, attempt: int) -> None:
        if attempt == self._attempt and self.link is None:
            self.begin()

    def lost(self, why: str) -> None:
        """Go on with another node."""
        del why
        self.link, self.is_member = None, False
        self._again()

    def lost_link(self, link: Link, why: str) -> None:
        """Take note that a connection has ended."""
        link.is_open = False
        if link is self.link:
            self.lost(why)

    def vanish(self) -> None:
        """End for good, without a word: the process and its machine are gone."""
        self._is_gone = True
        self.clients.all.remove(self)
        self._leave("its machine is gone")

    def _leave(self, why: str) -> None:
        if self.link is not None:
            self.clients.drop(self.link, why)
            self.lost(why)

    def connected(self, link: Link) -> None:
        """Ask who leads the group's shard."""
        if self._is_gone:
            self.clients.drop(link, "its machine is gone")
            return
        self.link = link
        self._ask(FindCoordinator(self.group_id, self._leader_epoch))

    def _found(self, link: Link, response: FindCoordinatorResponse) -> None:
        """Register with the leader, here or elsewhere."""
        number = None if response.coordinator is None else response.coordinator.node_id
        if number is not None and self._is_of_the_past(response.leader_epoch):
            self.clients.checker.coverage["named a leader of the past"] += 1
            self._leave("the leader of the past")
            return
        if number == link.process.number:
            self._begin_here(link)
            return
        if number is not None:
            self.clients.checker.coverage["sent elsewhere"] += 1
            self._at = number - 2  # the next one is tried next
        self._leave("not the leader")

    def _is_of_the_past(self, leader_epoch: int) -> bool:
        """Say whether there was a later leader; one that nobody has named for a session time-out is forgotten."""
        known, now_ms = self._leader_epoch, self.clients.schedule.now_ms
        if known is not None and leader_epoch < known:
            if self._doubted_since_ms is None:
                self._doubted_since_ms = now_ms
            if now_ms - self._doubted_since_ms < SESSION_MS:
                return True
        self._leader_epoch, self._doubted_since_ms = leader_epoch, None
        return False

    def _begin_here(self, link: Link) -> None:
        """Register with the leader."""
        del link
        self._ask(
            RegisterConsumer(
                group_id=self.group_id,
                member_id=self.member_id,
                incarnation=f"process-of-{self.name}",
                subscription=Subscription(topics=("t",)),
                client_id=self.name,
                pid=1,
                session_timeout_ms=SESSION_MS,
                rebalance_timeout_ms=5_000,
            )
        )

    def _ask(self, request: Request) -> None:
        link = self.link
        if link is None or not link.is_open:
            return
        clients = self.clients
        self._correlation_id += 1
        floor = dict(clients.known.get(self.group_id, {}))
        link.asked[self._correlation_id] = request, floor
        clients.send(link, self._correlation_id, request)
        patience_ms = ANSWER_TIMEOUT_MS if isinstance(request, FindCoordinator) else ANSWER_MS
        clients.schedule.after(patience_ms, self._give_up, link, self._correlation_id)

    def _give_up(self, link: Link, correlation_id: int) -> None:
        if link is self.link and correlation_id in link.asked:
            self._leave("no answer")

    # ---- what comes -------------------------------------------------------------------------------------------------

    def answered(self, link: Link, correlation_id: int, response: Response) -> None:
        """Take an answer."""
        found = link.asked.pop(correlation_id, None)
        if found is None or link is not self.link:
            return
        request, floor = found
        match response:
            case FindCoordinatorResponse():
                self._found(link, response)
            case RegisterConsumerResponse(error=ErrorCode.NONE):
                self.member_id = response.member_id
                self.is_member, self._awaits_whole = True, True
                self.clients.schedule.after(10, self._work, link)
                self.clients.schedule.after(500, self._ping, link)
            case CommitOffsetsResponse() if isinstance(request, CommitOffsets):
                if response.error is ErrorCode.NONE and not response.refused:
                    self._acked(request)
            case FetchOffsetsResponse() if response.error is ErrorCode.NONE:
                self._read(response, floor)
            case FetchOffsetsResponse() if floor:
                raise ViolationError("AckedCommitReadable", f"{self.name}: {response}, though {floor} was acknowledged")
            case RegisterConsumerResponse():
                self.member_id = ""
                self._leave("refused")
            case ErrorResponse():
                self._leave("refused")
            case _:
                pass

    def _acked(self, request: CommitOffsets) -> None:
        clients = self.clients
        clients.acked += 1
        self.last_ack_ms = clients.schedule.now_ms
        clients.learn(self.group_id, _committed_by(request))

    def _read(self, response: FetchOffsetsResponse, floor: dict[TopicPartition, int]) -> None:
        clients = self.clients
        clients.reads += 1
        found = {(row.topic, row.partition): row.offset for row in response.offsets}
        for partition, offset in floor.items():
            if found.get(partition, -1) < offset:
                why = f"{self.name} reads {found.get(partition)} of {partition}, though {offset} was there before"
                raise ViolationError("FreshRead", why)
        sent = clients.sent.get(self.group_id, {})
        for partition, offset in found.items():
            if offset > sent.get(partition, 0):
                raise ViolationError("FreshRead", f"{self.name} reads {offset} of {partition}, which nobody has sent")
        clients.learn(self.group_id, found)

    def pushed(self, link: Link, push: Push) -> None:
        """Take a push."""
        if link is not self.link:
            return
        match push:
            case StartFetcher():
                if self._awaits_whole:
                    self.owned.clear()
                    self._awaits_whole = False
                for part in push.partitions:
                    self.owned[part.topic, part.partition] = part
            case StopFetcher():
                finals = []
                for stopped in push.partitions:
                    owned = self.owned.pop((stopped.topic, stopped.partition), None)
                    if owned is not None:
                        finals.append(FinalOffset(stopped.topic, stopped.partition, owned.owner_epoch, None))
                if finals:
                    self._ask(FetcherStopped(tuple(finals)))
            case FetcherTaken():
                for taken in push.partitions:
                    self.owned.pop((taken.topic, taken.partition), None)
            case Fenced():
                self.owned.clear()
                self.member_id = ""
                self._leave("fenced")
            case _:
                pass

    # ---- what it does -----------------------------------------------------------------------------------------------

    def _ping(self, link: Link) -> None:
        if link is self.link and self.is_member:
            self.clients.schedule.after(500, self._ping, link)
            self._ask(Ping(0))

    def _work(self, link: Link) -> None:
        if link is not self.link or not self.is_member:
            return
        clients, dice = self.clients, self.clients.dice
        clients.schedule.after(dice.choice(self.paces_ms), self._work, link)
        if any(isinstance(asked, CommitOffsets) for asked, _ in link.asked.values()):
            return
        if dice.random() < 0.3 or not self.owned:
            self._ask(FetchOffsets(self.group_id))
            return
        sent = clients.sent.setdefault(self.group_id, {})
        offsets = []
        for (topic, number), part in sorted(self.owned.items()):
            offset = max(sent.get((topic, number), 0), part.offset) + dice.randint(1, 5)
            sent[topic, number] = offset
            offsets.append(OffsetToCommit(topic, number, offset, part.owner_epoch))
        self._ask(CommitOffsets(self.group_id, in_columns(tuple(offsets))))


class Reader(Client):
    """A tool that reads the offsets of a group again and again, and stays with whoever answers."""

    is_kept_out = False

    def _begin_here(self, link: Link) -> None:
        """Read from now on."""
        self.is_member = True
        self._work(link)

    def _work(self, link: Link) -> None:
        if link is self.link and self.is_member:
            self.clients.schedule.after(self.clients.dice.choice(self.paces_ms), self._work, link)
            self._ask(FetchOffsets(self.group_id))


def _committed_by(request: CommitOffsets) -> dict[TopicPartition, int]:
    return {
        (topic.topic, number): offset
        for topic in request.offsets
        for number, offset in zip(topic.partitions, topic.offsets, strict=True)
    }
