"""The streams of a member that read its partitions, for members that want it decided here.

A member's partitions are spread over its streams within one of each other. A partition keeps its stream as long as that
holds, so only as many change their stream as must; those that are being stopped keep theirs and are not counted. The
stream is recorded beside the grant and fences nothing: a partition that changes its stream is not granted anew.
"""

import heapq

from coordinator.core.groups.hard.records import StreamsAssigned
from coordinator.core.groups.hard.state import GroupState
from coordinator.core.groups.partitions.partition_table import TopicPartition


def stream_of(group: GroupState, partition: TopicPartition) -> int | None:
    """Return the stream that reads a partition, if its owner wants to be told."""
    grant = group.grants[partition]
    owner = group.members.get(grant.member_id)
    return grant.stream if owner is not None and owner.facts.wants_streams else None


def assign_streams(group: GroupState, member_id: str) -> StreamsAssigned | None:
    """Return the record of what changes when a member's partitions are spread evenly over its streams, if it wants it.

    Every partition without a stream gets one; of the others the fewest possible move.
    """
    facts = group.members[member_id].facts
    if not facts.wants_streams:
        return None
    stopping = group.stopping.get(member_id, ())
    kept = [partition for partition in group.owned_by(member_id).in_order() if partition not in stopping]
    loads: list[list[TopicPartition]] = [[] for _ in range(facts.streams)]
    homeless: list[TopicPartition] = []
    for partition in kept:
        stream = group.grants[partition].stream
        (loads[stream] if stream is not None and stream < facts.streams else homeless).append(partition)
    least, ahead = divmod(len(kept), facts.streams)
    for rank, stream in enumerate(sorted(range(facts.streams), key=lambda stream: -len(loads[stream]))):
        quota = least + (rank < ahead)
        homeless += loads[stream][quota:]
        del loads[stream][quota:]
    if not homeless:
        return None
    free = [(len(partitions), stream) for stream, partitions in enumerate(loads)]
    heapq.heapify(free)
    changed = []
    for partition in sorted(homeless):
        load, stream = free[0]
        heapq.heapreplace(free, (load + 1, stream))
        changed.append((*partition, stream))
    return StreamsAssigned(group.group_id, tuple(changed))
