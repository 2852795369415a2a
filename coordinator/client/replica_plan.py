"""A plan of which nodes are to have the replicas of which shards, when nodes come or go: as little as possible moves.

A pure choice from how things are. What stays where it is costs nothing; a replica that moves is the shard's whole log
copied. Preferred leaders, the first replicas, are spread last, for to change their order moves nothing.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

Replicas = tuple[int, ...]


def plan_replicas(
    shards: Mapping[int, Replicas], racks: Mapping[int, str], replication_factor: int
) -> dict[int, Replicas]:
    """Return the replicas of each shard on the nodes of `racks` alone, with each node's rack.

    A shard keeps the replicas that it has there, has `replication_factor` of them or as many as there are nodes, and is
    on as many racks as that allows. Of two nodes one has at most one replica more than the other, and is the first of
    at most one shard more, unless racks or what stays forbid it. Raises ValueError without a node.
    """
    if not racks:
        raise ValueError("no node is left that could have a replica")
    count = min(replication_factor, len(racks))
    plan = {shard: _kept(replicas, racks, count) for shard, replicas in sorted(shards.items())}
    loads = Counter(dict.fromkeys(racks, 0))
    loads.update(node for replicas in plan.values() for node in replicas)
    for shard in plan:
        while len(plan[shard]) < count:
            node = _best(plan[shard], racks, loads)
            loads[node] += 1
            plan[shard] = (*plan[shard], node)
    _spread_over_racks(plan, racks, loads)
    _even_loads(plan, racks, loads)
    _even_leaders(plan, racks)
    return plan


def _kept(replicas: Sequence[int], racks: Mapping[int, str], count: int) -> Replicas:
    """Return the replicas that stay, those on a rack of their own before others, in their order."""
    there = [node for node in dict.fromkeys(replicas) if node in racks]
    first_of_rack = [node for at, node in enumerate(there) if racks[node] not in {racks[each] for each in there[:at]}]
    stay = [*first_of_rack, *(node for node in there if node not in first_of_rack)][:count]
    return tuple(node for node in there if node in stay)


def _best(replicas: Replicas, racks: Mapping[int, str], loads: Mapping[int, int]) -> int:
    """Return the node that gets one more replica of a shard: of a rack without one, then the one with the fewest."""
    used = {racks[node] for node in replicas}
    return min((node for node in racks if node not in replicas), key=lambda n: (racks[n] in used, loads[n], n))


def _spread_over_racks(plan: dict[int, Replicas], racks: Mapping[int, str], loads: Counter[int]) -> None:
    """Move replicas of shards that have two on a rack while another rack has none."""
    for shard in plan:
        while (least := _best(plan[shard], racks, loads) if len(plan[shard]) < len(racks) else None) is not None:
            per_rack = Counter(racks[node] for node in plan[shard])
            doubled = [node for node in plan[shard] if per_rack[racks[node]] > 1]
            if racks[least] in per_rack or not doubled:
                break
            _move(plan, loads, shard, max(doubled, key=lambda n: (loads[n], n)), least)


def _even_loads(plan: dict[int, Replicas], racks: Mapping[int, str], loads: Counter[int]) -> None:
    """Move replicas from the nodes that have most to those that have fewest, where no rack gets a second one by it."""
    while True:
        most_first = sorted(racks, key=lambda node: (-loads[node], node))
        found = next(
            (
                (shard, source, target)
                for source in most_first
                for target in reversed(most_first)
                if loads[source] - loads[target] > 1
                for shard, replicas in plan.items()
                if source in replicas and target not in replicas and _keeps_racks(replicas, source, target, racks)
            ),
            None,
        )
        if found is None:
            return
        _move(plan, loads, *found)


def _keeps_racks(replicas: Replicas, source: int, target: int, racks: Mapping[int, str]) -> bool:
    after = {racks[node] for node in replicas if node != source} | {racks[target]}
    return len(after) >= len({racks[node] for node in replicas})


def _move(plan: dict[int, Replicas], loads: Counter[int], shard: int, source: int, target: int) -> None:
    plan[shard] = tuple(target if node == source else node for node in plan[shard])
    loads[source] -= 1
    loads[target] += 1


def _even_leaders(plan: dict[int, Replicas], racks: Mapping[int, str]) -> None:
    """Put other replicas first until nodes are first of equally many shards, along chains of shards where need be."""
    firsts = Counter(dict.fromkeys(racks, 0))
    firsts.update(replicas[0] for replicas in plan.values())
    while True:
        chain = next(
            (
                found
                for source in sorted(racks, key=lambda node: (-firsts[node], node))
                if (found := _chain(plan, firsts, source)) is not None
            ),
            None,
        )
        if chain is None:
            return
        for shard, first in chain:
            firsts[plan[shard][0]] -= 1
            firsts[first] += 1
            plan[shard] = (first, *(node for node in plan[shard] if node != first))


def _chain(plan: Mapping[int, Replicas], firsts: Mapping[int, int], source: int) -> list[tuple[int, int]] | None:
    """Return shards with their new first replicas by which this node is first of one less, and one with fewer of more.

    The node that gains is first of at least two fewer; each node between gives one away and gets one.
    """
    came_by: dict[int, tuple[int, int] | None] = {source: None}
    seen = [source]
    for node in seen:
        if firsts[source] - firsts[node] > 1:
            chain: list[tuple[int, int]] = []
            at, step = node, came_by[node]
            while step is not None:
                shard, before = step
                chain.append((shard, at))
                at, step = before, came_by[before]
            return chain
        for shard, replicas in plan.items():
            for other in replicas[1:] if replicas[0] == node else ():
                if other not in came_by:
                    came_by[other] = (shard, node)
                    seen.append(other)
    return None
