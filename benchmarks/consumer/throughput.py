"""The pace of reading, beside peers: each reader in a process of its own, all in turns, as ratios of one round.

The clock begins when a consumer that has read already is sought to the beginning, and ends with the last record that
was asked for; each record's fields are looked at by name. Before that, untimed, each reader reads a part of each
corpus, and a sum of hashes of all fields has to be the same for all.

A corpus has to be larger than what a consumer buffers. One that has read ahead to the end waits there at the broker for
`fetch_max_wait_ms`, and is sought only after that: at small scales that wait is most of what is measured.
"""

import asyncio
import hashlib
import statistics
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from benchmarks.consumer.children import Child
from benchmarks.consumer.corpus import Corpus
from benchmarks.consumer.readers import LACKS, READERS, SLOW

CHECKED_EACH = 2_000
OURS = "kcoord "
TIMEOUT_S = 300.0


@dataclass(frozen=True, slots=True)
class Measured:
    """One reading: rows, seconds and the process's CPU-seconds."""

    rows: int
    seconds: float
    cpu_s: float

    @property
    def per_s(self) -> float:
        """Rows per second."""
        return self.rows / self.seconds

    @property
    def per_cpu_s(self) -> float:
        """Rows per CPU-second."""
        return self.rows / max(self.cpu_s, 1e-9)


Rounds = Mapping[str, Sequence[Measured]]
"""The readings of each reader, one a round."""


def read(name: str, servers: str, corpus: Corpus) -> Measured:
    """Read a corpus with a reader, in the process that calls."""
    return asyncio.run(_read(name, servers, corpus))


async def _read(name: str, servers: str, corpus: Corpus) -> Measured:
    reader = READERS[name]()
    wanted = max(corpus.partitions, int(corpus.records * SLOW.get(name, 1.0)))
    await reader.open(servers, corpus.topic, corpus.partitions)
    try:
        while not any(reader.touch(pack) for pack in await reader.read(1)):
            pass
        await reader.rewind()
        left, cpu_s, began = wanted, time.process_time(), time.perf_counter()
        while left > 0:
            for pack in await reader.read(left):
                left -= reader.touch(pack)
        return Measured(wanted - left, time.perf_counter() - began, time.process_time() - cpu_s)
    finally:
        await reader.close()


def digest(name: str, servers: str, corpus: Corpus) -> tuple[int, int]:
    """Return how many of the first records of each partition a reader gave, and the sum of their hashes."""
    return asyncio.run(_digest(name, servers, corpus))


async def _digest(name: str, servers: str, corpus: Corpus) -> tuple[int, int]:
    reader = READERS[name]()
    until = min(CHECKED_EACH, corpus.records_each)
    count = total = 0
    await reader.open(servers, corpus.topic, corpus.partitions)
    try:
        while count < until * corpus.partitions:
            for pack in await reader.read(until * corpus.partitions - count):
                for fields in reader.fields(pack):
                    if fields[2] < until:
                        count += 1
                        total += int.from_bytes(hashlib.blake2b(repr(fields).encode(), digest_size=8).digest(), "big")
    finally:
        await reader.close()
    return count, total % (1 << 64)


def measure(servers: str, corpora: Sequence[Corpus], rounds: int) -> dict[Corpus, Rounds]:
    """Read every corpus with every reader, in turns; raises RuntimeError where rows differ."""
    with ExitStack() as stack:
        children = {name: stack.enter_context(Child(LACKS.get(name, ()))) for name in READERS}
        for corpus in corpora:
            found = {name: child.begin(digest, name, servers, corpus)(TIMEOUT_S) for name, child in children.items()}
            if len(set(found.values())) != 1:
                raise RuntimeError(f"the readers gave different rows of {corpus.topic}: {found}")
        print(f"rows are equal by a hash of all fields, {len(READERS)} readers", flush=True)
        measured: dict[Corpus, dict[str, list[Measured]]] = {
            corpus: {name: [] for name in READERS} for corpus in corpora
        }
        for number in range(rounds):
            names = list(READERS)
            turned = names[number % len(names) :] + names[: number % len(names)]
            for corpus in corpora:
                for name in turned:
                    one = children[name].begin(read, name, servers, corpus)(TIMEOUT_S)
                    measured[corpus][name].append(one)
            print(f"round {number + 1} of {rounds} is read", flush=True)
        return {corpus: dict(rows) for corpus, rows in measured.items()}


def paired(rounds: Rounds, ours: str, peers: Sequence[str]) -> list[float]:
    """Return our pace over that of the fastest of some peers, a value a round."""
    count = len(rounds[ours])
    return [rounds[ours][at].per_s / max(rounds[peer][at].per_s for peer in peers) for at in range(count)]


def worst(measured: Mapping[Corpus, Rounds], ours: str, peers: Sequence[str]) -> float:
    """Return the median of the paired ratios, of the corpus where it is smallest."""
    return min(statistics.median(paired(rounds, ours, peers)) for rounds in measured.values())


def report(corpus: Corpus, rounds: Rounds) -> None:
    """Print what was measured of a corpus, and our ratios with their spread."""
    print(f"{corpus.topic}: {corpus.records} records of {corpus.value_bytes} B, {corpus.codec}")
    best = max((name for name in rounds if not name.startswith(OURS)), key=lambda name: _pace(rounds, name))
    for name, values in rounds.items():
        per_cpu_s = statistics.median(one.per_cpu_s for one in values)
        said = f"  {name:27} {_pace(rounds, name):12,.0f} rows/s {per_cpu_s:12,.0f} per CPU-s"
        if name.startswith(OURS):
            ratios = paired(rounds, name, [best])
            said += f"   {statistics.median(ratios):5.2f} x {best} ({min(ratios):.2f} to {max(ratios):.2f})"
        print(said, flush=True)


def _pace(rounds: Rounds, name: str) -> float:
    return statistics.median(one.per_s for one in rounds[name])
