"""A start with 10,000 groups of which each has a living member that owns 100 partitions and reads a micro-batch of all.

    make bench-start      or: uv run python -m benchmarks.owned_start [--groups 10000] [--partitions 100] [--members 1]

The pure core: the groups are made by the records that such members leave, and snapshots of all shards are taken. Then a
process of its own loads them a piece at a time and starts a node: `start_s` is from its begin until the node asks for
its first effects, imports and all, and `start_rss_mib` the most memory that it has had by then. Reading the files and
checking their sums is not in it: that is measured with everything else of a node by `make bench-advance`, whose history
has 500 such members; with `--left 10000` it has as many.
"""

import argparse
import gc
import json
import resource
import struct
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Final

import google_crc32c

from coordinator.core.groups.hard.journal import Journal
from coordinator.core.groups.hard.records import (
    MOST_TOGETHER,
    Advanced,
    ClaimsRunning,
    Granted,
    GroupSettings,
    MemberEpochsAdvanced,
    MemberFacts,
    MemberJoined,
    MemberTarget,
    TargetsAssigned,
    TopicCommit,
    TopicSeen,
    TopicSteps,
    encode_record,
)
from coordinator.core.groups.hard.snapshot import records_of
from coordinator.core.groups.partitions.in_topics import TopicNumbers
from coordinator.core.limits import Limits
from coordinator.core.log.storage import LogSink, RecoveredShard
from coordinator.core.node import Node
from coordinator.protocol.parts import NodeAddress

SHARDS: Final = 8
AT_MOST: Final = {"start_s": 5.0, "start_rss_mib": 512.0}
_WALL_MS: Final = 1_700_000_000_000
_TOPIC_ID: Final = "kT9nZ1uWQ5OZ3m1bq0u0Ag"
_AT_ONCE: Final = 2_000
"""Records in a piece."""


def add_group(journal: Journal, group_id: str, partitions: int, members: int) -> None:
    """Have a group whose members own equal shares, have committed them once and read the next micro-batch."""
    share = partitions // members
    numbers_of = {f"{group_id}-member-{at}": tuple(range(at * share, (at + 1) * share)) for at in range(members)}
    journal.decide(
        GroupSettings(group_id, 0, "", None, "takeover", is_target_stale=False),
        TopicSeen(group_id, "t", _TOPIC_ID, partitions, partitions),
    )
    for member_id in numbers_of:
        facts = MemberFacts(
            member_id, f"incarnation-of-{member_id}", None, "spark", "127.0.0.1", 4711, ("t",), 1,
            ("sticky",), 600_000, 300_000, 3_000,
        )  # fmt: skip
        journal.decide(MemberJoined(group_id, facts, 0))
    gained = [MemberTarget(member_id, (TopicNumbers("t", numbers),)) for member_id, numbers in numbers_of.items()]
    journal.decide(TargetsAssigned(group_id, 1, "sticky", (), gained=tuple(gained)))
    for member_id, numbers in numbers_of.items():
        for begin in range(0, len(numbers), MOST_TOGETHER):
            some = numbers[begin : begin + MOST_TOGETHER]
            starts = TopicCommit("t", _TOPIC_ID, _WALL_MS, some, tuple([1_000_000 + number for number in some]))
            journal.decide(Granted(group_id, member_id, "t", _TOPIC_ID, some, journal.next_epoch, starts, "earliest"))
        journal.decide(MemberEpochsAdvanced(group_id, 1, (member_id,)))
        steps = TopicSteps("t", _TOPIC_ID, numbers, tuple([1_000 + number for number in numbers]))
        again = TopicSteps("t", _TOPIC_ID, (), steps.steps)
        for advanced in (
            Advanced(group_id, member_id, _WALL_MS, (), (steps,)),
            Advanced(group_id, member_id, _WALL_MS, (steps,), (again,)),
        ):
            journal.decide(advanced, ClaimsRunning(group_id, (TopicNumbers("t", numbers),)))


def write_snapshots(directory: Path, groups: int, partitions: int, members: int) -> None:
    """Write what a snapshot of each shard has, a file a shard."""
    journals = [Journal(index) for index in range(SHARDS)]
    for number in range(groups):
        group_id = f"query-{number}"
        journal = journals[int(google_crc32c.value(group_id.encode())) % SHARDS]
        add_group(journal, group_id, partitions, members)
        journal.take_append()
    for journal in journals:
        with (directory / str(journal.shard)).open("wb") as file:
            file.write(struct.pack("<q", journal.log_end_offset))
            for record in records_of(journal.state):
                data = encode_record(record)
                file.write(struct.pack("<i", len(data)) + data)


def _read(path: Path, sink: LogSink) -> RecoveredShard:
    """Hand on the records of a snapshot in pieces."""
    with path.open("rb") as file:
        end_offset = int(struct.unpack("<q", file.read(8))[0])
        piece: list[bytes] = []
        while header := file.read(4):
            piece.append(file.read(struct.unpack("<i", header)[0]))
            if len(piece) == _AT_ONCE:
                sink.take_snapshot(end_offset, piece)
                piece = []
        sink.take_snapshot(end_offset, piece)
    return RecoveredShard(end_offset, end_offset, 0, ())


def start(directory: Path) -> None:
    """Load the shards and start a node, and print how much memory that took at most."""
    node = Node(Limits(), SHARDS, NodeAddress(1, "h", 1), ("k:1",))
    gc.disable()  # as a node does while it loads
    for shard in range(SHARDS):
        node.load(shard, partial(_read, directory / str(shard)))
    gc.enable()
    gc.collect()
    gc.freeze()
    node.start(1_000, _WALL_MS, "bench")
    groups = sum(len(node.hard_state(shard).groups) for shard in range(SHARDS))
    print(json.dumps({"groups": groups, "rss_kib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}), flush=True)


def main() -> int:
    """Measure, and print the summary last."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=10_000)
    parser.add_argument("--partitions", type=int, default=100)
    parser.add_argument("--members", type=int, default=1)
    parser.add_argument("--load", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.load is not None:
        start(arguments.load)
        return 0
    with tempfile.TemporaryDirectory(prefix="kcoord-start-") as name:
        write_snapshots(Path(name), arguments.groups, arguments.partitions, arguments.members)
        began_s = time.perf_counter()
        command = [sys.executable, "-m", "benchmarks.owned_start", "--load", name]
        said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        start_s = time.perf_counter() - began_s
    seen = json.loads(said)
    assert seen["groups"] == arguments.groups, seen
    figures = {"start_s": round(start_s, 2), "start_rss_mib": round(seen["rss_kib"] / 1024)}
    missed = [name for name, most in AT_MOST.items() if figures[name] > most]
    line = " ".join(f"{name}={value}" for name, value in figures.items())
    print(f"bench-start: {'FAILED' if missed else 'OK'} groups={arguments.groups} {line}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
