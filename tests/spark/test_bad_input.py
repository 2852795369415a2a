"""What a user is told who gives wrong input, by a stream and by a batch read: clearly, soon, naming the option."""

import secrets
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from coordinator.local.kafka.broker import LocalKafka
from coordinator.local.node import LocalCoordinator
from tests.helpers.group_view import GroupView
from tests.helpers.waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

PATIENCE_S = 90.0
"""Longer than any time-out in the options below, also where the machine is busy."""
NOBODY = "127.0.0.1:1"
SASL = {"kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "PLAIN", "kafka.sasl.password": "hunter2"}
MISSING = ""
"""Stands for an option that is left out."""

# An option with a wrong value takes one way, whichever it is: tests/unit/spark_kcoord has them all.
WRONG_IN_BOTH = [
    ({"subscribe": "no-such-topic"}, "subscribe", "no-such-topic"),
    ({"subscribe": MISSING}, "subscribe", "is missing"),
    ({"subscribes": "t"}, "subscribes", "Did you mean 'subscribe'?"),
    ({"includeHeaders": "maybe"}, "includeHeaders", "Allowed: true or false."),
    (SASL, "kafka.sasl.password", "is missing"),
]
WRONG_IN_A_STREAM = [
    ({"startingOffsets": '{"TOPIC": {"0": 3}}'}, "startingOffsets", "leaves out 1 of topic"),
    ({"kcoord.assignors": "fair"}, "kcoord.assignors", "fair"),
]
WRONG_IN_A_BATCH = [
    ({"kcoord.bootstrap.servers": MISSING}, "kcoord.bootstrap.servers", "is missing"),
    ({"kcoord.group.id": MISSING}, "kcoord.group.id", "is missing"),
    ({"startingOffsets": "latest"}, "startingOffsets", "'earliest', 'committed' or JSON"),
    ({"endingOffsets": '{"TOPIC": {"7": 3}}'}, "endingOffsets", "leaves out 0, 1 of topic"),
]
AWAY = [
    ({"kcoord.bootstrap.servers": NOBODY}, "kcoord.bootstrap.servers", "Connection refused"),
    ({"kafka.bootstrap.servers": NOBODY}, "kafka.bootstrap.servers", f"Kafka at {NOBODY} gave no answer in 5 s"),
]


@pytest.fixture(scope="module")
def right(spark: SparkSession, kafka: LocalKafka, coordinator: LocalCoordinator) -> dict[str, str]:
    """Return options with which everything works, as a first read shows; it also starts what Spark starts once."""
    name = f"bad-input-{secrets.token_hex(4)}"  # another one where a test is run again
    kafka.create_topic(name, 2, None)
    options = {"kcoord.bootstrap.servers": coordinator.address, "kcoord.group.id": name, "subscribe": name}
    assert spark.read.format("kcoord").options(**options).load().collect() == []
    return options


@pytest.fixture
def coordinator_without_kafka(tmp_path: Path) -> Iterator[LocalCoordinator]:
    with LocalCoordinator(NOBODY, tmp_path / "without-kafka") as node:
        yield node


@contextmanager
def refused(option: str, said: str) -> Iterator[None]:
    """Expect an error of Spark's that names the option and says this, and does not let a query wait."""
    with pytest.raises(PySparkException) as raised:
        yield
    message = str(raised.value)
    assert option in message
    assert said in message
    assert "hunter2" not in message


def mixed(right: dict[str, str], wrong: dict[str, str]) -> dict[str, str]:
    options = right | {name: text.replace("TOPIC", right["subscribe"]) for name, text in wrong.items()}
    return {name: text for name, text in options.items() if text is not MISSING}


def start_stream(spark: SparkSession, options: dict[str, str], folder: Path) -> StreamingQuery:
    frame = spark.readStream.format("kcoord").options(**options).load()
    return frame.writeStream.format("noop").option("checkpointLocation", str(folder / "checkpoint")).start()


def run_stream(spark: SparkSession, options: dict[str, str], folder: Path) -> None:
    query = start_stream(spark, options, folder)
    try:
        query.awaitTermination(PATIENCE_S)
    finally:
        query.stop()


def read_batch(spark: SparkSession, options: dict[str, str]) -> None:
    spark.read.format("kcoord").options(**options).load().collect()


@pytest.mark.parametrize(("wrong", "option", "said"), WRONG_IN_BOTH + WRONG_IN_A_STREAM)
def test_stream(
    spark: SparkSession, right: dict[str, str], tmp_path: Path, wrong: dict[str, str], option: str, said: str
) -> None:
    with refused(option, said):
        run_stream(spark, mixed(right, wrong), tmp_path)


@pytest.mark.parametrize(("wrong", "option", "said"), WRONG_IN_BOTH + WRONG_IN_A_BATCH)
def test_batch(spark: SparkSession, right: dict[str, str], wrong: dict[str, str], option: str, said: str) -> None:
    with refused(option, said):
        read_batch(spark, mixed(right, wrong))


def test_streams_are_told_who_is_away(
    spark: SparkSession,
    right: dict[str, str],
    tmp_path: Path,
    coordinator_without_kafka: LocalCoordinator,
    queries: list[StreamingQuery],
) -> None:
    without_kafka = {"kcoord.bootstrap.servers": coordinator_without_kafka.address}
    cases = [*AWAY, (without_kafka, "kcoord.bootstrap.servers", f"Kafka at {NOBODY}")]
    for number, (away, _, _) in enumerate(cases):  # all at once: each of them waits for some seconds
        queries.append(start_stream(spark, right | away, tmp_path / str(number)))
    for query, (_, option, said) in zip(queries, cases, strict=True):
        with refused(option, said):
            query.awaitTermination(PATIENCE_S)


def test_batches_are_told_who_is_away(spark: SparkSession, right: dict[str, str]) -> None:
    with ThreadPoolExecutor(len(AWAY)) as threads:
        reads = [threads.submit(read_batch, spark, right | away) for away, _, _ in AWAY]
    for read, (_, option, said) in zip(reads, AWAY, strict=True):
        with refused(option, said):
            read.result()


def test_a_group_keeps_to_one_reset_policy(spark: SparkSession, right: dict[str, str], tmp_path: Path) -> None:
    group = f"bad-policy-{secrets.token_hex(4)}"
    options = right | {"kcoord.group.id": group, "startingOffsets": "earliest"}
    frame = spark.readStream.format("kcoord").options(**options).load()
    first = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "first")).start()
    try:
        view = GroupView(right["kcoord.bootstrap.servers"], group)
        wait_until(lambda: len(view.describe().members) == 1, query=first)
        with refused("startingOffsets", "earliest"):
            run_stream(spark, options | {"startingOffsets": "latest"}, tmp_path)
    finally:
        first.stop()


@pytest.mark.parametrize("more", [{}, {"kafka.bootstrap.servers": NOBODY}])
@pytest.mark.parametrize("option", ["kcoord.group.id", "kcoord.bootstrap.servers"])
def test_stream_without_what_it_needs_is_refused_when_it_is_loaded(
    spark: SparkSession, right: dict[str, str], option: str, more: dict[str, str]
) -> None:
    with refused(option, "is missing"):
        spark.readStream.format("kcoord").options(**mixed(right, {option: MISSING} | more)).load()


def test_missing_topic_is_a_sentence_without_the_frames_that_found_it(
    spark: SparkSession, right: dict[str, str], tmp_path: Path
) -> None:
    with pytest.raises(PySparkException) as raised:
        run_stream(spark, right | {"subscribe": "no-such-topic"}, tmp_path)
    message = str(raised.value)
    assert "no-such-topic" in message.splitlines()[0]
    assert "Traceback" not in message
    assert 'File "' not in message
