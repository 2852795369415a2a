"""What is checked after every event: what the log says, what is said to others, and what they were told before.

Whatever leaves the node must already be on disk, because somebody acts on it: an acknowledged commit, a grant, a claim
that runs. And whatever was said once stays true after a crash. Reads return what was committed and no older than what
the reader could know. Nobody is declared dead before its time.
"""

from collections.abc import Sequence, Set

from coordinator.core.effects import Notice
from coordinator.core.groups.hard.operator_records import GroupDeleted
from coordinator.core.groups.hard.records import GroupExpired, MemberRemoved
from coordinator.core.groups.hard.state import ShardState
from coordinator.core.limits import Limits
from coordinator.protocol.messages import (
    Advance,
    BeginClaims,
    CommitOffsets,
    ConfirmClaims,
    FetcherStarted,
    FetcherStopped,
    FinishClaims,
    LeaveGroup,
    Ping,
    Push,
    Request,
    Response,
)
from tests.sim.facts import WorldFacts
from tests.sim.kafka import Kafka
from tests.sim.log.model import NO_LOG, LogCopy, LogModel
from tests.sim.log.state import GroupModel, ViolationError
from tests.sim.said.answers import check_answer
from tests.sim.said.notices import check_notice
from tests.sim.said.pushes import check_push
from tests.sim.said.state import Asked, Life, Said, Session

LONGEST_ANSWER_MS = 15_000
"""An answer waits for Kafka and for the disk, for no longer than this once nothing is disturbed any more."""
DECIDED_AT_ONCE = (
    Advance
    | BeginClaims
    | CommitOffsets
    | ConfirmClaims
    | FetcherStarted
    | FetcherStopped
    | FinishClaims
    | LeaveGroup
    | Ping
)
"""Requests that are decided in the step in which they come, so that their answers wait for nothing but the log."""


