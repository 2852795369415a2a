"""Rules about ownership and claims: one owner a partition at any place of the log, and what an owner has open."""

from collections.abc import Iterable

from coordinator.core.groups.hard import records as r
from coordinator.core.groups.partitions.in_topics import one_by_one
from coordinator.core.groups.partitions.partition_table import TopicPartition
from tests.helpers.committed_parts import each_offered_step, each_step
from tests.sim.log import lateness, offsets
from tests.sim.log.lost_logs import is_of_old_copy
from tests.sim.log.state import ClaimEntry, GroupModel, Log, Owner, Rule


def stop_began(log: Log, group: GroupModel, at: int, record: r.StopBegan) -> None:
    for partition in record.partitions:
        owner = owner_of(log, group, at, partition, record.member_id)
        owner.is_stopping = True
        group.stopped.setdefault((partition, owner.owner_epoch), at)


def granted(log: Log, group: GroupModel, at: int, record: r.Granted) -> None:
    take_owner_epoch(log, at, record.owner_epoch)
    if record.starts is not None and record.starts.partitions != record.partitions:
        raise log.broken("start-misplaced", at, f"the starts are of other partitions: {record}")
    for number in record.partitions:
        partition = (record.topic, number)
        if partition not in group.targets.get(record.member_id, frozenset()):
            raise log.broken("grant-beside-target", at, f"{partition}: {record}")
        if partition in group.resets:
            raise log.broken("reset-overtaken", at, f"{group.resets[partition]} is planned: {record}")
        owner = group.owners.get(partition)
        if group.is_held(partition):
            raise log.broken("hold-broken", at, f"{owner} may come back: {record}")
        grant(log, group, at, partition, Owner(record.member_id, record.topic_id, record.owner_epoch))
        offsets.start(log, group, at, record, number)


def take_owner_epoch(log: Log, at: int, owner_epoch: int) -> None:
    """Take in the owner epoch of a record, which its partitions share and no record before it had."""
    if owner_epoch <= log.newest_epoch:
        raise log.broken("epoch-reuse", at, f"owner epoch {log.newest_epoch} was given already: {owner_epoch}")
    if owner_epoch != at + log.epochs_ahead:
        raise log.broken("phantom-epoch", at, f"epochs are ahead by {log.epochs_ahead}: {owner_epoch}")
    log.newest_epoch = owner_epoch
    log.places[owner_epoch] = at


def grant(log: Log, group: GroupModel, at: int, partition: TopicPartition, owner: Owner) -> None:
    """Make a partition somebody's."""
    before = group.owners.get(partition)
    if before is not None and not before.is_abandoned:
        raise log.broken("double-owner", at, f"{before.member_id} has {partition} still: {owner}")
    if owner.member_id not in group.facts:
        raise log.broken("no-such-member", at, f"{owner}")
    if group.is_paused_now(partition):
        raise log.broken("paused-grant", at, f"{partition} is paused: {owner}")
    if before is not None:
        end_grant(group, at, partition)
    former = group.former_owners.get(partition)
    if former is not None and former != owner.member_id:
        log.handovers += 1
    group.former_owners[partition] = owner.member_id
    group.owners[partition] = owner


def released(log: Log, group: GroupModel, at: int, record: r.Released) -> None:
    release(log, group, at, record.member_id, record.partitions, record.committed)


def release(
    log: Log,
    group: GroupModel,
    at: int,
    member_id: str,
    parts: Iterable[r.ReleasedPart],
    committed: Iterable[r.CommittedPart],
) -> None:
    """End grants, with the final offsets of those whose owner commits by itself."""
    for part in committed:
        owner = owner_of(log, group, at, (part.topic, part.partition), member_id)
        offsets.must_commit(log, group, at, member_id, part)
        facts = group.facts.get(member_id)
        if facts is None or not facts.auto_commit:
            raise log.broken("commit-unread", at, f"{member_id} commits nothing with a release: {part}")
        offsets.commit_processed(log, group, at, owner, part)
    for released_part in parts:
        partition = (released_part.topic, released_part.partition)
        owner = owner_of(log, group, at, partition, member_id)
        if owner.owner_epoch != released_part.owner_epoch:
            raise log.broken("zombie-release", at, f"owner epoch is {owner.owner_epoch}: {released_part}")
        lateness.let_go(group, partition, member_id)
        end_grant(group, at, partition)


