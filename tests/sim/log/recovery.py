"""Rules about groups that were forgotten, and about topics that come later: nothing that was unread is passed over.

A member that was in the group before, and committed, is told by its id, which the log has had before. What such a
member brings into view starts where a checkpoint shows, or so that nothing Kafka has lies below; by the policy only
what somebody new brought, or what an operator or Kafka took the offset from.
"""

from collections.abc import Iterable

from coordinator.core.groups.hard import records as r
from coordinator.core.groups.partitions.partition_table import TopicPartition
from tests.sim.log.state import GroupModel, Log, Rule


def recovery_changed(log: Log, group: GroupModel, at: int, record: r.RecoveryChanged) -> None:
    group.is_recovering = record.wait_ms is not None


def remember_lost_logs(log: Log, end: int) -> None:
    """Remember at the end of what was kept of a log who is known from those that were lost."""
    for place, known_before in log.known_before:
        if place == end:
            for group_id, known in known_before.items():
                log.known_members.setdefault(group_id, set()).update(known)


def note_topic(group: GroupModel, topic: str) -> None:
    """Note a topic at which the group looks for the first time; who joins next has brought it."""
    if topic not in group.looked_at:
        group.looked_at.add(topic)
        group.just_seen.add(topic)


def note_joined(log: Log, group_id: str, group: GroupModel, facts: r.MemberFacts) -> None:
    """Note who has brought the topics that were seen just before, and that it has been here.

    A member that commits nothing has read nothing for the group, before it was forgotten no more than now: it tells
    nobody where to start, is nobody's first member, and brings the group no topic.
    """
    if not facts.commits:
        return
    known = log.known_members.setdefault(group_id, set())
    was_there = facts.member_id in known
    if not group.has_begun:
        group.has_begun, group.was_forgotten = True, was_there
    if was_there or group.was_forgotten:
        group.never_by_policy.update(group.just_seen)
    group.just_seen.clear()
    known.add(facts.member_id)


def must_pass_nothing_over(
    log: Log, group: GroupModel, at: int, partition: TopicPartition, topic_id: str, offset: int, shown: Iterable[int]
) -> None:
    """Raise if a start that nobody decided lies above what may be unread."""
    if group.is_recovering:
        raise log.broken("start-too-soon", at, f"{partition} starts while other checkpoints are waited for")
    if partition[0] not in group.never_by_policy or offset in shown or offset == 0 or log.is_reading_again:
        return
    if not log.facts.is_missing(partition[0], topic_id, partition[1], offset - 1):
        raise log.broken("start-skipped", at, f"{partition} starts at {offset}, and {sorted(shown)} are shown")
    log.excused("Kafka has nothing below a start")


RULES: dict[type, Rule] = {r.RecoveryChanged: recovery_changed}
