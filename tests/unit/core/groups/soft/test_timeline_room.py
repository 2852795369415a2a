"""The memory of all timelines together: the newest events of all stay, whatever groups there are."""

from coordinator.core.groups.soft.timeline import EventKind, Timeline
from coordinator.core.groups.soft.timeline_room import TimelineRoom
from coordinator.core.limits import Limits
from coordinator.protocol.messages.operators import ChangePause, ChangePauseResponse, DeleteGroup, DeleteGroupResponse
from tests.helpers.node_world import NodeWorld

LONG = "w" * 1_000


def say(timeline: Timeline, why: str = LONG) -> None:
    timeline.add(EventKind.PAUSED, at_ms=0, member_id="", why=why, group_epoch=0)


def numbers(timeline: Timeline) -> list[int]:
    return [event.sequence for event in timeline.page(0)[0]]


def test_oldest_events_of_all_make_room_for_the_newest() -> None:
    room = TimelineRoom(5_000)
    one, two = Timeline(100, room), Timeline(100, room)
    say(one)
    say(two)
    say(two)
    say(one)
    assert (numbers(one), numbers(two)) == ([2], [1, 2])
    assert room.used_bytes <= 5_000


def test_event_that_its_own_timeline_drops_gives_its_room_back() -> None:
    room = TimelineRoom(1_000_000)
    one, two = Timeline(2, room), Timeline(100, room)
    say(two)
    for _ in range(5_000):
        say(one)
    assert (numbers(one), numbers(two)) == ([4_999, 5_000], [1]), "much that happens in one group takes no other's"
    assert room.used_bytes < 5_000
    one.forget()
    two.forget()
    assert room.used_bytes == 0


def test_event_larger_than_all_room_is_not_kept() -> None:
    room = TimelineRoom(2_000)
    one = Timeline(100, room)
    say(one)
    say(one, LONG * 2)
    assert numbers(one) == []
    say(one)
    assert numbers(one) == [3]


def test_timeline_of_no_length_keeps_nothing() -> None:
    room = TimelineRoom(2_000)
    one = Timeline(0, room)
    say(one)
    assert (numbers(one), room.used_bytes) == ([], 0)


def test_events_of_all_groups_of_a_node_are_bounded_together() -> None:
    world = NodeWorld({"t": 100}, limits=Limits(timeline_total_bytes=50_000), shards=4)
    groups = [f"g{number}" for number in range(8)]
    for group_id in groups:
        world.join(group_id=group_id)
    tool = world.connect()
    for turn in range(20):
        for group_id in groups:
            named = (("t", turn),)
            pause = ChangePause(group_id, named, is_paused=True, who="ann", why=LONG, is_dry_run=False)
            assert tool.ask(pause, ChangePauseResponse).partitions == named
    kept = [event for group_id in groups for event in world.events("paused", group_id)]
    assert 20 <= len(kept) <= 50
    assert {event.partitions for event in kept} <= {(("t", turn),) for turn in range(10, 20)}, "the newest of all"


def test_group_that_is_deleted_leaves_no_events() -> None:
    world = NodeWorld({"t": 1}, shards=1)
    member = world.join("m1")
    member.leave()
    room = world.node._timeline_room
    assert room.used_bytes > 0
    world.connect().ask(DeleteGroup("g", "ann", is_dry_run=False), DeleteGroupResponse)
    assert room.used_bytes == 0
