"""The time from when a record is sent until a consumer that has nothing to do returns it, one record at a time.

Each consumer has a topic of its own and waits all the while; records go to one after the other, so that nobody's work
is in anybody's way. A record carries the time at which it was sent, of the clock that all processes share.
"""

import asyncio
import random
import statistics
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from confluent_kafka import Producer

from benchmarks.consumer.children import Child
from benchmarks.consumer.readers import READERS
from coordinator.local.kafka.broker import LocalKafka

WAITERS = ("kcoord poll", "kcoord getmany", "confluent", "kafka-python tuned", "aiokafka")
AT_A_TIME = 10
LAST = b"last"
TIMEOUT_S = 300.0


def receive(name: str, servers: str, topic: str, ready: Path) -> list[float]:
    """Read a topic until its last record; return the milliseconds that each record was on its way.

    A file is made when the consumer waits for its first record.
    """
    return asyncio.run(_receive(name, servers, topic, ready))


async def _receive(name: str, servers: str, topic: str, ready: Path) -> list[float]:
    reader = READERS[name]()
    # A batch is not waited for: each call returns with the first record.
    reader._at_once = 1
    await reader.open(servers, topic, 1)
    await reader.read(1)
    ready.touch()
    waited: list[float] = []
    try:
        while True:
            for pack in await reader.read(1):
                now_ns = time.monotonic_ns()
                for fields in reader.fields(pack):
                    if fields[6] == LAST:
                        return waited
                    waited.append((now_ns - int(fields[6] or b"0")) / 1e6)
    finally:
        await reader.close()


def measure(kafka: LocalKafka, rounds: int) -> dict[str, list[list[float]]]:
    """Return the milliseconds of each consumer's records, a list a round; the first round is not counted."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "linger.ms": 0})
    chance = random.Random(0)
    topics = {name: f"latency-{number}" for number, name in enumerate(WAITERS)}
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-latency-")))
        outcomes = {}
        for name, topic in topics.items():
            kafka.create_topic(topic, 1)
            child = stack.enter_context(Child())
            outcomes[name] = child.begin(receive, name, kafka.bootstrap_servers, topic, directory / topic)
        until = time.monotonic() + TIMEOUT_S
        while len(list(directory.iterdir())) < len(topics):
            if time.monotonic() > until:
                raise RuntimeError(f"the consumers do not all wait after {TIMEOUT_S:g} s")
            time.sleep(0.1)
        for _ in range(rounds + 1):
            for topic in topics.values():
                for _ in range(AT_A_TIME):
                    producer.produce(topic, b"%d" % time.monotonic_ns(), partition=0)
                    producer.flush(10)
                    time.sleep(chance.uniform(0.01, 0.05))
        for topic in topics.values():
            producer.produce(topic, LAST, partition=0)
        producer.flush(10)
        found = {name: outcome(TIMEOUT_S) for name, outcome in outcomes.items()}
    return {
        name: [waited[at : at + AT_A_TIME] for at in range(AT_A_TIME, len(waited), AT_A_TIME)]
        for name, waited in found.items()
    }


def medians(rounds: Sequence[Sequence[float]]) -> list[float]:
    """Return the median of each round."""
    return [statistics.median(one) for one in rounds]


def report(measured: dict[str, list[list[float]]]) -> None:
    """Print the medians."""
    for name, rounds in measured.items():
        each = sorted(ms for one in rounds for ms in one)
        p99 = each[min(len(each) - 1, int(len(each) * 0.99))]
        print(f"  {name:27} a record after {statistics.median(medians(rounds)):7.2f} ms, p99 {p99:7.2f} ms", flush=True)
