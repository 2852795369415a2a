"""Sentences and figures from a group's timeline."""

import pytest

from coordinator.demo.screen.timeline import Handover, describe_event, find_handover, granted_to, name_partitions
from coordinator.protocol.parts import GroupEvent

NAMES = {"m-1": "first", "m-2": "second"}


def event(
    kind: str, member: str = "", *partitions: int, at_ms: int = 0, why: str = "", took: int | None = None
) -> GroupEvent:
    return GroupEvent(
        sequence=1,
        at_ms=at_ms,
        kind=kind,
        member_id=member,
        why=why,
        group_epoch=4,
        partitions=tuple(("flights", partition) for partition in partitions),
        duration_ms=took,
    )


@pytest.mark.parametrize(
    ("told", "sentence"),
    [
        (event("member-joined", "m-2"), "second joined"),
        (event("rebalance", why="m-2 joined"), "rebalance (group epoch 4): second joined"),
        (event("granted", "m-2", 4, 5, why="joined", took=12), "second gets partitions 4-5: joined (12 ms)"),
        (
            event("taken-over", "m-1", 4, why="its owner m-2 is gone", took=1003),
            "partition 4 taken over by first: its owner second is gone (1003 ms)",
        ),
        (event("released", "m-1", 4, why="m-1 let go"), "first let go of partition 4"),
        (event("stable", took=80), "the group is stable (group epoch 4) (80 ms)"),
        (event("member-left", "m-9"), "m-9 left"),
        (event("comet-seen", "m-1", 2, why="it is new"), "comet-seen first partition 2: it is new"),
    ],
)
def test_an_event_is_a_sentence(told: GroupEvent, sentence: str) -> None:
    assert describe_event(told, NAMES) == sentence


@pytest.mark.parametrize(
    ("partitions", "text"),
    [([], ""), ([3], "partition 3"), ([2, 0, 1], "partitions 0-2"), ([7, 0, 1, 4, 5], "partitions 0-1, 4-5, 7")],
)
def test_partitions_are_named_in_runs(partitions: list[int], text: str) -> None:
    assert name_partitions(partitions) == text


def test_grants_are_counted_for_one_member() -> None:
    events = [
        event("granted", "m-1", 0, 1),
        event("granted", "m-2", 2),
        event("released", "m-1", 3),
        event("granted", "m-2", 4),
    ]
    assert granted_to(events, "m-2") == {2, 4}


def test_the_handover_ends_with_the_last_grant_to_the_survivor() -> None:
    lost = frozenset({4, 5, 6})
    events = [
        event("granted", "m-1", 4, at_ms=100),
        event("taken-over", "m-1", 5, 6, 7, at_ms=110),
        event("granted", "m-3", 5, at_ms=120),
        event("granted", "m-1", 6, 1, at_ms=1100),
    ]
    assert find_handover(events, "m-1", lost) is None
    events.append(event("granted", "m-1", 5, at_ms=1050))
    assert find_handover(events, "m-1", lost) == Handover(lost, frozenset({5, 6}), 1100)


def test_a_later_grant_of_the_same_partition_does_not_prolong_the_handover() -> None:
    events = [event("granted", "m-1", 4, at_ms=100), event("granted", "m-1", 4, at_ms=9000)]
    assert find_handover(events, "m-1", frozenset({4})) == Handover(frozenset({4}), frozenset(), 100)


def test_nothing_lost_is_no_handover() -> None:
    assert find_handover([event("granted", "m-1", 4)], "m-1", frozenset()) is None
