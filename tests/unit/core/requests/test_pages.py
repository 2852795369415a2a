"""Answers about large groups come in pages: no step tells more than one, and all pages together tell everything."""

import pytest

from coordinator.core.events import EndOffsetsRead
from coordinator.core.groups.partitions.pages import next_names, next_numbers
from coordinator.core.limits import Limits
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    CommitOffsets,
    DescribeGroup,
    DescribeGroupResponse,
    FetchOffsets,
    FetchOffsetsResponse,
    ListGroupEvents,
    ListGroupEventsResponse,
    ListGroups,
    ListGroupsResponse,
    Request,
    Response,
)
from coordinator.protocol.messages.operators import (
    ChangeDrain,
    ChangePause,
    DescribeControls,
    DescribeControlsResponse,
    ResetOffsets,
)
from coordinator.protocol.messages.pages import ask_for_all, join_pages
from coordinator.protocol.parts import DescribedUpTo, MemberDescription, ResetPolicy, ResetTarget, TopicOffsets
from tests.helpers.node_world import NodeWorld

MOST = 4
PAGED = Limits(page_items=MOST)


def world_of_offsets(partitions: int, groups: tuple[str, ...] = ("g",)) -> NodeWorld:
    """Offsets of a topic that Kafka does not have."""
    world = NodeWorld({}, limits=PAGED)
    numbers = tuple(range(partitions))
    for group_id in groups:
        world.connect().send(CommitOffsets(group_id, (TopicOffsets("gone", numbers, numbers),)))
    return world


def ask_page_by_page(world: NodeWorld, request: Request) -> tuple[Response, list[int]]:
    """Ask for all pages and return what they say together, with how much each step did that told one."""
    tool = world.connect()
    things = []

    def ask(one: Request) -> Response:
        correlation_id = tool.send(one)
        things.append(world.node.things_done)
        response = tool.answer(correlation_id)
        while response is None:
            world.advance(1)
            things.append(world.node.things_done)
            response = tool.answer(correlation_id)
        return response

    return ask_for_all(ask, request), things


@pytest.mark.parametrize("partitions", [0, 1, MOST - 1, MOST, MOST + 1, 3 * MOST, 50])
def test_offsets_of_a_large_group_are_told_in_pages(partitions: int) -> None:
    world = world_of_offsets(partitions + 1)
    whole, things = ask_page_by_page(world, FetchOffsets("g"))
    assert isinstance(whole, FetchOffsetsResponse)
    assert [(row.topic, row.partition, row.offset) for row in whole.offsets] == [
        ("gone", number, number) for number in range(partitions + 1)
    ]
    assert whole.up_to is None
    assert max(things) <= MOST


@pytest.mark.parametrize("members", [1, MOST - 1, MOST, MOST + 1, 2 * MOST])
@pytest.mark.parametrize("partitions", [1, MOST, 3 * MOST + 1])
def test_a_description_goes_on_where_the_page_before_ended(members: int, partitions: int) -> None:
    world = NodeWorld({"a": partitions, "b": 2}, limits=PAGED)
    names = sorted(world.join(f"m{number}", topics=("a", "b")).member_id for number in range(members))
    world.settle()
    whole, things = ask_page_by_page(world, DescribeGroup("g"))
    assert isinstance(whole, DescribeGroupResponse)
    assert [member.member_id for member in whole.members] == names
    expected = [("a", number) for number in range(partitions)] + [("b", 0), ("b", 1)]
    assert [(row.topic, row.partition) for row in whole.partitions] == expected
    assert whole.topic_ids == (("a", "id-a"), ("b", "id-b"))
    assert max(things) <= MOST


def test_topics_that_are_awaited_end_no_description() -> None:
    world = NodeWorld({"z": 1}, limits=PAGED)
    awaited = tuple(f"awaited-{number}" for number in range(2 * MOST))
    world.join("m1", topics=(*awaited, "z"), wait_for_topics=True)
    whole, _ = ask_page_by_page(world, DescribeGroup("g"))
    assert isinstance(whole, DescribeGroupResponse)
    assert [row.topic for row in whole.partitions] == ["z"]


