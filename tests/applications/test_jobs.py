"""The jobs as spark-submit runs them, on a real broker and coordinator."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow.dataset as ds
import pyspark
import pytest

from coordinator.demo.data.sink import output_files
from coordinator.local.kafka.broker import LocalKafka
from coordinator.local.node import LocalCoordinator
from tests.helpers.group_view import GroupView
from tests.helpers.kafka_topics import produce, produce_numbers
from tests.helpers.record_batches import Row
from tests.helpers.small_spark import JAVA_OPTIONS
from tests.helpers.waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

ROOT = Path(__file__).parents[2]
SUBMIT = [
    *["--master", "local[2]", "--conf", "spark.ui.enabled=false", "--conf", "spark.driver.host=127.0.0.1"],
    *["--conf", f"spark.driver.extraJavaOptions={JAVA_OPTIONS}"],
]


def environment() -> dict[str, str]:
    return {
        **os.environ,
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_CONF_DIR": str(ROOT / "conf"),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }


def spark_submit(directory: Path, job: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    spark = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    return subprocess.run(
        [str(spark), *SUBMIT, str(ROOT / "jobs" / job), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
        cwd=directory,
        env=environment(),
    )


def values(files: list[Path]) -> list[int]:
    table = ds.dataset([str(path) for path in files], format="parquet").to_table(columns=["value"])
    return sorted(int(value) for value in table.column("value").to_pylist())


def test_the_stream_job_ends_with_what_is_there_and_the_batch_job_goes_on_from_the_group(
    kafka: LocalKafka, coordinator: LocalCoordinator, topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic(partitions=2)
    produce_numbers(kafka.bootstrap_servers, name, 2, 0, 50)
    source = ["--coordinator", coordinator.address, "--group", name, "--topic", name, "--as-text"]

    stream = spark_submit(
        tmp_path,
        "ingest_stream.py",
        *[*source, "--starting-offsets", "earliest", "--available-now"],
        *["--output", "stream", "--checkpoint", "checkpoint"],
    )
    assert stream.returncode == 0, stream.stdout
    assert "batch 0: 50 rows" in stream.stdout
    assert values(output_files(tmp_path / "stream")) == list(range(50))

    produce_numbers(kafka.bootstrap_servers, name, 2, 50, 6)
    batch = spark_submit(tmp_path, "ingest_batch.py", *source, "--max-offsets", "4", "--output", "batch")
    assert batch.returncode == 0, batch.stdout
    assert "4 rows written to batch" in batch.stdout
    assert values(sorted((tmp_path / "batch").glob("*.parquet"))) == [50, 51, 52, 53]
    assert GroupView(coordinator.address, name).committed() == 54

    lag = spark_submit(
        tmp_path,
        "lag_report.py",
        *["--coordinator", coordinator.address, "--group", name, "--output", "lag", "--fail-above", "1"],
    )
    assert lag.returncode == 7, lag.stdout
    assert f"group {name}: lag 2 over 2 partitions" in lag.stdout
    (report,) = (tmp_path / "lag").glob("*.json")
    rows = [json.loads(line) for line in report.read_text().splitlines()]
    assert [(row["topic"], row["partition"], row["lag"]) for row in rows] == [(name, 0, 1), (name, 1, 1)]


def test_the_stream_job_commits_what_is_done_and_ends_by_a_signal_between_two_micro_batches(
    kafka: LocalKafka, coordinator: LocalCoordinator, topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic(partitions=2)
    view = GroupView(coordinator.address, name)
    produce_numbers(kafka.bootstrap_servers, name, 2, 0, 50)
    source = ["--coordinator", coordinator.address, "--group", name, "--topic", name, "--starting-offsets", "earliest"]
    sink = ["--output", "stream", "--checkpoint", "checkpoint", "--trigger", "1h"]
    log = tmp_path / "log"
    with log.open("wb") as out:
        job = subprocess.Popen(
            [sys.executable, str(ROOT / "jobs" / "ingest_stream.py"), *source, *sink],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            cwd=tmp_path,
            env=environment() | {"PYSPARK_SUBMIT_ARGS": shlex.join([*SUBMIT, "pyspark-shell"])},
        )
    try:
        wait_until(lambda: job.poll() is not None or view.committed() == 50, timeout_s=90, what="the commit")
        job.send_signal(signal.SIGTERM)
        assert job.wait(60) == 0, log.read_text()
    finally:
        job.kill()
        job.wait()
    assert "SIGTERM received: the query ends after its micro-batch" in log.read_text()
    assert view.committed() == 50
    assert [partition.claim for partition in view.describe().partitions] == [None, None]


def test_an_output_that_cannot_be_written_is_one_sentence(
    kafka: LocalKafka, topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic(partitions=1)
    produce_numbers(kafka.bootstrap_servers, name, 1, 0, 5)
    (tmp_path / "file").touch()
    where = ["--option", f"kafka.bootstrap.servers={kafka.bootstrap_servers}", "--topic", name]
    replay = spark_submit(tmp_path, "replay.py", *where, "--from", "0", "--output", "file/window")
    assert replay.returncode == 1
    before, _, said = replay.stdout.partition("the job failed: ")
    assert "Traceback" not in before, replay.stdout
    sentence, _, after = said.partition("\n")
    assert re.fullmatch(r"\S+Exception: Parent path is not a directory: \S+/file", sentence), replay.stdout
    # A worker that Spark's daemon starts while the job ends tells of its broken pipe, with Spark's own frames.
    assert "spark_kcoord/" not in after, replay.stdout


def test_a_window_is_replayed_without_a_group_or_a_coordinator(
    kafka: LocalKafka, topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic(partitions=2)
    rows = [(number % 2, Row(None, b"%d" % number, 1_790_000_000_000 + number * 1000)) for number in range(30)]
    produce(kafka.bootstrap_servers, name, rows)
    where = ["--option", f"kafka.bootstrap.servers={kafka.bootstrap_servers}", "--topic", name, "--as-text"]

    replay = spark_submit(
        tmp_path,
        "replay.py",
        *[*where, "--from", "1790000010000", "--until", "1790000020000", "--output", "window"],
        *["--sink-option", "compression=zstd"],
    )
    assert replay.returncode == 0, replay.stdout
    assert "10 rows written to window" in replay.stdout
    assert sorted((tmp_path / "window").glob("*.zstd.parquet")), "the option of the sink had no effect"
    assert values(sorted((tmp_path / "window").glob("*.parquet"))) == list(range(10, 20))
