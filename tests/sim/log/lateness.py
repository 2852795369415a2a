"""Rules about partitions that are taken for being late: how long their owners were waited for, and for whom."""

from coordinator.core.groups.partitions.partition_table import TopicPartition
from tests.sim.log.state import GroupModel, Late, Log, Owner


def take(log: Log, group: GroupModel, at: int, partition: TopicPartition, owner: Owner) -> None:
    """Judge a taking and remember it until the coordinator restarts, which forgets who was late."""
    facts = group.facts[owner.member_id]
    waited_ms = log.times_ms[at] - log.times_ms[group.stopped[partition, owner.owner_epoch]]
    if waited_ms < facts.rebalance_timeout_ms:
        raise log.broken(
            "taken-too-early", at, f"{owner} had {waited_ms} ms of {facts.rebalance_timeout_ms} ms for {partition}"
        )
    is_held = group.handover == "hold" and owner.has_running_claim
    if is_held and (group.claim_timeout_ms is None or waited_ms < group.claim_timeout_ms):
        raise log.broken("hold-broken", at, f"{owner} still reads {partition}, after {waited_ms} ms")
    if log.facts.is_calm and owner.claim is not None and owner.claim.running_at is None:
        raise log.broken("offered-kept", at, f"nobody reads {owner.claim} of {partition}, and it was not let go")
    commits = group.commits.get(partition)
    offset = commits[-1].offset if commits else None
    late = group.late.get(partition)
    if late is None or (late.life, late.offset) != (log.life, offset):
        late = group.late[partition] = Late(log.life, offset)
    if not log.is_reading_again:
        _must_be_for_somebody_in_time(log, group, at, partition, owner, late)
    late.member_ids.add(owner.member_id)
    log.takings += 1


def let_go(group: GroupModel, partition: TopicPartition, member_id: str) -> None:
    """Forget who was late with a partition that a member lets go of which commits nothing: it got as far as it gets."""
    facts = group.facts.get(member_id)
    if facts is not None and not facts.commits:
        group.late.pop(partition, None)


def _must_be_for_somebody_in_time(
    log: Log, group: GroupModel, at: int, partition: TopicPartition, owner: Owner, late: Late
) -> None:
    has_to_go = (
        partition in group.resets
        or group.is_paused_now(partition)
        or owner.member_id in group.drained
        or owner.topic_id != group.topics[partition[0]][0]
    )
    wanted_by = [member_id for member_id, target in group.targets.items() if partition in target]
    if not has_to_go and not late.member_ids.isdisjoint(wanted_by):
        raise log.broken(
            "taken-for-nothing",
            at,
            f"{owner} has {partition}, for {wanted_by}, and {late.member_ids} were late with it",
        )
