"""The node that coordinates a group: said at once where it is known, else as soon as it is.

A node of a cluster holds a question that it cannot answer better than whoever asks could: it knows no leader, or none
newer than the one that did not answer, or it leads and does not serve yet. So thousands of members that have lost a
leader wait for the next one and do not poll. A leader that did not answer is named again once the node has heard of it
after the question, which it does within one interval of pings where the leader lives: until a silence is noticed nobody
is sent to a host that is gone. When the time of a held question is over a node that leads names itself; another one
names a leader with which it is in contact yet, and else says that it knows nobody. A node that is alone holds none.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final

from msgspec.structs import replace

from coordinator.core.events import RequestArrived
from coordinator.core.groups.soft.sessions import Connection
from coordinator.core.kafka_metadata import Catalog
from coordinator.core.requests.held_questions import HeldQuestions, Row
from coordinator.core.shards.shard_rack import ShardRack
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.ids import why_bad_id
from coordinator.protocol.messages import FindCoordinator, FindCoordinatorResponse
from coordinator.protocol.parts import NodeAddress

DOUBT_MS: Final = 3_000
"""The time for which a question is held, at least, while the leader that it doubts was not found silent: nodes notice a
silence in half of it, and a member waits twice as long for the answer."""
PATIENCE_EACH_MS: Final = 10
"""The time that is asked for, for each member that was told to register here and has not: some ten times what it takes
on an idle machine."""

_Standing = tuple[bool, bool, int | None]
"""A shard as far as it is known: is it led here, is it served, and the leader epoch in which another node leads it."""
_number = attrgetter("number")


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The other nodes as one knows them: where shards are led that it does not lead, and who is there.

    `leaders` has the leader epoch and the leader by shard. `nodes` are all that live, this one first, and `unheard`
    the ids of those with which this node is not in contact. `replicas` has, by shard, the ids of the nodes that have
    its log, in the order in which one of them is elected, as far as this node was told.
    """

    leaders: Mapping[int, tuple[int, NodeAddress]] = field(default_factory=dict)
    nodes: tuple[NodeAddress, ...] = ()
    unheard: frozenset[int] = frozenset()
    replicas: Mapping[int, tuple[int, ...]] = field(default_factory=dict)

    def successors(self, shard: int, leader: int) -> tuple[int, ...]:
        """Return who would lead a shard after its leader, the likeliest first.

        A controller elects the first replica that lives and is in sync. Here those that are not heard now come last.
        Who is in sync now is not asked: members rely on this when the leader is gone, which may be in weeks.
        """
        heard = {node.node_id for node in self.nodes} - self.unheard
        others = (node for node in self.replicas.get(shard, ()) if node != leader)
        return tuple(sorted(others, key=lambda node: node not in heard))

    def renew_successors(self, known: list[tuple[NodeAddress, ...] | None], leader: int) -> None:
        """Note, by shard, the nodes of those that live that would lead it after this leader, the likeliest first.

        What is the same stays the same object, so that whoever has told it need not compare.
        """
        live = {node.node_id: node for node in self.nodes if node.node_id != leader}
        for shard, replicas in self.replicas.items():
            successors = tuple(sorted([live[node] for node in replicas if node in live], key=self._is_unheard))
            if known[shard] != successors:
                known[shard] = successors

    def _is_unheard(self, node: NodeAddress) -> bool:
        return node.node_id in self.unheard


