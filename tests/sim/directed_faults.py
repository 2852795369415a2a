"""Faults of the worlds that are made for them, which no other world draws."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.sim.query import Query

if TYPE_CHECKING:
    from tests.sim.world import World


def remove_topic_that_came_back(world: "World") -> bool:
    """Have a topic vanish that has just come back to a query which has not planned with it again."""
    queries = [application.process for application in world.fleet.running() if isinstance(application.process, Query)]
    came_back = {name for query in queries for name in query.watch.came_back}
    there = sorted(came_back & world.kafka.topics.keys())
    if there and len(world.kafka.topics) > 1:
        world.kafka.delete(world.dice.choice(there))
        return True
    return False


DIRECTED_FAULT_OF: dict[str, Callable[["World"], bool]] = {
    "topic-vanished-when-back": remove_topic_that_came_back,
}
"""Every such fault by name."""
