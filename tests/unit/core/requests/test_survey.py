"""A survey of a node: all that it leads, in small pieces, while its groups come and go."""

from coordinator.core.events import EndOffsetsRead
from coordinator.core.requests.survey import PIECE, GroupSeen, PartitionsSeen
from coordinator.protocol.messages import CommitOffsets, CommitOffsetsResponse
from coordinator.protocol.messages.operators import DeleteGroup, DeleteGroupResponse
from coordinator.protocol.parts import TopicOffsets
from tests.helpers.node_world import NodeWorld

COUNT = PIECE + 10
SHARDS = range(1)


def world_with(*groups: str) -> NodeWorld:
    """Return a world whose groups have committed 7 more than its number for each partition."""
    world = NodeWorld(topics={"t": COUNT}, shards=1)
    numbers = tuple(range(COUNT))
    for group_id in groups:
        offsets = TopicOffsets("t", numbers, tuple(number + 7 for number in numbers))
        world.connect().ask(CommitOffsets(group_id, (offsets,)), CommitOffsetsResponse)
    return world


def test_a_group_is_told_with_its_partitions_a_few_at_a_time() -> None:
    world = world_with("g")
    world.happen(EndOffsetsRead({("t", 0): 90, ("t", COUNT - 1): 1000}))
    group, *pieces = world.node.survey(SHARDS)
    assert isinstance(group, GroupSeen)
    assert (group.group_id, group.state, group.members) == ("g", "Empty", 0)
    assert [len(piece.partitions) for piece in pieces if isinstance(piece, PartitionsSeen)] == [PIECE, 10]
    first, last = pieces
    assert isinstance(first, PartitionsSeen)
    assert isinstance(last, PartitionsSeen)
    assert (first.partitions[0], first.committed[0], first.ends[:2]) == (0, 7, (90, None))
    assert (last.partitions[-1], last.committed[-1], last.ends[-1]) == (COUNT - 1, COUNT + 6, 1000)
    assert len(set(first.commit_ms)) == 1
    known = world.node.catalog.topic("t")
    assert known is not None
    assert (first.topic_id, last.topic_id) == (known.topic_id, known.topic_id)


def test_a_group_that_goes_during_the_survey_is_passed_over_from_there_on() -> None:
    world = world_with("a", "b")
    survey = world.node.survey(SHARDS)
    begun = [next(survey), next(survey)]
    for group_id in ("a", "b"):
        world.connect().ask(DeleteGroup(group_id, "test", "why", is_dry_run=False), DeleteGroupResponse)
    rest = list(survey)
    assert [type(piece) for piece in begun] == [GroupSeen, PartitionsSeen]
    assert not any(isinstance(piece, GroupSeen) for piece in rest)
    assert all(piece.partitions == () for piece in rest if isinstance(piece, PartitionsSeen))


def test_what_is_committed_during_the_survey_is_told_as_it_is_then() -> None:
    world = world_with("g")
    survey = world.node.survey(SHARDS)
    next(survey), next(survey)
    offsets = TopicOffsets("t", (COUNT - 1,), (5000,))
    world.connect().ask(CommitOffsets("g", (offsets,)), CommitOffsetsResponse)
    (last,) = survey
    assert isinstance(last, PartitionsSeen)
    assert last.committed[-1] == 5000
