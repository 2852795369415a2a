"""Progress where every micro-batch outlasts the rebalance time-out: something of each partition that is to be read.

Whatever an owner that lives has to read is committed in bounded time, while the members change and afterwards. A claim
whose query is gone waits for it as long as nobody else is due its partition (decision 0003). A run that ends by itself
reads the partitions that it began with to the ends that it froze; what comes to it meanwhile is for the next run
(decision 0021). A plain consumer reads its partitions in turn, each to the end that it saw when its turn began, so that
one with little waits for what another has.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from coordinator.core.groups.partitions.partition_table import TopicPartition
from tests.sim.consumer import Consumer
from tests.sim.log.state import GroupModel, Owner, ViolationError
from tests.sim.query import Query

if TYPE_CHECKING:
    from tests.sim.world import World

STUCK_MS = 60_000
"""Within which time something of each partition is committed, as long as there is something to read."""
TURNS_MS = 3 * STUCK_MS
"""The longest that it may wait besides while its consumer goes on in others: small polls through what those had."""
LOOK_MS = 1_000


@dataclass(frozen=True, slots=True)
class _Seen:
    """Where a partition stood, whose it was, since when it could have gone on, and how long others had their turn."""

    at: tuple[str, int | None]
    owner: str
    owner_lives: int
    since_ms: int
    excused_ms: int


class ProgressWatch:
    """Looks every second whether what somebody is to read is committed."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._seen: dict[TopicPartition, _Seen] = {}
        self._moved_ms: dict[str, int] = {}
        """When something of a member's partitions was last seen to be committed."""
        self._consumers: set[str] = set()
        """Members that are plain consumers, those among them that have died too: they may be missed later."""

    def look(self) -> None:
        """Raise ViolationError for a partition of which nothing was committed for long, while no owner of it died."""
        world = self._world
        if world.is_healing:
            return
        now_ms, group = world.schedule.now_ms, world.group
        running = (application.process for application in world.fleet.running())
        self._consumers.update(process.member_id for process in running if isinstance(process, Consumer))
        for partition, owner in group.owners.items():
            at = (owner.topic_id, group.committed(partition, owner.topic_id))
            lives, before = _lives(group, owner.member_id), self._seen.get(partition)
            is_going_on = (
                before is None
                or before.at != at
                or before.owner_lives != _lives(group, before.owner)
                or not self._is_due(group, partition, owner, at[1])
            )
            if before is not None and before.at != at:
                self._moved_ms[owner.member_id] = now_ms
            if before is None or is_going_on:
                self._seen[partition] = _Seen(at, owner.member_id, lives, now_ms, 0)
                continue
            excused_ms = before.excused_ms
            if self._is_in_turn(owner.member_id):
                excused_ms = min(excused_ms + LOOK_MS, TURNS_MS)
            self._seen[partition] = _Seen(at, owner.member_id, lives, before.since_ms, excused_ms)
            if STUCK_MS <= now_ms - before.since_ms < STUCK_MS + excused_ms:
                world.checker.coverage["excuse a consumer goes on in other partitions"] += 1
            if now_ms - before.since_ms >= STUCK_MS + excused_ms:
                waited_ms = now_ms - before.since_ms
                raise ViolationError("stuck", f"nothing of {partition} was committed for {waited_ms} ms: {at}, {owner}")
        world.schedule.after(LOOK_MS, self.look)

    def _is_in_turn(self, member_id: str) -> bool:
        """Say whether a member is a plain consumer that goes on in one of its partitions."""
        moved_ms = self._moved_ms.get(member_id)
        is_going_on = moved_ms is not None and self._world.schedule.now_ms - moved_ms < STUCK_MS
        return is_going_on and member_id in self._consumers

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
