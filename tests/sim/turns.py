"""Worlds in which a turn looks at one or two partitions and the next one comes milliseconds later.

On a node of its own all turns of a group as small as one of the simulator follow one another at once, and nothing
comes between two of them. On a large and busy one requests, answers of Kafka and the death of the node do.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from coordinator.core import meter
from coordinator.core.groups.assignment.assignors import assignor
from coordinator.core.groups.hard.tables import claim_table
from coordinator.core.groups.membership import looks
from coordinator.core.groups.soft import lost_owners, remains
from coordinator.core.node import Node

if TYPE_CHECKING:
    from tests.sim.mix import Mix

PARTITIONS = (1, 2, assignor.PARTITIONS_A_TURN)
BETWEEN_MS = (0, 1, 3)
LENGTHS = (
    (assignor, "PARTITIONS_A_TURN", 1),
    (looks, "CLAIMS_A_TURN", 1),
    (remains, "A_STEP", 1),
    (remains, "_LARGE", 1),
    (lost_owners, "_MANY", 1),
    (claim_table, "_MANY", 1),
    (meter, "MATCHED_AT_ONCE", 100),
)
"""How much is done in one turn, and from how much on something is kept or looked at as what is very much; and how much
of it stands for a partition."""


def with_turns(mix: "Mix", dice: Random) -> "Mix":
    """Return a mix with how much a turn is and how long the next one takes to come."""
    return replace(mix, turn_partitions=dice.choice(PARTITIONS), between_turns_ms=dice.choice(BETWEEN_MS))


@contextmanager
def turns_of(partitions: int) -> Iterator[None]:
    """Have a turn look at so few partitions, as if each took long, and as few be very many."""
    before = [vars(room)[name] for room, name, _ in LENGTHS]
    for (room, name, each), length in zip(LENGTHS, before, strict=True):
        vars(room)[name] = min(partitions * each, length)
    try:
        yield
    finally:
        for (room, name, _), length in zip(LENGTHS, before, strict=True):
            vars(room)[name] = length


KINDS = (
    "a target is computed",
    "a target is taken in parts",
    "partitions are looked at",
    "claims of a registration are looked at",
    "a member is told what it has",
    "patterns are matched",
)


def under_way(node: Node, group_id: str) -> str | None:
    """Say which work on a group goes on in turns, between two of them."""
    shard = node._shards[node.shard_of(group_id)]
    soft = shard.desk.soft.get(group_id)
    if soft is None:
        return None
    is_under_way = (
        soft.planning is not None,
        soft.staged_target is not None,
        bool(soft.backlog),
        bool(shard._membership._looks._under_way),
        any(session.untold for session in soft.sessions.values()),
        bool(shard._membership.turns),
    )
    return next((kind for kind, it_is in zip(KINDS, is_under_way, strict=True) if it_is), None)
