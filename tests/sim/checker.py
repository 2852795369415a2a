"""What is checked after every event: what the log says, what is said to others, and what they were told before.

Whatever leaves the node must already be on disk, because somebody acts on it: an acknowledged commit, a grant, a claim
that runs. And whatever was said once stays true after a crash. Reads return what was committed and no older than what
the reader could know. Nobody is declared dead before its time.
"""

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from coordinator.core.effects import Notice
from coordinator.core.groups.operator_records import GroupDeleted
from coordinator.core.groups.partition_table import TopicPartition
from coordinator.core.groups.records import Granted, GroupExpired, MemberRemoved
from coordinator.core.groups.state import ShardState
from coordinator.core.limits import Limits
from coordinator.protocol.claim_columns import claims_of, each_status
from coordinator.protocol.columns import OffsetToCommit, one_by_one, results_of
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    Advance,
    AdvanceResponse,
    ClaimsFinished,
    CommitOffsets,
    CommitOffsetsResponse,
    ConfirmClaims,
    ConfirmClaimsResponse,
    DescribeGroup,
    DescribeGroupResponse,
    Fenced,
    FetcherStopped,
    FetcherStoppedResponse,
    FetcherTaken,
    FetchOffsets,
    FetchOffsetsResponse,
    FinishClaims,
    FinishClaimsResponse,
    LeaveGroup,
    Ping,
    PingResponse,
    Push,
    RegisterConsumer,
    RegisterConsumerResponse,
    Request,
    Response,
    StartFetcher,
    StopFetcher,
)
from coordinator.protocol.operator_messages import ResetOffsets, ResetOffsetsResponse
from coordinator.protocol.parts import Claim, ClaimState, ClaimStatus, DescribedUpTo, StartPartition, TopicOffsets
from tests.helpers.claim_answers import advanced, finished_results
from tests.sim.divided import must_not_divide
from tests.sim.facts import WorldFacts
from tests.sim.kafka import Kafka
from tests.sim.log.model import NO_LOG, LogCopy, LogModel
from tests.sim.log.state import ClaimEntry, GroupModel, ViolationError
from tests.sim.refusals import count_refusals, must_be_declared
from tests.sim.told_epochs import ToldEpochs

REFUSED_TO_OTHERS = frozenset({ErrorCode.FENCED_OWNER_EPOCH, ErrorCode.CLAIM_CLOSED})
ACCEPTED = frozenset({"member-joined", "member-returned", "member-replaced"})


@dataclass(slots=True)
class Counts:
    """What a run has exercised."""

    acked: int = 0
    handovers: int = 0
    fenced: int = 0
    resets: int = 0
    takeovers: int = 0
    resumed: int = 0
    reads: int = 0
    duplicates: int = 0
    delivered: int = 0


@dataclass(frozen=True, slots=True)
class _Asked:
    """A request under way: where the log was when it arrived, and how much of it its sender could know."""

    request: Request
    member: tuple[str, str] | None
    shard: int
    end_at_arrival: int
    known_end: int
    arrived_ms: int


@dataclass(slots=True)
class _Session:
    """What the outside knows of a member's session in this life of the node; times are the node's."""

    heard_ms: int
    closed_ms: int | None = None
    is_closed_by_node: bool = False


@dataclass(slots=True)
class _Life:
    """What ends with the node's process."""

    started_ms: int
    asked: dict[tuple[int, int], _Asked] = field(default_factory=dict)
    bound: dict[int, tuple[str, str]] = field(default_factory=dict)
    removed: dict[int, tuple[tuple[str, str], int]] = field(default_factory=dict)
    """Connections whose member was removed, and where: they are nobody's, but may still be told so."""
    accepted: dict[tuple[str, str], deque[int]] = field(default_factory=dict)
    """Where the log ended whenever a member was let in and was not told yet."""
    gone: set[int] = field(default_factory=set)
    """Connections that closed."""
    processes: dict[int, str] = field(default_factory=dict)
    """The process behind each connection of a member."""
    closing: set[int] = field(default_factory=set)
    """Connections that the node has closed."""
    sessions: dict[tuple[str, str], _Session] = field(default_factory=dict)


