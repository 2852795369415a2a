"""Limits that no step may pass, whatever the size of groups: of what it tells, and of the bytes of the state."""

from coordinator.core.groups.account import bytes_of, recount
from coordinator.core.groups.state import ShardState
from coordinator.core.limits import Limits
from tests.sim.log.state import ViolationError

MOST_NAMED = 6
"""Partitions that one request of the simulated operator names at most."""


def check_things(things: int, limits: Limits) -> None:
    """Raise ViolationError when one step did more than a page, and one request, beyond a page."""
    if things > 2 * limits.page_items + MOST_NAMED:
        raise ViolationError("step-too-long", f"one step told {things} things; a page has {limits.page_items}")


def check_account(state: ShardState) -> None:
    """Raise ViolationError when what replay has counted is not what there is."""
    total = 0
    for group_id, group in state.groups.items():
        counted, found = group.counted_bytes, recount(group)
        if not counted == bytes_of(group) == found:
            raise ViolationError("wrong-account", f"{group_id} takes {found} bytes and {counted} are counted")
        total += found
    if total != sum(state.bytes_of.values()):
        raise ViolationError("wrong-account", f"all groups take {total} bytes and {state.bytes_of} is counted")
