"""Worlds in which every micro-batch outlasts the rebalance time-out, also in the end, and nothing else fails.

Members come and go, and a query waits now and then between `latestOffset` and `partitions`, as for its other source.
`progress_watch.py` watches what has to go on all the same.
"""

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.sim.mix import Mix

CHANCE = 0.1
TIMEOUT_MS = 1_500
BATCHES_MS = (TIMEOUT_MS + 200, 2 * TIMEOUT_MS, 3 * TIMEOUT_MS)
OTHER_SOURCE_MS = (0, 0, TIMEOUT_MS // 2, 2 * TIMEOUT_MS)
"""The time that a query waits until it plans what it was offered."""
CHANGES_EVERY_MS = 10_000
"""The interval at which a member comes or goes: a little longer than a micro-batch and the one before it take."""
REST_MS = 45_000
"""The time beyond the usual until all is committed in the end."""
FAULTS = {"member-joined": 2.0, "member-left": 1.0}


def maybe_slow(mix: "Mix", dice: Random) -> "Mix":
    """Return a mix that was drawn, or make it such a world."""
    return mix if dice.random() >= CHANCE else slow(mix)


def slow(mix: "Mix") -> "Mix":
    """Return a mix as such a world."""
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