class Finder:
    """The questions of who coordinates a group; `hold_ms` is how long one may be held, 0 on a node that is alone."""

    def __init__(self, address: NodeAddress, catalog: Catalog, rack: ShardRack) -> None:
        self.hold_ms = 0
        self.neighbours = Neighbours()
        self.due_ms: int | None = None
        """The time at which the first held question is answered whatever is known then, None while none is held."""
        self._address = address
        self._catalog = catalog
        self._rack = rack
        self.expected: set[int] = set()
        """The connections that were told to register here and have not."""
        self._held = HeldQuestions()
        self._standings: dict[int, _Standing | None] = {}
        """The shards with held questions as they were known when all of these were last looked at, or came; None where
        that differs."""

    def find(self, event: RequestArrived, request: FindCoordinator, now_ms: int) -> FindCoordinatorResponse | None:
        """Return the answer to a question, None when it is held."""
        why = why_bad_id(request.group_id)
        if why is not None:
            message = f"the group id is not allowed: {why}"
            return FindCoordinatorResponse(error=ErrorCode.INVALID_GROUP_ID, message=message)
        shard = self._rack.shard_of(request.group_id)
        if self.hold_ms == 0 or self._knows_better(shard, request.leader_epoch):
            return self._for(event.connection_id, self._answer(shard))
        hold_ms = max(self.hold_ms, DOUBT_MS) if self._may_be_heard(shard, request.leader_epoch) else self.hold_ms
        standing = self._standing(shard)
        if self._standings.setdefault(shard, standing) != standing:
            self._standings[shard] = None
        self._held.hold(shard, request.leader_epoch, hold_ms, event, now_ms)
        self.due_ms = self._held.due_ms
        return None

    # ---- held questions ---------------------------------------------------------------------------------------------

    def release(
        self, connections: Mapping[int, Connection], now_ms: int, heard: int | None = None
    ) -> Iterator[tuple[RequestArrived, FindCoordinatorResponse]]:
        """Yield the held questions that are to be answered now, with their answers; of who is gone none.

        `heard` is a node of which something was heard just now: it lives, whoever doubts it. A question is looked at
        when its time is over, when it doubts this node, or when something else is known of its shard than before:
        nothing goes through all the epochs that somebody may have made up whenever a peer speaks.
        """
        rows = [*self._held.due(now_ms), *self._changed(), *self._doubting(heard)]
        answers: dict[tuple[int, bool], FindCoordinatorResponse] = {}
        for row in sorted({row.number: row for row in rows}.values(), key=_number):
            shard, leader_epoch = row.shard, row.leader_epoch
            is_known = self._knows_better(shard, leader_epoch) or self._leads(heard, shard, leader_epoch)
            is_told = is_known or self._may_be_heard(shard, leader_epoch)
            answer = answers.get((shard, is_told))
            for event in self._held.take(row, None if is_known else now_ms):
                connection = connections.get(event.connection_id)
                if connection is not None and not connection.is_closing:
                    if answer is None:
                        answer = self._answer(shard) if is_told else self._answer_unknown(shard)
                        answers[shard, is_told] = answer
                    yield event, self._for(event.connection_id, answer)
        self.due_ms = self._held.due_ms

    def _changed(self) -> list[Row]:
        """Return the held questions about shards of which something else is known than when they were looked at."""
        rows: list[Row] = []
        for shard, before in list(self._standings.items()):
            if not self._held.has(shard):
                del self._standings[shard]
            elif (standing := self._standing(shard)) != before:
                self._standings[shard] = standing
                rows += self._held.rows_of(shard)
        return rows

    def _doubting(self, node: int | None) -> list[Row]:
        """Return the held questions that doubt a node, if any, in the epoch in which it is known to lead."""
        rows: list[Row] = []
        for shard in self._standings if node is not None else ():
            known = self.neighbours.leaders.get(shard)
            if known is not None and known[1].node_id == node:
                rows += self._held.rows_in(shard, known[0])
        return rows

    def _for(self, connection_id: int, answer: FindCoordinatorResponse) -> FindCoordinatorResponse:
        """Return an answer as one connection gets it: if that is to register here, with the time to wait for it."""
        if answer.coordinator != self._address:
            return answer
        self.expected.add(connection_id)
        return replace(answer, patience_ms=PATIENCE_EACH_MS * len(self.expected))

    # ---- what is known ----------------------------------------------------------------------------------------------

    def _standing(self, shard: int) -> _Standing:
        """Return all that it depends on whether a question about a shard is answered, but for who was heard."""
        rack, known = self._rack, self.neighbours.leaders.get(shard)
        return rack.is_led(shard), rack.is_led(shard) and rack.is_served(shard), None if known is None else known[0]

    def _knows_better(self, shard: int, leader_epoch: int | None) -> bool:
        """Return whether what is known of a shard is more than that its leader in this epoch did not answer."""
        rack = self._rack
        if rack.is_led(shard):
            return rack.is_served(shard)
        known = self.neighbours.leaders.get(shard)
        if known is None:
            return False
        return leader_epoch is None or known[0] > leader_epoch

    def _leads(self, node: int | None, shard: int, leader_epoch: int | None) -> bool:
        """Return whether a node, if any, is known to lead a shard in this epoch."""
        known = self.neighbours.leaders.get(shard)
        return known is not None and known[0] == leader_epoch and known[1].node_id == node

    def _may_be_heard(self, shard: int, leader_epoch: int | None) -> bool:
        """Return whether this node is in contact with the leader of a shard in this epoch, as far as it knows."""
        known = self.neighbours.leaders.get(shard)
        return known is not None and known[0] == leader_epoch and known[1].node_id not in self.neighbours.unheard

    def _answer(self, shard: int) -> FindCoordinatorResponse:
        if self._rack.is_led(shard):
            return self._found(shard, self._rack.leader_epochs[shard], self._address)
        if shard in self.neighbours.leaders:
            return self._found(shard, *self.neighbours.leaders[shard])
        return self._nobody(shard, "which does not know by whom it is")

    def _answer_unknown(self, shard: int) -> FindCoordinatorResponse:
        """Return the answer to a question that was held in vain."""
        if self._rack.is_led(shard):
            return self._answer(shard)
        if shard not in self.neighbours.leaders:
            return self._nobody(shard, "which does not know by whom it is")
        leader_epoch, leader = self.neighbours.leaders[shard]
        return self._nobody(
            shard, f"and node {leader.node_id}, its leader in epoch {leader_epoch}, is not heard or was replaced"
        )

    def _nobody(self, shard: int, why: str) -> FindCoordinatorResponse:
        message = f"shard {shard} is not led by this node, {why}; try again"
        return FindCoordinatorResponse(
            error=ErrorCode.COORDINATOR_NOT_AVAILABLE, message=message, shard=shard, nodes=self.neighbours.nodes
        )

    def _found(self, shard: int, leader_epoch: int, coordinator: NodeAddress) -> FindCoordinatorResponse:
        return FindCoordinatorResponse(
            coordinator=coordinator,
            shard=shard,
            leader_epoch=leader_epoch,
            nodes=self.neighbours.nodes or (self._address,),
            kafka_bootstrap=self._catalog.bootstrap,
            kafka_cluster_id=self._catalog.cluster_id,
            successors=self.neighbours.successors(shard, coordinator.node_id),
        )
