"""Queries that keep silent are named: a topic that it planned with and lost, and what its run was to read."""

from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from spark_kcoord.member.core.held.holdings import AssignedPartition, Assignment
from tests.sim.kafka import Kafka
from tests.sim.log.state import ViolationError
from tests.sim.query_watch import NOTICE_WITHIN_MS, QueryWatch

NOTHING = Assignment((), is_complete=True)


def having(topic_id: str, start: int = 0) -> Assignment:
    return Assignment((AssignedPartition("t", topic_id, 0, 7, start, start, False, False),), is_complete=True)


class Watched:
    """A query that does as it is told, in a world of one topic, under its watch."""

    def __init__(self) -> None:
        self.kafka = Kafka(Random(1), {"t": 1})
        self.schedule = SimpleNamespace(now_ms=0)
        world = SimpleNamespace(kafka=self.kafka, schedule=self.schedule)
        self.query = SimpleNamespace(
            world=world,
            name="q1.1",
            assignment=NOTHING,
            fail_on_data_loss=True,
            has_been_member=True,
            settings=SimpleNamespace(coordinator_timeout_ms=30_000),
        )
        self.watch = QueryWatch(cast(Any, self.query))

    def call(self, shown: Assignment, held: Assignment) -> None:
        """Have latestOffset be called that plans with one assignment and returns when there is another."""
        self.watch.call_begins()
        self.query.assignment = held
        self.watch.shown(shown)
        self.watch.call_returned()
        self.schedule.now_ms += NOTICE_WITHIN_MS


def test_a_topic_that_a_query_planned_with_and_that_is_gone_has_to_be_said() -> None:
    watched = Watched()
    watched.call(having("id-1"), NOTHING)
    watched.kafka.delete("t")
    watched.call(NOTHING, NOTHING)
    watched.schedule.now_ms += 1
    with pytest.raises(ViolationError, match=r"^silent-loss: q1.1 says nothing though its topics are gone"):
        watched.call(NOTHING, NOTHING)


def test_a_topic_that_came_and_went_between_two_calls_is_nothing_to_a_query() -> None:
    watched = Watched()
    watched.call(NOTHING, having("id-1"))
    watched.kafka.delete("t")
    for _ in range(3):
        watched.call(NOTHING, NOTHING)


@pytest.mark.parametrize(("topic_id", "is_due"), [("id-1", True), ("id-0", False)])
def test_a_run_is_to_read_what_it_was_assigned_of_the_topic_whose_ends_it_froze(topic_id: str, is_due: bool) -> None:
    watched = Watched()
    watched.watch.frozen({("t", 0): 9})
    watched.watch.assigned(having(topic_id))
    assert (watched.watch.due_end(("t", 0)) == 9) == is_due
