"""No secret of a read comes to light: not in the event log (which the UI shows), a log, a repr or an error."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

import spark_kcoord
from coordinator.local.kafka.broker import LocalKafka
from coordinator.local.node import LocalCoordinator
from spark_kcoord.options.kafka_settings import KAFKA_OPTIONS
from spark_kcoord.options.source_options import parse_options
from tests.helpers.kafka_topics import produce_numbers
from tests.helpers.stream_application import NumberedStream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

SECRET = "hunter2-never-to-be-seen"
KEPT = {"kafka.ssl.key.password": SECRET}
"""A secret that a read without TLS has and does not use."""
LOGIN = {
    "kafka.security.protocol": "SASL_PLAINTEXT",
    "kafka.sasl.mechanism": "PLAIN",
    "kafka.sasl.jaas.config": (
        f'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="{SECRET}";'
    ),
}
"""A login that the broker, which knows none, does not answer as it should."""


def event_log(spark: "SparkSession") -> str:
    """Return all that Spark has noted of this session so far."""
    folder = Path(spark.conf.get("spark.eventLog.dir").removeprefix("file:"))
    return "\n".join(path.read_text(errors="replace") for path in folder.rglob("*") if path.is_file())


def test_neither_event_log_nor_logs_nor_errors_show_a_secret(
    spark: "SparkSession",
    kafka: LocalKafka,
    coordinator: LocalCoordinator,
    topic: Callable[..., str],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    for logger in ("spark_kcoord", "kafka"):
        caplog.set_level(logging.DEBUG, logger)
    name = topic(1)
    produce_numbers(kafka.bootstrap_servers, name, 1, 0, 10)
    options = tuple(f"{key}={text}" for key, text in KEPT.items())
    stream = NumberedStream(tmp_path, coordinator.address, name, name, options)
    query = stream.start(spark, is_available_now=True)
    assert query.awaitTermination(150)
    assert stream.rows().total() == 10
    shown = [str(query.lastProgress), spark.streams.active]
    source = {
        "kcoord.bootstrap.servers": coordinator.address,
        "kcoord.group.id": f"{name}-batch",
        "subscribe": name,
        **KEPT,
    }
    frame = spark.read.format("kcoord").options(**source).load()
    assert frame.count() == 10
    with spark_kcoord.batch(spark, source) as batch:
        assert batch.rows.count() == 10
        shown += [repr(batch), repr(batch.rows), batch.ranges]
    with pytest.raises(PySparkException) as failed:
        spark.read.format("kcoord").options(**source, **LOGIN).load().count()
    frame.explain(extended=True)
    offsets = "\n".join(path.read_text() for path in (tmp_path / "checkpoint" / "offsets").glob("[0-9]*"))
    told = capfd.readouterr()
    everything = "\n".join(
        [
            *map(str, shown),
            str(failed.value),
            repr(parse_options(source | LOGIN, "stream")),
            caplog.text,
            told.out,
            told.err,
            offsets,
        ]
    )
    assert SECRET not in everything
    noted = event_log(spark)
    assert "SparkListenerSQLExecutionStart" in noted
    assert name in noted or "kcoord" in noted
    assert SECRET not in noted


@pytest.mark.parametrize("name", [option.name for option in KAFKA_OPTIONS if option.kind.is_secret])
def test_no_plan_shows_a_secret(spark: "SparkSession", name: str, capfd: pytest.CaptureFixture[str]) -> None:
    source = {
        "kcoord.bootstrap.servers": "127.0.0.1:1",
        "kcoord.group.id": "g",
        "kafka.bootstrap.servers": "127.0.0.1:1",
        "subscribe": "t",
        name: LOGIN.get(name, SECRET),
    }
    frames = [reader.format("kcoord").options(**source).load() for reader in (spark.read, spark.readStream)]
    for frame in frames:
        # The physical plan of a batch asks Kafka, which is not there.
        plans = frame._jdf.queryExecution()
        shown = plans.logical().toString() + plans.analyzed().toString() + repr(frame)
        assert "kcoord" in shown
        assert SECRET not in shown
    frames[1].explain(extended=True)
    explained = capfd.readouterr().out
    assert "Physical Plan" in explained
    assert SECRET not in explained
