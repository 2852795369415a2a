"""What a coordinator's log says about claims that were cut: ranges that were being read when their owner lost them.

The log is read after the coordinator has stopped and replayed record by record; a claim that runs before a record and
is gone after it without its end being committed was cut by that record.
"""

from dataclasses import dataclass
from pathlib import Path

from coordinator.core.groups.hard.records import decode_record
from coordinator.core.groups.hard.replay.replay import replay
from coordinator.core.groups.hard.state import GroupState, ShardState
from coordinator.core.groups.partitions.partition_table import TopicPartition
from coordinator.runtime.disk.disk import Disk
from tests.helpers.loading import read_shard


@dataclass(frozen=True, slots=True)
class Cut:
    """A running claim that ended without a commit, and the record that ended it."""

    topic: str
    partition: int
    owner_epoch: int
    from_offset: int
    until_offset: int
    member_id: str
    ended_by: str


def cuts(data_dir: Path, shards: int, group_id: str) -> list[Cut]:
    """Return the claims of a group that were cut, in the order of the log."""
    disk = Disk.open(
        data_dir, shards, new_directory_id="", on_durable=lambda *_: None, on_failure=lambda why: print(why, flush=True)
    )
    try:
        return [cut for shard in range(shards) for cut in _cuts_of(disk, shard, group_id)]
    finally:
        disk.close()


def _cuts_of(disk: Disk, shard: int, group_id: str) -> list[Cut]:
    read = read_shard(disk, shard)
    assert read.snapshot is None, "a chaos run is too short for a snapshot"
    state = ShardState()
    found = []
    for base_offset, records in read.batches:
        for offset, data in enumerate(records, base_offset):
            before = _running(state.groups.get(group_id))
            record = decode_record(data)
            replay(state, record, offset)
            group = state.groups.get(group_id)
            after = _running(group)
            for partition, cut in before.items():
                if after.get(partition) == cut or _is_committed(group, partition, cut):
                    continue
                owner_epoch, begin, end, member_id = cut
                found.append(Cut(*partition, owner_epoch, begin, end, member_id, type(record).__name__))
    return found


def _running(group: GroupState | None) -> dict[TopicPartition, tuple[int, int, int, str]]:
    if group is None:
        return {}
    return {
        partition: (grant.owner_epoch, claim.from_offset, claim.until_offset, grant.member_id)
        for partition, grant in group.grants.items()
        if (claim := group.claims.get(partition)) is not None and claim.is_running
    }


def _is_committed(group: GroupState | None, partition: TopicPartition, cut: tuple[int, int, int, str]) -> bool:
    committed = group.offsets.get(partition) if group is not None else None
    return committed is not None and (committed.owner_epoch, committed.offset) == (cut[0], cut[2])
