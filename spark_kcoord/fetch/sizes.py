"""The size of records at a position: a small sample of each partition, one fetch a broker.

An estimate for planning, so it is cheap and forgiving: what cannot be sampled (no leader, no whole batch within the
limit, an offset that is gone) is left out, and the caller goes by the others. Leaders are asked without a rack, because
one that sends its reader to a replica answers with no records. Bytes are those that Kafka stores and sends, compressed
as they are, with batch headers; offsets that compaction took count as offsets without bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import kafka.errors as kafka_errors
from kafka.protocol.consumer import FetchRequest

from spark_kcoord.errors import KcoordError
from spark_kcoord.fetch.connection import KafkaClient
from spark_kcoord.fetch.decoding.mixed_sets import entries
from spark_kcoord.fetch.topic_range import TopicPartition

__all__ = ["sample_sizes"]

_SAMPLE_BYTES: Final = 1 << 20
_PARTITION_BYTES: Final = 1 << 16
# Version 4 is the first with isolation levels (Kafka 0.11); up to 12 topics go by name.
_FETCH_MIN_VERSION: Final = 4
_FETCH_MAX_VERSION: Final = 12


async def sample_sizes(client: KafkaClient, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, float]:
    """Return bytes per offset at each position; raises kafka-python's last error when no broker answered."""
    by_leader: dict[int, dict[str, list[Any]]] = {}
    for (name, partition), position in positions.items():
        topic = client.topic(name) or (await client.refresh([name])).get(name)
        leader, epoch = topic.leaders.get(partition, (-1, -1)) if topic else (-1, -1)
        if leader >= 0:
            asked = FetchRequest.FetchTopic.FetchPartition(
                partition=partition,
                current_leader_epoch=epoch,
                fetch_offset=position,
                partition_max_bytes=_PARTITION_BYTES,
            )
            by_leader.setdefault(leader, {}).setdefault(name, []).append(asked)
    pending = [client.start_soon(partial(_ask, client, leader, topics)) for leader, topics in by_leader.items()]
    sizes: dict[TopicPartition, float] = {}
    failure: kafka_errors.KafkaError | None = None
    for answer in pending:
        try:
            response = await answer
        except kafka_errors.KafkaError as error:
            failure = error
            continue
        for topic_answer in response.responses:
            for found in topic_answer.partitions:
                key = (topic_answer.topic, found.partition_index)
                if key not in positions:
                    continue
                size = _bytes_per_offset(bytes(found.records or b""), positions[key], topic_answer.topic)
                if size is not None:
                    sizes[key] = size
    if failure is not None and not sizes:
        raise failure
    return sizes


def _bytes_per_offset(records: bytes, position: int, where: str) -> float | None:
    try:
        whole = list(entries(memoryview(records), where))
    except KcoordError:
        return None  # the reader of the range will say what is wrong with it
    if not whole:
        return None
    first = whole[0].first_offset
    if first is None:  # a compressed set of an old format tells its last offset only
        first = whole.pop(0).next_offset if len(whole) > 1 else position
    offsets = whole[-1].next_offset - first
    return sum(len(entry.data) for entry in whole) / offsets if offsets > 0 else None


async def _ask(client: KafkaClient, leader: int, topics: Mapping[str, list[Any]]) -> Any:
    settings = client.settings
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=_SAMPLE_BYTES,
        isolation_level=int(settings.is_read_committed),
        topics=[FetchRequest.FetchTopic(topic=name, partitions=partitions) for name, partitions in topics.items()],
        min_version=_FETCH_MIN_VERSION,
        max_version=_FETCH_MAX_VERSION,
    )
    return await client.send(leader, request)
