"""Rules about committed offsets: who may write them, that they never go back, and where a partition starts."""

from collections.abc import Iterable, Iterator

from coordinator.core.groups.hard import records as r
from coordinator.core.groups.partitions.in_topics import TopicHints, hint_at
from coordinator.core.groups.partitions.partition_table import TopicPartition
from coordinator.protocol.parts import StartHint
from coordinator.protocol.vocabulary import IsolationLevel
from tests.helpers.committed_parts import in_parts, parts_of
from tests.sim.log.recovery import must_pass_nothing_over
from tests.sim.log.state import Commit, GroupModel, Log, Owner, Rule


def offsets_committed(log: Log, group: GroupModel, at: int, record: r.OffsetsCommitted) -> None:
    for part in parts_of(record):
        owner = group.owners.get((part.topic, part.partition))
        if part.owner_epoch is None:
            if owner is not None:
                raise log.broken("zombie-commit", at, f"an operator commits for {owner}: {part}")
            group.history.moved((part.topic, part.topic_id, part.partition), part.offset, "an operator's commit")
            if group.committed((part.topic, part.partition), part.topic_id) is None:
                note_start(log, part.topic, part.topic_id, part.partition, part.offset)
            commit(log, group, at, part)
            continue
        if owner is None or owner.is_abandoned or owner.owner_epoch != part.owner_epoch:
            raise log.broken("zombie-commit", at, f"{owner} has it: {part}")
        must_commit(log, group, at, owner.member_id, part)
        if owner.claim is not None:
            raise log.broken("commit-unread", at, f"{owner.claim} is open: {part}")
        commit_processed(log, group, at, owner, part)


def commit_processed(log: Log, group: GroupModel, at: int, owner: Owner, part: r.CommittedPart) -> None:
    """Take the commit of a consumer that polls: of records that it had returned before its latest poll began."""
    partition = (part.topic, part.partition)
    if part.owner_epoch != owner.owner_epoch:
        raise log.broken("zombie-commit", at, f"{owner} has it: {part}")
    before = group.committed(partition, owner.topic_id)
    if before is None or not log.facts.was_processed(owner, partition, before, part.offset):
        if before is None or not log.facts.may_come_twice(owner, partition):
            raise log.broken("lost-record", at, f"{owner} had not returned all from {before} on: {part}")
        log.excused("an owner epoch is of before another disk")
    group.history.read((part.topic, part.topic_id, part.partition), before, part.offset)
    commit(log, group, at, part)


def commit(log: Log, group: GroupModel, at: int, part: r.CommittedPart) -> None:
    """Write an offset, which must not lie before the one before it."""
    partition = (part.topic, part.partition)
    before = group.committed(partition, part.topic_id)
    if before is not None and part.offset < before:
        raise log.broken("commit-regress", at, f"{partition} goes back from {before} to {part.offset}")
    write(group, at, partition, part.topic_id, part.offset, part.owner_epoch)


def write(
    group: GroupModel, at: int, partition: TopicPartition, topic_id: str, offset: int, owner_epoch: int | None
) -> None:
    """Write an offset, whatever was there before."""
    group.commits.setdefault(partition, []).append(Commit(at, topic_id, offset, owner_epoch))


def note_start(log: Log, topic: str, topic_id: str, number: int, offset: int) -> None:
    """Tell the outside once that a position is set, and not again when a log is read once more."""
    if not log.is_reading_again:
        log.facts.started(topic, topic_id, number, offset)


def forget(group: GroupModel, at: int, partition: TopicPartition) -> None:
    """Have a partition be without an offset."""
    if group.commits.get(partition):
        group.commits[partition].append(Commit(at, "", None, None))


