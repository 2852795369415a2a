"""What a shard's log says, read by a second, simpler mind; every record has to make sense after those before it.

This is the part of the checker that looks at decisions: at any place in the log a partition has one owner, only the
owner commits and only what it has read, offsets never go back, epochs only grow, a start is resolved once. The rules
are stated over the records alone; the state that the node itself keeps is compared with the outcome.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

from msgspec import structs

from coordinator.core.groups import operator_records as o
from coordinator.core.groups import records as r
from coordinator.core.groups.state import ShardState, TopicPartition


class ViolationError(AssertionError):
    """A promise was broken; `name` is the anomaly's."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"{name}: {why}")
        self.name = name


class Facts(Protocol):
    """What the rules have to know of the world outside the log."""

    def was_delivered(self, claim: "ClaimEntry", topic_id: str) -> bool:
        """Say whether a range was read by this owner and given to its sink."""

    def was_answered(self, topic: str, topic_id: str, partition: int, offset: int) -> bool:
        """Say whether Kafka ever named this offset of a partition."""


@dataclass(slots=True)
class ClaimEntry:
    """One claim's life; places are offsets of the log."""

    partition: TopicPartition
    member_id: str
    owner_epoch: int
    from_offset: int
    until_offset: int
    opened_at: int
    running_at: int | None = None
    closed_at: int | None = None

    @property
    def range(self) -> tuple[int, int]:
        return self.from_offset, self.until_offset


@dataclass(slots=True)
class Owner:
    """A grant that has not ended; an abandoned one is held by nobody who lives."""

    member_id: str
    topic_id: str
    owner_epoch: int
    is_stopping: bool = False
    is_abandoned: bool = False
    claim: ClaimEntry | None = None


@dataclass(frozen=True, slots=True)
class Commit:
    """An offset written as committed at a place of the log; an operator's has no owner epoch."""

    at: int
    topic_id: str
    offset: int
    owner_epoch: int | None


@dataclass(slots=True)
class GroupModel:
    """One group, with the history of what is asked about later."""

    group_epoch: int = 0
    is_target_in_parts: bool = False
    """More parts of the target of this epoch may follow."""
    handover: str = "takeover"
    resets: dict[TopicPartition, o.PlannedReset] = field(default_factory=dict)
    facts: dict[str, r.MemberFacts] = field(default_factory=dict)
    member_epochs: dict[str, int] = field(default_factory=dict)
    targets: dict[str, frozenset[TopicPartition]] = field(default_factory=dict)
    topics: dict[str, tuple[str, int]] = field(default_factory=dict)
    owners: dict[TopicPartition, Owner] = field(default_factory=dict)
    former_owners: dict[TopicPartition, str] = field(default_factory=dict)
    commits: dict[TopicPartition, list[Commit]] = field(default_factory=dict)
    claims: dict[tuple[TopicPartition, int], list[ClaimEntry]] = field(default_factory=dict)
    ended: dict[tuple[TopicPartition, int], int] = field(default_factory=dict)
    stopped: dict[tuple[TopicPartition, int], int] = field(default_factory=dict)
    joined_at: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    """Places where a process became a member, by member and incarnation."""
    removed_at: dict[str, list[int]] = field(default_factory=dict)

    def committed(self, partition: TopicPartition, topic_id: str) -> int | None:
        """Return the committed offset of a partition of this very topic."""
        commits = self.commits.get(partition)
        if not commits or commits[-1].topic_id not in {"", topic_id}:
            return None
        return commits[-1].offset

    def is_superseded(self, member_id: str, incarnation: str, end: int) -> bool:
        """Say whether a process that was let in when the log ended here has been removed or replaced since."""
        if any(at >= end for at in self.removed_at.get(member_id, ())):
            return True
        return any(
            name == member_id and process != incarnation and places[-1] >= end
            for (name, process), places in self.joined_at.items()
        )


