"""Members of a kcoord group as load that follow their leader from node to node, as `spark_kcoord.member` does.

A member whose connection ends asks another node within 50 ms who leads, and names the leader epoch that it has lost;
it registers there as who it was. A node that names the lost leader again, or nobody, is asked again after a moment.
Owner epochs that change and partitions that are asked back on the way are counted: a failover is to cause neither.
"""

import heapq
import random
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from benchmarks.group_load import Group, Rounds
from benchmarks.group_members import PING, KcoordMember, RefusedError, Tally
from coordinator.client.nodes import MOST_SILENCES
from coordinator.client.refusals import PASSING
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    ErrorResponse,
    FindCoordinator,
    FindCoordinatorResponse,
    ListGroupEvents,
    ListGroupEventsResponse,
    Push,
    RegisterConsumerResponse,
    Request,
    Response,
    StopFetcher,
)
from coordinator.protocol.parts import StartPartition

HOP_S: Final = 0.05
"""The longest that a member waits before it goes to another node, so that not all go at one moment."""
MOST_PAUSE_S: Final = 1.0
PING_TIMEOUT_S: Final = 2.0
"""A fifth of a session of 10 s: a leader that owes an answer for so long is left."""
PING_INTERVAL_S: Final = 10 / 3
"""As often as sessions of 10 s need."""
ENTER_TIMEOUT_S: Final = 3.0
"""The longest that a hello and the word who leads may take; then a member goes elsewhere."""
_TURN_S: Final = 0.01


