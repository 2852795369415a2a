"""The topics of the data path's benchmark, written by the Java producer through Spark's Kafka sink."""

from dataclasses import dataclass

from pyspark.sql import SparkSession

from coordinator.local.kafka.broker import LocalKafka

PARTITIONS = 8
_KEY_BYTES = 8
_HASH_BYTES = 64


@dataclass(frozen=True, slots=True)
class Corpus:
    """One topic: how many records of how many bytes, and the producer's compression."""

    topic: str
    value_bytes: int
    compression: str
    records: int

    @property
    def user_bytes(self) -> int:
        """Return the bytes of all keys and values."""
        return self.records * (_KEY_BYTES + self.value_bytes)


def corpora(scale: float) -> tuple[Corpus, ...]:
    """Return the topics: 5 million records of 100 B by codec, and a million of 1 KB."""
    small = tuple(
        Corpus(f"r100-{codec}", 100, codec, int(5_000_000 * scale)) for codec in ("none", "lz4", "zstd", "snappy")
    )
    return (*small, Corpus("r1k-none", 1000, "none", int(1_000_000 * scale)))


def write(spark: SparkSession, kafka: LocalKafka, corpus: Corpus) -> None:
    """Make a topic and fill it: values of hexadecimal digits, nothing else set but compression and a linger."""
    kafka.create_topic(corpus.topic, PARTITIONS, {})
    hashes = -(-corpus.value_bytes // _HASH_BYTES)
    # Different hashes for small values, since they are compressed; one repeated for large ones, which is quick.
    value = (
        f"concat({', '.join(f'sha2(cast(id * {hashes} + {part} as string), 256)' for part in range(hashes))})"
        if hashes <= 2
        else f"repeat(sha2(cast(id as string), 256), {hashes})"
    )
    (
        spark.range(0, corpus.records, 1, PARTITIONS)
        .selectExpr(
            f"encode(lpad(cast(id as string), {_KEY_BYTES}, '0'), 'UTF-8') AS key",
            f"encode(substr({value}, 1, {corpus.value_bytes}), 'UTF-8') AS value",
            f"cast(id % {PARTITIONS} as int) AS partition",
        )
        .write.format("kafka")
        .option("kafka.bootstrap.servers", kafka.bootstrap_servers)
        .option("kafka.compression.type", corpus.compression)
        .option("kafka.linger.ms", "10")
        .option("topic", corpus.topic)
        .save()
    )