class Checker:
    """The checker of one run."""

    def __init__(self, kafka: Kafka, shards: int, limits: Limits) -> None:
        self._limits = limits
        self.facts = WorldFacts(kafka)
        self.logs = [LogModel(shard, self.facts, limits) for shard in range(shards)]
        self.epochs = ToldEpochs()
        self.counts = Counts()
        self.coverage: Counter[str] = Counter()
        """How often what was exercised: faults, records, notices, refusals, by name."""
        self._durable = [0] * shards
        self._told = [0] * shards
        self._life = _Life(0)
        self._group_epochs: dict[str, int] = {}
        self._forgotten_at: dict[str, int] = {}
        """Where in the log a group was deleted or expired last."""

    def group(self, group_id: str, shard: int) -> GroupModel:
        return self.logs[shard].groups.get(group_id) or GroupModel()

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
                self._unbind((record.group_id, record.member_id), at)
            elif isinstance(record, GroupExpired | GroupDeleted):
                self._group_epochs.pop(record.group_id, None)
                self._forgotten_at[record.group_id] = at
        self.counts.handovers = sum(each.handovers for each in self.logs)
        self.counts.resets = sum(each.resets for each in self.logs)

    def _unbind(self, member: tuple[str, str], at: int) -> None:
        for connection_id in [key for key, bound in self._life.bound.items() if bound == member]:
            self._life.removed[connection_id] = (self._life.bound.pop(connection_id), at)

    def became_durable(self, shard: int, end_offset: int) -> None:
        self._durable[shard] = max(self._durable[shard], end_offset)

    def recovered(self, shard: int, end_offset: int, state: ShardState, now_ms: int) -> None:
        """Check what is there after a crash."""
        log = self.logs[shard]
        if end_offset < self._told[shard]:
            raise ViolationError(
                "lost-commit",
                f"shard {shard}: the log ends at {end_offset} after a crash, but what stands at "
                f"{self._told[shard] - 1} was told to others",
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
            if self._forgotten_at.get(group_id, -1) >= end_offset:
                del self._forgotten_at[group_id]
        self._durable[shard] = end_offset
        self._life = _Life(now_ms)

    def read_again(self, shard: int, end_offset: int) -> None:
        """Check what a node reads of a shard that met a bug: all that was handed to the disk, and nothing else."""
        if end_offset != self.logs[shard].end:
            raise ViolationError(
                "state-differs", f"shard {shard} is read again to {end_offset}, and {self.logs[shard].end} were written"
            )
        self._durable[shard] = end_offset
        # What a node remembers beside its log, such as who was late, is gone as with a restart.
        self.logs[shard].cut(end_offset)

    def copy_logs(self) -> list[tuple[LogCopy, int]]:
        """Return what a copy of the disk has of each log, and its end."""
        return [(log.copy(), end) for log, end in zip(self.logs, self._durable, strict=True)]

    def disk_exchanged(self, copies: Sequence[tuple[LogCopy, int]] | None) -> None:
        """Take note that the coordinator gets another disk: what it said may be lost, and who was a member is known."""
        self._told = [0] * len(self._told)
        self._group_epochs.clear()
        self._forgotten_at.clear()
        self.facts.begin_anew()
        copies = copies or [(NO_LOG, 0)] * len(self.logs)
        self._durable = [end for _, end in copies]
        for log, (copy, end) in zip(self.logs, copies, strict=True):
            log.exchange(copy, end)
            for at, record in enumerate(copy.records):
                if isinstance(record, GroupExpired | GroupDeleted):
                    self._forgotten_at[record.group_id] = at

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
        self.counts.delivered, self.counts.duplicates = self.facts.delivered, self.facts.duplicates

    # ---- requests ---------------------------------------------------------------------------------------------------

    def asked(self, connection_id: int, correlation_id: int, request: Request, shard: int, now_ms: int) -> None:
        """Note that a request reaches the node."""
        self._note_asked(connection_id, correlation_id, request, shard, self._durable[shard], now_ms)
        member = self._life.bound.get(connection_id)
        if member is not None:
            self._life.sessions[member].heard_ms = now_ms

    def asked_by_operator(
        self, connection_id: int, correlation_id: int, request: Request, shard: int, known_end: int
    ) -> None:
        """Note that an operator's request reaches the node; `known_end` was durable when it was sent."""
        self._note_asked(connection_id, correlation_id, request, shard, known_end, 0)

    def _note_asked(
        self, connection_id: int, correlation_id: int, request: Request, shard: int, known_end: int, now_ms: int
    ) -> None:
        member = self._life.bound.get(connection_id)
        asked = _Asked(request, member, shard, self.logs[shard].end, known_end, now_ms)
        self._life.asked[connection_id, correlation_id] = asked

    def closes(self, connection_id: int) -> None:
        """Note that the node closes a connection: whoever is behind it is no member by it any more."""
        self._life.closing.add(connection_id)
        member = self._life.bound.get(connection_id)
        if member is not None:
            self._life.sessions[member].is_closed_by_node = True

    def durable_end(self, shard: int) -> int:
        return self._durable[shard]

    def closed(self, connection_id: int, now_ms: int) -> None:
        """Note that the node learns of a closed connection."""
        self._life.gone.add(connection_id)
        member = self._life.bound.pop(connection_id, None)
        if member is not None:
            self._life.sessions[member].closed_ms = now_ms

    # ---- what is said -----------------------------------------------------------------------------------------------

    def responded(self, connection_id: int, correlation_id: int, response: Response) -> None:
        """Check an answer that leaves the node."""
        asked = self._life.asked.pop((connection_id, correlation_id))
        shard = asked.shard
        must_be_declared(asked.request, response)
        count_refusals(self.coverage, response)
        is_of_old_group = asked.end_at_arrival <= self._forgotten_at.get(_group_of(asked), -1)
        if is_of_old_group and not isinstance(asked.request, RegisterConsumer):
            return
        match asked.request, response:
            case Advance(), AdvanceResponse(error=ErrorCode.NONE):
                self._advanced(asked, response, shard)
            case ConfirmClaims(), ConfirmClaimsResponse(error=ErrorCode.NONE):
                named = tuple(claims_of(asked.request.claims))
                self._statuses(asked, named, each_status(response.claims, named), shard)
            case RegisterConsumer(), RegisterConsumerResponse(error=ErrorCode.NONE):
                self._registered(connection_id, asked, response, shard)
            case FetcherStopped(), FetcherStoppedResponse():
                for final, result in zip(asked.request.partitions, response.results, strict=True):
                    if result.error is ErrorCode.NONE:
                        self._is_let_go(asked, (final.topic, final.partition), final.owner_epoch, shard)
            case CommitOffsets(group_id=group_id), CommitOffsetsResponse(error=ErrorCode.NONE):
                self._committed(asked, group_id, asked.request.offsets, response)
            case FinishClaims(group_id=group_id), FinishClaimsResponse(error=ErrorCode.NONE):
                named = tuple(claims_of(asked.request.claims))
                for claim, result in zip(named, finished_results(response, named), strict=True):
                    if result.error is ErrorCode.NONE:
                        partition = (claim.topic, claim.partition)
                        self._is_committed(asked, group_id, partition, claim.until_offset, claim.owner_epoch)
                        self.coverage["commit by a listener"] += 1
            case ResetOffsets(group_id=group_id, is_dry_run=False), ResetOffsetsResponse(error=ErrorCode.NONE):
                for reset in response.results:
                    if reset.error is ErrorCode.NONE and not reset.is_pending and reset.new_offset is not None:
                        self._is_committed(asked, group_id, (reset.topic, reset.partition), reset.new_offset, None)
            case FetchOffsets(), FetchOffsetsResponse(error=ErrorCode.NONE):
                seen = {(part.topic, part.partition): part.offset for part in response.offsets}
                self._read(asked, asked.request.group_id, seen, shard, asked.request.after, response.up_to)
            case DescribeGroup(), DescribeGroupResponse(error=ErrorCode.NONE):
                seen = {(p.topic, p.partition): p.committed for p in response.partitions if p.committed is not None}
                after, up_to = _place_of(asked.request.after), _place_of(response.up_to)
                self._read(asked, asked.request.group_id, seen, shard, after, up_to)
                self._group_epoch_seen(asked.request.group_id, response.group_epoch)
            case Ping(), PingResponse(error=ErrorCode.NONE) if asked.member is not None:
                self._group_epoch_seen(asked.member[0], response.group_epoch)
                self._committed(asked, asked.member[0], asked.request.offsets, response)
            case _:
                pass

    def _committed(
        self,
        asked: _Asked,
        group_id: str,
        columns: Sequence[TopicOffsets],
        response: CommitOffsetsResponse | PingResponse,
    ) -> None:
        wishes = tuple(one_by_one(columns))
        if response.accepted + len(response.refused) != len(wishes):
            raise ViolationError("commit-unanswered", f"{asked.request} is answered by {response}")
        for wish, result in zip(wishes, results_of(wishes, response.refused), strict=True):
            if result.error is ErrorCode.NONE:
                partition = (wish.topic, wish.partition)
                self._is_committed(asked, group_id, partition, wish.offset, wish.owner_epoch)
                self.counts.acked += 1
                self.coverage["commit " + _commit_kind(asked.request, wish)] += 1
            elif result.error in REFUSED_TO_OTHERS:
                self.counts.fenced += 1

    def _must_be_durable(self, shard: int, at: int, what: object) -> None:
        if at >= self._durable[shard]:
            raise ViolationError(
                "said-before-durable",
                f"shard {shard}: {what} is said and record {at} is not on disk, which ends at {self._durable[shard]}",
            )
        self._told[shard] = max(self._told[shard], at + 1)

    def _group_epoch_seen(self, group_id: str, group_epoch: int) -> None:
        if group_epoch < self._group_epochs.get(group_id, 0):
            raise ViolationError("epoch-regress", f"{group_id}: group epoch {group_epoch} is shown after a greater one")
        self._group_epochs[group_id] = group_epoch

    def _model_of(self, asked: _Asked, shard: int) -> GroupModel:
        assert asked.member is not None, f"{asked.request} is answered on a connection that is no member's"
        return self.group(asked.member[0], shard)

    def _advanced(self, asked: _Asked, response: AdvanceResponse, shard: int) -> None:
        group = self._model_of(asked, shard)
        request = asked.request
        assert isinstance(request, Advance)
        assert asked.member is not None
        answer = advanced(response, claims_of(request.finished), claims_of(request.claims), request.released)
        for claim, result in zip(claims_of(request.finished), answer.finished, strict=True):
            partition = (claim.topic, claim.partition)
            if result.error is ErrorCode.NONE and claim.from_offset < claim.until_offset:
                self._is_committed(asked, asked.member[0], partition, claim.until_offset, claim.owner_epoch)
                self.counts.acked += 1
            elif result.error in REFUSED_TO_OTHERS:
                self.counts.fenced += 1
                if result.committed is not None:  # it goes on from there
                    self.facts.reach(claim.topic_id, claim.partition, result.committed)
        for claim, result in zip(claims_of(request.claims), answer.claims, strict=True):
            if result.error is ErrorCode.NONE:
                entries = self._entries(group, claim)
                if not entries:
                    raise ViolationError("phantom-claim", f"{claim} is accepted and not in the log")
                self._must_be_durable(shard, entries[-1].opened_at, claim)
            elif result.error is ErrorCode.FENCED_OWNER_EPOCH:
                self.counts.fenced += 1
        for final, result in zip(request.released, answer.released, strict=True):
            if result.error is ErrorCode.NONE:
                self._is_let_go(asked, (final.topic, final.partition), final.owner_epoch, shard)

    def _is_committed(
        self, asked: _Asked, group_id: str, partition: TopicPartition, offset: int, owner_epoch: int | None
    ) -> None:
        commits = self.group(group_id, asked.shard).commits.get(partition, ())
        fitting = [each.at for each in commits if (each.offset, each.owner_epoch) == (offset, owner_epoch)]
        if not fitting:
            raise ViolationError(
                "lost-commit", f"{partition} at {offset} by {owner_epoch} is acknowledged, the log has {commits}"
            )
        at = next((at for at in fitting if at >= asked.end_at_arrival), fitting[-1])
        self._must_be_durable(asked.shard, at, f"commit of {partition} at {offset}")

    def _is_let_go(self, asked: _Asked, partition: TopicPartition, owner_epoch: int, shard: int) -> None:
        group = self._model_of(asked, shard)
        assert asked.member is not None
        owner = group.owners.get(partition)
        if owner is not None and (owner.member_id, owner.owner_epoch) == (asked.member[1], owner_epoch):
            raise ViolationError("lost-release", f"letting go of {partition} is acknowledged and it is {owner}'s")
        ended_at = group.ended.get((partition, owner_epoch))
        if ended_at is not None:
            self._must_be_durable(shard, ended_at, f"release of {partition}")

    def _entries(self, group: GroupModel, claim: Claim) -> list[ClaimEntry]:
        entries = group.claims.get(((claim.topic, claim.partition), claim.owner_epoch), ())
        return [entry for entry in entries if entry.range == (claim.from_offset, claim.until_offset)]

    def _statuses(self, asked: _Asked, claims: Sequence[Claim], statuses: Sequence[ClaimStatus], shard: int) -> None:
        group = self._model_of(asked, shard)
        assert asked.member is not None
        for claim, status in zip(claims, statuses, strict=True):
            mine = [entry for entry in self._entries(group, claim) if entry.member_id == asked.member[1]]
            open_since_asked = [
                entry for entry in mine if entry.closed_at is None or entry.closed_at >= asked.end_at_arrival
            ]
            if status.state is ClaimState.CLOSED:
                if any(entry.closed_at is None and entry.opened_at < asked.end_at_arrival for entry in mine):
                    raise ViolationError("claim-denied", f"{claim} is open and {status} is said")
                continue
            if not open_since_asked:
                raise ViolationError("phantom-claim", f"{claim} is said to be open and is not: {mine}")
            entry = open_since_asked[-1]
            self._must_be_durable(shard, entry.opened_at, claim)
            if status.state is ClaimState.RUNNING:
                if entry.running_at is None:
                    raise ViolationError("phantom-claim", f"{claim} is said to run and does not")
                self._must_be_durable(shard, entry.running_at, claim)

    def _registered(self, connection_id: int, asked: _Asked, response: RegisterConsumerResponse, shard: int) -> None:
        request = asked.request
        assert isinstance(request, RegisterConsumer)
        member = (request.group_id, response.member_id)
        group = self.group(request.group_id, shard)
        accepted = self._life.accepted.get(member)
        if not accepted:
            raise ViolationError("no-such-member", f"{member} is told that it is let in, and was not")
        end = accepted.popleft()
        self._must_be_durable(shard, end - 1, f"member {response.member_id}")
        if end <= self._forgotten_at.get(request.group_id, -1):
            self._life.removed[connection_id] = (member, end - 1)
            return
        if group.is_superseded(response.member_id, request.incarnation, end):
            self._life.removed[connection_id] = (member, end - 1)
        else:
            left = self._life.closing | self._life.gone
            living = [other for at, (_, other) in self._life.bound.items() if at not in left]
            must_not_divide(group, response.member_id, living)
            self._life.bound[connection_id] = member
            if connection_id in self._life.gone:
                self._life.sessions[member].closed_ms = asked.arrived_ms
        self._group_epoch_seen(request.group_id, response.group_epoch)
        bound = replace(asked, member=member)
        self._life.processes[connection_id] = request.incarnation
        self._statuses(bound, request.claims, response.claims, shard)
        self.counts.resumed += sum(status.state is not ClaimState.CLOSED for status in response.claims)

    def _read(
        self,
        asked: _Asked,
        group_id: str,
        seen: dict[TopicPartition, int],
        shard: int,
        after: TopicPartition | None,
        up_to: TopicPartition | None,
    ) -> None:
        """Check what one page of an answer says, which is about the partitions behind one and up to another."""
        self.counts.reads += 1
        self.coverage["page " + ("last" if up_to is None else "of more")] += 1
        for partition, commits in self.group(group_id, shard).commits.items():
            if (after is not None and partition <= after) or (up_to is not None and partition > up_to):
                continue
            visible = [commit for commit in commits if commit.at < self._durable[shard]]
            known = [commit for commit in visible if commit.at < asked.known_end]
            fresh = {commit.offset for commit in visible[len(known) - 1 if known else 0 :]}
            offset = seen.pop(partition, None)
            if offset is None and known and None not in fresh:
                raise ViolationError("lost-commit", f"{partition} of {group_id} is absent and was at {known[-1]}")
            if offset is not None and offset not in fresh:
                name = "phantom-commit" if offset not in {commit.offset for commit in commits} else "stale-read"
                raise ViolationError(name, f"{partition} of {group_id} is read as {offset}; possible are {fresh}")
        if seen:
            raise ViolationError("phantom-commit", f"{group_id}: {seen} is read and nobody committed it")

    def pushed(self, connection_id: int, push: Push, shard: int) -> None:
        """Check a push that leaves the node."""
        bound, removed = self._life.bound.get(connection_id), self._life.removed.get(connection_id)
        if bound is not None:
            member = bound
        elif removed is not None and removed[1] > self._forgotten_at.get(removed[0][0], -1):
            member = removed[0]
        else:
            return
        group = self.group(member[0], shard)
        match push:
            case StartFetcher():
                self._group_epoch_seen(member[0], push.group_epoch)
                for part in push.partitions:
                    partition = (part.topic, part.partition)
                    at = self.logs[shard].places.get(part.owner_epoch)
                    if at is None:
                        raise ViolationError("phantom-grant", f"{part} is said to {member[1]}, and nobody granted it")
                    self._must_be_durable(shard, at, f"grant of {partition} to {member[1]}")
                    granted = self.logs[shard].records[at]
                    process = self._life.processes.get(connection_id, "")
                    number = self.logs[shard].numbers[at]
                    self.epochs.told(process, (part.topic_id, part.partition), part.owner_epoch, number)
                    numbers = getattr(granted, "partitions", (getattr(granted, "partition", None),))
                    if getattr(granted, "member_id", None) != member[1] or part.partition not in numbers:
                        raise ViolationError("phantom-grant", f"{part} is said to {member[1]}, the log says {granted}")
                    if getattr(granted, "is_read_only", False):
                        self._is_start_of_reader(group, granted, part)
                        continue
                    self.facts.reach(part.topic_id, part.partition, part.offset)
                    possible = [commit for commit in group.commits.get(partition, ()) if commit.offset == part.offset]
                    if not possible:
                        raise ViolationError("phantom-commit", f"{part} starts where nobody ever committed")
                    self._must_be_durable(shard, possible[0].at, f"start of {partition}")
            case StopFetcher():
                for owned in push.partitions:
                    partition = (owned.topic, owned.partition)
                    self._must_be_durable(shard, group.stopped[partition, owned.owner_epoch], f"stop of {partition}")
            case ClaimsFinished():
                for claim in push.claims:
                    commits = group.commits.get((claim.topic, claim.partition), ())
                    fitting = [each.at for each in commits if each.owner_epoch == claim.owner_epoch]
                    if not fitting:
                        raise ViolationError("phantom-commit", f"{claim} is said to be committed: {commits}")
                    self._must_be_durable(shard, fitting[0], f"commit of {claim}")
            case FetcherTaken():
                for owned in push.partitions:
                    partition = (owned.topic, owned.partition)
                    self._must_be_durable(shard, group.ended[partition, owned.owner_epoch], f"end of {partition}")
            case Fenced():
                self.counts.fenced += 1
                if removed is not None:
                    self._must_be_durable(shard, removed[1], f"removal of {member[1]}")

    def _is_start_of_reader(self, group: GroupModel, granted: Granted, part: StartPartition) -> None:
        """Check where a member that commits nothing is told to start: there, or at the group's offset."""
        starts = granted.starts
        if starts is not None:
            possible = {starts.position_of(part.partition)[0]}
        else:
            possible = {commit.offset for commit in group.commits.get((part.topic, part.partition), ())}
        if part.offset not in possible:
            raise ViolationError("phantom-commit", f"{part} starts where nobody decided: {granted}")

    def noticed(self, notice: Notice, shard: int, now_ms: int) -> None:
        """Check what the node gives out as a fact."""
        self.coverage[f"notice {notice.kind}"] += 1
        if notice.kind == "taken-over":
            self.counts.takeovers += 1
        member = (notice.group_id, notice.member_id)
        if notice.kind in ACCEPTED:
            self._unbind(member, self.logs[shard].end - 1)
            self._life.sessions[member] = _Session(now_ms)
            self._life.accepted.setdefault(member, deque()).append(self.logs[shard].end)
        if notice.kind == "member-left" and not self._has_asked_to_leave(member):
            raise ViolationError("put-out", f"{member} never asked to leave: {notice.why}")
        if notice.kind != "member-expired":
            return
        session = self._life.sessions.get(member)
        timeout_ms = self._session_timeout_ms(member, shard)
        heard_ms = session.heard_ms if session is not None else self._life.started_ms
        if notice.why.startswith("its connection closed"):
            if (session is None or session.closed_ms is None) and not self._one_closed_while_registering():
                raise ViolationError("expired-too-early", f"{member} never closed a connection: {notice.why}")
        elif now_ms - heard_ms < timeout_ms and not (session is not None and session.is_closed_by_node):
            raise ViolationError(
                "expired-too-early",
                f"{member} was heard {now_ms - heard_ms} ms ago, its time-out is {timeout_ms} ms: {notice.why}",
            )

    def _has_asked_to_leave(self, member: tuple[str, str]) -> bool:
        return any(
            asked.member == member and isinstance(asked.request, LeaveGroup) for asked in self._life.asked.values()
        )

    def _one_closed_while_registering(self) -> bool:
        return any(
            connection_id in self._life.gone
            for (connection_id, _), asked in self._life.asked.items()
            if isinstance(asked.request, RegisterConsumer)
        )

    def _session_timeout_ms(self, member: tuple[str, str], shard: int) -> int:
        for record in reversed(self.logs[shard].records):
            facts = getattr(record, "facts", None)
            if facts is not None and (record.group_id, facts.member_id) == member:
                return int(facts.session_timeout_ms)
        raise ViolationError("no-such-member", f"{member} expires and never joined")


def _group_of(asked: _Asked) -> str:
    return asked.member[0] if asked.member is not None else getattr(asked.request, "group_id", "")


def _commit_kind(request: Request, wish: OffsetToCommit) -> str:
    if isinstance(request, Ping):
        return "by ping"
    return "by an operator" if wish.owner_epoch is None else "by a request"


def _place_of(mark: DescribedUpTo | None) -> TopicPartition | None:
    """Return behind which partition a page begins or ends; members come before all partitions."""
    return None if mark is None else (mark.topic, mark.partition)