class FollowingMember(KcoordMember):
    """A member that goes where its group is led; its load is told when its connection ends."""

    __slots__ = (
        "attempts",
        "before",
        "incarnation",
        "is_in",
        "leader_epoch",
        "load",
        "member_id",
        "node",
        "open_asks",
        "plan",
        "registers",
        "silences",
    )

    def __init__(self, load: "ClusterLoad", tally: Tally) -> None:
        super().__init__(load.sockets, tally)
        self.load = load
        self.node = 0
        self.leader_epoch: int | None = None
        self.member_id = ""
        self.incarnation = random.randbytes(8).hex()
        self.is_in = self.registers = False
        self.open_asks = self.attempts = self.plan = 0
        self.before: dict[int, StartPartition] = {}
        self.silences: dict[int, int] = {}
        """The silences of each node since one has let it in."""

    def find(self) -> None:
        """Ask the node to which it is connected who leads its group, other than the leader that it has lost."""
        self._ask(FindCoordinator(self.tally.group_id, self.leader_epoch))

    def register(self) -> None:
        """Join, or come back as who it was."""
        who = {"member_id": self.member_id, "incarnation": self.incarnation, "is_rejoining": bool(self.member_id)}
        self._ask(msgspec.structs.replace(self._registration(), **who))

    def ask_for_events(self, after_sequence: int = 0) -> None:
        """Ask for the group's timeline, page by page."""
        self._ask(ListGroupEvents(self.tally.group_id, after_sequence))

    def lost(self) -> None:
        """Go elsewhere in a moment."""
        self.load.was_lost(self)

    def receive(self, body: bytes) -> bool:
        """Take a frame; the first is the hello."""
        is_first = not self._is_greeted
        found = super().receive(body)
        if is_first:
            self.load.greeted(self)
        return found

    def forget(self) -> None:
        """Take what it has out of the tally: it is to be told anew."""
        tally = self.tally
        tally.unanswered -= self.open_asks
        tally.registered -= self.is_in
        tally.complete -= self._is_complete
        tally.owned -= len(self.owned)
        self.before = self.owned or self.before
        self.owned = {}
        self.open_asks = 0
        self.is_in = self._is_complete = self._is_greeted = False
        self.buffer = self.unsent = b""

    def _encoded(self, request: Request) -> bytes:
        self.open_asks += 1
        return super()._encoded(request)

    def _take(self, said: Response | Push) -> None:
        if not isinstance(said, Push):
            self.open_asks -= 1
        match said:
            case FindCoordinatorResponse():
                self.tally.unanswered -= 1
                self.load.found(self, said)
            case RegisterConsumerResponse(error=error) | ErrorResponse(error=error) if error in PASSING:
                self.tally.unanswered -= 1
                self.load.refused(self, error)
            case ListGroupEventsResponse(events=events, up_to=up_to):
                self.tally.unanswered -= 1
                self.load.see_epochs((event.group_epoch for event in events), is_last=up_to is None)
                if up_to is not None:
                    self.ask_for_events(up_to)
            case RegisterConsumerResponse():
                self.tally.registered -= self.is_in  # who was lost while all joined has registered twice
                self.is_in = True
                self.attempts = 0
                self.silences.clear()
                self.member_id = said.member_id
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
        self.is_formed = False
        """True once members have what they have for good: from then on nothing may be moved."""
        self.group_epochs: set[int] = set()
        self.shard = 0
        """The shard of the group whose leader was found last."""
        self.moved = self.asked_back = self.refusals = self.connects = self.silences = 0
        self._source = source
        self._waiting: list[tuple[float, int, FollowingMember, int | None]] = []
        """The times at which members go to a node (None: to another), a heap; a member's `plan` says which counts."""
        self._plans = 0
        self.gone: set[int] = set()
        """Nodes whose host is gone: nobody can connect to them."""
        self._entering: dict[FollowingMember, float] = {}
        """Until when members wait for a hello, or to be told who leads."""
        self._ends: list[tuple[float, int, FollowingMember]] = []
        """The same times, a heap; those that are no member's any more are void."""
        self._pings: deque[tuple[float, FollowingMember]] | None = None
        self._pinged: dict[FollowingMember, float] = {}
        self._dice = random.Random(0)
        self._formed_epoch = self._seen_epoch = 0

    # ---- going to nodes ---------------------------------------------------------------------------------------------

    def join(self, group: Group[FollowingMember], members: int) -> float:
        """Have so many members join at once, when all are connected; return the milliseconds to a stable group."""
        first = FollowingMember(self, group.tally)
        self._go(first, next(iter(self.ports)))
        self.wait_until(lambda: group.tally.is_stable(group.partitions), "a first member")
        group.members.append(first)
        for number in range(members - 1):
            member = FollowingMember(self, group.tally)
            member.leader_epoch = first.leader_epoch
            member.node = first.node
            self.sockets.begin(member, "127.0.0.1", self.ports[first.node], self._source)
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

    def was_lost(self, member: FollowingMember) -> None:
        """Have a member whose connection has ended go to another node in a moment."""
        was_in = member.is_in
        member.forget()
        self._pinged.pop(member, None)
        self._entering.pop(member, None)
        if was_in:
            self._plan(member, self._dice.random() * HOP_S, None)
        else:
            self._again(member)

    def found(self, member: FollowingMember, answer: FindCoordinatorResponse) -> None:
        """Have a member go where it is sent."""
        self._entering.pop(member, None)
        if answer.error is not ErrorCode.NONE:
            if answer.error not in PASSING:
                raise RefusedError(answer.message)
            self._again(member)
            return
        assert answer.coordinator is not None
        if member.leader_epoch is not None and answer.leader_epoch < member.leader_epoch:
            self._again(member)
            return
        member.leader_epoch = answer.leader_epoch
        self.shard = answer.shard
        if answer.coordinator.node_id == member.node:
            member.register()
            return
        self.sockets.close(member)
        member.forget()
        self._plan(member, 0.0, answer.coordinator.node_id)

    def greeted(self, member: FollowingMember) -> None:
        """Have a member go on: it asks who leads, or registers, for which a leader may take its time."""
        if self._entering.pop(member, None) is None:
            return
        if member.registers:
            member.register()
        else:
            self._enter(member)
            member.find()

    def refused(self, member: FollowingMember, error: ErrorCode) -> None:
        """Have a member that cannot register yet ask again in a moment."""
        self.refusals += 1
        self._again(member, member.node if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else None)

    def _again(self, member: FollowingMember, node: int | None = None) -> None:
        """Have a member try again after a pause that doubles, as real ones do."""
        whole_s = min(MOST_PAUSE_S, HOP_S * 2**member.attempts)
        member.attempts += 1
        self._plan(member, whole_s * (0.5 + self._dice.random() / 2), node)

    def _plan(self, member: FollowingMember, pause_s: float, node: int | None) -> None:
        self._plans += 1
        member.plan = self._plans
        heapq.heappush(self._waiting, (time.perf_counter() + pause_s, self._plans, member, node))

    def _go(self, member: FollowingMember, node: int, *, registers: bool = False) -> None:
        member.node = node
        if node in self.gone:
            self._again(member)
            return
        self.sockets.begin(member, "127.0.0.1", self.ports[node], self._source)
        self.connects += 1
        member.greet()
        member.registers = registers
        self._enter(member)

    def _enter(self, member: FollowingMember) -> None:
        """Give a node its time; twice as much for each time that it was silent, as real members do."""
        self._plans += 1
        end_s = time.perf_counter() + ENTER_TIMEOUT_S * 2 ** min(member.silences.get(member.node, 0), MOST_SILENCES)
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
            _, plan, member, node = heapq.heappop(self._waiting)
            if plan != member.plan:
                continue
            if node is None:
                self._leave(member)
                others = [number for number in self.ports if number != member.node] or [member.node]
                least = min(member.silences.get(number, 0) for number in others)
                self._go(member, self._dice.choice([at for at in others if member.silences.get(at, 0) == least]))
            elif node == member.node and self.sockets.has(member):
                member.register()
            else:
                self._go(member, node, registers=True)
        self._ping(now_s)
        while self._ends and self._ends[0][0] <= now_s:
            end_s, _, member = heapq.heappop(self._ends)
            if self._entering.get(member) == end_s and self.is_formed:  # the first join of all at once may take longer
                self.silences += 1
                member.silences[member.node] = member.silences.get(member.node, 0) + 1
                self.lose([member])
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
