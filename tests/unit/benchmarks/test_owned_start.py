"""The groups of `make bench-start`, and that a start with 10,000 of them stays within its memory."""

import gc
import tracemalloc

from benchmarks.owned_start import AT_MOST, SHARDS, add_group
from coordinator.core.groups.hard.journal import Journal
from coordinator.core.groups.hard.records import encode_record
from coordinator.core.groups.hard.snapshot import records_of
from coordinator.core.limits import Limits
from coordinator.core.log.storage import LogSink, RecoveredShard
from coordinator.core.node import Node
from coordinator.protocol.parts import NodeAddress

GROUPS = 20
BESIDES_MIB = 80
"""The program itself, and what is read at a time."""


def test_a_group_whose_member_owns_a_hundred_partitions_takes_little_memory() -> None:
    journal = Journal(0)
    for number in range(GROUPS):
        add_group(journal, f"query-{number}", 100, 1)
    records = [encode_record(record) for record in records_of(journal.state)]
    node = Node(Limits(), SHARDS, NodeAddress(1, "h", 1), ("k:1",))

    def recover(sink: LogSink) -> RecoveredShard:
        sink.take_snapshot(journal.log_end_offset, records)
        return RecoveredShard(journal.log_end_offset, journal.log_end_offset, 0, ())

    gc.collect()
    tracemalloc.start()
    node.load(0, recover)
    node.start(1_000, 1_700_000_000_000, "test")
    gc.collect()
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert node.hard_state(0).groups == journal.state.groups
    assert taken / GROUPS < (AT_MOST["start_rss_mib"] - BESIDES_MIB) * 2**20 / 10_000
