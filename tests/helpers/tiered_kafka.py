"""A real broker with a remote tier that can be made slow: Kafka's own LocalTieredStorage, whose files are withheld.

The tier keeps segments as files. While it is slow, a pipe that nobody writes to stands in the place of each segment's
records, so that a remote read lasts until the broker gives it up; then the broker answers a fetch with nothing and
without an error, as it does for a remote store that takes its time.
"""

import contextlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from kafka import KafkaProducer

from coordinator.local.java.jars import JarSet, Module, resolve_jars
from coordinator.local.kafka.broker import KAFKA_JARS, LocalKafka
from spark_kcoord.fetch.connection import KafkaClient
from spark_kcoord.fetch.offsets import local_log_starts
from spark_kcoord.options.kafka_settings import KafkaSettings
from tests.helpers.waiting import wait_until

_KAFKA = KAFKA_JARS.modules[0]
TIER_JARS = JarSet(
    name="kafka-tiered-storage",
    modules=tuple(
        Module(_KAFKA.organisation, name, _KAFKA.version, "test") for name in ("kafka-storage", "kafka-clients")
    ),
    jar_count=2,
    has_dependencies=False,
)
"""The jars of Kafka's own tests, in which LocalTieredStorage is."""
_CLASS = "org.apache.kafka.server.log.remote.storage.LocalTieredStorage"
_READERS = 200
"""Threads that read the tier: a read that was given up stays in its pipe for as long as the tier is slow."""
_TOPIC_CONFIG = {"remote.storage.enable": "true", "local.retention.ms": "1", "retention.ms": "-1", "segment.ms": "100"}
_FIRST_MS = 1_790_000_000_000


class TieredKafka:
    """The broker and its tier; `running` starts and stops both."""

    def __init__(self, folder: Path) -> None:
        self._tier = folder / "tier"
        self._tier.mkdir(parents=True)
        self.kafka = LocalKafka(
            folder / "kafka",
            config={
                "remote.log.storage.system.enable": "true",
                "remote.log.storage.manager.class.name": _CLASS,
                "remote.log.storage.manager.class.path": os.pathsep.join(map(str, resolve_jars(TIER_JARS))),
                "rsm.config.dir": str(self._tier),
                "remote.log.metadata.manager.listener.name": "PLAINTEXT",
                "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
                "rlmm.config.remote.log.metadata.topic.num.partitions": "1",
                "remote.log.manager.task.interval.ms": "100",
                "remote.log.reader.threads": str(_READERS),
                "log.initial.task.delay.ms": "100",
                "log.retention.check.interval.ms": "200",
                "log.segment.delete.delay.ms": "100",
            },
        )

    @contextmanager
    def running(self) -> Iterator["TieredKafka"]:
        """Run the broker for as long as the context lasts."""
        with self.kafka:
            yield self

    def write(self, topic: str, values: Sequence[bytes]) -> None:
        """Create a topic of one partition and write values to it; all but the last are in the tier alone on return.

        The last may be there as well by then.
        """
        self.kafka.create_topic(topic, 1, _TOPIC_CONFIG)
        producer = KafkaProducer(bootstrap_servers=self.kafka.bootstrap_servers, linger_ms=5)
        try:
            for value in values[:-1]:
                producer.send(topic, value, partition=0, timestamp_ms=_FIRST_MS)
            producer.flush()
            # A record that is so much younger begins another segment, and what was written before can go to the tier.
            producer.send(topic, values[-1], partition=0, timestamp_ms=_FIRST_MS + 1_000)
            producer.flush()
        finally:
            producer.close()
        wait_until(lambda: self._local_start(topic) >= len(values) - 1, what=f"{topic} to be in the remote tier alone")

    @contextmanager
    def slow(self) -> Iterator[None]:
        """Withhold the tier's records for as long as the context lasts."""
        withheld = []
        for segment in sorted(self._tier.glob("**/*.log")):
            kept = segment.with_suffix(".withheld")
            segment.rename(kept)
            os.mkfifo(segment)
            withheld.append((segment, kept))
        assert withheld, "nothing is in the tier"
        try:
            yield
        finally:
            for segment, kept in withheld:
                pipe = segment.with_suffix(".pipe")
                segment.rename(pipe)
                kept.rename(segment)
                self._let_go(pipe)

    @staticmethod
    def _let_go(pipe: Path) -> None:
        """Let the reads end that wait for a pipe; but for the last, nobody waits for what they find."""
        with contextlib.suppress(OSError):  # there are none
            os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
        pipe.unlink()

    def _local_start(self, topic: str) -> int:
        client = KafkaClient(KafkaSettings(servers=(self.kafka.bootstrap_servers,), client=(("client_id", "tests"),)))

        async def ask() -> int:
            leader, epoch = (await client.refresh([topic]))[topic].leaders[0]
            return (await local_log_starts(client, leader, {(topic, 0): epoch}) or {}).get((topic, 0), 0)

        try:
            return client.run(ask, 10)
        finally:
            client.close()
