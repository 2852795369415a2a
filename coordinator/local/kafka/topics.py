"""Makes topics of a broker on this machine and fills them, for trying things out and for tests."""

from collections import deque
from collections.abc import Mapping
from typing import Final

from kafka import KafkaAdminClient, KafkaProducer
from kafka.errors import KafkaError, TopicAlreadyExistsError

from coordinator.local.errors import LocalServiceError

_REQUEST_TIMEOUT_MS: Final = 5_000
_FLUSH_TIMEOUT_S: Final = 30.0


def create_topic(servers: str, name: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
    """Create a topic and return when each of its partitions has a leader; raises LocalServiceError."""
    options = {"num_partitions": partitions, "replication_factor": 1, "configs": dict(config or {})}
    try:
        with KafkaAdminClient(
            bootstrap_servers=servers,
            bootstrap_timeout_ms=_REQUEST_TIMEOUT_MS,
            request_timeout_ms=_REQUEST_TIMEOUT_MS,
        ) as admin:
            admin.create_topics({name: options}, wait_for_metadata=True)
    except TopicAlreadyExistsError as error:
        raise LocalServiceError(f"Topic {name!r} exists on {servers} already. Use it, or name another.") from error
    except KafkaError as error:
        raise LocalServiceError(f"Topic {name!r} cannot be created on {servers}: {error}.") from error


def produce_numbers(servers: str, topic: str, records: int) -> int:
    """Write records with the keys 0, 1, 2 … dealt to the partitions in turn; return the number of partitions.

    Returns when the broker has all of them; raises LocalServiceError, also for a topic that does not exist.
    """
    try:
        producer = KafkaProducer(
            bootstrap_servers=servers, bootstrap_timeout_ms=_REQUEST_TIMEOUT_MS, max_block_ms=_REQUEST_TIMEOUT_MS
        )
    except KafkaError as error:
        raise LocalServiceError(f"Kafka at {servers} cannot be reached: {error}. Check --kafka.") from error
    try:
        partitions = sorted(producer.partitions_for(topic) or ())
        if not partitions:
            raise LocalServiceError(
                f"Kafka at {servers} has no topic {topic!r}. Make it with `kcoord dev topic {topic}`."
            )
        failures: deque[Exception] = deque(maxlen=1)  # what was written is forgotten: there may be millions
        for number in range(records):
            partition = partitions[number % len(partitions)]
            sent = producer.send(topic, f"event {number}".encode(), str(number).encode(), partition=partition)
            sent.add_errback(failures.append)
            if failures:
                break
        producer.flush(_FLUSH_TIMEOUT_S)
        if failures:
            raise failures[0]
    except ValueError as error:
        raise LocalServiceError(f"{topic!r} is not the name of a topic: {error}.") from error
    except KafkaError as error:
        raise LocalServiceError(f"Records cannot be written to topic {topic!r} on {servers}: {error}.") from error
    finally:
        producer.close(timeout=_FLUSH_TIMEOUT_S)
    return len(partitions)
