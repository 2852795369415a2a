"""Limits that no step may pass, whatever the size of groups: of what it tells, of the bytes of the state, of wakes."""

from coordinator.core.groups.hard.account import bytes_of, recount
from coordinator.core.groups.hard.state import ShardState
from coordinator.core.limits import Limits
from tests.sim.log.state import ViolationError

MOST_NAMED = 6
"""Partitions that one request of the simulated operator names at most."""
MOST_WAKES_A_MS = 10_000
"""Wakes of a node at one moment of its time; the largest groups of the simulator need some hundred turns."""


class WakeWatch:
    """The wakes of one node: a node that is woken again and again while no time passes never does anything else."""

    def __init__(self) -> None:
        self._at_ms = -1
        self._wakes = 0

    def woke(self, now_ms: int) -> None:
        """Count a wake; raises ViolationError for one too many at the same moment."""
        self._wakes = self._wakes + 1 if now_ms == self._at_ms else 1
        self._at_ms = now_ms
        if self._wakes > MOST_WAKES_A_MS:
            raise ViolationError("spinning", f"the node has woken {self._wakes} times at {now_ms} ms and is not done")


class OneTimer:
    """The timer by which a process wakes its node: as in the product, the last wish counts alone."""

    def __init__(self) -> None:
        self._number = 0
        self._at_ms: int | None = None

    def set(self, at_ms: int) -> int:
        """Set it anew, to the node's own time; return the number that tells whether it is this wish that rings."""
        self._number += 1
        self._at_ms = at_ms
        return self._number

    def rings(self, number: int) -> bool:
        """Say whether the wish of that number still counts; it is fulfilled then."""
        if number != self._number or self._at_ms is None:
            return False
        self._at_ms = None
        return True

    def check(self, wanted_ms: int | None) -> None:
        """Raise ViolationError when a node that expects to be woken will not be by then."""
        if wanted_ms is not None and (self._at_ms is None or self._at_ms > wanted_ms):
            raise ViolationError(
                "lost-wake", f"the node expects to be woken at {wanted_ms} ms, and its timer is set to {self._at_ms} ms"
            )


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
