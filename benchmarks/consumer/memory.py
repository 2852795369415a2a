"""The memory that a consumer needs for records of 1 MB in 64 partitions, and for 10,000 partitions.

What is resident after one record was read, libraries and connections included, is not counted: figures are MiB at the
peak above that, with records dropped as soon as they are seen.
"""

from collections.abc import Sequence

from benchmarks.consumer.children import memory_mib, reset_peak
from benchmarks.consumer.corpus import Corpus
from kcoord import Consumer, TopicPartition


def measure(servers: str, one: Corpus, corpora: Sequence[Corpus]) -> tuple[int, float]:
    """Return the records that were read and by how many MiB memory rose; to be called in a process of its own."""
    _read(servers, [one])
    base = memory_mib("VmRSS")
    reset_peak()
    return _read(servers, corpora), memory_mib("VmHWM") - base


def _read(servers: str, corpora: Sequence[Corpus]) -> int:
    wanted = sum(corpus.records for corpus in corpora)
    count = 0
    with Consumer(bootstrap_servers=servers) as consumer:
        consumer.assign(
            {TopicPartition(corpus.topic, number): 0 for corpus in corpora for number in range(corpus.partitions)}
        )
        while count < wanted:
            count += sum(len(records) for records in consumer.poll(60_000).values())
    return count
