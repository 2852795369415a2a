"""Partitions by stream: spread within one of each other, moved as little as must be, told and kept."""

from collections import Counter

from coordinator.protocol.messages import StartFetcher
from coordinator.protocol.parts import Subscription
from tests.helpers.node_member import Member
from tests.helpers.node_world import NodeWorld


def streams_of(member: Member) -> dict[int, int | None]:
    """Return the stream of each partition of topic t."""
    return {number: part.stream for (_, number), part in sorted(member.owned.items())}


def test_partitions_are_spread_over_the_streams_of_a_member_that_wants_it() -> None:
    world = NodeWorld({"t": 7})
    member = world.join("m1", streams=3, wants_streams=True)
    assert streams_of(member) == {0: 0, 1: 1, 2: 2, 3: 0, 4: 1, 5: 2, 6: 0}


def test_member_that_does_not_want_it_is_told_no_stream() -> None:
    world = NodeWorld({"t": 2})
    assert streams_of(world.join("m1", streams=3)) == {0: None, 1: None}


def test_partitions_that_come_do_not_move_those_that_are_there() -> None:
    world = NodeWorld({"t": 4})
    member = world.join("m1", streams=2, wants_streams=True)
    before = streams_of(member)
    world.kafka.topics["t"] = 7
    world.poll_topics()
    world.settle()
    after = streams_of(member)
    assert {number: after[number] for number in before} == before
    assert Counter(after.values()) == {0: 4, 1: 3}


def test_as_few_as_must_be_move_when_partitions_go_and_they_keep_their_owner_epochs() -> None:
    world = NodeWorld({"t": 4, "u": 2})
    member = world.join("m1", streams=2, wants_streams=True, topics=("t",))
    before = {number: (part.owner_epoch, part.stream) for (_, number), part in member.owned.items()}
    assert {number: stream for number, (_, stream) in before.items()} == {0: 0, 1: 1, 2: 0, 3: 1}
    other = world.join("m2", subscription=_partitions(0, 2))
    member.stop_all()
    after = {number: (part.owner_epoch, part.stream) for (_, number), part in member.owned.items()}
    assert after == {1: before[1], 3: (before[3][0], 0)}
    assert sorted(number for _, number in other.owned) == [0, 2]


def test_streams_survive_a_restart_of_the_coordinator_and_of_the_connection() -> None:
    world = NodeWorld({"t": 5})
    member = world.join("m1", streams=2, wants_streams=True)
    before = streams_of(member)
    world.restart()
    again = world.join("m1", streams=2, wants_streams=True)
    assert streams_of(again) == before
    assert streams_of(world.reconnect(again)) == before


def test_fewer_streams_take_over_what_the_others_had() -> None:
    world = NodeWorld({"t": 4})
    member = world.join("m1", streams=4, wants_streams=True)
    assert Counter(streams_of(member).values()) == {0: 1, 1: 1, 2: 1, 3: 1}
    again = world.reconnect(member, streams=2)
    assert streams_of(again) == {0: 0, 1: 1, 2: 0, 3: 1}


def test_a_partition_is_told_once_while_nothing_changes() -> None:
    world = NodeWorld({"t": 4})
    member = world.join("m1", streams=2, wants_streams=True)
    member.inbox.clear()
    world.join("m2", topics=("u",), wait_for_topics=True)
    assert [part for push in member.inbox if isinstance(push, StartFetcher) for part in push.partitions] == []


def test_description_names_the_stream() -> None:
    world = NodeWorld({"t": 2})
    world.join("m1", streams=2, wants_streams=True)
    assert [part.stream for part in world.describe().partitions] == [0, 1]


def _partitions(*numbers: int) -> Subscription:
    return Subscription(partitions=tuple(("t", number) for number in numbers))
