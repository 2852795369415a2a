"""Members that commit nothing: they are given partitions as any member, and leave no trace in the group's offsets.

Where such a member starts is decided for it alone and kept with its grant: the group's offset where there is one, then
its own hints, those of the members that commit, and its own policy before the group's. The next owner starts as if the
partition had never been read.
"""

from coordinator.core.groups.hard.records import MemberFacts
from coordinator.core.groups.hard.state import GroupState, TopicState
from coordinator.core.groups.partitions.partition_table import TopicPartition
from coordinator.core.groups.reconciliation.start_offsets import Start, policy_start, start_of
from coordinator.core.groups.soft.hints import Hints
from coordinator.protocol.parts import ResetPolicy


def why_read_only(group: GroupState, member_id: str) -> str | None:
    """Say why a member commits and claims nothing, or return None for one that may."""
    if member_id not in group.by_facts.readers:
        return None
    return (
        f"member {member_id} has registered as one that commits nothing (kcoord.commit is false); register as one that "
        "commits, or leave the group's offsets to its other members"
    )


def reader_start(
    group: GroupState, facts: MemberFacts, partition: TopicPartition, topic: TopicState, hints: Hints, *, anew: bool
) -> Start:
    """Decide where a member that commits nothing starts a partition without a committed offset.

    It starts `anew`, by policy, where Kafka does not have the position at which it was.
    """
    policy = facts.own_policy or group.reset_policy
    return policy_start(policy) if anew else start_of(group, partition, topic, hints, policy)


def reader_hints(facts: MemberFacts, others: Hints) -> Hints:
    """Return the hints that count for such a member: its own before those of the members that commit."""
    return Hints(facts.hints, others) if facts.hints else others


def reader_policy(group: GroupState, member_id: str) -> ResetPolicy | None:
    """Return the policy that counts for such a member: its own before the group's."""
    return group.members[member_id].facts.own_policy or group.reset_policy