class LogModel:
    """One shard's log."""

    def __init__(self, shard: int, facts: Facts) -> None:
        self.shard = shard
        self._facts = facts
        self.records: list[Any] = []
        self.groups: dict[str, GroupModel] = {}
        self.handovers = 0
        self.resets = 0
        self._newest_epoch = -1

    @property
    def end(self) -> int:
        return len(self.records)

    def append(self, base_offset: int, records: Iterable[bytes]) -> None:
        """Take in what the node wants written."""
        if base_offset != self.end:
            raise ViolationError("log-gap", f"shard {self.shard}: append at {base_offset}, the log ends at {self.end}")
        for data in records:
            self._take(r.decode_record(data))

    def cut(self, end: int) -> None:
        """Forget what a crash has lost: read the log again up to its new end."""
        kept, handovers, resets = self.records[:end], self.handovers, self.resets
        self.records, self.groups, self._newest_epoch = [], {}, -1
        for record in kept:
            self._take(record)
        self.handovers, self.resets = handovers, resets

    def _take(self, record: Any) -> None:
        at = self.end
        self.records.append(record)
        group = self.groups.get(record.group_id)
        if group is None:
            group = self.groups[record.group_id] = GroupModel()
        _RULES[type(record)](self, group, at, record)

    def _broken(self, name: str, at: int, why: str) -> ViolationError:
        return ViolationError(name, f"shard {self.shard}, record {at}: {why}")

    # ---- groups and members -----------------------------------------------------------------------------------------

    def _settings(self, group: GroupModel, at: int, record: r.GroupSettings) -> None:
        self._epoch_grows(group, at, record.group_epoch)
        group.handover = record.handover

    def _epoch_grows(self, group: GroupModel, at: int, group_epoch: int) -> None:
        if group_epoch < group.group_epoch:
            raise self._broken("epoch-regress", at, f"group epoch {group_epoch} after {group.group_epoch}")
        group.group_epoch = group_epoch

    def _topic_seen(self, group: GroupModel, at: int, record: r.TopicSeen) -> None:
        group.topics[record.topic] = (record.topic_id, record.partitions)

    def _topics_matched(self, group: GroupModel, at: int, record: r.TopicsMatched) -> None:
        for member_id in record.member_ids:
            group.facts[member_id] = structs.replace(group.facts[member_id], topics=record.topics)

    def _emptied(self, group: GroupModel, at: int, record: r.GroupEmptied) -> None:
        if group.facts:
            raise self._broken("no-such-member", at, f"{sorted(group.facts)} are members: {record}")

    def _forgotten(self, group: GroupModel, at: int, record: r.GroupExpired | o.GroupDeleted) -> None:
        if group.facts:
            raise self._broken("lost-group", at, f"{sorted(group.facts)} are members: {record}")
        del self.groups[record.group_id]

    def _joined(self, group: GroupModel, at: int, record: r.MemberJoined) -> None:
        member_id = record.facts.member_id
        if record.member_epoch != group.member_epochs.get(member_id, 0):
            raise self._broken("epoch-regress", at, f"{member_id} has {group.member_epochs.get(member_id)}: {record}")
        group.facts[member_id] = record.facts
        group.member_epochs[member_id] = record.member_epoch
        group.targets.setdefault(member_id, frozenset())
        group.joined_at.setdefault((member_id, record.facts.incarnation), []).append(at)
        for owner in group.owners.values():
            if owner.member_id == member_id:
                owner.is_abandoned = False

    def _removed(self, group: GroupModel, at: int, record: r.MemberRemoved) -> None:
        member_id = record.member_id
        if member_id not in group.facts:
            raise self._broken("no-such-member", at, f"{record}")
        del group.facts[member_id], group.member_epochs[member_id], group.targets[member_id]
        group.removed_at.setdefault(member_id, []).append(at)
        for partition in [key for key, owner in group.owners.items() if owner.member_id == member_id]:
            owner = group.owners[partition]
            is_running = owner.claim is not None and owner.claim.running_at is not None
            if record.keeps_running_claims and is_running:
                owner.is_abandoned, owner.is_stopping = True, False
            else:
                self._end(group, at, partition)

    def _targets(self, group: GroupModel, at: int, record: r.TargetsAssigned) -> None:
        is_next_part = group.is_target_in_parts and record.group_epoch == group.group_epoch
        if record.group_epoch <= group.group_epoch and not is_next_part:
            raise self._broken("epoch-regress", at, f"group epoch {record.group_epoch} after {group.group_epoch}")
        group.group_epoch = record.group_epoch
        group.is_target_in_parts = record.is_stale
        for target in record.targets:
            if target.member_id not in group.facts:
                raise self._broken("no-such-member", at, f"{target}")
            group.targets[target.member_id] = frozenset(target.partitions)
        given: set[TopicPartition] = set()
        for member_id, partitions in group.targets.items():
            if given & partitions:
                raise self._broken("double-target", at, f"{sorted(given & partitions)} are given to {member_id} too")
            if any(topic not in group.facts[member_id].topics for topic, _ in partitions):
                raise self._broken("foreign-target", at, f"{member_id} gets {sorted(partitions)}")
            given |= partitions
        if record.is_stale:
            return
        read = {topic for facts in group.facts.values() for topic in facts.topics}
        wanted = {
            (topic, number) for topic in read if topic in group.topics for number in range(group.topics[topic][1])
        }
        held = {key for key, owner in group.owners.items() if self._is_held(group, owner)}
        if given != wanted - held:
            raise self._broken("incomplete-target", at, f"{sorted(wanted ^ given)} are missing or too many")

    def _epochs_advanced(self, group: GroupModel, at: int, record: r.MemberEpochsAdvanced) -> None:
        for member_id in record.member_ids:
            if not group.member_epochs[member_id] <= record.member_epoch <= group.group_epoch:
                raise self._broken(
                    "epoch-regress", at, f"{member_id} was in {group.member_epochs[member_id]}: {record}"
                )
            if any(owner.member_id == member_id and owner.is_stopping for owner in group.owners.values()):
                raise self._broken("epoch-before-revoke", at, f"{member_id} still has to let go")
            group.member_epochs[member_id] = record.member_epoch

    # ---- ownership --------------------------------------------------------------------------------------------------

    def _stop_began(self, group: GroupModel, at: int, record: r.StopBegan) -> None:
        for partition in record.partitions:
            owner = self._owner(group, at, partition, record.member_id)
            owner.is_stopping = True
            group.stopped.setdefault((partition, owner.owner_epoch), at)

    def _granted(self, group: GroupModel, at: int, record: r.Granted) -> None:
        partition = (record.topic, record.partition)
        owner = group.owners.get(partition)
        if owner is not None and not owner.is_abandoned:
            raise self._broken("double-owner", at, f"{owner.member_id} has {partition} still: {record}")
        if record.owner_epoch <= self._newest_epoch:
            raise self._broken("epoch-reuse", at, f"owner epoch {self._newest_epoch} was given already: {record}")
        self._newest_epoch = record.owner_epoch
        if partition not in group.targets.get(record.member_id, frozenset()):
            raise self._broken("grant-beside-target", at, f"{record}")
        if owner is not None and self._is_held(group, owner):
            raise self._broken("hold-broken", at, f"{owner} may come back: {record}")
        self._grant(group, at, partition, Owner(record.member_id, record.topic_id, record.owner_epoch))
        self._start(group, at, record)

    def _is_held(self, group: GroupModel, owner: Owner) -> bool:
        is_running = owner.claim is not None and owner.claim.running_at is not None
        return group.handover == "hold" and owner.is_abandoned and is_running

    def _grant(self, group: GroupModel, at: int, partition: TopicPartition, owner: Owner) -> None:
        if partition in group.owners:
            self._end(group, at, partition)
        before = group.former_owners.get(partition)
        if before is not None and before != owner.member_id:
            self.handovers += 1
        group.former_owners[partition] = owner.member_id
        group.owners[partition] = owner

    def _start(self, group: GroupModel, at: int, record: r.Granted) -> None:
        partition = (record.topic, record.partition)
        committed = group.committed(partition, record.topic_id)
        start = record.start
        if start is None:
            if committed is None:
                raise self._broken("no-start", at, f"nobody said where {partition} starts: {record}")
            return
        if committed is not None:
            raise self._broken("start-resolved-again", at, f"{partition} is at {committed}: {record}")
        hinted = {
            hint.offset
            for facts in group.facts.values()
            for hint in facts.hints
            if (hint.topic, hint.partition) == partition
        }
        if start.offset not in hinted and not self._facts.was_answered(
            record.topic, record.topic_id, record.partition, start.offset
        ):
            raise self._broken("phantom-commit", at, f"nobody ever named offset {start.offset}: {record}")
        self._commit(group, at, start)

    def _reset_applied(self, group: GroupModel, at: int, record: o.ResetApplied) -> None:
        partition = (record.topic, record.partition)
        planned = group.resets.pop(partition, None)
        if planned is None or planned.offset != record.offset:
            raise self._broken("phantom-reset", at, f"{planned} was planned: {record}")
        owner = group.owners.get(partition)
        if owner is not None and not owner.is_abandoned:
            raise self._broken("double-owner", at, f"{owner.member_id} has {partition} still: {record}")
        if owner is not None and self._is_held(group, owner) and not planned.releases_claims:
            raise self._broken("hold-broken", at, f"{owner} may come back: {record}")
        if record.member_id is not None and record.owner_epoch is not None:
            if record.owner_epoch <= self._newest_epoch:
                raise self._broken("epoch-reuse", at, f"owner epoch {self._newest_epoch} was given already: {record}")
            self._newest_epoch = record.owner_epoch
            self._grant(group, at, partition, Owner(record.member_id, record.topic_id, record.owner_epoch))
        elif owner is not None:
            self._end(group, at, partition)
        commit = Commit(at, record.topic_id, record.offset, None)
        group.commits.setdefault(partition, []).append(commit)
        self.resets += 1

    def _resets_planned(self, group: GroupModel, at: int, record: o.ResetsPlanned) -> None:
        group.resets.update({(planned.topic, planned.partition): planned for planned in record.resets})

    def _resets_cancelled(self, group: GroupModel, at: int, record: o.ResetsCancelled) -> None:
        for partition in record.partitions:
            del group.resets[partition]

    def _claims_let_go(self, group: GroupModel, at: int, record: r.ClaimsGivenUp | o.ClaimsReleased) -> None:
        for partition in record.partitions:
            if not group.owners[partition].is_abandoned:
                raise self._broken("double-owner", at, f"{group.owners[partition]} lives: {record}")
            self._end(group, at, partition)

    def _released(self, group: GroupModel, at: int, record: r.Released) -> None:
        self._release(group, at, record.member_id, record.partitions, record.committed)

    def _release(
        self,
        group: GroupModel,
        at: int,
        member_id: str,
        parts: Iterable[r.ReleasedPart],
        committed: Iterable[r.CommittedPart],
    ) -> None:
        for part in committed:
            raise self._broken("commit-unread", at, f"a query commits nothing with a release: {part}")
        for released in parts:
            partition = (released.topic, released.partition)
            owner = self._owner(group, at, partition, member_id)
            if owner.owner_epoch != released.owner_epoch:
                raise self._broken("zombie-release", at, f"owner epoch is {owner.owner_epoch}: {released}")
            self._end(group, at, partition)

    def _end(self, group: GroupModel, at: int, partition: TopicPartition) -> None:
        owner = group.owners.pop(partition)
        self._close(owner, at)
        group.ended[partition, owner.owner_epoch] = at

    def _owner(self, group: GroupModel, at: int, partition: TopicPartition, member_id: str) -> Owner:
        owner = group.owners.get(partition)
        if owner is None or owner.member_id != member_id or owner.is_abandoned:
            raise self._broken("not-owner", at, f"{member_id} acts on {partition}, which has {owner}")
        return owner

    # ---- claims and offsets -----------------------------------------------------------------------------------------

    def _advanced(self, group: GroupModel, at: int, record: r.Advanced) -> None:
        committed = {(part.topic, part.partition): part for part in record.committed}
        for partition in record.finished:
            owner = group.owners.get(partition)
            if owner is None or owner.member_id != record.member_id or owner.is_abandoned:
                raise self._broken("zombie-commit", at, f"{record.member_id} commits {partition}, which has {owner}")
            part = committed.pop(partition)
            claim = owner.claim
            if claim is None or part.offset != claim.until_offset or part.owner_epoch != owner.owner_epoch:
                raise self._broken("commit-unread", at, f"{part} finishes {claim} of {owner}")
            if not self._facts.was_delivered(claim, owner.topic_id):
                raise self._broken("lost-record", at, f"no owner delivered what {claim} holds, and it is committed")
            self._close(owner, at)
            self._commit(group, at, part)
        self._release(group, at, record.member_id, record.released, committed.values())
        for owner in group.owners.values():
            if owner.member_id == record.member_id and owner.claim is not None and owner.claim.running_at is None:
                self._close(owner, at)
        for offered in record.offered:
            partition = (offered.topic, offered.partition)
            owner = self._owner(group, at, partition, record.member_id)
            position = group.committed(partition, owner.topic_id)
            if owner.is_stopping or owner.claim is not None or offered.from_offset != position:
                raise self._broken("poll-skip", at, f"{offered} is offered; at {position}, {owner}")
            owner.claim = ClaimEntry(
                partition, record.member_id, owner.owner_epoch, offered.from_offset, offered.until_offset, at
            )
            group.claims.setdefault((partition, owner.owner_epoch), []).append(owner.claim)

    def _running(self, group: GroupModel, at: int, record: r.ClaimsRunning) -> None:
        for partition in record.partitions:
            owner = group.owners.get(partition)
            if owner is None or owner.claim is None or owner.is_abandoned:
                raise self._broken("phantom-claim", at, f"no claim of {partition} can run: {owner}")
            owner.claim.running_at = at

    def _closed(self, group: GroupModel, at: int, record: r.ClaimsClosed) -> None:
        for partition in record.partitions:
            self._close(group.owners[partition], at)

    def _close(self, owner: Owner, at: int) -> None:
        if owner.claim is not None:
            owner.claim.closed_at = at
            owner.claim = None

    def _offsets_committed(self, group: GroupModel, at: int, record: r.OffsetsCommitted) -> None:
        for part in record.committed:
            owner = group.owners.get((part.topic, part.partition))
            if owner is not None:
                raise self._broken("zombie-commit", at, f"an operator commits for {owner}: {part}")
            if part.owner_epoch is not None:
                raise self._broken("zombie-commit", at, f"nobody owns it: {part}")
            self._commit(group, at, part)

    def _commit(self, group: GroupModel, at: int, part: r.CommittedPart) -> None:
        partition = (part.topic, part.partition)
        before = group.committed(partition, part.topic_id)
        if before is not None and part.offset < before:
            raise self._broken("commit-regress", at, f"{partition} goes back from {before} to {part.offset}")
        commit = Commit(at, part.topic_id, part.offset, part.owner_epoch)
        group.commits.setdefault(partition, []).append(commit)

    # ---- the node's own state ---------------------------------------------------------------------------------------

    def compare(self, state: ShardState, group_ids: Iterable[str]) -> None:
        """Raise unless the node's state of these groups is what the log says."""
        for group_id in group_ids:
            theirs, ours = state.groups.get(group_id), self.groups.get(group_id)
            if theirs is ours is None:
                continue
            if theirs is None or ours is None:
                raise ViolationError("state-differs", f"group {group_id}: in the node {theirs}, in the log {ours}")
            _same("owners", group_id, _owners_in(theirs), _owners_of(ours))
            _same(
                "offsets",
                group_id,
                {key: (known.topic_id, known.offset, known.owner_epoch) for key, known in theirs.offsets.items()},
                {key: (last.topic_id, last.offset, last.owner_epoch) for key, (*_, last) in ours.commits.items()},
            )
            _same(
                "members",
                group_id,
                {key: (member.member_epoch, member.target) for key, member in theirs.members.items()},
                {key: (ours.member_epochs[key], ours.targets[key]) for key in ours.facts},
            )
            _same(
                "resets",
                group_id,
                {key: reset.offset for key, reset in theirs.controls.resets.items()},
                {key: planned.offset for key, planned in ours.resets.items()},
            )
            _same("epoch", group_id, theirs.group_epoch, ours.group_epoch)


