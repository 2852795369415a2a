"""Replicas are spread over nodes as evenly as their racks allow, and no more of them move than has to."""

from collections import Counter
from random import Random

import pytest

from coordinator.client.replica_plan import plan_replicas
from coordinator.core.cluster.office.placement import place


def racks_of(nodes: int, racks: int = 0) -> dict[int, str]:
    return {node: f"rack-{node % racks if racks else node}" for node in range(1, nodes + 1)}


def moved(before: dict[int, tuple[int, ...]], after: dict[int, tuple[int, ...]]) -> int:
    return sum(len(set(after[shard]) - set(before[shard])) for shard in before)


def spread(numbers: Counter[int]) -> int:
    return max(numbers.values()) - min(numbers.values())


def loads(plan: dict[int, tuple[int, ...]], nodes: int) -> Counter[int]:
    counted = Counter(dict.fromkeys(range(1, nodes + 1), 0))
    counted.update(node for replicas in plan.values() for node in replicas)
    return counted


def test_what_is_even_already_stays_as_it_is() -> None:
    before = dict(enumerate(place(48, 3, racks_of(3))))
    assert plan_replicas(before, racks_of(3), 3) == before
    assert plan_replicas({0: (1, 2), 1: (2, 3), 2: (3, 1)}, racks_of(3), 2) == {0: (1, 2), 1: (2, 3), 2: (3, 1)}


def test_a_node_that_comes_gets_its_share_and_nothing_else_moves() -> None:
    before = dict(enumerate(place(48, 3, racks_of(3))))
    after = plan_replicas(before, racks_of(4), 3)
    assert loads(after, 4) == Counter({1: 36, 2: 36, 3: 36, 4: 36})
    assert moved(before, after) == 36
    assert spread(Counter(replicas[0] for replicas in after.values())) == 0


def test_what_a_node_had_that_goes_is_shared_among_the_others_and_nothing_else_moves() -> None:
    before = dict(enumerate(place(50, 3, racks_of(5))))
    racks = racks_of(5)
    del racks[2]
    after = plan_replicas(before, racks, 3)
    assert 2 not in {node for replicas in after.values() for node in replicas}
    assert moved(before, after) == sum(2 in replicas for replicas in before.values())
    assert spread(Counter(node for replicas in after.values() for node in replicas)) <= 1
    assert spread(Counter(replicas[0] for replicas in after.values())) <= 1


def test_with_fewer_nodes_than_replicas_each_has_one() -> None:
    assert plan_replicas({0: (1, 2, 3), 1: (2, 3, 1)}, {1: "a", 3: "c"}, 3) == {0: (1, 3), 1: (3, 1)}
    with pytest.raises(ValueError, match="no node is left"):
        plan_replicas({0: (1, 2)}, {}, 3)


def test_two_replicas_on_a_rack_are_parted_when_another_rack_comes() -> None:
    racks = {1: "a", 2: "a", 3: "b", 4: "c"}
    after = plan_replicas({0: (1, 2, 3), 1: (2, 1, 3)}, racks, 3)
    assert all(len({racks[node] for node in replicas}) == 3 for replicas in after.values())
    assert moved({0: (1, 2, 3), 1: (2, 1, 3)}, after) == 2


@pytest.mark.parametrize("seed", range(40))
def test_whatever_there_was_each_shard_is_whole_on_as_many_racks_as_can_be_and_nodes_lead_equally(seed: int) -> None:
    dice = Random(seed)
    nodes, factor, shards = dice.randint(1, 7), dice.randint(1, 4), dice.randint(1, 40)
    racks = {node: f"r{dice.randrange(1, 5)}" for node in range(1, nodes + 1)}
    before = {
        shard: tuple(dice.sample(range(1, nodes + 3), dice.randint(1, min(factor, nodes)))) for shard in range(shards)
    }
    after = plan_replicas(before, racks, factor)
    for replicas in after.values():
        assert len(set(replicas)) == len(replicas) == min(factor, nodes)
        assert set(replicas) <= set(racks)
        assert len({racks[node] for node in replicas}) == min(len(replicas), len(set(racks.values())))
    assert plan_replicas(after, racks, factor) == after, "it is done when it is done"
    if len(set(racks.values())) == nodes:
        assert spread(loads(after, nodes)) <= 1
