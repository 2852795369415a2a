"""The appends a second that the log makes durable, and the cost of a sync of this disk.

    uv run python benchmarks/log_append.py [--seconds 3] [--directory DIR] [--shards 1]

Each caller has one append of 100 B under way: the next one is made when the last is reported durable, in an
asyncio loop as in the node. Latency is from append to that report in the loop. The sync figures are of 4 KiB
overwriting zeros.
"""

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from pathlib import Path

from coordinator.runtime.disk.disk import Disk

RECORD = bytes(range(100))
CALLERS = (1, 100, 1000)


def percentile(values: list[float], share: float) -> float:
    """Return the value below which `share` of `values` lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def measure_sync(directory: Path, seconds: float) -> list[float]:
    """Return the durations of fdatasync, in ms."""
    size, block = 8 * 1024 * 1024, os.urandom(4096)
    durations = []
    with tempfile.NamedTemporaryFile(dir=directory) as file:
        file.write(bytes(size))
        file.flush()
        os.fsync(file.fileno())
        position, until = 0, time.perf_counter() + seconds
        while (started := time.perf_counter()) < until:
            os.pwrite(file.fileno(), block, position)
            os.fdatasync(file.fileno())
            durations.append((time.perf_counter() - started) * 1000)
            position = (position + 4096) % size
    return durations


async def measure_appends(data_dir: Path, callers: int, shards: int, seconds: float) -> tuple[float, list[float]]:
    """Return appends a second and the latencies in ms."""
    loop = asyncio.get_running_loop()
    failed: asyncio.Future[str] = loop.create_future()
    waiting: list[list[tuple[int, float]]] = [[] for _ in range(shards)]
    released: list[int] = [0] * shards
    ends = [0] * shards
    latencies: list[float] = []
    until = time.perf_counter() + seconds

    def append(shard: int) -> None:
        waiting[shard].append((ends[shard] + 1, time.perf_counter()))
        disk.append(shard, ends[shard], 0, [RECORD])
        ends[shard] += 1

    def release(shard: int, end_offset: int) -> None:
        now = time.perf_counter()
        done = end_offset - released[shard]
        finished, waiting[shard] = waiting[shard][:done], waiting[shard][done:]
        released[shard] = end_offset
        latencies.extend((now - started) * 1000 for _, started in finished)
        if now < until:
            for _ in finished:
                append(shard)

    def on_durable(shard: int, end_offset: int, _log_number: int) -> None:
        loop.call_soon_threadsafe(release, shard, end_offset)

    def on_failure(message: str) -> None:
        loop.call_soon_threadsafe(failed.set_result, message)

    disk = Disk.open(data_dir, shards, new_directory_id="benchmark", on_durable=on_durable, on_failure=on_failure)
    for shard in range(shards):
        disk.recover(shard)
    started = time.perf_counter()
    for caller in range(callers):
        append(caller % shards)
    while any(waiting) and not failed.done():
        await asyncio.sleep(0.01)
    elapsed = time.perf_counter() - started
    disk.close()
    if failed.done():
        raise SystemExit(f"bench-log: FAILED {failed.result()}")
    return len(latencies) / elapsed, latencies


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3.0, help="per case (default 3)")
    parser.add_argument("--directory", type=Path, help="on the disk to measure (default: the temporary directory)")
    parser.add_argument("--shards", type=int, default=1, help="shards the callers are spread over (default 1)")
    arguments = parser.parse_args()
    figures = []
    with tempfile.TemporaryDirectory(dir=arguments.directory, prefix="bench-log-") as name:
        directory = Path(name)
        syncs = measure_sync(directory, min(1.0, arguments.seconds))
        print(f"fdatasync 4 KiB: p50 {statistics.median(syncs):.3f} ms, p99 {percentile(syncs, 0.99):.3f} ms")
        figures += [
            f"sync_p50_ms={statistics.median(syncs):.3f}",
            f"sync_p99_ms={percentile(syncs, 0.99):.3f}",
        ]
        for callers in CALLERS:
            rate, latencies = asyncio.run(
                measure_appends(directory / str(callers), callers, arguments.shards, arguments.seconds)
            )
            p50, p99 = percentile(latencies, 0.5), percentile(latencies, 0.99)
            print(f"{callers:5} callers: {rate:9,.0f} appends/s, p50 {p50:.2f} ms, p99 {p99:.2f} ms")
            figures += [f"appends_{callers}={rate:.0f}", f"p99_ms_{callers}={p99:.2f}"]
    print("bench-log: OK " + " ".join(figures))


if __name__ == "__main__":
    main()
