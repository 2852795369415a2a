"""The calls of a query whose micro-batch does not fit one request: several, as the member client makes them.

Between two of them the query can die, lose its connection or its partitions, and others can have them.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from coordinator.protocol.parts import Claim
from spark_kcoord.member.core import events
from spark_kcoord.member.core.held.portions import advance_portions, bytes_of, join_outcomes, portions

if TYPE_CHECKING:
    from tests.sim.query import Query, Script


def advance(query: "Query", finished: Sequence[Claim], claims: Sequence[Claim]) -> "Script":
    """Finish a micro-batch and claim the next one; returns the outcome of the whole."""
    world = query.world
    asked = advance_portions(finished, claims, world.mix.portion_items)
    outcomes = []
    for index, portion in enumerate(asked):
        if index:
            world.checker.coverage["call in portions"] += 1
            yield query.between("two portions of a micro-batch")
        call = events.AdvanceCall(portion.finished, portion.claims, keeps_offered=index > 0)
        outcomes.append((yield query.calling(call)))
    return join_outcomes(asked, outcomes, finished, claims)


def confirm(query: "Query", claims: Sequence[Claim]) -> "Script":
    """Begin a micro-batch; returns how each of its claims stands."""
    statuses: list[Any] = []
    for portion in portions(claims, bytes_of, query.world.mix.portion_items):
        if statuses:
            yield query.between("two confirmations")
        statuses += yield query.calling(events.ConfirmCall(portion))
    return tuple(statuses)
