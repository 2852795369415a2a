"""A streaming query that logs in to its coordinator by its options, none of which comes to light."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from coordinator.local.kafka.broker import LocalKafka
from tests.helpers.kafka_topics import produce_numbers
from tests.helpers.stream_application import NumberedStream
from tests.integration.test_log_in_node import PASSWORD, secured
from tests.spark.test_secrets import event_log

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


def test_a_query_logs_in_by_its_options_and_shows_no_password(
    spark: "SparkSession",
    kafka: LocalKafka,
    topic: Callable[..., str],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    name = topic(1)
    produce_numbers(kafka.bootstrap_servers, name, 1, 0, 10)
    rules = f"allow User:alice read group literal {name}\nallow User:alice read topic literal {name}\n"
    node = tmp_path / "node"
    node.mkdir()
    with secured(node, kafka.bootstrap_servers, rules) as on:
        options = tuple(f"{key}={text}" for key, text in on.by_password().items())
        query = NumberedStream(tmp_path, on.address, name, name, options).start(spark, is_available_now=True)
        assert query.awaitTermination(150)
        assert NumberedStream(tmp_path, on.address, name, name, options).rows().total() == 10
        assert "log-in-refused" not in on.node.said
    told = capfd.readouterr()
    offsets = "\n".join(path.read_text() for path in (tmp_path / "checkpoint" / "offsets").glob("[0-9]*"))
    assert PASSWORD not in "\n".join((told.out, told.err, offsets, str(query.lastProgress), event_log(spark)))
