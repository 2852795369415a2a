"""Whoever asks for much, or for nothing that is there, holds up neither a step nor those who ask beside it."""

import pytest

from coordinator.core.effects import Respond
from coordinator.core.events import RequestArrived
from coordinator.core.limits import Limits
from coordinator.core.requests.waiting import WaitingRequests
from coordinator.protocol.messages import (
    CommitOffsets,
    DescribeGroup,
    FetchOffsets,
    FetchOffsetsResponse,
    ListGroups,
    Request,
)
from coordinator.protocol.messages.pages import ask_for_all
from coordinator.protocol.parts import DescribedUpTo, ListedUpTo, TopicOffsets
from tests.helpers.node_member import Member
from tests.helpers.node_world import NodeWorld

MOST = 40
LIMITS = Limits(page_items=MOST)
BEHIND_ALL = "zz"


def world_of_names(names: int) -> NodeWorld:
    """A group of so many topics, and as many groups beside it."""
    world = NodeWorld({}, limits=LIMITS, shards=1)
    tool = world.connect()
    tool.send(CommitOffsets("g", tuple(TopicOffsets(f"topic-{number}", (0,), (1,)) for number in range(names))))
    for number in range(names):
        tool.send(CommitOffsets(f"group-{number}", (TopicOffsets("topic-0", (0,), (1,)),)))
    return world


def arrives(world: NodeWorld, connection: Member, *requests: Request) -> int:
    """Hand requests to the node one after the other; return how many it answers in the same steps."""
    answered = 0
    for correlation_id, request in enumerate(requests, 1):
        event = RequestArrived(connection.connection_id, correlation_id, request, "")
        answered += sum(isinstance(effect, Respond) for effect in world.node.step(event, world.now_ms))
    return answered


def test_connections_that_wait_take_turns_and_each_keeps_its_order() -> None:
    waiting: WaitingRequests[str] = WaitingRequests()
    for connection_id, request in ((1, "a1"), (1, "a2"), (1, "a3"), (2, "b1"), (3, "c1"), (2, "b2")):
        waiting.add(connection_id, request)
    del waiting.by_connection[3]
    assert [waiting.take() for _ in range(5)] == ["a1", "b1", "a2", "b2", "a3"]
    assert not waiting


def test_one_page_is_waited_for_beside_a_connection_that_asked_for_many() -> None:
    world = world_of_names(2 * MOST)
    greedy, modest = world.connect(), world.connect()
    for _ in range(30):
        greedy.send(ListGroups())
    asked = modest.send(FetchOffsets("g"))
    steps = 0
    while modest.answer(asked) is None:
        world.advance(1)
        steps += 1
    assert steps <= 3


@pytest.mark.parametrize(
    "asked_of_nothing",
    [
        ListGroups(ListedUpTo(0, BEHIND_ALL)),
        DescribeGroup("g", DescribedUpTo("", BEHIND_ALL, 1)),
        FetchOffsets("g", None, (BEHIND_ALL, 1)),
        FetchOffsets("g", tuple(("gone", number) for number in range(400))),
    ],
    ids=["groups", "description", "offsets", "named offsets"],
)
def test_answers_that_tell_nothing_fill_a_turn_by_what_is_passed_over(asked_of_nothing: Request) -> None:
    """Two thousand of them were answered in one step, each of which went over all the names there are."""
    world = world_of_names(10 * MOST)
    world.advance(100)
    assert arrives(world, world.connect(), *[asked_of_nothing] * 30) <= 3


def test_offsets_that_are_not_there_are_looked_for_a_page_at_a_time() -> None:
    """Twenty thousand names of partitions without an offset were one step, however little it told."""
    world = NodeWorld({}, limits=LIMITS)
    world.connect().send(CommitOffsets("g", (TopicOffsets("t", (7, 95), (1, 2)),)))
    tool, pages = world.connect(), []

    def ask(request: Request) -> FetchOffsetsResponse:
        world.advance(100)
        pages.append(tool.ask(request, FetchOffsetsResponse))
        assert world.node.things_done <= MOST
        return pages[-1]

    named = tuple(("ut"[number % 2], number) for number in range(100))
    whole = ask_for_all(ask, FetchOffsets("g", named))
    assert isinstance(whole, FetchOffsetsResponse)
    assert [(row.topic, row.partition, row.offset) for row in whole.offsets] == [("t", 7, 1), ("t", 95, 2)]
    assert [page.up_to for page in pages] == [("t", 39), ("t", 79), None]
