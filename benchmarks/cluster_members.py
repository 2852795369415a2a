"""Members of a kcoord group as load that follow their leader from node to node, as `spark_kcoord.member` does.

A member whose connection ends asks within 50 ms who leads, first the node that was named as the leader's successor, and
names the leader epoch that it has lost; it registers there as who it was. Whom it asks next, and how long it waits, is
decided by what decides it for real members: `coordinator.client.nodes`.
Owner epochs that change and partitions that are asked back on the way are counted: a failover is to cause neither.
"""

import heapq
import random
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from benchmarks.group_load import Group, Rounds
from benchmarks.group_members import PING, KcoordMember, RefusedError, Tally
from coordinator.client.nodes import Nodes
from coordinator.client.refusals import BETTER_ELSEWHERE, PASSING
from coordinator.protocol.codec import decode_answer
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    ErrorResponse,
    FindCoordinator,
    FindCoordinatorResponse,
    ListGroupEvents,
    ListGroupEventsResponse,
    PingResponse,
    Push,
    RegisterConsumerResponse,
    Response,
    StopFetcher,
)
from coordinator.protocol.parts import StartPartition
from spark_kcoord.member.core.session.patience import (
    ANSWER_TIMEOUT_MS,
    HELLO_TIMEOUT_MS,
    MOST_REGISTER_MS,
    REGISTER_TIMEOUT_MS,
)

PING_TIMEOUT_S: Final = 2.0
"""A fifth of a session of 10 s: a leader that owes an answer for so long is left."""
PING_INTERVAL_S: Final = 10 / 3
"""As often as sessions of 10 s need."""
_LOOPBACK: Final = "127.0.0.1"
_TURN_S: Final = 0.01
_LONG_ANSWER: Final = 24
"""Bytes of a timed answer that says no more than that all was accepted are fewer."""


class FollowingMember(KcoordMember):
    """A member that goes where its group is led; its load is told when its connection ends."""

    __slots__ = (
        "before",
        "leader_epoch",
        "load",
        "nodes",
        "plan",
        "successors",
    )

    def __init__(self, load: "ClusterLoad", tally: Tally) -> None:
        super().__init__(load.sockets, tally)
        self.load = load
        self.nodes = Nodes(((_LOOPBACK, port) for port in load.ports.values()), load.dice.random)
        self.successors: tuple[int, ...] = ()
        self.leader_epoch: int | None = None
        self.incarnation = random.randbytes(8).hex()
        self.plan = 0
        self.before: dict[int, StartPartition] = {}

    @property
    def node(self) -> int:
        """The id of the node that it is at, or goes to."""
        return self.load.node_at[self.nodes.current[1]]

    def find(self) -> None:
        """Ask the node to which it is connected who leads its group, other than the leader that it has lost."""
        self._ask(FindCoordinator(self.tally.group_id, self.leader_epoch))

    def register(self) -> None:
        """Join, or come back as who it was."""
        self._ask(self._registration())

    def ask_for_events(self, after_sequence: int = 0) -> None:
        """Ask for the group's timeline, page by page."""
        self._ask(ListGroupEvents(self.tally.group_id, after_sequence))

    def lost(self) -> None:
        """Go elsewhere in a moment."""
        self.load.was_lost(self)

    def _greeted(self) -> None:
        self.load.greeted(self)

    def forget(self) -> None:
        """Keep what it had, which is what it is to be told again."""
        self.before = self.owned or self.before
        super().forget()

    def receive(self, body: bytes) -> bool:
        """Take a frame; of the answers to pings one that says more than the shortest is looked into."""
        is_timed = super().receive(body)
        if is_timed and len(body) > _LONG_ANSWER:
            said = decode_answer(memoryview(body)[4:])
            if isinstance(said, PingResponse):
                self.expect(node.node_id for node in said.successors or ())
        return is_timed

    def expect(self, successors: Iterable[int]) -> None:
        """Go to these nodes first once its own is lost."""
        ports = self.load.ports
        self.nodes.expect((_LOOPBACK, ports[node]) for node in successors if node in ports)

    def _take(self, said: Response | Push) -> None:
        match said:
            case FindCoordinatorResponse():
                self.tally.unanswered -= 1
                self.load.found(self, said)
            case RegisterConsumerResponse(error=error) | ErrorResponse(error=error) if error in PASSING:
                self.tally.unanswered -= 1
                self.load.refused(self, error, said.message)
            case ListGroupEventsResponse(events=events, up_to=up_to):
                self.tally.unanswered -= 1
                self.load.see_epochs((event.group_epoch for event in events), is_last=up_to is None)
                if up_to is not None:
                    self.ask_for_events(up_to)
            case RegisterConsumerResponse():
                self.load.entered(self)
                self.load.group_epochs.add(said.group_epoch)
                super()._take(said)
            case StopFetcher() if self.load.is_formed:
                self.load.asked_back += len(said.partitions)
                super()._take(said)
            case _:
                super()._take(said)

    def _start(self, partitions: Sequence[StartPartition], *, is_complete: bool) -> None:
        if self.load.is_formed:
            self.load.moved += sum(
                own.partition not in self.before or self.before[own.partition].owner_epoch != own.owner_epoch
                for own in partitions
            )
        super()._start(partitions, is_complete=is_complete)


