"""The consumers that are measured, each in the calls that its own documentation shows, behind one interface.

`read` returns packs, and `touch` looks at every field of every record of one, by name, as a program would; `fields`
says the records of a pack alike for all readers. Blocking readers block in `read`; nothing else is on the loop then.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Protocol

import confluent_kafka
import pyarrow as pa
import pyarrow.compute as pc
from aiokafka import AIOKafkaConsumer
from kafka import KafkaConsumer

from kcoord import AsyncConsumer, Consumer, TopicPartition

WAIT_MS = 1_000
STEP = 500
MANY = 10_000
LARGE_FETCH = {"max_partition_fetch_bytes": 8 << 20}

Fields = tuple[str, int, int, int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]


class Reader(Protocol):
    """One consumer of one topic, from its beginning on."""

    async def open(self, servers: str, topic: str, partitions: int) -> None:
        """Connect, and begin to read."""

    async def read(self, most: int) -> Any:
        """Return packs of records, no more than `most` records where the reader is one at a time."""

    async def rewind(self) -> None:
        """Go to the beginning of all partitions."""

    async def close(self) -> None:
        """Close it."""

    def touch(self, pack: Any) -> int:
        """Look at every field of a pack and return the number of its records."""

    def fields(self, pack: Any) -> Iterator[Fields]:
        """Yield the fields of each record."""


class _Named:
    """Records with fields."""

    def touch(self, pack: Any) -> int:
        for r in pack:
            _ = (r.topic, r.partition, r.offset, r.timestamp, r.timestamp_type, r.key, r.value, r.headers)
        return len(pack)

    def fields(self, pack: Any) -> Iterator[Fields]:
        for r in pack:
            headers = tuple((key, value) for key, value in r.headers)
            yield (r.topic, r.partition, r.offset, r.timestamp, r.timestamp_type, r.key, r.value, headers)


class _Blocking(_Named):
    """kafka-python's calls."""

    most_records: int | None = None

    def __init__(self, make: Callable[..., Any], settings: dict[str, Any]) -> None:
        self._make = make
        self._settings = settings

    async def open(self, servers: str, topic: str, partitions: int) -> None:
        self._partitions = [TopicPartition(topic, number) for number in range(partitions)]
        self._consumer = self._make(bootstrap_servers=servers, **self._settings)
        self._consumer.assign(self._partitions)
        await self.rewind()

    async def rewind(self) -> None:
        for partition in self._partitions:
            self._consumer.seek(partition, 0)

    async def read(self, _: int) -> Any:
        return self._consumer.poll(WAIT_MS, self.most_records).values()

    async def close(self) -> None:
        self._consumer.close()


class _Iterating(_Blocking):
    """A record at a time."""

    async def read(self, most: int) -> Any:
        return [list(islice(self._consumer, min(STEP, most)))]


