"""A part of `make compare-kafka-python`: programs without a group, by kafka-python's consumer and by ours."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from tests.compare_consumer.__main__ import LEAST_CASES, Comparison
from tests.compare_consumer.cases import CASES, Case

if TYPE_CHECKING:
    from coordinator.local.kafka.broker import LocalKafka
    from coordinator.local.node import LocalCoordinator

pytestmark = pytest.mark.kafka

PART = (
    "the fields of a record",
    "keys, values and headers that are missing",
    "a deserializer that raises",
    "a seek within an iteration",
    "a poll goes on where an iteration was left",
    "an offset out of range, none",
    "no start and the policy none",
    "what does not go together",
    "a partition that is not assigned",
    "an argument of the wrong kind: a",
)


@pytest.fixture
def comparison(
    kafka: "LocalKafka", coordinator: "LocalCoordinator", topic_name: Callable[[], str]
) -> Iterator[Comparison]:
    """Return a comparison on the broker and the coordinator that all tests share."""
    made = Comparison(kafka, coordinator.address, topic_name())
    yield made
    made.close()


def test_programs_without_a_group_note_the_same_with_both_consumers(comparison: Comparison) -> None:
    part: list[Case] = [case for case in CASES if any(case.name.startswith(words) for words in PART)]
    assert len(part) > len(PART)
    unequal = {case.name: why for case in part if (why := comparison.why_unequal(case)) is not None}
    assert unequal == {}


def test_cases_have_names_of_their_own_and_are_enough() -> None:
    assert len({case.name for case in CASES}) == len(CASES) >= LEAST_CASES
