"""Who has the partitions of the group, as a query asks the coordinator on a connection of its own."""

from typing import TYPE_CHECKING

from spark_kcoord.member.holders import Holder
from tests.sim.coordinator import GROUP

if TYPE_CHECKING:
    from tests.sim.process import TopicPartition
    from tests.sim.world import World


def holders(world: "World") -> "dict[TopicPartition, Holder] | None":
    """Return the holder of every partition of Kafka's, or None when no coordinator answers.

    It is what the log says, which the checker holds to be what the coordinator knows.
    """
    coordinator = world.coordinator
    if not coordinator.is_up or coordinator.is_paused:
        return None
    group = world.checker.group(GROUP, coordinator.node.shard_of(GROUP))
    found = {}
    for name, topic in world.kafka.topics.items():
        for number in range(len(topic.ends)):
            owner = group.owners.get((name, number))
            found[name, number] = Holder(
                owner.member_id if owner is not None else None, group.is_paused_now((name, number))
            )
    return found