def start(log: Log, group: GroupModel, at: int, record: r.Granted, number: int) -> None:
    """Check where a granted partition starts: at the committed offset, or where this very record says that it does."""
    partition = (record.topic, number)
    committed = group.committed(partition, record.topic_id)
    facts = group.facts[record.member_id]
    if record.is_read_only == facts.commits:
        raise log.broken("reader-wrote", at, f"{facts} commits or not, and its start is written or not: {record}")
    if record.is_read_only:
        _start_of_reader(log, group, at, record, number)
        return
    has_lost_offset = partition in group.by_policy
    group.by_policy.discard(partition)
    starts = in_parts(record.starts) if record.starts is not None else ()
    resolved = next((part for part in starts if part.partition == number), None)
    if resolved is None:
        if committed is None:
            raise log.broken("no-start", at, f"nobody said where {partition} starts: {record}")
        if group.commits[partition][-1].owner_epoch is None:
            # An operator may have committed for a topic that the group had not seen yet.
            group.history.moved((record.topic, record.topic_id, number), committed, "decided before")
        return
    if committed is not None:
        raise log.broken("start-resolved-again", at, f"{partition} is at {committed}: {record}")
    is_answer = log.facts.was_answered(record.topic, record.topic_id, number, resolved.offset)
    hints = {hint.offset for hint in _hints_of(group, partition)}
    is_option = any(not hint.from_checkpoint and hint.offset == resolved.offset for hint in _hints_of(group, partition))
    is_hint = not has_lost_offset and resolved.offset in hints
    if (
        is_hint
        and not is_option
        and not is_answer
        and not log.facts.was_reached(record.topic_id, number, resolved.offset)
    ):
        raise log.broken("lost-record", at, f"nobody ever got as far as offset {resolved.offset}: {record}")
    reader = group.facts.get(record.member_id)
    is_for_stable = (
        reader is not None
        and reader.isolation_level == IsolationLevel.READ_COMMITTED
        and record.why.startswith("latest")
    )
    if is_for_stable and not log.facts.was_stable_end(record.topic, record.topic_id, number, resolved.offset):
        raise log.broken("lost-record", at, f"an open transaction is passed over that {record.member_id} waits for")
    if not is_hint and not is_answer:
        raise log.broken("phantom-commit", at, f"nobody ever named offset {resolved.offset}: {record}")
    if not has_lost_offset:
        shown = {hint.offset for hint in _hints_of(group, partition) if hint.from_checkpoint}
        must_pass_nothing_over(log, group, at, partition, record.topic_id, resolved.offset, shown)
    group.history.moved((record.topic, record.topic_id, number), resolved.offset, record.why)
    note_start(log, record.topic, record.topic_id, number, resolved.offset)
    commit(log, group, at, resolved)


def _hints_of(group: GroupModel, partition: TopicPartition) -> list[StartHint]:
    """Return what the members that commit have said of a partition."""
    members = [facts for facts in group.facts.values() if facts.commits]
    return [hint for facts in members for hint in each_hint(facts.hints) if (hint.topic, hint.partition) == partition]


def _start_of_reader(log: Log, group: GroupModel, at: int, record: r.Granted, number: int) -> None:
    """Check where a member starts that commits nothing: by itself, and without a trace in the group's offsets."""
    partition = (record.topic, number)
    if record.starts is None:
        if group.committed(partition, record.topic_id) is None:
            raise log.broken("no-start", at, f"nobody said where {partition} starts: {record}")
        return
    offset, _, _ = record.starts.position_of(number)
    hints = {
        hint.offset for facts in group.facts.values() for hint in each_hint(facts.hints) if hint.topic == record.topic
    }
    if offset not in hints and not log.facts.was_answered(record.topic, record.topic_id, number, offset):
        raise log.broken("phantom-commit", at, f"nobody ever named offset {offset}: {record}")


def must_commit(log: Log, group: GroupModel, at: int, member_id: str, record: object) -> None:
    """Raise when something is written for a member that commits nothing."""
    facts = group.facts.get(member_id)
    if facts is not None and not facts.commits:
        raise log.broken("reader-wrote", at, f"{member_id} commits nothing: {record}")


RULES: dict[type, Rule] = {r.OffsetsCommitted: offsets_committed}


def each_hint(topics: Iterable[TopicHints]) -> Iterator[StartHint]:
    """Yield the hints of columns one by one."""
    return (hint_at(each, place) for each in topics for place in range(len(each.partitions)))
