"""Answers that leave the node: what they say is on disk, is what the log says, and is no older than it may be."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from coordinator.core.groups.hard.records import Advanced
from coordinator.core.groups.partitions.partition_table import TopicPartition
from coordinator.protocol.claim_columns import claims_of, each_status
from coordinator.protocol.columns import OffsetToCommit, one_by_one, results_of
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    Advance,
    AdvanceResponse,
    CommitOffsets,
    CommitOffsetsResponse,
    ConfirmClaims,
    ConfirmClaimsResponse,
    DescribeGroup,
    DescribeGroupResponse,
    FetcherStopped,
    FetcherStoppedResponse,
    FetchOffsets,
    FetchOffsetsResponse,
    FinishClaims,
    FinishClaimsResponse,
    ListClaims,
    ListClaimsResponse,
    Ping,
    PingResponse,
    RegisterConsumer,
    RegisterConsumerResponse,
    Request,
    Response,
)
from coordinator.protocol.messages.operators import ResetOffsets, ResetOffsetsResponse
from coordinator.protocol.parts import Claim, ClaimState, ClaimStatus, DescribedUpTo, TopicOffsets
from tests.helpers.claim_answers import advanced, finished_results
from tests.sim.divided import must_not_divide
from tests.sim.log.state import ClaimEntry, GroupModel, ViolationError
from tests.sim.refusals import count_refusals, must_be_declared
from tests.sim.said.state import Asked, Said

REFUSED_TO_OTHERS = frozenset({ErrorCode.FENCED_OWNER_EPOCH, ErrorCode.CLAIM_CLOSED})


def check_answer(said: Said, connection_id: int, correlation_id: int, response: Response) -> None:
    """Check an answer that leaves the node."""
    asked = said.life.asked.pop((connection_id, correlation_id))
    if asked.member is None:
        # Sent behind a registration that was not answered yet: it is asked by whom that made of the connection.
        removed, _ = said.life.removed.get(connection_id, (None, 0))
        asked = replace(asked, member=said.life.bound.get(connection_id, removed))
    shard = asked.shard
    must_be_declared(asked.request, response)
    count_refusals(said.coverage, response)
    is_of_old_group = asked.end_at_arrival <= said.forgotten_at.get(_group_of(asked), -1)
    if is_of_old_group and not isinstance(asked.request, RegisterConsumer):
        said.coverage["excuse an answer is of a group that was forgotten"] += 1
        return
    match asked.request, response:
        case Advance(), AdvanceResponse(error=ErrorCode.NONE):
            _advanced(said, asked, response, shard)
        case ConfirmClaims(), ConfirmClaimsResponse(error=ErrorCode.NONE):
            named = tuple(claims_of(asked.request.claims))
            _statuses(said, asked, named, each_status(response.claims, named), shard)
        case ListClaims(), ListClaimsResponse(error=ErrorCode.NONE):
            said.coverage["listed " + ("claims" if asked.request.claims else "starts")] += 1
        case RegisterConsumer(), RegisterConsumerResponse(error=ErrorCode.NONE):
            _registered(said, connection_id, asked, response, shard)
        case FetcherStopped(), FetcherStoppedResponse():
            for final, result in zip(asked.request.partitions, response.results, strict=True):
                if result.error is ErrorCode.NONE:
                    _is_let_go(said, asked, (final.topic, final.partition), final.owner_epoch, shard)
        case CommitOffsets(group_id=group_id), CommitOffsetsResponse(error=ErrorCode.NONE):
            _committed(said, asked, group_id, asked.request.offsets, response)
        case FinishClaims(group_id=group_id), FinishClaimsResponse(error=ErrorCode.NONE):
            named = tuple(claims_of(asked.request.claims))
            for claim, result in zip(named, finished_results(response, named), strict=True):
                if result.error is ErrorCode.NONE:
                    partition = (claim.topic, claim.partition)
                    _is_committed(said, asked, group_id, partition, claim.until_offset, claim.owner_epoch)
                    said.coverage["commit by a listener"] += 1
        case ResetOffsets(group_id=group_id, is_dry_run=False), ResetOffsetsResponse(error=ErrorCode.NONE):
            for reset in response.results:
                if reset.error is ErrorCode.NONE and not reset.is_pending and reset.new_offset is not None:
                    _is_committed(said, asked, group_id, (reset.topic, reset.partition), reset.new_offset, None)
        case FetchOffsets(), FetchOffsetsResponse(error=ErrorCode.NONE):
            seen = {(part.topic, part.partition): part.offset for part in response.offsets}
            page = _Page(asked.request.after, response.up_to, asked.request.partitions)
            _read(said, asked, asked.request.group_id, seen, shard, page)
        case DescribeGroup(), DescribeGroupResponse(error=ErrorCode.NONE):
            seen = {(p.topic, p.partition): p.committed for p in response.partitions if p.committed is not None}
            page = _Page(_place_of(asked.request.after), _place_of(response.up_to))
            _read(said, asked, asked.request.group_id, seen, shard, page)
            said.group_epoch_seen(asked.request.group_id, response.group_epoch)
        case Ping(), PingResponse(error=ErrorCode.NONE) if asked.member is not None:
            said.group_epoch_seen(asked.member[0], response.group_epoch)
            _committed(said, asked, asked.member[0], asked.request.offsets, response)
        case _:
            pass


def _committed(
    said: Said,
    asked: Asked,
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
            _is_committed(said, asked, group_id, partition, wish.offset, wish.owner_epoch)
            said.counts.acked += 1
            said.coverage["commit " + _commit_kind(asked.request, wish)] += 1
        elif result.error in REFUSED_TO_OTHERS:
            said.counts.fenced += 1


def _model_of(said: Said, asked: Asked, shard: int) -> GroupModel:
    assert asked.member is not None, f"{asked.request} is answered on a connection that is no member's"
    return said.group(asked.member[0], shard)


def _advanced(said: Said, asked: Asked, response: AdvanceResponse, shard: int) -> None:
    group = _model_of(said, asked, shard)
    request = asked.request
    assert isinstance(request, Advance)
    assert asked.member is not None
    _must_keep_offered(said, asked, request, shard)
    answer = advanced(response, claims_of(request.finished), claims_of(request.claims), request.released)
    for claim, result in zip(claims_of(request.finished), answer.finished, strict=True):
        partition = (claim.topic, claim.partition)
        if result.error is ErrorCode.NONE and claim.from_offset < claim.until_offset:
            _is_committed(said, asked, asked.member[0], partition, claim.until_offset, claim.owner_epoch)
            said.counts.acked += 1
        elif result.error in REFUSED_TO_OTHERS:
            said.counts.fenced += 1
            if result.committed is not None:  # it goes on from there
                said.facts.reach(claim.topic_id, claim.partition, result.committed)
    for claim, result in zip(claims_of(request.claims), answer.claims, strict=True):
        if result.error is ErrorCode.NONE:
            entries = _entries(said, group, claim)
            if not entries:
                raise ViolationError("phantom-claim", f"{claim} is accepted and not in the log")
            said.must_be_durable(shard, entries[-1].opened_at, claim)
        elif result.error is ErrorCode.FENCED_OWNER_EPOCH:
            said.counts.fenced += 1
    for final, result in zip(request.released, answer.released, strict=True):
        if result.error is ErrorCode.NONE:
            _is_let_go(said, asked, (final.topic, final.partition), final.owner_epoch, shard)


def _must_keep_offered(said: Said, asked: Asked, request: Advance, shard: int) -> None:
    """A further request of a micro-batch adds to what those before it have claimed."""
    assert asked.member is not None
    for record in said.logs[shard].records[asked.end_at_arrival :]:
        if isinstance(record, Advanced) and record.member_id == asked.member[1]:
            if request.keeps_offered and not record.keeps_offered:
                raise ViolationError("portion-dropped", f"{request} keeps what is offered, and the log has {record}")
            return


def _is_committed(
    said: Said, asked: Asked, group_id: str, partition: TopicPartition, offset: int, owner_epoch: int | None
) -> None:
    commits = said.group(group_id, asked.shard).commits.get(partition, ())
    fitting = [each.at for each in commits if (each.offset, each.owner_epoch) == (offset, owner_epoch)]
    if not fitting:
        raise ViolationError(
            "lost-commit", f"{partition} at {offset} by {owner_epoch} is acknowledged, the log has {commits}"
        )
    at = next((at for at in fitting if at >= asked.end_at_arrival), fitting[-1])
    said.must_be_durable(asked.shard, at, f"commit of {partition} at {offset}")


def _is_let_go(said: Said, asked: Asked, partition: TopicPartition, owner_epoch: int, shard: int) -> None:
    group = _model_of(said, asked, shard)
    assert asked.member is not None
    owner = group.owners.get(partition)
    if owner is not None and (owner.member_id, owner.owner_epoch) == (asked.member[1], owner_epoch):
        raise ViolationError("lost-release", f"letting go of {partition} is acknowledged and it is {owner}'s")
    ended_at = group.ended.get((partition, owner_epoch))
    if ended_at is not None:
        said.must_be_durable(shard, ended_at, f"release of {partition}")


def _entries(said: Said, group: GroupModel, claim: Claim) -> list[ClaimEntry]:
    entries = group.claims.get(((claim.topic, claim.partition), claim.owner_epoch), ())
    return [entry for entry in entries if entry.range == (claim.from_offset, claim.until_offset)]


def _statuses(said: Said, asked: Asked, claims: Sequence[Claim], statuses: Sequence[ClaimStatus], shard: int) -> None:
    group = _model_of(said, asked, shard)
    assert asked.member is not None
    for claim, status in zip(claims, statuses, strict=True):
        mine = [entry for entry in _entries(said, group, claim) if entry.member_id == asked.member[1]]
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
        said.must_be_durable(shard, entry.opened_at, claim)
        if status.state is ClaimState.RUNNING:
            if entry.running_at is None:
                raise ViolationError("phantom-claim", f"{claim} is said to run and does not")
            said.must_be_durable(shard, entry.running_at, claim)


def _registered(said: Said, connection_id: int, asked: Asked, response: RegisterConsumerResponse, shard: int) -> None:
    request = asked.request
    assert isinstance(request, RegisterConsumer)
    member = (request.group_id, response.member_id)
    group = said.group(request.group_id, shard)
    accepted = said.life.accepted.get(member)
    if not accepted:
        raise ViolationError("no-such-member", f"{member} is told that it is let in, and was not")
    end = accepted.popleft()
    said.must_be_durable(shard, end - 1, f"member {response.member_id}")
    if end <= said.forgotten_at.get(request.group_id, -1):
        said.life.removed[connection_id] = (member, end - 1)
        return
    if group.is_superseded(response.member_id, request.incarnation, end):
        said.life.removed[connection_id] = (member, end - 1)
    else:
        left = said.life.closing | said.life.gone
        living = [other for at, (_, other) in said.life.bound.items() if at not in left]
        must_not_divide(group, response.member_id, living)
        said.life.bound[connection_id] = member
        if connection_id in said.life.gone:
            said.life.sessions[member].closed_ms = asked.arrived_ms
    said.group_epoch_seen(request.group_id, response.group_epoch)
    bound = replace(asked, member=member)
    said.life.processes[connection_id] = request.incarnation
    statuses = each_status(response.claims, request.claims)
    _statuses(said, bound, request.claims, statuses, shard)
    said.counts.resumed += sum(status.state is not ClaimState.CLOSED for status in statuses)


@dataclass(frozen=True, slots=True)
class _Page:
    """One page of an answer: the partitions behind one and up to another, of all or in the order in which some came."""

    after: TopicPartition | None
    up_to: TopicPartition | None
    named: Sequence[TopicPartition] | None = None

    def has(self, partition: TopicPartition) -> bool:
        """Say whether a page is about a partition."""
        if self.named is not None:
            begin = 0 if self.after is None else self.named.index(self.after) + 1
            end = len(self.named) if self.up_to is None else self.named.index(self.up_to) + 1
            return partition in self.named[begin:end]
        is_behind = self.after is None or partition > self.after
        return is_behind and (self.up_to is None or partition <= self.up_to)


def _read(said: Said, asked: Asked, group_id: str, seen: dict[TopicPartition, int], shard: int, page: _Page) -> None:
    """Check what one page of an answer says."""
    said.counts.reads += 1
    said.coverage["page " + ("last" if page.up_to is None else "of more")] += 1
    for partition, commits in said.group(group_id, shard).commits.items():
        if not page.has(partition):
            continue
        visible = [commit for commit in commits if commit.at < said.durable[shard]]
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


def _group_of(asked: Asked) -> str:
    return asked.member[0] if asked.member is not None else getattr(asked.request, "group_id", "")


def _commit_kind(request: Request, wish: OffsetToCommit) -> str:
    if isinstance(request, Ping):
        return "by ping"
    return "by an operator" if wish.owner_epoch is None else "by a request"


def _place_of(mark: DescribedUpTo | None) -> TopicPartition | None:
    """Return behind which partition a page begins or ends; members come before all partitions."""
    return None if mark is None else (mark.topic, mark.partition)
