"""Whether a group is forgotten when everybody has gone for good: else a node would hold what nobody uses for ever."""

from typing import TYPE_CHECKING

from tests.sim.coordinator import GROUP
from tests.sim.log.state import ViolationError

if TYPE_CHECKING:
    from tests.sim.world import World

SHORT_MS = 10_000
"""The longest retention that a run waits for."""
SLACK_MS = 10_000
"""Within which time a member that is gone is seen to be gone, and what is due is done."""


def must_be_forgotten(world: "World") -> None:
    """Have everybody go, and raise ViolationError when the group is there still after its retention."""
    mix, limits = world.mix, world.mix.limits
    wait_ms = limits.offsets_retention_ms + limits.empty_group_retention_ms
    # Where the policy is none, the operator of this world goes on to say where partitions start.
    if wait_ms > 2 * SHORT_MS or (mix.policy is not None and mix.policy.kind == "none"):
        return
    for application in world.fleet.applications:
        world.fleet.remove(application)
    wait_ms += mix.session_timeout_ms + (mix.claim_timeout_ms or 0) + SLACK_MS
    log = world.checker.logs[world.coordinator.node.shard_of(GROUP)]
    begun_ms = world.schedule.now_ms
    while GROUP in log.groups:
        group = log.groups[GROUP]
        if mix.claim_timeout_ms is None and any(group.is_held(partition) for partition in group.owners):
            world.checker.coverage["excuse a group is not forgotten that waits for its query"] += 1
            return
        if world.schedule.now_ms - begun_ms > wait_ms:
            raise ViolationError(
                "never-forgotten", f"nobody has come for {wait_ms} ms, and the group is there still: {group.facts}"
            )
        world.schedule.run_until(world.schedule.now_ms + 100)
    world.checker.coverage["group forgotten in the end"] += 1
