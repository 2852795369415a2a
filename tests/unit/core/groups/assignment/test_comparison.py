"""Subscriptions are held against those of others in turns, and each look at what they name counts."""

from collections.abc import Iterator

from coordinator.core import meter
from coordinator.core.groups.assignment.comparison import Comparison
from coordinator.core.groups.hard.records import MemberFacts
from coordinator.core.meter import Meter
from coordinator.protocol.parts import Subscription
from tests.helpers.node_world import NodeWorld


class Listed(tuple[object, ...]):
    """Names or partitions, and how often all of them were looked at."""

    looks = 0

    def __iter__(self) -> Iterator[object]:
        self.looks += 1
        return super().__iter__()


def facts_of(subscription: Subscription) -> MemberFacts:
    world = NodeWorld({"t": 9})
    world.join("m1", subscription=subscription)
    return world.group().members["m1"].facts


def test_what_a_registration_names_is_looked_at_once_for_all_members() -> None:
    names, partitions = Listed(f"n{number}" for number in range(500)), Listed(("t", number) for number in range(5, 9))
    for one, another in (
        (Subscription(names), Subscription(("t",))),  # type: ignore[arg-type]
        (Subscription(partitions=partitions), Subscription(partitions=(("t", 0), ("t", 1)))),  # type: ignore[arg-type]
    ):
        facts, comparison = facts_of(another), Comparison(Meter())
        assert [comparison.overlap(one, f"m{number}", facts) for number in range(50)] == [False] * 50
    assert (names.looks, partitions.looks) == (1, 1)


def test_partitions_that_are_named_count_also_where_their_topics_are_few() -> None:
    work = Meter()
    partitions = tuple(("t", number) for number in range(9))
    facts = facts_of(Subscription(partitions=partitions))
    for number, one in enumerate((Subscription(("u",)), Subscription(pattern="u.*"))):
        before = work.matched
        assert Comparison(work).overlap(one, f"m{number}", facts) is False
        assert work.matched - before >= 100 * len(partitions)
    assert work.matched < meter.MATCHED_AT_ONCE