class ClusterLoad(Rounds[FollowingMember]):
    """The members of this process on the nodes of a cluster, `ports` by node id."""

    def __init__(self, ports: Mapping[int, int], source: str) -> None:
        super().__init__()
        self.ports = dict(ports)
        self.node_at = {port: node for node, port in ports.items()}
        self.is_formed = False
        """True once members have what they have for good: from then on nothing may be moved."""
        self.group_epochs: set[int] = set()
        self.shard = 0
        """The shard of the group whose leader was found last."""
        self.moved = self.asked_back = self.refusals = self.connects = self.silences = 0
        self._source = source
        self._waiting: list[tuple[float, int, FollowingMember]] = []
        """The times at which members go to their next node, a heap; a member's `plan` says which counts."""
        self._plans = 0
        self.gone: set[int] = set()
        """Nodes whose host is gone: nobody can connect to them."""
        self._entering: dict[FollowingMember, float] = {}
        """Until when members wait for a hello, to be told who leads, or to be let in."""
        self._ends: list[tuple[float, int, FollowingMember]] = []
        """The same times, a heap; those that are no member's any more are void."""
        self._pings: deque[tuple[float, FollowingMember]] | None = None
        self._pinged: dict[FollowingMember, float] = {}
        self.dice = random.Random(0)
        self._formed_epoch = self._seen_epoch = 0

    # ---- going to nodes ---------------------------------------------------------------------------------------------

    def join(self, group: Group[FollowingMember], members: int) -> float:
        """Have so many members join at once, when all are connected; return the milliseconds to a stable group."""
        first = FollowingMember(self, group.tally)
        self._go(first)
        self.wait_until(lambda: group.tally.is_stable(group.partitions), "a first member")
        group.members.append(first)
        for number in range(members - 1):
            member = FollowingMember(self, group.tally)
            member.leader_epoch = first.leader_epoch
            member.successors = first.successors
            member.nodes.choose(first.nodes.current)
            self.sockets.begin(member, *first.nodes.current, self._source)
            member.greet()
            group.members.append(member)
            if number % 100 == 0:
                self.turn(0)
        self.turn_for(0.5)
        started_s = time.perf_counter()
        for number, each in enumerate(group.members[1:]):
            if each.plan == 0:  # who was lost meanwhile goes by itself
                each.register()
            if number % 50 == 0:
                self.turn(0)
        self.wait_until(lambda: group.tally.is_stable(group.partitions), "a stable group")
        took_ms = (time.perf_counter() - started_s) * 1000
        self.turn_for(0.5)
        self.is_formed = True
        first.ask_for_events()
        self.wait_until(lambda: self._formed_epoch > 0, "the group's timeline")
        self.group_epochs = {self._formed_epoch}
        self.moved = self.asked_back = self.refusals = self.connects = self.silences = 0
        return took_ms

    def lose(self, members: Sequence[FollowingMember]) -> None:
        """Have connections end, as those to a host that is gone do."""
        for member in list(members):
            self.sockets.close(member)
            self.was_lost(member)

    def was_lost(self, member: FollowingMember, why: str = "lost", *, was_silent: bool = False) -> None:
        """Have a member whose connection has ended go to another node in a moment."""
        was_in = member.is_in
        member.forget()
        self._pinged.pop(member, None)
        self._entering.pop(member, None)
        member.nodes.note_trouble(why, is_elsewhere_better=True, was_silent=was_silent)
        self._plan(member, member.nodes.departure_ms() if was_in else member.nodes.next_backoff_ms())

    def found(self, member: FollowingMember, answer: FindCoordinatorResponse) -> None:
        """Have a member go where it is sent."""
        self._entering.pop(member, None)
        if answer.error is not ErrorCode.NONE:
            if answer.error not in PASSING:
                raise RefusedError(answer.message)
            self._again(member, answer.message, is_elsewhere_better=True)
            return
        assert answer.coordinator is not None
        if member.leader_epoch is not None and answer.leader_epoch < member.leader_epoch:
            self._again(member, "it names a leader of the past", is_elsewhere_better=True)
            return
        member.leader_epoch = answer.leader_epoch
        self.shard = answer.shard
        if answer.coordinator.node_id == member.node:
            member.successors = answer.successors
            self._await(member, max(REGISTER_TIMEOUT_MS, min(answer.patience_ms, MOST_REGISTER_MS)))
            member.register()
            return
        self._leave(member)
        member.nodes.choose((_LOOPBACK, self.ports[answer.coordinator.node_id]))
        self._plan(member, 0)

    def greeted(self, member: FollowingMember) -> None:
        """Have a member go on and ask who leads."""
        if self._entering.pop(member, None) is not None:
            self._await(member, ANSWER_TIMEOUT_MS)
            member.find()

    def refused(self, member: FollowingMember, error: ErrorCode, why: str) -> None:
        """Have a member that cannot register yet try again in a moment."""
        self.refusals += 1
        self._again(member, why, is_elsewhere_better=error in BETTER_ELSEWHERE)

    def entered(self, member: FollowingMember) -> None:
        """Take note that a node has let a member in."""
        self._entering.pop(member, None)
        member.nodes.settle()
        member.expect(member.successors)

    def _again(self, member: FollowingMember, why: str, *, is_elsewhere_better: bool) -> None:
        """Have a member try again after a pause that doubles, over another connection."""
        self._entering.pop(member, None)
        member.nodes.note_trouble(why, is_elsewhere_better=is_elsewhere_better)
        self._plan(member, member.nodes.next_backoff_ms())

    def _plan(self, member: FollowingMember, pause_ms: int) -> None:
        self._plans += 1
        member.plan = self._plans
        heapq.heappush(self._waiting, (time.perf_counter() + pause_ms / 1000, self._plans, member))

    def _go(self, member: FollowingMember) -> None:
        if member.node in self.gone:
            self.was_lost(member, "its host is gone")
            return
        self.sockets.begin(member, *member.nodes.current, self._source)
        self.connects += 1
        member.greet()
        self._await(member, HELLO_TIMEOUT_MS)

    def _await(self, member: FollowingMember, least_ms: int) -> None:
        """Give a node its time; twice as much for each time that it was silent."""
        self._plans += 1
        end_s = time.perf_counter() + member.nodes.patience_ms(least_ms) / 1000
        self._entering[member] = end_s
        heapq.heappush(self._ends, (end_s, self._plans, member))

    # ---- turns ------------------------------------------------------------------------------------------------------

    def turn(self, timeout_s: float = _TURN_S) -> list[FollowingMember]:
        """Take what comes, and have who is due go on; return the members whose timed request was answered."""
        answered = super().turn(timeout_s)
        now_s = time.perf_counter()
        for member in answered:
            self._pinged.pop(member, None)
        while self._waiting and self._waiting[0][0] <= now_s:
            _, plan, member = heapq.heappop(self._waiting)
            if plan == member.plan:
                self._leave(member)
                self._go(member)
        self._ping(now_s)
        while self._ends and self._ends[0][0] <= now_s:
            end_s, _, member = heapq.heappop(self._ends)
            if self._entering.get(member) == end_s and self.is_formed:  # the first join of all at once may take longer
                self.silences += 1
                self.sockets.close(member)
                self.was_lost(member, "silent", was_silent=True)
        return answered

    def _leave(self, member: FollowingMember) -> None:
        self._entering.pop(member, None)
        if self.sockets.has(member):
            self.sockets.close(member)
            member.forget()

    def begin_pinging(self, members: Sequence[FollowingMember]) -> None:
        """Have each member ping as sessions of 10 s need, and leave a node that owes the answer for too long."""
        now_s = time.perf_counter()
        step_s = PING_INTERVAL_S / len(members)
        self._pings = deque((now_s + number * step_s, member) for number, member in enumerate(members))

    def ping_all(self, members: Sequence[FollowingMember]) -> None:
        """Have each member ping once, as it does while nothing happens."""
        self.begin_pinging(members)
        self.turn_for(PING_INTERVAL_S)
        self.stop_pinging()

    def stop_pinging(self) -> None:
        """Ping no more."""
        self._pings = None
        self.wait_until(lambda: not self._pinged, "answers to pings")

    def _ping(self, now_s: float) -> None:
        pings = self._pings
        while pings and pings[0][0] <= now_s:
            due_s, member = pings.popleft()
            pings.append((due_s + PING_INTERVAL_S, member))
            if member.is_in and member not in self._pinged:
                self._pinged[member] = now_s
                self.sockets.send(member, PING)
        while self._pinged:
            member, sent_s = next(iter(self._pinged.items()))
            if now_s - sent_s < PING_TIMEOUT_S:
                return
            self.lose([member])

    # ---- what is measured of members that are in --------------------------------------------------------------------

    def back_again(self, group: Group[FollowingMember], started_s: float) -> float:
        """Return the milliseconds from `started_s` until every member is in and was told all that it has."""
        self.wait_until(lambda: group.tally.is_stable(group.partitions), "all members back")
        return (time.perf_counter() - started_s) * 1000

    def see_epochs(self, group_epochs: Iterable[int], *, is_last: bool) -> None:
        """Take note of the epochs on a page of the timeline; the group was formed in the greatest of all pages."""
        self._seen_epoch = max((self._seen_epoch, *group_epochs))
        if is_last:
            self._formed_epoch = self._seen_epoch

    def rebalances(self) -> int:
        """Return how often the group has changed since it was formed, as members were told when they registered."""
        return max(self.group_epochs) - self._formed_epoch
