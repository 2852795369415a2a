"""What a coordinator's log says about claims that were cut: ranges that were being read when their owner lost them.

The log is read after the coordinator has stopped and replayed record by record; a claim that runs before a record and
is gone after it without its end being committed was cut by that record.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from coordinator.core.groups.hard.records import Record, decode_record
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
    found = []
    with _opened(data_dir, shards) as disk:
        for shard in range(shards):
            before: dict[TopicPartition, tuple[int, int, int, str]] = {}
            for record, group in _steps(disk, shard, group_id):
                after = _running(group)
                for partition, cut in before.items():
                    if after.get(partition) == cut or _is_committed(group, partition, cut):
                        continue
                    owner_epoch, begin, end, member_id = cut
                    found.append(Cut(*partition, owner_epoch, begin, end, member_id, type(record).__name__))
                before = after
    return found


def uncommitted(
    data_dir: Path, shards: int, group_id: str, topic: str, read_until: Mapping[tuple[int, int], int]
) -> list[Cut]:
    """Return what consumers had read under grants that ended before it was committed.

    `read_until` says for a partition and an owner epoch the offset after all that was read.
    """
    found = []
    with _opened(data_dir, shards) as disk:
        for shard in range(shards):
            before: dict[TopicPartition, tuple[int, str]] = {}
            for record, group in _steps(disk, shard, group_id):
                after = _owners(group)
                for partition, owner in before.items():
                    until = read_until.get((partition[1], owner[0]), 0)
                    if after.get(partition) == owner or partition[0] != topic:
                        continue
                    committed = group.offsets.get(partition) if group is not None else None
                    begin = committed.offset if committed is not None else 0
                    if begin < until:
                        found.append(Cut(*partition, owner[0], begin, until, owner[1], type(record).__name__))
                before = after
    return found


@contextmanager
def _opened(data_dir: Path, shards: int) -> Iterator[Disk]:
    disk = Disk.open(
        data_dir, shards, new_directory_id="", on_durable=lambda *_: None, on_failure=lambda why: print(why, flush=True)
    )
    try:
        yield disk
    finally:
        disk.close()


def _steps(disk: Disk, shard: int, group_id: str) -> Iterator[tuple[Record, GroupState | None]]:
    """Yield each record of a shard with the group as it is after it."""
    read = read_shard(disk, shard)
    assert read.snapshot is None, "a chaos run is too short for a snapshot"
    state = ShardState()
    for base_offset, records in read.batches:
        for offset, data in enumerate(records, base_offset):
            record = decode_record(data)
            replay(state, record, offset)
            yield record, state.groups.get(group_id)


def _owners(group: GroupState | None) -> dict[TopicPartition, tuple[int, str]]:
    if group is None:
        return {}
    return {partition: (grant.owner_epoch, grant.member_id) for partition, grant in group.grants.items()}


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
