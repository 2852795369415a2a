"""The jobs that write once, in the shared session: what they write, tell and return for the arguments that they get."""

import json
import logging
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pyarrow.dataset as ds
import pytest

import spark_kcoord
from coordinator.local.kafka.broker import LocalKafka
from coordinator.local.node import LocalCoordinator
from spark_kcoord.jobs import lag_report, replay
from spark_kcoord.jobs.group_lag import group_lag
from tests.helpers.kafka_topics import produce, produce_numbers
from tests.helpers.record_batches import Row
from tests.helpers.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


@pytest.fixture
def run(
    spark: "SparkSession", monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> Callable[..., tuple[int, list[str]]]:
    """Return how to run a job: its module and arguments give its exit code and what it told."""

    def job(module: ModuleType, *arguments: str) -> tuple[int, list[str]]:
        monkeypatch.setattr(module, "run_in_spark", lambda _name, work: work(spark))
        monkeypatch.setattr(module, "start_log", lambda: None)  # the levels that it sets are of the whole process
        caplog.clear()
        with caplog.at_level(logging.INFO):
            code = module.main(arguments)
        return code, [record.getMessage() for record in caplog.records if record.name == module.__name__.split(".")[-1]]

    return job


def test_a_window_is_replayed_without_a_group_or_a_coordinator(
    run: Callable[..., tuple[int, list[str]]], kafka: LocalKafka, topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic(partitions=2)
    rows = [(number % 2, Row(None, b"%d" % number, 1_790_000_000_000 + number * 1000)) for number in range(30)]
    produce(kafka.bootstrap_servers, name, rows)
    window = tmp_path / "window"

    code, told = run(
        replay,
        *["--option", f"kafka.bootstrap.servers={kafka.bootstrap_servers}", "--topic", name, "--as-text"],
        *["--from", "1790000010000", "--until", "1790000020000", "--output", str(window)],
        *["--sink-option", "compression=zstd"],
    )
    assert (code, told) == (0, [f"10 rows written to {window}"])
    files = sorted(window.glob("*.parquet"))
    assert files == sorted(window.glob("*.zstd.parquet")), "the option of the sink had no effect"
    table = ds.dataset([str(path) for path in files], format="parquet").to_table(columns=["value"])
    assert sorted(table.column("value").to_pylist()) == [str(number) for number in range(10, 20)]


def test_a_lag_report_has_a_row_a_partition_and_another_code_where_the_lag_is_too_high(
    run: Callable[..., tuple[int, list[str]]],
    spark: "SparkSession",
    kafka: LocalKafka,
    coordinator: LocalCoordinator,
    topic: Callable[..., str],
    tmp_path: Path,
) -> None:
    name = topic(partitions=2)
    produce_numbers(kafka.bootstrap_servers, name, 2, 0, 6)
    source = {"kcoord.bootstrap.servers": coordinator.address, "kcoord.group.id": name, "subscribe": name}
    with spark_kcoord.batch(spark, source | {"maxOffsetsPerTrigger": "4"}) as new:
        assert new.rows.count() == 4

    wait_until(
        lambda: all(one.lag is not None for one in group_lag(coordinator.address, name)), what="the ends are known"
    )
    report = ["--coordinator", coordinator.address, "--group", name, "--output", str(tmp_path / "lag")]
    assert run(lag_report, *report, "--fail-above", "1") == (7, [f"group {name}: lag 2 over 2 partitions"])
    (written,) = (tmp_path / "lag").glob("*.json")
    rows = [json.loads(line) for line in written.read_text().splitlines()]
    assert [(row["topic"], row["partition"], row["lag"]) for row in rows] == [(name, 0, 1), (name, 1, 1)]
    assert run(lag_report, *report[:4], "--fail-above", "2") == (0, [f"group {name}: lag 2 over 2 partitions"])