def taken(log: Log, group: GroupModel, at: int, record: r.Taken) -> None:
    """Partitions are taken from a member that lives: each after its time, and for nobody who was late with it."""
    for partition in record.partitions:
        owner = owner_of(log, group, at, partition, record.member_id)
        if not owner.is_stopping:
            raise log.broken("taken-unasked", at, f"{owner} was not asked for {partition}")
        lateness.take(log, group, at, partition, owner)
        end_grant(group, at, partition)


def end_grant(group: GroupModel, at: int, partition: TopicPartition) -> None:
    """Have a partition be nobody's."""
    owner = group.owners.pop(partition)
    close_claim(owner, at)
    group.ended[partition, owner.owner_epoch] = at


def owner_of(log: Log, group: GroupModel, at: int, partition: TopicPartition, member_id: str) -> Owner:
    """Return the owner of a partition, which has to be this member."""
    owner = group.owners.get(partition)
    if owner is None or owner.member_id != member_id or owner.is_abandoned:
        raise log.broken("not-owner", at, f"{member_id} acts on {partition}, which has {owner}")
    return owner


def went_out_of_range(log: Log, group: GroupModel, at: int, record: r.WentOutOfRange) -> None:
    if group.reset_policy is not None and group.reset_policy.kind == "none":
        raise log.broken("start-unasked", at, f"the policy is none, so nothing starts anew by itself: {record}")
    for partition in record.partitions:
        owner = group.owners.get(partition)
        if owner is None or owner.is_abandoned:
            raise log.broken("not-owner", at, f"only who reads {partition} can say so, and it has {owner}")
        offsets.must_commit(log, group, at, owner.member_id, record)
        offset = group.committed(partition, owner.topic_id)
        is_missing = offset is not None and (
            log.is_reading_again or log.facts.is_missing(partition[0], owner.topic_id, partition[1], offset)
        )
        if not is_missing:
            raise log.broken("lost-commit", at, f"{partition} is at {offset}, which Kafka has: {record}")
        end_grant(group, at, partition)
        offsets.forget(group, at, partition)
        group.by_policy.add(partition)


# ---- claims ---------------------------------------------------------------------------------------------------------


def advanced(log: Log, group: GroupModel, at: int, record: r.Advanced) -> None:
    offsets.must_commit(log, group, at, record.member_id, record)
    for topic, topic_id, number, step in each_step(record.finished):
        partition = (topic, number)
        owner = group.owners.get(partition)
        if owner is None or owner.member_id != record.member_id:
            raise log.broken("zombie-commit", at, f"{record.member_id} commits {partition}, which has {owner}")
        before = group.commits[partition][-1].offset
        assert before is not None, "what is claimed has an offset"
        end = before + step
        part = r.CommittedPart(topic, topic_id, number, end, None, "", record.commit_ms, owner.owner_epoch)
        claim = owner.claim
        if claim is None or part.offset != claim.until_offset or part.owner_epoch != owner.owner_epoch:
            raise log.broken("commit-unread", at, f"{part} finishes {claim} of {owner}")
        key = (part.topic, part.topic_id, part.partition)
        if log.facts.was_delivered(claim, owner.topic_id):
            group.history.read(key, *claim.range)
        elif log.is_reading_again or is_of_old_copy(log, record.group_id, group, at, claim):
            log.excused("a claim of an old copy is done by a checkpoint")
            group.history.moved(key, claim.until_offset, "a claim of an old copy, which its checkpoint shows as done")
        else:
            raise log.broken("lost-record", at, f"no owner delivered what {claim} holds, and it is committed")
        close_claim(owner, at)
        offsets.commit(log, group, at, part)
    release(log, group, at, record.member_id, record.released, record.finals)
    stay: dict[TopicPartition, tuple[int, int]] = {}
    for topic, _, number, step in each_offered_step(record):
        begin = group.commits[topic, number][-1].offset
        assert begin is not None, "what is claimed has an offset"
        stay[topic, number] = (begin, begin + step)
    for partition, owner in () if record.keeps_offered else group.owners.items():
        claim = owner.claim
        is_offered = owner.member_id == record.member_id and claim is not None and claim.running_at is None
        if is_offered and claim is not None and stay.get(partition) != claim.range:
            close_claim(owner, at)
    for partition, (begin, end) in stay.items():
        owner = owner_of(log, group, at, partition, record.member_id)
        if owner.claim is not None and owner.claim.range == (begin, end):
            continue
        position = group.committed(partition, owner.topic_id)
        if owner.is_stopping or owner.claim is not None or begin != position or begin >= end:
            raise log.broken("poll-skip", at, f"[{begin}, {end}) of {partition} is offered; at {position}, {owner}")
        owner.claim = ClaimEntry(partition, record.member_id, owner.owner_epoch, begin, end, at)
        group.claims.setdefault((partition, owner.owner_epoch), []).append(owner.claim)


