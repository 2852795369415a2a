"""The records that the readers of a benchmark read: written once, with keys, some headers, and times of their own."""

from dataclasses import dataclass

from confluent_kafka import Producer

from coordinator.local.kafka.broker import LocalKafka

HEADERS_EVERY = 64
FIRST_TIME_MS = 1_700_000_000_000


@dataclass(frozen=True, slots=True)
class Corpus:
    """A topic: so many partitions, each with so many records of a value of so many bytes."""

    topic: str
    partitions: int
    records_each: int
    value_bytes: int
    codec: str = "none"

    @property
    def records(self) -> int:
        """The number of all records."""
        return self.partitions * self.records_each


def fill(kafka: LocalKafka, corpus: Corpus) -> None:
    """Make the topic and write its records, the partitions in turns."""
    largest = str(2 * max(corpus.value_bytes, 1 << 20))
    kafka.create_topic(corpus.topic, corpus.partitions, {"max.message.bytes": largest})
    settings = {"linger.ms": 50, "batch.size": 1 << 16, "compression.type": corpus.codec, "message.max.bytes": largest}
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, **settings})
    text = bytes(range(32, 127)) * (corpus.value_bytes // 95 + 2)
    for number in range(corpus.records_each):
        value = text[number % 95 : number % 95 + corpus.value_bytes]
        headers = [("number", b"%d" % number), ("none", None)] if number % HEADERS_EVERY == 0 else None
        for partition in range(corpus.partitions):
            one = {"partition": partition, "key": b"%08d" % number, "timestamp": FIRST_TIME_MS + number}
            while True:
                try:
                    producer.produce(corpus.topic, value, headers=headers, **one)
                    break
                except BufferError:
                    producer.poll(0.1)
    left = producer.flush(120)
    if left:
        raise RuntimeError(f"{left} records of {corpus.topic} were not written")
