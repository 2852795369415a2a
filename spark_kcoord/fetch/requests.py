"""One fetch from one broker, its request and what the answer says: pure functions over kafka-python's messages.

One request asks for many partitions, in an order that matters: a broker fills its answer from the first on until
the answer is full. So the first partition that has data gets at least one whole batch of it, however large, and an
empty answer tells something of a partition only while no other before it got any bytes; `progress.py` says what.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

import kafka.errors as kafka_errors
from kafka.protocol.consumer import FetchRequest

from spark_kcoord.fetch.decoding.record_set import AbortedTransaction
from spark_kcoord.fetch.topic_range import TopicPartition
from spark_kcoord.options.kafka_settings import KafkaSettings

__all__ = [
    "NO_EPOCH",
    "NO_REPLICA",
    "NO_SESSION",
    "UNKNOWN_OFFSET",
    "PartAnswer",
    "PartWanted",
    "fetch_request",
    "read_news",
    "read_response",
]

NO_EPOCH: Final = -1
NO_SESSION: Final = (0, -1)
NO_REPLICA: Final = -1
UNKNOWN_OFFSET: Final = -1

# Version 4 is the first with isolation levels (Kafka 0.11); from 13 on topics go by id.
_MIN_VERSION: Final = 4
_MAX_VERSION_BY_NAME: Final = 12


@dataclass(frozen=True, slots=True)
class PartWanted:
    """One partition in a fetch: from which offset, at most how many bytes, and what is known of its leader.

    ``last_epoch`` is the leader epoch of the record before ``position``, by which a broker tells that its log has
    another history (KIP-320); NO_EPOCH where it is not known.
    """

    topic: str
    topic_id: str | None
    partition: int
    position: int
    most_bytes: int
    leader_epoch: int
    last_epoch: int = NO_EPOCH


@dataclass(frozen=True, slots=True)
class PartAnswer:
    """A broker's answer about one partition; ``error`` is set or the rest is.

    ``diverged_at`` is the offset at which the broker's log leaves the history that was read so far. ``had_its_turn``
    says that the answer's limits left the partition at least one batch, ``is_share_small`` that it has none although
    the answer had room for all that the partition was allowed.
    """

    error: kafka_errors.KafkaError | None
    records: bytes | memoryview = b""
    aborted: tuple[AbortedTransaction, ...] | None = None
    log_start: int = UNKNOWN_OFFSET
    readable_end: int = 0
    high_watermark: int = UNKNOWN_OFFSET
    preferred_replica: int = NO_REPLICA
    diverged_at: int | None = None
    had_its_turn: bool = False
    is_share_small: bool = False


def fetch_request(
    settings: KafkaSettings,
    wanted: Sequence[PartWanted],
    *,
    most_bytes: int,
    from_leader: bool = False,
    max_wait_ms: int | None = None,
    session: tuple[int, int] = NO_SESSION,
    forgotten: Sequence[PartWanted] = (),
) -> FetchRequest:
    """Return the request for some partitions, in whose order those of a topic must be together.

    Topics go by id where all have one, so that another topic of the same name is never read. A leader that is asked
    with ``from_leader`` sends nobody to a replica. The broker waits as the settings say, or for ``max_wait_ms``.
    ``session`` is the id and the epoch of a fetch session, from which ``forgotten`` are taken out.
    """
    by_topic, forgotten_by_topic = _by_topic(wanted), _by_topic(forgotten)
    has_ids = all(part.topic_id is not None for part in (*wanted, *forgotten))
    return FetchRequest(
        max_wait_ms=settings.fetch_max_wait_ms if max_wait_ms is None else max_wait_ms,
        min_bytes=settings.fetch_min_bytes,
        max_bytes=most_bytes,
        isolation_level=int(settings.is_read_committed),
        rack_id="" if from_leader else settings.rack,
        topics=[
            FetchRequest.FetchTopic(
                topic=topic,
                partitions=[
                    FetchRequest.FetchTopic.FetchPartition(
                        partition=part.partition,
                        current_leader_epoch=part.leader_epoch,
                        fetch_offset=part.position,
                        last_fetched_epoch=part.last_epoch,
                        partition_max_bytes=part.most_bytes,
                    )
                    for part in parts
                ],
                **({"topic_id": UUID(parts[0].topic_id)} if has_ids else {}),
            )
            for (topic, _), parts in by_topic.items()
        ],
        session_id=session[0],
        session_epoch=session[1],
        forgotten_topics_data=[
            FetchRequest.ForgottenTopic(
                topic=topic,
                partitions=[part.partition for part in parts],
                **({"topic_id": UUID(parts[0].topic_id)} if has_ids else {}),
            )
            for (topic, _), parts in forgotten_by_topic.items()
        ],
        min_version=_MIN_VERSION,
        max_version=None if has_ids else _MAX_VERSION_BY_NAME,
    )


def _by_topic(parts: Sequence[PartWanted]) -> dict[tuple[str, str | None], list[PartWanted]]:
    found: dict[tuple[str, str | None], list[PartWanted]] = {}
    for part in parts:
        found.setdefault((part.topic, part.topic_id), []).append(part)
    return found


def read_news(
    settings: KafkaSettings, wanted: Mapping[TopicPartition, PartWanted], response: Any, names: Mapping[str, str]
) -> dict[TopicPartition, PartAnswer]:
    """Return what a broker says of the partitions that it names in a fetch session; ``names`` are topics by id."""
    found = {}
    for topic in response.responses:
        name = topic.topic or names.get(str(topic.topic_id), "")
        for data in topic.partitions:
            part = wanted.get((name, data.partition_index))
            # Of a topic that was made again a broker may still say something of the one before.
            if part is not None and (topic.topic or part.topic_id == str(topic.topic_id)):
                key = (part.topic, part.partition)
                found[key] = _answer(settings, part, data, had_its_turn=False, has_room=False)
    return found


def read_response(
    settings: KafkaSettings, wanted: Sequence[PartWanted], response: Any, *, most_bytes: int
) -> list[PartAnswer]:
    """Return the answers to ``wanted``, in its order.

    A partition that was left out is answered with an error, or with nothing where the broker throttles: it leaves all
    of them out then. ``wanted`` and ``most_bytes`` are those of the request, the partitions of a topic together.
    """
    if response.error_code:
        return [PartAnswer(_error(response.error_code, part)) for part in wanted]
    names = {UUID(part.topic_id): part.topic for part in wanted if part.topic_id is not None}
    sent = {
        (topic.topic or names.get(topic.topic_id), data.partition_index): data
        for topic in response.responses
        for data in topic.partitions
    }
    answers = []
    bytes_before = 0
    for part in wanted:
        data = sent.get((part.topic, part.partition))
        if data is None and response.throttle_time_ms:
            answers.append(PartAnswer(None, readable_end=UNKNOWN_OFFSET))
            continue
        if data is None:
            answers.append(PartAnswer(_error(kafka_errors.UnknownTopicOrPartitionError.errno, part)))
            continue
        has_room = bytes_before + part.most_bytes <= most_bytes
        had_its_turn = not bytes_before and not response.throttle_time_ms
        answers.append(_answer(settings, part, data, had_its_turn=had_its_turn, has_room=has_room))
        bytes_before += len(answers[-1].records)
    return answers


def _answer(settings: KafkaSettings, part: PartWanted, data: Any, *, had_its_turn: bool, has_room: bool) -> PartAnswer:
    if data.error_code:
        return PartAnswer(_error(data.error_code, part))
    aborted = tuple(
        AbortedTransaction(transaction.producer_id, transaction.first_offset)
        for transaction in data.aborted_transactions or ()
    )
    diverging = data.diverging_epoch
    has_diverged = diverging is not None and diverging.end_offset >= 0
    return PartAnswer(
        error=None,
        records=data.records or b"",
        aborted=aborted if settings.is_read_committed else None,
        log_start=data.log_start_offset,
        readable_end=data.last_stable_offset if settings.is_read_committed else data.high_watermark,
        high_watermark=data.high_watermark,
        preferred_replica=data.preferred_read_replica,
        diverged_at=diverging.end_offset if has_diverged else None,
        had_its_turn=had_its_turn,
        is_share_small=not had_its_turn and has_room and not data.records,
    )


def _error(code: int, part: PartWanted) -> kafka_errors.KafkaError:
    return kafka_errors.for_code(code)(f"topic '{part.topic}' partition {part.partition}")
