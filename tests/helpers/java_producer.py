"""Kafka's own Java producer, driven through py4j in a JVM of its own: what most topics are written by."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from coordinator.local.java.jars import resolve_jars
from coordinator.local.java.runtime import find_java
from coordinator.local.kafka.broker import KAFKA_JARS, QUICK_START
from tests.helpers.record_batches import Row


class JavaProducers:
    """Makes Java producers; each is closed by its caller."""

    def __init__(self, gateway: JavaGateway) -> None:
        self._jvm: Any = gateway.jvm

    def producer(self, servers: str, config: Mapping[str, str]) -> Any:
        """Return an org.apache.kafka.clients.producer.KafkaProducer of bytes."""
        properties = self._jvm.java.util.Properties()
        serializer = "org.apache.kafka.common.serialization.ByteArraySerializer"
        for name, value in {
            "bootstrap.servers": servers,
            "key.serializer": serializer,
            "value.serializer": serializer,
            "linger.ms": "5",
            **config,
        }.items():
            properties.setProperty(name, value)
        return self._jvm.org.apache.kafka.clients.producer.KafkaProducer(properties)

    def decode_utf8(self, data: bytes) -> str:
        """Return what Java's String makes of bytes, as its consumer does with header keys."""
        text: str = self._jvm.java.lang.String(data, "UTF-8")
        return text

    def send(self, producer: Any, topic: str, row: Row) -> None:
        """Queue one record for partition 0."""
        record = self._jvm.org.apache.kafka.clients.producer.ProducerRecord(topic, 0, row.timestamp, row.key, row.value)
        for key, value in row.headers:
            record.headers().add(key, value)
        producer.send(record)


@contextmanager
def java_producers() -> Iterator[JavaProducers]:
    """Run a JVM with Kafka's client in it, gone when the block ends."""
    port, process = launch_gateway(
        classpath=":".join(str(jar) for jar in resolve_jars(KAFKA_JARS)),
        javaopts=["-Xmx128m", *QUICK_START],
        java_path=str(find_java().executable),
        die_on_exit=True,
        return_proc=True,
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auto_convert=True))
    try:
        yield JavaProducers(gateway)
    finally:
        gateway.shutdown()
        process.stdin.close()
        process.wait(timeout=20)