@pytest.mark.parametrize("groups", [1, MOST, MOST + 1, 40])
def test_groups_are_listed_in_pages(groups: int) -> None:
    names = tuple(f"group-{number:03}" for number in range(groups))
    whole, things = ask_page_by_page(world_of_offsets(1, names), ListGroups())
    assert isinstance(whole, ListGroupsResponse)
    assert [line.group_id for line in whole.groups] == list(names)
    assert max(things) <= MOST


def test_a_group_that_is_deleted_between_two_pages_ends_the_answer_with_a_refusal() -> None:
    gone = DescribeGroupResponse(error=ErrorCode.GROUP_ID_NOT_FOUND, message="there is no group 'g'")
    assert join_pages((DescribeGroupResponse(group_id="g"), gone)) == gone


def described(group_epoch: int, member_id: str, up_to: DescribedUpTo | None = None) -> DescribeGroupResponse:
    member = MemberDescription(member_id, None, "", "", 0, "", 0, 1, True, 0, 0)
    return DescribeGroupResponse(group_id="g", group_epoch=group_epoch, members=(member,), up_to=up_to)


def test_a_group_that_is_rebalanced_between_two_pages_is_described_anew() -> None:
    first = DescribedUpTo("m1")
    pages = [described(1, "m1", first), described(2, "m2"), described(2, "m1", first), described(2, "m3")]
    asked = []

    def ask(request: Request) -> Response:
        asked.append(request)
        return pages.pop(0)

    whole = ask_for_all(ask, DescribeGroup("g"))
    assert isinstance(whole, DescribeGroupResponse)
    assert [member.member_id for member in whole.members] == ["m1", "m3"]
    assert asked == [DescribeGroup("g"), DescribeGroup("g", first)] * 2


def test_a_group_that_is_rebalanced_all_the_time_is_described_all_the_same() -> None:
    epochs = iter(range(100))
    ends = iter([DescribedUpTo("m1"), None] * 3)
    whole = ask_for_all(lambda _: described(next(epochs), "m", next(ends)), DescribeGroup("g"))
    assert isinstance(whole, DescribeGroupResponse)
    assert (whole.group_epoch, len(whole.members)) == (5, 2)


def test_requests_that_come_together_have_a_step_each() -> None:
    world = world_of_offsets(3 * MOST)
    tools = [world.connect() for _ in range(5)]
    sent = [tool.send(FetchOffsets("g")) for tool in tools]
    answered = [tool.answer(correlation_id) is not None for tool, correlation_id in zip(tools, sent, strict=True)]
    assert answered == [True, False, False, False, False]
    tools[1].close()
    world.advance(1)
    answered = [tool.answer(correlation_id) is not None for tool, correlation_id in zip(tools, sent, strict=True)]
    assert answered == [True, False, True, True, True]
    assert world.node.things_done <= MOST


@pytest.mark.parametrize("after", [-1, 0, 6, 10, 99])
@pytest.mark.parametrize("most", [1, 3, 20])
@pytest.mark.parametrize("some", [(), (0, 1, 2, 3, 4, 5, 6, 7, 8), (7, 3, 2**31 - 1, 500, 40, 41)])
@pytest.mark.parametrize("first", [0, 5])
def test_next_numbers_are_those_of_the_whole_in_order(after: int, most: int, some: tuple[int, ...], first: int) -> None:
    others = {3, 1000}
    whole = sorted({*some, *others, *range(first)})
    assert next_numbers(after, most, some, others, first) == [number for number in whole if number > after][:most]


@pytest.mark.parametrize("most", [1, 2, 9])
def test_next_names_are_those_of_the_whole_in_order(most: int) -> None:
    assert next_names({"b", "d", "a", "c"}, "a", most) == ["b", "c", "d"][:most]


def test_lag_of_a_fresh_grant_is_not_counted_to_an_end_from_before_it() -> None:
    world = NodeWorld({"t": 1})
    world.happen(EndOffsetsRead({("t", 0): 90}))
    world.join("m1", reset_policy=ResetPolicy("latest"))
    (row,) = world.describe().partitions
    assert (row.committed, row.end_offset) == (100, 100)
    world.happen(EndOffsetsRead({("t", 0): 95}))
    assert [row.end_offset for row in world.describe().partitions] == [100]
    world.happen(EndOffsetsRead({("t", 0): 95}))
    assert [row.end_offset for row in world.describe().partitions] == [95]