def _owners_in(group: Any) -> dict[TopicPartition, tuple[Any, ...]]:
    return {
        key: (
            grant.member_id,
            grant.owner_epoch,
            grant.is_stopping,
            (grant.claim.from_offset, grant.claim.until_offset, grant.claim.is_running) if grant.claim else None,
        )
        for key, grant in group.grants.items()
    }


def _owners_of(group: GroupModel) -> dict[TopicPartition, tuple[Any, ...]]:
    return {
        key: (
            owner.member_id,
            owner.owner_epoch,
            owner.is_stopping,
            (*owner.claim.range, owner.claim.running_at is not None) if owner.claim else None,
        )
        for key, owner in group.owners.items()
    }


def _same(what: str, group_id: str, theirs: object, ours: object) -> None:
    if theirs != ours:
        raise ViolationError("state-differs", f"{what} of group {group_id}: the node has {theirs}, its log says {ours}")


_RULES: dict[type, Callable[[LogModel, GroupModel, int, Any], None]] = {
    r.GroupSettings: LogModel._settings,
    r.TopicSeen: LogModel._topic_seen,
    r.MemberJoined: LogModel._joined,
    r.MemberRemoved: LogModel._removed,
    r.TargetsAssigned: LogModel._targets,
    r.MemberEpochsAdvanced: LogModel._epochs_advanced,
    r.StopBegan: LogModel._stop_began,
    r.Granted: LogModel._granted,
    r.Released: LogModel._released,
    r.OffsetsCommitted: LogModel._offsets_committed,
    r.Advanced: LogModel._advanced,
    r.ClaimsRunning: LogModel._running,
    r.ClaimsClosed: LogModel._closed,
    r.ClaimsGivenUp: LogModel._claims_let_go,
    r.TopicsMatched: LogModel._topics_matched,
    r.GroupEmptied: LogModel._emptied,
    r.GroupExpired: LogModel._forgotten,
    o.GroupDeleted: LogModel._forgotten,
    o.ResetsPlanned: LogModel._resets_planned,
    o.ResetApplied: LogModel._reset_applied,
    o.ResetsCancelled: LogModel._resets_cancelled,
    o.ClaimsReleased: LogModel._claims_let_go,
}