def streams_assigned(log: Log, group: GroupModel, at: int, record: r.StreamsAssigned) -> None:
    for topic, number, stream in record.streams:
        owner = group.owners.get((topic, number))
        facts = group.facts.get(owner.member_id) if owner is not None else None
        if facts is None or not facts.wants_streams or not 0 <= stream < facts.streams:
            raise log.broken("phantom-stream", at, f"{topic}-{number} has {owner}: {record}")


def claims_running(log: Log, group: GroupModel, at: int, record: r.ClaimsRunning) -> None:
    for partition in one_by_one(record.topics):
        owner = group.owners.get(partition)
        if owner is None or owner.claim is None or owner.is_abandoned:
            raise log.broken("phantom-claim", at, f"no claim of {partition} can run: {owner}")
        owner.claim.running_at = at


def claims_closed(log: Log, group: GroupModel, at: int, record: r.ClaimsClosed) -> None:
    for partition in one_by_one(record.topics):
        owner = group.owners.get(partition)
        if owner is None or owner.claim is None:
            raise log.broken("phantom-claim", at, f"{partition} has no claim to close: {owner}")
        close_claim(owner, at)


def claims_given_up(log: Log, group: GroupModel, at: int, record: r.ClaimsGivenUp) -> None:
    let_go(log, group, at, record.partitions, is_by_operator=False)


def let_go(log: Log, group: GroupModel, at: int, partitions: Iterable[TopicPartition], *, is_by_operator: bool) -> None:
    """End grants whose owners are gone: by an operator, when its instance is back as another member, or in time."""
    for partition in partitions:
        owner = group.owners.get(partition)
        if owner is None or not owner.is_abandoned or owner.abandoned_at is None:
            raise log.broken("double-owner", at, f"{partition} has {owner}, who lives")
        instance_id = group.instances.get(owner.member_id)
        is_back = instance_id is not None and any(facts.instance_id == instance_id for facts in group.facts.values())
        if not is_by_operator and not is_back and owner.claim is not None:
            waited_ms = log.times_ms[at] - log.times_ms[owner.abandoned_at]
            if group.claim_timeout_ms is None or waited_ms < group.claim_timeout_ms:
                raise log.broken(
                    "hold-broken", at, f"{owner} is given up after {waited_ms} ms of {group.claim_timeout_ms} ms"
                )
        if is_by_operator:
            note_released(log, owner)
        end_grant(group, at, partition)


def note_released(log: Log, owner: Owner) -> None:
    """Tell the outside that what an owner has begun to read is read again by decision."""
    if owner.claim is not None and not log.is_reading_again:
        log.facts.released(owner.claim, owner.topic_id)


def close_claim(owner: Owner, at: int) -> None:
    """Close the claim of an owner, if it has one."""
    if owner.claim is not None:
        owner.claim.closed_at = at
        owner.claim = None


RULES: dict[type, Rule] = {
    r.StopBegan: stop_began,
    r.Granted: granted,
    r.Released: released,
    r.Taken: taken,
    r.WentOutOfRange: went_out_of_range,
    r.Advanced: advanced,
    r.StreamsAssigned: streams_assigned,
    r.ClaimsRunning: claims_running,
    r.ClaimsClosed: claims_closed,
    r.ClaimsGivenUp: claims_given_up,
}
