"""A coordinator with a long history of micro-batches: what it leaves on disk, and how long its next start takes."""

import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.advance_members import Queries, SparkMember
from benchmarks.group import Coordinator
from benchmarks.group_rounds import saturate
from coordinator.core.limits import Limits

_PARTITIONS: Final = 100
_LOT: Final = 500
_IN_FLIGHT: Final = 32
_SNAPSHOTS: Final = 3
"""The one there is, the one that grows, and of a large shard the log between them, half a snapshot twice."""
_BETWEEN_MIB: Final = 2 * Limits().snapshot_interval_bytes / 2**20 + 4
"""MiB of a shard's log since the last snapshot but one, at least, with what its files are filled ahead."""


@dataclass(frozen=True, slots=True)
class History:
    """The figures measured after a history."""

    start_s: float
    start_rss_mib: float
    disk_mib: float
    disk_limit_mib: float


def build_history(directory: Path, groups: int, left: int, seconds: float) -> History:
    """Have members of so many groups advance, all but some leave and these go on, then kill the node and start it."""
    topics = {"t": _PARTITIONS}
    with (
        Coordinator(directory, topics, is_watched=False) as node,
        closing(Queries(node.port, "127.0.3.1")) as queries,
    ):
        for begin in range(0, groups, _LOT):
            names = [f"query-{number}" for number in range(begin, min(groups, begin + _LOT))]
            queries.join(names, 1, _PARTITIONS)
        for _ in range(2):  # what the first claims is committed by the second
            queries.each_once(queries.members, SparkMember.next_batch, _IN_FLIGHT)
        print(f"{groups} groups have committed {_PARTITIONS} partitions each", flush=True)
        queries.end(queries.members[left:], _IN_FLIGHT)
        node.report()
        went_on = saturate(queries.sockets, queries.members, SparkMember.next_batch, _IN_FLIGHT, 3 * seconds)
        seen = node.report()
        batches, log_mib = len(went_on.latencies_ms), seen["log_bytes"] / 2**20
        print(f"  {left} members, {batches} micro-batches more, {log_mib:.0f} MiB of log", flush=True)
    disk_mib, state_mib, shards = _on_disk(directory / "data")
    started_s = time.perf_counter()
    with Coordinator(directory, topics, is_watched=False) as node:
        start_s, seen = time.perf_counter() - started_s, node.report()
    rss_mib = seen["peak_rss_kib"] / 1024
    limit_mib = _SNAPSHOTS * state_mib + shards * _BETWEEN_MIB
    print(
        f"  started in {start_s:.2f} s, {seen['cpu_s']:.2f} of them on its core, with at most {rss_mib:.0f} MiB\n"
        f"  on disk {disk_mib:.0f} MiB, and the snapshots are {state_mib:.0f} of them; {_SNAPSHOTS} times that and "
        f"{_BETWEEN_MIB:.0f} a shard are {limit_mib:.0f} MiB",
        flush=True,
    )
    return History(start_s, rss_mib, disk_mib, limit_mib)


def _on_disk(directory: Path) -> tuple[float, float, int]:
    """Return the MiB that a data directory takes, those of the newest snapshots, and the number of shards."""
    every = sum(path.stat().st_blocks * 512 for path in directory.rglob("*") if path.is_file())
    shards = [path for path in directory.iterdir() if path.is_dir()]
    newest = [max(shard.glob("*.snapshot"), default=None) for shard in shards]
    return every / 2**20, sum(path.stat().st_size for path in newest if path is not None) / 2**20, len(shards)
