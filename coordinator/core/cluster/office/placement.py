"""The places of new shards' replicas: preferred leaders spread evenly, no rack twice where that is possible.

A pure choice from the nodes that are there; what exists already is not moved here.
"""

from collections import Counter
from collections.abc import Mapping


def place(shards: int, replication_factor: int, racks: Mapping[int, str]) -> list[tuple[int, ...]]:
    """Return each shard's replicas, the preferred leader first; `racks` has the rack of each node.

    Of two nodes one is the preferred leader of at most one shard more. A shard's replicas are on as many racks as it
    has replicas or there are racks. Within that, second is the node that least often is second to this leader, so that
    the shards of a node that dies spread over all others; and the rest are those with the fewest replicas. Raises
    ValueError with fewer nodes than replicas.
    """
    if len(racks) < replication_factor:
        raise ValueError(f"{replication_factor} replicas need as many nodes, and there are {len(racks)}")
    order = _by_turns(racks)
    place_of = {node: index for index, node in enumerate(order)}
    loads: Counter[int] = Counter()
    heirs: Counter[tuple[int, int]] = Counter()
    placed: list[tuple[int, ...]] = []
    for shard in range(shards):
        leader = order[shard % len(order)]
        replicas = [leader]
        while len(replicas) < replication_factor:
            used = {racks[node] for node in replicas}
            others = [node for node in order if node not in replicas]
            elsewhere = [node for node in others if racks[node] not in used]
            ranks = {
                node: (
                    heirs[leader, node] if len(replicas) == 1 else 0,
                    loads[node],
                    (place_of[node] - place_of[leader]) % len(order),
                )
                for node in elsewhere or others
            }
            replicas.append(min(ranks, key=ranks.__getitem__))
        if len(replicas) > 1:
            heirs[leader, replicas[1]] += 1
        loads.update(replicas)
        placed.append(tuple(replicas))
    return placed


def _by_turns(racks: Mapping[int, str]) -> list[int]:
    """Return the nodes, one of each rack in turn, so that neighbours are on different racks as far as possible."""
    by_rack: dict[str, list[int]] = {}
    for node in sorted(racks):
        by_rack.setdefault(racks[node], []).append(node)
    columns = sorted(by_rack.items(), key=lambda rack: (-len(rack[1]), rack[0]))
    longest = max(len(nodes) for _, nodes in columns)
    return [nodes[turn] for turn in range(longest) for _, nodes in columns if turn < len(nodes)]
