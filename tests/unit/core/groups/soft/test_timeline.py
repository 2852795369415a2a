"""What is put on timelines: it lasts, it is bounded, and what comes too fast is told together."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from coordinator.core.effects import Append
from coordinator.core.groups.hard.records import EventsNoted, MemberJoined, Record, decode_record, encode_record
from coordinator.core.groups.hard.snapshot import records_of
from coordinator.core.groups.hard.tables.timeline import ENTRY_BYTES, encode_entry
from coordinator.core.groups.soft import timeline_room
from coordinator.core.groups.soft.timeline import TOLD_TOGETHER_MS, EventKind, Flow, entry_of
from coordinator.core.limits import Limits
from coordinator.protocol.messages import ListGroupEvents, ListGroupEventsResponse, Request, Response
from coordinator.protocol.messages.operators import ChangePause, ChangePauseResponse, DeleteGroup, DeleteGroupResponse
from coordinator.protocol.messages.pages import ask_for_all
from coordinator.protocol.parts import GroupEvent
from tests.helpers.node_world import NodeWorld

LONG = "w" * 1_000


def pause(world: NodeWorld, group_id: str = "g", number: int = 0, why: str = "", *, times: int = 1) -> None:
    """Pause a partition and resume it, in turns."""
    tool = world.connect()
    for turn in range(times):
        request = ChangePause(group_id, (("t", number),), turn % 2 == 0, "ann", why, is_dry_run=False)
        assert tool.ask(request, ChangePauseResponse).partitions


def appended(world: NodeWorld, since: int) -> list[list[Record]]:
    """Return the records of each append since some effect."""
    appends = [effect for effect in world.effects[since:] if isinstance(effect, Append)]
    return [[decode_record(data) for data in append.records] for append in appends]


def numbers(events: Sequence[GroupEvent]) -> list[int]:
    return [event.sequence for event in events]


def test_timeline_is_the_same_after_a_restart_and_goes_on_with_its_numbers() -> None:
    world = NodeWorld({"t": 2}, shards=1)
    world.join("m1").leave()
    world.settle()
    before = world.events()
    world.restart()
    assert world.events() == before
    assert {event.kind for event in before} >= {"member-joined", "member-left", "granted", "rebalance"}
    world.join("m2")
    after = world.events()
    assert after[: len(before)] == before
    assert numbers(after) == list(range(1, len(after) + 1))


def test_timeline_is_part_of_a_snapshot() -> None:
    world = NodeWorld({"t": 2}, shards=1, limits=Limits(snapshot_interval_records=40))
    world.join("m1")
    pause(world, times=250)
    assert 0 in world.snapshots
    before = world.events()
    assert len(before) > 250
    end, _ = world.snapshots[0]
    world.written[0][:end] = [b"not read any more"] * end
    world.restart()
    assert world.events() == before


def test_entries_are_one_record_with_the_records_of_their_step() -> None:
    """An entry has no write of its own where something changed: nothing waits for it, and it is there if that is."""
    world = NodeWorld({"t": 2}, shards=1)
    world.join("m1")
    since = len(world.effects)
    world.join("m2")
    steps = appended(world, since)
    assert all(len([record for record in step if isinstance(record, EventsNoted)]) <= 1 for step in steps)
    (joining,) = [step for step in steps if any(isinstance(record, MemberJoined) for record in step)]
    assert isinstance(joining[-1], EventsNoted)
    assert [step for step in steps if all(isinstance(record, EventsNoted) for record in step)] == []


def test_commit_writes_nothing_for_the_timeline() -> None:
    world = NodeWorld({"t": 2}, shards=1)
    member = world.join("m1")
    since = len(world.effects)
    member.commit(("t", 0), 150)
    assert not any(isinstance(record, EventsNoted) for step in appended(world, since) for record in step)


def test_own_oldest_entries_make_room_by_number_and_by_bytes() -> None:
    world = NodeWorld({"t": 2}, shards=1, limits=Limits(timeline_length=5))
    world.join("m1")
    pause(world, times=10)
    assert len(world.events()) == 5
    world = NodeWorld({"t": 2}, shards=1, limits=Limits(timeline_max_bytes=6_000))
    world.join("m1")
    pause(world, why=LONG, times=12)
    kept = world.events()
    assert 4 <= len(kept) <= 5
    assert world.group().timeline.bytes <= 6_000
    assert numbers(kept)[-1] == world.group().timeline.last_sequence


def test_timeline_of_no_length_keeps_nothing_and_writes_nothing() -> None:
    world = NodeWorld({"t": 2}, shards=1, limits=Limits(timeline_length=0))
    world.join("m1")
    assert world.events() == []
    assert not any(isinstance(decode_record(data), EventsNoted) for data in world.written[0])


def test_timeline_that_is_to_have_no_length_any_more_is_dropped_with_the_next_entry() -> None:
    world = NodeWorld({"t": 2}, shards=1)
    world.join("m1")
    last = world.group().timeline.last_sequence
    world.limits = replace(world.limits, timeline_length=0)
    world.restart()
    since = len(world.effects)
    pause(world, times=4)
    assert world.events() == []
    noted = [one for step in appended(world, since) for one in step if isinstance(one, EventsNoted)]
    assert noted == [EventsNoted("g", last + 1, (), last)]
    world.restart()
    assert (world.events(), world.group().timeline.last_sequence) == ([], last)


def test_oldest_entries_of_all_groups_of_a_shard_make_room_for_the_newest() -> None:
    world = NodeWorld({"t": 100}, limits=Limits(timeline_total_bytes=100_000), shards=2)
    groups = [f"g{number}" for number in range(8)]
    for group_id in groups:
        world.join(group_id=group_id)
    for turn in range(20):
        world.advance(1_000)
        for group_id in groups:
            tool = world.connect()
            named = (("t", turn),)
            request = ChangePause(group_id, named, is_paused=True, who="ann", why=LONG, is_dry_run=False)
            assert tool.ask(request, ChangePauseResponse).partitions == named
    kept = [event for group_id in groups for event in world.events("paused", group_id)]
    assert 60 <= len(kept) <= 100
    assert {event.partitions[0][1] for event in kept} <= set(range(5, 20)), "the newest of each shard"
    for shard in range(2):
        groups_there = world.state(shard).groups.values()
        assert sum(group.timeline.bytes for group in groups_there) <= 50_000
    before = {group_id: world.events(group_id=group_id) for group_id in groups}
    world.restart()
    assert {group_id: world.events(group_id=group_id) for group_id in groups} == before
    for group_id in groups:
        pause(world, group_id, 99, LONG, times=2)
    for shard in range(2):
        groups_there = world.state(shard).groups.values()
        assert sum(group.timeline.bytes for group in groups_there) <= 50_000, "a load counts what there is"


@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize("ahead_ms", [100_000, 86_400_000])
def test_entries_of_a_clock_that_was_ahead_go_before_those_that_were_noted_since(
    ahead_ms: int, *, is_restarted: bool
) -> None:
    world = NodeWorld({"t": 1}, limits=Limits(timeline_total_bytes=60_000), shards=1)
    room = world.node._shards[0].desk.timelines.room
    world.wall_offset_ms += ahead_ms
    old = ("old-1", "old-2", "old-3")
    for group_id in old:
        world.join(group_id=group_id)
    for _ in range(15):
        world.advance(1_000)
        for group_id in old:
            pause(world, group_id, why=LONG, times=2)
    assert room.used_bytes > 50_000
    world.wall_offset_ms -= ahead_ms
    world.advance(1_000)
    if is_restarted:
        world.restart()
    world.join(group_id="new")
    for _ in range(5):
        world.advance(1_000)
        for group_id in ("new", *old):
            pause(world, group_id, why=LONG, times=2)
        assert numbers(world.events(group_id="new"))[0] == 1, "nothing that was noted since has gone"
    of_before = [len(world.events(group_id=group_id)) - 10 for group_id in old]
    assert 0 < min(of_before) <= max(of_before) <= min(of_before) + 2, "of what was before the oldest goes first"
    for _ in range(20):
        world.advance(1_000)
        for group_id in ("new", *old):
            pause(world, group_id, why=LONG, times=2)
    kept = [len(world.events(group_id=group_id)) for group_id in ("new", *old)]
    assert max(kept) - min(kept) <= 3, "all are of one clock again"


def test_much_that_has_to_go_goes_in_turns() -> None:
    """A node that starts with much less room does not stand still until all is dropped: there may be 64 MiB of it."""
    world = NodeWorld({"t": 1}, shards=1)
    for group_id in ("g0", "g1", "g2", "g3", "g4"):
        world.join("m1", group_id=group_id)
        pause(world, group_id, times=500)
        world.advance(1_000)
    world.limits = replace(world.limits, timeline_total_bytes=20_000)
    world.restart()
    room = world.node._shards[0].desk.timelines.room
    dropped = []
    while room.is_over:
        since = len(world.effects)
        pause(world, "g0", times=2)
        steps = appended(world, since)
        dropped.append(max(sum(one.dropped for one in step if isinstance(one, EventsNoted)) for step in steps))
        assert room.used_bytes == sum(group.timeline.bytes for group in world.state(0).groups.values())
    assert len(dropped) > 1
    assert max(dropped) <= 1_000


def test_group_that_is_deleted_leaves_no_room_taken_and_begins_anew() -> None:
    world = NodeWorld({"t": 1}, shards=1)
    tool = world.connect()
    for _ in range(3):
        world.join("m1").leave()
        room = world.node._shards[0].desk.timelines.room
        assert room.used_bytes == world.group().timeline.bytes > 0
        assert world.events()[0].sequence == 1
        tool.ask(DeleteGroup("g", "ann", is_dry_run=False), DeleteGroupResponse)
        assert room.used_bytes == 0


def test_groups_that_come_and_go_leave_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline_room, "_MORE_THAN_GROUPS", 50)
    world = NodeWorld({"t": 1}, shards=1)
    tool = world.connect()
    for number in range(80):
        world.join("m1", group_id=f"g{number}", is_settled=False).leave()
        tool.ask(DeleteGroup(f"g{number}", "ann", is_dry_run=False), DeleteGroupResponse)
    assert len(world.node._shards[0].desk.timelines.room._oldest) <= 52


def test_flood_of_joins_is_told_together_and_writes_a_bounded_number_of_bytes() -> None:
    limits = Limits(timeline_bytes_per_s=100)
    world = NodeWorld({"t": 1}, shards=1, limits=limits)
    world.join("m1")
    begin = len(world.written[0])
    for number in range(200):
        world.join(f"n{number:03}", is_settled=False)
    noted = [record for data in world.written[0][begin:] if isinstance(record := decode_record(data), EventsNoted)]
    written = sum(len(encode_record(record)) for record in noted)
    assert written < 16 * 100 + 2 * 300
    world.advance(TOLD_TOGETHER_MS + 100)
    joined = world.events("member-joined")
    assert "like this in a short time, not told one by one; the last: process" in joined[-1].why
    told = int(joined[-1].why.split()[0])
    assert len(joined) - 1 + told == 201
    assert joined[-1].member_id == "n199"


def test_entry_that_came_too_fast_alone_is_told_as_it_was() -> None:
    world = NodeWorld({"t": 2}, shards=1, limits=Limits(timeline_bytes_per_s=64))
    world.join("m1")
    pause(world, why=LONG, times=3)
    assert len(world.events("paused")) + len(world.events("resumed")) < 3
    world.advance(60_000)
    assert [event.why for event in world.events("paused")][-1].endswith(LONG)
    assert len(world.events("paused")) + len(world.events("resumed")) == 3


def test_what_is_left_out_of_many_groups_waits_until_the_shard_has_room() -> None:
    world = NodeWorld({"t": 1}, shards=1, limits=Limits(timeline_bytes_per_s=64))
    groups = [f"g{number}" for number in range(60)]
    for group_id in groups:
        world.join("m1", group_id=group_id, is_settled=False)
    assert any(not world.events("member-joined", group_id) for group_id in groups)
    world.advance(60_000)
    for group_id in groups:
        assert [event.kind for event in world.events("member-joined", group_id)] == ["member-joined"]


@pytest.mark.parametrize("passed_ms", [0, 999, 100_000])
def test_flow_is_so_much_at_once_and_so_much_a_second(passed_ms: int) -> None:
    flow = Flow(100)
    while flow.has_room(1_000_000):
        flow.take(150)
    assert flow._left == -50_000
    now_ms = 1_000_000 + passed_ms
    assert flow.has_room(now_ms) is (passed_ms > 500)


class TestPages:
    def world(self) -> NodeWorld:
        world = NodeWorld({"t": 2}, shards=1, limits=Limits(page_items=7))
        world.join("m1")
        for _ in range(10):
            pause(world, times=2)
            world.advance(1_000)
        return world

    def ask(self, world: NodeWorld, request: ListGroupEvents) -> ListGroupEventsResponse:
        tool = world.connect()

        def answer(one: Request) -> Response:
            correlation_id = tool.send(one)
            while (response := tool.answer(correlation_id)) is None:
                world.advance(1)
            return response

        response = ask_for_all(answer, request)
        assert isinstance(response, ListGroupEventsResponse)
        return response

    def test_a_page_has_so_many_entries_and_says_where_it_ends(self) -> None:
        world = self.world()
        page = world.connect().ask(ListGroupEvents("g"), ListGroupEventsResponse)
        assert (numbers(page.events), page.up_to) == (list(range(1, 8)), 7)
        whole = self.ask(world, ListGroupEvents("g"))
        assert numbers(whole.events) == list(range(1, whole.last_sequence + 1))
        assert whole.up_to is None

    def test_a_page_has_fewer_entries_where_each_names_many_partitions(self) -> None:
        """A node does nothing else while it makes a page; a thousand of these took 60 ms."""
        world = NodeWorld({"t": 1}, shards=1)
        world.join("m1")
        entry = entry_of(EventKind.GRANTED, 0, "m", "why", 1, [("t", number) for number in range(100)], None)
        timeline = world.group().timeline
        timeline.take(timeline.last_sequence + 1, [encode_entry(entry)] * 2_000, 0)
        page = world.connect().ask(ListGroupEvents("g"), ListGroupEventsResponse)
        assert 200 < len(page.events) < 400
        whole = self.ask(world, ListGroupEvents("g"))
        assert numbers(whole.events) == list(range(1, timeline.last_sequence + 1))

    def test_kinds_and_time_choose_and_all_is_looked_at(self) -> None:
        world = self.world()
        whole = self.ask(world, ListGroupEvents("g"))
        paused = self.ask(world, ListGroupEvents("g", kinds=("paused", "drained")))
        assert [event.kind for event in paused.events] == ["paused"] * 10
        assert (paused.last_sequence, paused.up_to) == (whole.last_sequence, None)
        since_ms = paused.events[6].at_ms
        newer = self.ask(world, ListGroupEvents("g", since_ms=since_ms, kinds=("paused",)))
        assert newer.events == paused.events[6:]
        assert self.ask(world, ListGroupEvents("g", whole.last_sequence)).events == ()

    def test_ends_of_a_timeline_are_told_with_every_page_also_where_the_oldest_are_gone(self) -> None:
        world = self.world()
        timeline = world.group().timeline
        timeline.take(timeline.last_sequence + 1, [], 3)
        for after in (0, 10, 1_000_000):
            page = self.ask(world, ListGroupEvents("g", after))
            assert (page.first_sequence, page.last_sequence) == (4, timeline.last_sequence)

    def test_what_was_asked_after_is_above_the_newest_where_the_timeline_began_anew(self) -> None:
        world = self.world()
        answer = self.ask(world, ListGroupEvents("g", 1_000_000))
        assert (answer.events, answer.last_sequence < 1_000) == ((), True)


def test_an_entry_takes_no_more_in_memory_than_is_counted() -> None:
    world = NodeWorld({"t": 1}, shards=1)
    world.join("m1")
    timeline = world.group().timeline
    assert timeline.bytes == sum(map(len, timeline.entries)) + ENTRY_BYTES * len(timeline.entries)
    (noted,) = [record for record in records_of(world.state(0)) if isinstance(record, EventsNoted)]
    assert noted.entries == tuple(timeline.entries)


def test_what_is_said_of_an_event_has_a_bound_wherever_it_comes_from() -> None:
    entry = entry_of(EventKind.GRANTED, 0, "m", "\U0001f600" * 1_000_000, 1, (), None)
    assert len(encode_entry(entry)) < 20_000
    assert entry.why.endswith("\U0001f600 and 996000 characters more")


def test_member_that_takes_over_from_very_many_names_some_of_them() -> None:
    """With the ids of thousands the record would be larger than one may be, and never be written."""
    world = NodeWorld({"t": 30}, shards=1)
    first, *others = [world.join(f"m{number:02}", is_settled=False) for number in range(30)]
    world.settle()
    first.stop_all()
    for member in others:
        (partition,) = member.owned
        member.run(partition, 100, 110)
    for member in others:
        member.close()
    for _ in range(15):
        first.ping()
        world.advance(1_000)
    (taken,) = [event.why for event in world.events("granted") if event.why.startswith("taken over")]
    assert taken == "taken over from m01, m02, m03, m04, m05 and 24 more"