def test_offsets_that_are_named_are_told_in_pages_in_the_order_asked() -> None:
    """All that are named were told in one step, whatever metadata they had."""
    world = world_of_offsets(3 * MOST)
    named = tuple(("gone", number) for number in (7, 0, 11, 0, 99, 3, 4, 2, 1, 7, 5))
    whole, things = ask_page_by_page(world, FetchOffsets("g", named))
    assert isinstance(whole, FetchOffsetsResponse)
    assert [row.partition for row in whole.offsets] == [7, 0, 11, 3, 4, 2, 1, 5]
    assert max(things) <= MOST


def test_offsets_with_long_metadata_end_a_page_sooner_also_when_they_are_named() -> None:
    world = NodeWorld({})
    numbers = tuple(range(500))
    offsets = TopicOffsets("gone", numbers, numbers, (), (), tuple("x" * 4_096 for _ in numbers))
    world.connect().send(CommitOffsets("g", (offsets,)))
    named = tuple(("gone", number) for number in numbers)
    page = world.connect().ask(FetchOffsets("g", named), FetchOffsetsResponse)
    assert len(page.offsets) < 500
    whole, _ = ask_page_by_page(world, FetchOffsets("g", named))
    assert isinstance(whole, FetchOffsetsResponse)
    assert [row.partition for row in whole.offsets] == list(numbers)


def test_what_operators_decided_is_told_in_pages() -> None:
    world = NodeWorld({"a": 7, "b": 7}, limits=PAGED)
    names = [world.join(f"m{number}", topics=("a", "b")).member_id for number in range(6)]
    tool = world.connect()
    paused = tuple((topic, number) for topic in ("b", "a") for number in range(7))
    tool.send(ChangePause("g", None, True, "ann", is_dry_run=False))
    tool.send(ChangePause("g", paused, True, "ann", is_dry_run=False))
    for name in names:
        tool.send(ChangeDrain("g", name, True, "ann", is_dry_run=False))
    targets = tuple(ResetTarget(topic, number, "earliest") for topic, number in paused)
    tool.send(ResetOffsets("g", targets, "ann", is_dry_run=False))
    whole, things = ask_page_by_page(world, DescribeControls("g"))
    assert isinstance(whole, DescribeControlsResponse)
    told = [(one.kind, one.member_id, one.topic, one.partition) for one in whole.controls]
    assert told == [
        ("group-paused", "", "", None),
        *[("partition-paused", "", *partition) for partition in sorted(paused)],
        *[("member-drained", name, "", None) for name in sorted(names)],
        *[("reset-pending", "", *partition) for partition in sorted(paused)],
    ]
    assert whole.up_to is None
    assert max(things) <= MOST


def test_pauses_with_long_reasons_end_a_page_sooner() -> None:
    """Twenty thousand of them passed the largest answer, so that nobody could see what stood."""
    world = NodeWorld({"t": 1_500})
    world.join("m1")
    partitions = tuple(("t", number) for number in range(1_500))
    world.connect().send(ChangePause("g", partitions, True, "ann", "x" * 1_000, is_dry_run=False))
    page = world.connect().ask(DescribeControls("g"), DescribeControlsResponse)
    assert sum(len(one.why) for one in page.controls) < 1_100_000
    whole, _ = ask_page_by_page(world, DescribeControls("g"))
    assert isinstance(whole, DescribeControlsResponse)
    assert [one.partition for one in whole.controls] == list(range(1_500))


def test_a_timeline_with_long_names_is_told_in_pages() -> None:
    topic = "t" * 249
    world = NodeWorld({topic: 100})
    world.join("m1", topics=(topic,))
    partitions = tuple((topic, number) for number in range(100))
    for number in range(60):
        world.connect().send(ChangePause("g", partitions, number % 2 == 0, "ann", is_dry_run=False))
        world.advance(1_000)
    page = world.connect().ask(ListGroupEvents("g"), ListGroupEventsResponse)
    assert page.up_to == page.events[-1].sequence
    whole, _ = ask_page_by_page(world, ListGroupEvents("g"))
    assert isinstance(whole, ListGroupEventsResponse)
    assert whole.up_to is None
    assert [event.sequence for event in whole.events] == list(range(1, len(whole.events) + 1))
    assert len(whole.events) > len(page.events)
