"""New shards are spread evenly over nodes and racks."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.core.cluster.office.placement import place


@st.composite
def clusters(draw: st.DrawFn) -> tuple[int, int, dict[int, str]]:
    nodes = draw(st.lists(st.integers(0, 1_000), min_size=1, max_size=9, unique=True))
    racks = {node: draw(st.sampled_from("abc")) for node in nodes}
    return draw(st.integers(1, 60)), draw(st.integers(1, min(5, len(nodes)))), racks


@given(clusters())
def test_every_placement_is_even_in_leaders_and_spread_over_racks(cluster: tuple[int, int, dict[int, str]]) -> None:
    shards, replication_factor, racks = cluster
    placed = place(shards, replication_factor, racks)
    assert len(placed) == shards
    preferred = Counter(replicas[0] for replicas in placed)
    counts = [preferred[node] for node in racks]
    assert max(counts) - min(counts) <= 1
    for replicas in placed:
        assert len(set(replicas)) == replication_factor
        assert len({racks[node] for node in replicas}) == min(replication_factor, len(set(racks.values())))


@given(st.integers(1, 60), st.integers(1, 3), st.integers(1, 3), st.integers(1, 4))
def test_with_racks_of_one_size_replicas_are_spread_evenly(
    shards: int, replication_factor: int, racks: int, rack_size: int
) -> None:
    nodes = {number: f"r{number % racks}" for number in range(racks * rack_size)}
    if len(nodes) < replication_factor:
        return
    loads = Counter(node for replicas in place(shards, replication_factor, nodes) for node in replicas)
    counts = [loads[node] for node in nodes]
    assert max(counts) - min(counts) <= 3, counts  # of 20 nodes and 100 shards none has more, tried one by one


def test_the_shards_of_a_node_that_dies_spread_over_all_others() -> None:
    placed = place(60, 3, {number: f"r{number}" for number in range(5)})
    for dead in range(5):
        heirs = Counter(replicas[1] for replicas in placed if replicas[0] == dead)
        assert sorted(heirs) == [node for node in range(5) if node != dead]
        assert max(heirs.values()) - min(heirs.values()) <= 1, heirs


def test_the_same_nodes_give_the_same_placement() -> None:
    racks = {3: "b", 1: "a", 2: "b"}
    assert place(4, 2, racks) == place(4, 2, dict(sorted(racks.items())))


def test_too_few_nodes_are_refused() -> None:
    with pytest.raises(ValueError, match="3 replicas need as many nodes, and there are 2"):
        place(1, 3, {1: "a", 2: "b"})
