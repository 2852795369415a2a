"""Two things that only a group has: how long a commit takes, and until a second consumer has its first record.

The commit is of eight partitions, after each poll, by a member that the coordinator syncs to disk for. The second
consumer joins one that reads on; the clock begins when it is made, in a process that has loaded everything.
"""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

from confluent_kafka import Producer

from benchmarks.consumer.corpus import Corpus
from kcoord import Consumer

TIMEOUT_S = 60.0


def commits(coordinator: str, corpus: Corpus, group: str, number: int) -> list[float]:
    """Return the milliseconds of so many commits."""
    settings = {"coordinators": coordinator, "group_id": group, "auto_offset_reset": "earliest"}
    waited: list[float] = []
    with Consumer(corpus.topic, enable_auto_commit=False, max_poll_records=100, **settings) as consumer:
        until = time.monotonic() + TIMEOUT_S
        while len(waited) < number:
            if not consumer.poll(1_000):
                if time.monotonic() > until:
                    raise RuntimeError("there are no records to commit")
                consumer.seek_to_beginning()
                continue
            began = time.perf_counter()
            consumer.commit()
            waited.append((time.perf_counter() - began) * 1000)
    return waited


def joining(servers: str, coordinator: str, topic: str, partitions: int, group: str) -> float:
    """Return the milliseconds until a consumer that joins another has its first record, while records are sent."""
    settings = {"coordinators": coordinator, "group_id": group, "auto_offset_reset": "latest"}
    is_over = threading.Event()

    def send() -> None:
        producer = Producer({"bootstrap.servers": servers, "linger.ms": 1})
        while not is_over.wait(0.005):
            for partition in range(partitions):
                producer.produce(topic, b"r", partition=partition)
            producer.poll(0)
        producer.flush(10)

    def follow() -> None:
        with Consumer(topic, **settings) as first:
            while not is_over.is_set():
                if first.poll(100):
                    has_read.set()

    has_read = threading.Event()
    with ThreadPoolExecutor(2) as pool:
        threads = [pool.submit(send), pool.submit(follow)]
        try:
            if not has_read.wait(TIMEOUT_S):
                raise RuntimeError("the first consumer reads nothing")
            began = time.perf_counter()
            with Consumer(topic, **settings) as second:
                while not second.poll(1_000):
                    if time.perf_counter() - began > TIMEOUT_S:
                        raise RuntimeError("the second consumer reads nothing")
                waited_ms = (time.perf_counter() - began) * 1000
        finally:
            is_over.set()
        for thread in threads:
            thread.result()
    return waited_ms
