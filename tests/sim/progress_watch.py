"""What goes on where every micro-batch outlasts the rebalance time-out: something of each partition that is to be read.

Whatever an owner that lives has to read is committed in bounded time, while the members change and afterwards. A claim
whose query is gone waits for it as long as nobody else is due its partition (decision 0003). A run that ends by itself
reads the partitions that it began with to the ends that it froze; what comes to it meanwhile is for the next run
(decision 0021).
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from coordinator.core.groups.partition_table import TopicPartition
from tests.sim.log.state import GroupModel, Owner, ViolationError
from tests.sim.query import Query

if TYPE_CHECKING:
    from tests.sim.world import World

STUCK_MS = 60_000
"""Within which time something of each partition is committed, as long as there is something to read."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """Where a partition stood, in whose hands, and since when it could have gone on."""

    at: tuple[str, int | None]
    owner: str
    owner_lives: int
    since_ms: int


class ProgressWatch:
    """Looks every second whether what somebody is to read is committed."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._seen: dict[TopicPartition, _Seen] = {}

    def look(self) -> None:
        """Raise ViolationError for a partition of which nothing was committed for long, while no owner of it died."""
        world = self._world
        if world.is_healing:
            return
        now_ms, group = world.schedule.now_ms, world.group
        for partition, owner in group.owners.items():
            at = (owner.topic_id, group.committed(partition, owner.topic_id))
            lives, before = _lives(group, owner.member_id), self._seen.get(partition)
            is_going_on = (
                before is None
                or before.at != at
                or before.owner_lives != _lives(group, before.owner)
                or not self._is_due(group, partition, owner, at[1])
            )
            since_ms = now_ms if before is None or is_going_on else before.since_ms
            self._seen[partition] = _Seen(at, owner.member_id, lives, since_ms)
            if now_ms - since_ms >= STUCK_MS:
                raise ViolationError("stuck", f"nothing of {partition} was committed for {STUCK_MS} ms: {at}, {owner}")
        world.schedule.after(1_000, self.look)

    def _is_due(self, group: GroupModel, partition: TopicPartition, owner: Owner, committed: int | None) -> bool:
        """Say whether somebody is to read on in a partition that stands at an offset."""
        coverage, (name, number) = self._world.checker.coverage, partition
        topic = self._world.kafka.topics.get(name)
        if topic is None or number >= len(topic.ends) or committed == topic.ends[number]:
            return False
        if owner.is_abandoned and not any(partition in target for target in group.targets.values()):
            coverage["left to its own query"] += 1
            return False
        for application in self._world.fleet.running():
            process = application.process
            if isinstance(process, Query) and process.member_id == owner.member_id and process.is_available_now:
                due = process.watch.due_end(partition)
                if due is None or (committed is not None and committed >= due):
                    coverage["left to the next run"] += 1
                    return False
        return True


def _lives(group: GroupModel, member_id: str) -> int:
    """Return a number that grows whenever a member dies, goes or is started again."""
    joined = sum(len(places) for (name, _), places in group.joined_at.items() if name == member_id)
    return joined + len(group.removed_at.get(member_id, ()))
