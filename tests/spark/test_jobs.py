"""The jobs as spark-submit runs them, on a real broker and coordinator."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow.dataset as ds
import pyspark
import pytest

from coordinator.demo.sink import output_files
from coordinator.local.kafka import LocalKafka
from coordinator.local.node import LocalCoordinator
from tests.helpers.kafka_topics import produce_numbers

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

ROOT = Path(__file__).parents[2]


def spark_submit(directory: Path, job: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            str(Path(pyspark.__file__).parent / "bin" / "spark-submit"),
            *["--master", "local[2]", "--conf", "spark.ui.enabled=false", "--conf", "spark.driver.host=127.0.0.1"],
            *[str(ROOT / "jobs" / job), *arguments],
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
        cwd=directory,
        env={
            **os.environ,
            "SPARK_HOME": str(Path(pyspark.__file__).parent),
            "SPARK_CONF_DIR": str(ROOT / "conf"),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
        },
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
    ends = json.dumps({name: {"0": 28, "1": 27}})
    batch = spark_submit(
        tmp_path,
        "ingest_batch.py",
        *[*source, "--starting-offsets", "committed", "--ending-offsets", ends, "--output", "snapshot"],
    )
    assert batch.returncode == 0, batch.stdout
    assert "5 rows written to snapshot" in batch.stdout
    assert values(sorted((tmp_path / "snapshot").glob("*.parquet"))) == [50, 51, 52, 53, 54]
