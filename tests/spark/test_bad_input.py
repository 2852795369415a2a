"""What a user is told who gives wrong input, by a stream and by a batch read: clearly, soon, naming the option."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

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

WRONG_IN_BOTH = [
    ({"subscribe": "no-such-topic"}, "subscribe", "no-such-topic"),
    ({"subscribe": MISSING}, "subscribe", "is missing"),
    ({"subscribes": "t"}, "subscribes", "Did you mean 'subscribe'?"),
    ({"kcoord.group": "g"}, "kcoord.group", "Did you mean 'kcoord.group.id'?"),
    ({"includeHeaders": "maybe"}, "includeHeaders", "Allowed: true or false."),
    ({"minPartitions": "0"}, "minPartitions", "a whole number from 1"),
    ({"kcoord.bootstrap.servers": "here"}, "kcoord.bootstrap.servers", "is not HOST:PORT"),
    ({"kcoord.bootstrap.servers": NOBODY}, "kcoord.bootstrap.servers", "Connection refused"),
    ({"kcoord.bootstrap.servers": MISSING}, "kcoord.bootstrap.servers", "is missing"),
    ({"kafka.bootstrap.servers": NOBODY}, "kafka.bootstrap.servers", f"Kafka at {NOBODY} gave no answer in 5 s"),
    ({"kcoord.group.id": MISSING}, "kcoord.group.id", "is missing"),
    (SASL, "kafka.sasl.password", "is missing"),
]
WRONG_IN_A_STREAM = [
    ({"maxOffsetsPerTrigger": "many"}, "maxOffsetsPerTrigger", "a whole number from 1"),
    ({"startingOffsets": "sometimes"}, "startingOffsets", "'earliest', 'latest', 'committed' or JSON"),
    ({"startingOffsets": '{"TOPIC": {"0": 3}}'}, "startingOffsets", "leaves out 1 of topic"),
    ({"kcoord.assignors": "fair"}, "kcoord.assignors", "fair"),
    ({"kcoord.session.timeout": "1d"}, "kcoord.session.timeout", "from 1s to 30m"),
]
WRONG_IN_A_BATCH = [
    ({"startingOffsets": "latest"}, "startingOffsets", "'earliest', 'committed' or JSON"),
    ({"endingOffsets": '{"TOPIC": {"7": 3}}'}, "endingOffsets", "leaves out 0, 1 of topic"),
]


@pytest.fixture(scope="module")
def right(spark: SparkSession, kafka: LocalKafka, coordinator: LocalCoordinator) -> dict[str, str]:
    """Return options with which everything works, as a first read shows; it also starts what Spark starts once."""
    kafka.create_topic("bad-input", 2, None)
    options = {
        "kcoord.bootstrap.servers": coordinator.address,
        "kcoord.group.id": "bad-input",
        "subscribe": "bad-input",
    }
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


def run_stream(spark: SparkSession, options: dict[str, str], folder: Path) -> None:
    frame = spark.readStream.format("kcoord").options(**options).load()
    query = frame.writeStream.format("noop").option("checkpointLocation", str(folder / "checkpoint")).start()
    try:
        query.awaitTermination(PATIENCE_S)
    finally:
        query.stop()


@pytest.mark.parametrize(("wrong", "option", "said"), WRONG_IN_BOTH + WRONG_IN_A_STREAM)
def test_stream(
    spark: SparkSession, right: dict[str, str], tmp_path: Path, wrong: dict[str, str], option: str, said: str
) -> None:
    with refused(option, said):
        run_stream(spark, mixed(right, wrong), tmp_path)


@pytest.mark.parametrize(("wrong", "option", "said"), WRONG_IN_BOTH + WRONG_IN_A_BATCH)
def test_batch(spark: SparkSession, right: dict[str, str], wrong: dict[str, str], option: str, said: str) -> None:
    with refused(option, said):
        spark.read.format("kcoord").options(**mixed(right, wrong)).load().collect()


def test_stream_is_told_that_its_coordinator_cannot_reach_kafka(
    spark: SparkSession, right: dict[str, str], tmp_path: Path, coordinator_without_kafka: LocalCoordinator
) -> None:
    options = right | {"kcoord.bootstrap.servers": coordinator_without_kafka.address}
    with refused("kcoord.bootstrap.servers", f"Kafka at {NOBODY}"):
        run_stream(spark, options, tmp_path)


def test_a_group_keeps_to_one_reset_policy(spark: SparkSession, right: dict[str, str], tmp_path: Path) -> None:
    options = right | {"kcoord.group.id": "bad-policy", "startingOffsets": "earliest"}
    frame = spark.readStream.format("kcoord").options(**options).load()
    first = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "first")).start()
    try:
        view = GroupView(right["kcoord.bootstrap.servers"], "bad-policy")
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
