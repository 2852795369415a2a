"""Worlds in which every micro-batch outlasts the rebalance time-out, also in the end, and nothing else fails.

Members come and go, and a query waits now and then between `latestOffset` and `partitions`, as for its other source.
Whatever an owner that lives has to read is committed in bounded time, while the members change and afterwards.
"""

from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING

from coordinator.core.groups.partition_table import TopicPartition
from tests.sim.log.state import GroupModel, ViolationError

if TYPE_CHECKING:
    from tests.sim.mix import Mix
    from tests.sim.world import World

CHANCE = 0.1
TIMEOUT_MS = 1_500
BATCHES_MS = (TIMEOUT_MS + 200, 2 * TIMEOUT_MS, 3 * TIMEOUT_MS)
OTHER_SOURCE_MS = (0, 0, TIMEOUT_MS // 2, 2 * TIMEOUT_MS)
"""How long a query waits until it plans what it was offered."""
CHANGES_EVERY_MS = 10_000
"""How often a member comes or goes: a little more rarely than a micro-batch and the one before it take."""
STUCK_MS = 60_000
"""Within which time something of each partition is committed, as long as there is something to read."""
REST_MS = 45_000
"""How much longer than otherwise it takes until all is committed in the end."""
FAULTS = {"member-joined": 2.0, "member-left": 1.0}


def maybe_slow(mix: "Mix", dice: Random) -> "Mix":
    """Return a mix that was drawn, or make it such a world."""
    if dice.random() >= CHANCE:
        return mix
    return replace(
        mix,
        is_slow=True,
        safety_ms=90_000,
        consumers=0.0,
        session_timeout_ms=3_000,
        rebalance_timeout_ms=TIMEOUT_MS,
        handover="takeover",
        claim_timeout_ms=None,
        slow_batch=1.0,
        transactional=0.0,
        two_sources=0.0,
        readers=0.0,
        crash_at_step=0.0,
        fault_every_ms=CHANGES_EVERY_MS,
        weights=dict(FAULTS),
    )


@dataclass(frozen=True, slots=True)
class _Seen:
    """Where a partition stood, in whose hands, and since when it could have gone on."""

    at: tuple[str, int | None]
    owner: str
    owner_lives: int
    since_ms: int


class ProgressWatch:
    """Looks every second whether what has an owner that lives and something to read is committed."""

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
                or at[1] == world.kafka.topics[partition[0]].ends[partition[1]]
            )
            since_ms = now_ms if before is None or is_going_on else before.since_ms
            self._seen[partition] = _Seen(at, owner.member_id, lives, since_ms)
            if now_ms - since_ms >= STUCK_MS:
                raise ViolationError("stuck", f"nothing of {partition} was committed for {STUCK_MS} ms: {at}, {owner}")
        world.schedule.after(1_000, self.look)


def _lives(group: GroupModel, member_id: str) -> int:
    """Return a number that grows whenever a member dies, goes or is started again."""
    joined = sum(len(places) for (name, _), places in group.joined_at.items() if name == member_id)
    return joined + len(group.removed_at.get(member_id, ()))
