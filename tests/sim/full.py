"""Worlds whose node is full: all of its groups together may take little, and others want ever more of it.

What these others do is `crowd`'s, and what members may rely on meanwhile `room`'s.
"""

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.sim.mix import Mix

CHANCE = 0.08
ROOM_BYTES = (5_000, 9_000, 16_000)
"""The room of all groups: some members and their offsets, all of them, and all of them with some to spare."""


def maybe_full(mix: "Mix", dice: Random) -> "Mix":
    """Return a mix that was drawn, or make its node a full one."""
    if mix.is_slow or mix.is_losing or dice.random() >= CHANCE:
        return mix
    limit = {dice.choice(("node_max_bytes", "principal_max_bytes")): dice.choice(ROOM_BYTES)}
    return replace(mix, is_full=True, limits=replace(mix.limits, **limit))