class Checker:
    """The checker of one run."""

    def __init__(self, kafka: Kafka, shards: int, limits: Limits) -> None:
        facts = WorldFacts(kafka)
        logs = [LogModel(shard, facts, limits) for shard in range(shards)]
        self._said = Said(facts, logs, [0] * shards, [0] * shards, Life(0))
        self.facts, self.logs, self.epochs = facts, logs, self._said.epochs
        self.counts, self.coverage = self._said.counts, self._said.coverage

    def group(self, group_id: str, shard: int) -> GroupModel:
        return self._said.group(group_id, shard)

    # ---- the log ----------------------------------------------------------------------------------------------------

    def appended(
        self, shard: int, base_offset: int, records: Sequence[bytes], state: ShardState, now_ms: int = 0
    ) -> None:
        """Check what the node wants written, and that its state is what its log says."""
        log = self.logs[shard]
        before = log.end
        log.append(base_offset, records, now_ms)
        news = log.records[before:]
        log.compare(state, {record.group_id for record in news})
        for at, record in enumerate(news, before):
            if isinstance(record, MemberRemoved):
                self._said.unbind((record.group_id, record.member_id), at)
            elif isinstance(record, GroupExpired | GroupDeleted):
                self._said.group_epochs.pop(record.group_id, None)
                self._said.forgotten_at[record.group_id] = at
        self.counts.handovers = sum(each.handovers for each in self.logs)
        self.counts.resets = sum(each.resets for each in self.logs)

    def became_durable(self, shard: int, end_offset: int) -> None:
        self._said.durable[shard] = max(self._said.durable[shard], end_offset)

    def recovered(self, shard: int, end_offset: int, state: ShardState, now_ms: int) -> None:
        """Check what is there after a crash."""
        log = self.logs[shard]
        if end_offset < self._said.told[shard]:
            raise ViolationError(
                "lost-commit",
                f"shard {shard}: the log ends at {end_offset} after a crash, but what stands at "
                f"{self._said.told[shard] - 1} was told to others",
            )
        if end_offset > log.end:
            raise ViolationError("phantom-record", f"shard {shard}: {end_offset} records, {log.end} were written")
        lost = log.records[end_offset:]
        log.cut(end_offset)
        log.compare(state, log.groups)
        if set(state.groups) != set(log.groups):
            raise ViolationError(
                "state-differs", f"shard {shard}: groups {set(state.groups)}, in its log {set(log.groups)}"
            )
        for group_id in {record.group_id for record in lost}:
            if self._said.forgotten_at.get(group_id, -1) >= end_offset:
                del self._said.forgotten_at[group_id]
        self._said.durable[shard] = end_offset
        self._said.life = Life(now_ms)

    def read_again(self, shard: int, end_offset: int) -> None:
        """Check what a node reads of a shard that met a bug: all that was handed to the disk, and nothing else."""
        if end_offset != self.logs[shard].end:
            raise ViolationError(
                "state-differs", f"shard {shard} is read again to {end_offset}, and {self.logs[shard].end} were written"
            )
        self._said.durable[shard] = end_offset
        # What a node remembers beside its log, such as who was late, is gone as with a restart.
        self.logs[shard].cut(end_offset)

    def is_asked(self, shard: int) -> bool:
        """Return whether a decision of a shard waits to be said."""
        life = self._said.life
        return any(
            asked.shard == shard and isinstance(asked.request, DECIDED_AT_ONCE) and key[0] not in life.gone
            for key, asked in life.asked.items()
        )

    def resigned(self, shard: int) -> None:
        """Note that the node leads a shard no longer: nothing is said any more of what it has decided there."""
        life = self._said.life
        for (connection_id, correlation_id), asked in life.asked.items():
            if asked.shard == shard and isinstance(asked.request, DECIDED_AT_ONCE):
                life.void.add((connection_id, correlation_id))
                self.coverage["resigned with what waited"] += connection_id not in life.gone
        groups = self.logs[shard].groups
        for connection_id, member in tuple(life.bound.items()):
            if member[0] in groups:
                life.deposed.add(connection_id)
                del life.bound[connection_id]
        life.removed = {key: found for key, found in life.removed.items() if found[0][0] not in groups}
        for member in [member for member in life.accepted if member[0] in groups]:
            del life.accepted[member]

    def led(self, shard: int, now_ms: int) -> None:
        """Note that the node begins to lead a shard: members have all their time from now on, whatever was before."""
        for group_id, group in self.logs[shard].groups.items():
            for member_id in group.facts:
                self._said.life.sessions[group_id, member_id] = Session(now_ms)

    def copy_logs(self) -> list[tuple[LogCopy, int]]:
        """Return what a copy of the disk has of each log, and its end."""
        return [(log.copy(), end) for log, end in zip(self.logs, self._said.durable, strict=True)]

    def disk_exchanged(self, copies: Sequence[tuple[LogCopy, int]] | None, told: Set[str]) -> None:
        """Take note that the coordinator gets another disk: what it said may be lost, and who was a member is known.

        `told` are the processes that live and were told of its logs.
        """
        self._said.told = [0] * len(self._said.told)
        self._said.group_epochs.clear()
        self._said.forgotten_at.clear()
        self.facts.begin_anew()
        copies = copies or [(NO_LOG, 0)] * len(self.logs)
        self._said.durable = [end for _, end in copies]
        for log, (copy, end) in zip(self.logs, copies, strict=True):
            log.exchange(copy, end, told)
            for at, record in enumerate(copy.records):
                if isinstance(record, GroupExpired | GroupDeleted):
                    self._said.forgotten_at[record.group_id] = at

    def look_back(self) -> None:
        """Check in the end that nothing below a committed offset is missing from the story."""
        for log in self.logs:
            for group_id, group in log.groups.items():
                gap = group.history.gap()
                if gap is not None:
                    raise ViolationError("lost-record", f"group {group_id}: {gap}")
        outputs = self.facts.outputs
        self.coverage["output written once"] += outputs.judged
        self.coverage["output written again under its number"] += outputs.repeated
        self.coverage["excuse a record is written again by decision"] += outputs.excused
        self.counts.delivered, self.counts.duplicates = self.facts.delivered, self.facts.duplicates

    def look_for_unanswered(self, now_ms: int) -> None:
        """Check in the end that whoever asked was answered, or closed so that he can ask again."""
        life = self._said.life
        for (connection_id, _), asked in life.asked.items():
            if now_ms - asked.arrived_ms > LONGEST_ANSWER_MS and connection_id not in life.gone | life.closing:
                raise ViolationError("unanswered", f"{asked.request} was never answered, and its connection is open")

    # ---- requests ---------------------------------------------------------------------------------------------------

    def asked(self, connection_id: int, correlation_id: int, request: Request, shard: int, now_ms: int) -> None:
        """Note that a request reaches the node."""
        self._note_asked(connection_id, correlation_id, request, shard, self._said.durable[shard], now_ms)
        member = self._said.life.bound.get(connection_id)
        if member is not None:
            self._said.life.sessions[member].heard_ms = now_ms

    def asked_by_operator(
        self, connection_id: int, correlation_id: int, request: Request, shard: int, known_end: int, now_ms: int
    ) -> None:
        """Note that an operator's request reaches the node; `known_end` was durable when it was sent."""
        self._note_asked(connection_id, correlation_id, request, shard, known_end, now_ms)

    def _note_asked(
        self, connection_id: int, correlation_id: int, request: Request, shard: int, known_end: int, now_ms: int
    ) -> None:
        member = self._said.life.bound.get(connection_id)
        whole = self._said.life.listed.whole(connection_id, request)
        asked = Asked(whole, member, shard, self.logs[shard].end, known_end, now_ms)
        self._said.life.asked[connection_id, correlation_id] = asked

    def closes(self, connection_id: int) -> None:
        """Note that the node closes a connection: whoever is behind it is no member by it any more."""
        life = self._said.life
        life.closing.add(connection_id)
        member = life.bound.get(connection_id)
        session = life.ended.get(connection_id) if member is None else life.sessions[member]
        if session is not None:
            session.is_closed_by_node = True

    def durable_end(self, shard: int) -> int:
        return self._said.durable[shard]

    def closed(self, connection_id: int, now_ms: int) -> None:
        """Note that the node learns of a closed connection."""
        life = self._said.life
        life.gone.add(connection_id)
        member = life.bound.pop(connection_id, None)
        if member is not None:
            life.ended[connection_id] = life.sessions[member]
            life.sessions[member].closed_ms = now_ms

    # ---- what is said -----------------------------------------------------------------------------------------------

    # ---- what is said -----------------------------------------------------------------------------------------------

    def responded(self, connection_id: int, correlation_id: int, response: Response) -> None:
        """Check an answer that leaves the node."""
        if (connection_id, correlation_id) in self._said.life.void:
            raise ViolationError("said-after-resign", f"{response} was decided by a leader that has resigned")
        check_answer(self._said, connection_id, correlation_id, response)

    def pushed(self, connection_id: int, push: Push, shard: int) -> None:
        """Check a push that leaves the node."""
        if connection_id in self._said.life.deposed:
            raise ViolationError("said-after-resign", f"{push} was decided by a leader that has resigned")
        check_push(self._said, connection_id, push, shard)

    def noticed(self, notice: Notice, shard: int, now_ms: int) -> None:
        """Check what the node gives out as a fact."""
        check_notice(self._said, notice, shard, now_ms)