class _Arrow:
    """Record batches."""

    def touch(self, pack: pa.RecordBatch) -> int:
        for name in pack.schema.names:
            column = pack.column(name)
            if pa.types.is_binary(column.type) or pa.types.is_string(column.type):
                lengths: Any = pc.binary_length(column)  # type: ignore[call-overload] # of either kind
                pc.sum(lengths)
            elif pa.types.is_timestamp(column.type):
                pc.max(column)
            elif pa.types.is_list(column.type):
                pc.sum(pc.list_value_length(column))
            else:
                pc.sum(column)
        return pack.num_rows

    def fields(self, pack: pa.RecordBatch) -> Iterator[Fields]:
        times: list[Any] = pack.column("timestamp").cast(pa.int64()).to_pylist()
        for r, time_us in zip(pack.to_pylist(), times, strict=True):
            headers = tuple((one["key"], one["value"]) for one in r["headers"] or ())
            yield (
                *(r["topic"], r["partition"], r["offset"], time_us // 1000),
                *(r["timestampType"], r["key"], r["value"], headers),
            )


class _ArrowPolling(_Arrow, _Blocking):
    """`poll_arrow`."""

    async def read(self, _: int) -> Any:
        return self._consumer.poll_arrow(WAIT_MS)


class _OnLoop(_Named):
    """aiokafka's calls."""

    def __init__(self, make: Callable[..., Any], settings: dict[str, Any]) -> None:
        self._make = make
        self._settings = settings

    async def open(self, servers: str, topic: str, partitions: int) -> None:
        self._consumer = self._make(bootstrap_servers=servers, **self._settings)
        await self._consumer.start()
        self._partitions = [self._partition(topic, number) for number in range(partitions)]
        await self._assign()
        await self.rewind()

    def _partition(self, topic: str, number: int) -> Any:
        return TopicPartition(topic, number)

    async def _assign(self) -> None:
        await self._consumer.assign(self._partitions)

    async def rewind(self) -> None:
        for partition in self._partitions:
            self._consumer.seek(partition, 0)

    async def read(self, _: int) -> Any:
        return (await self._consumer.getmany(timeout_ms=WAIT_MS)).values()

    async def close(self) -> None:
        await self._consumer.stop()


class _ArrowGetting(_Arrow, _OnLoop):
    """`getmany_arrow`."""

    async def read(self, _: int) -> Any:
        return await self._consumer.getmany_arrow(timeout_ms=WAIT_MS)


class _AioKafka(_OnLoop):
    """aiokafka, whose `assign` is a plain call."""

    def _partition(self, topic: str, number: int) -> Any:
        from aiokafka import TopicPartition as Theirs

        return Theirs(topic, number)

    async def _assign(self) -> None:
        self._consumer.assign(self._partitions)


class _Confluent:
    """`consume`, whose messages have methods."""

    def __init__(self, settings: dict[str, Any], at_once: int) -> None:
        self._settings = settings
        self._at_once = at_once

    async def open(self, servers: str, topic: str, partitions: int) -> None:
        given = {"bootstrap.servers": servers, "group.id": "bench", "enable.auto.commit": False}
        self._consumer = confluent_kafka.Consumer(given | self._settings)
        self._partitions = [confluent_kafka.TopicPartition(topic, number, 0) for number in range(partitions)]
        self._consumer.assign(self._partitions)

    async def rewind(self) -> None:
        for partition in self._partitions:
            self._consumer.seek(partition)

    async def read(self, _: int) -> Any:
        return [self._consumer.consume(self._at_once, WAIT_MS / 1000)]

    async def close(self) -> None:
        self._consumer.close()

    def touch(self, pack: Any) -> int:
        for m in pack:
            _ = (m.error(), m.topic(), m.partition(), m.offset(), m.timestamp(), m.key(), m.value(), m.headers())
        return len(pack)

    def fields(self, pack: Any) -> Iterator[Fields]:
        for m in pack:
            if m.error() is not None:
                raise RuntimeError(str(m.error()))
            kind, time_ms = m.timestamp()
            headers = tuple((key, value) for key, value in m.headers() or ())
            # librdkafka counts the kinds of time from 1 on.
            yield (m.topic(), m.partition(), m.offset(), time_ms, kind - 1, m.key(), m.value(), headers)


ALL_COLUMNS = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"]


def _tuned(reader: Any) -> Any:
    reader.most_records = MANY
    return reader


READERS: dict[str, Callable[[], Any]] = {
    "kcoord poll_arrow": lambda: _ArrowPolling(Consumer, {"columns": ALL_COLUMNS}),
    "kcoord poll_arrow tuned": lambda: _ArrowPolling(Consumer, {"columns": ALL_COLUMNS} | LARGE_FETCH),
    "kcoord poll": lambda: _Blocking(Consumer, {}),
    "kcoord poll tuned": lambda: _Blocking(Consumer, {"max_poll_records": MANY} | LARGE_FETCH),
    "kcoord iteration": lambda: _Iterating(Consumer, {}),
    "kcoord iteration tuned": lambda: _Iterating(Consumer, {"max_poll_records": MANY} | LARGE_FETCH),
    "kcoord getmany": lambda: _OnLoop(AsyncConsumer, {}),
    "kcoord getmany tuned": lambda: _OnLoop(AsyncConsumer, {"max_poll_records": MANY} | LARGE_FETCH),
    "kcoord getmany_arrow": lambda: _ArrowGetting(AsyncConsumer, {"columns": ALL_COLUMNS}),
    "kcoord getmany_arrow tuned": lambda: _ArrowGetting(AsyncConsumer, {"columns": ALL_COLUMNS} | LARGE_FETCH),
    "kafka-python": lambda: _Blocking(KafkaConsumer, {"enable_auto_commit": False}),
    "kafka-python tuned": lambda: _tuned(
        _Blocking(KafkaConsumer, {"enable_auto_commit": False, "receive_buffer_bytes": 1 << 20} | LARGE_FETCH)
    ),
    "confluent": lambda: _Confluent({}, STEP),
    "confluent tuned": lambda: _Confluent(
        {
            "queued.min.messages": 1_000_000,
            "queued.max.messages.kbytes": 256 << 10,
            "fetch.queue.backoff.ms": 0,
            "max.partition.fetch.bytes": 8 << 20,
        },
        MANY,
    ),
    "aiokafka": lambda: _AioKafka(AIOKafkaConsumer, {"enable_auto_commit": False}),
    "aiokafka tuned": lambda: _AioKafka(AIOKafkaConsumer, {"enable_auto_commit": False} | LARGE_FETCH),
}
"""Every reader by its name; the second half are the peers."""

LACKS = {"kafka-python": ("crc32c",)}
"""The modules that a reader does without: at its defaults kafka-python computes checksums in Python."""

SLOW = {"kafka-python": 0.02, "kafka-python tuned": 0.1}
"""The part of the records that a reader reads, whose pace does not change with their number."""
