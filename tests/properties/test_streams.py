"""Streams under random changes: always even, never a partition without one, never a move too many."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from coordinator.core.groups.assignment.streams import assign_streams
from coordinator.core.groups.hard.records import MemberFacts, StreamsAssigned
from coordinator.core.groups.hard.replay.replay import replay
from coordinator.core.groups.hard.state import Grant, GroupState, MemberState, ShardState
from coordinator.core.groups.partitions.partition_set import PartitionSet
from coordinator.core.groups.partitions.partition_table import PartitionTable

PARTITIONS = st.dictionaries(
    st.tuples(st.sampled_from("tu"), st.integers(0, 30)), st.none() | st.integers(0, 9), max_size=40
)


def group_with(streams: int, recorded: dict[tuple[str, int], int | None], stopping: set[tuple[str, int]]) -> GroupState:
    facts = MemberFacts(
        "m", "i", None, "c", "h", 1, ("t",), streams, ("sticky",), 10_000, 60_000, 3_000, wants_streams=True
    )
    group = GroupState(
        "g",
        members={"m": MemberState(facts)},
        grants=PartitionTable(),
        owned={"m": PartitionSet(recorded)},
        stopping={"m": stopping},
    )
    for epoch, (partition, stream) in enumerate(recorded.items()):
        group.grants[partition] = Grant("m", "id", epoch, stream=stream)
    return group


def fewest_moves(streams: int, kept: dict[tuple[str, int], int | None]) -> int:
    """Count the moves that no even spread can do without, by another way than the code: fill the fullest first."""
    loads = sorted((Counter(kept.values())[stream] for stream in range(streams)), reverse=True)
    least, ahead = divmod(len(kept), streams)
    homeless = sum(1 for stream in kept.values() if stream is None or stream >= streams)
    return homeless + sum(max(0, load - least - (rank < ahead)) for rank, load in enumerate(loads))


@given(streams=st.integers(1, 12), recorded=PARTITIONS, data=st.data())
def test_streams_are_even_stable_and_deterministic(
    streams: int, recorded: dict[tuple[str, int], int | None], data: st.DataObject
) -> None:
    stopping = data.draw(st.sets(st.sampled_from(sorted(recorded)))) if recorded else set()
    group = group_with(streams, recorded, stopping)
    record = assign_streams(group, "m")
    assert record == assign_streams(group_with(streams, dict(reversed(recorded.items())), stopping), "m")
    changed = {(topic, number): stream for topic, number, stream in (record or StreamsAssigned("g", ())).streams}
    kept = {partition: stream for partition, stream in recorded.items() if partition not in stopping}
    assert changed.keys() <= kept.keys()
    assert all(recorded[partition] != stream for partition, stream in changed.items())
    assert len(changed) == fewest_moves(streams, kept)
    after = Counter((kept | changed).values())
    assert set(after) <= set(range(streams))
    assert not kept or max(after.values()) - min(after[stream] for stream in range(streams)) <= 1
    if record is not None:
        state = ShardState({"g": group})
        replay(state, record, None)
        assert assign_streams(group, "m") is None
