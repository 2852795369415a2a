"""A job on a real standalone master and worker whose Python has nothing of ours but what was shipped."""

import tarfile
from collections.abc import Callable
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from coordinator.demo.data.sink import output_files
from coordinator.local.kafka.broker import LocalKafka
from coordinator.local.node import LocalCoordinator
from spark_kcoord.deploy.ship import ship
from tests.helpers.group_view import GroupView
from tests.helpers.kafka_topics import produce
from tests.helpers.record_batches import Row
from tests.helpers.standalone_cluster import StandaloneCluster

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

ROOT = Path(__file__).parents[2]


def test_executors_read_with_nothing_of_ours_but_the_archive(
    kafka: LocalKafka, coordinator: LocalCoordinator, topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic(partitions=2, config={"compression.type": "snappy"})
    rows = [(number % 2, Row(b"key", b"%d" % number, 1_790_000_000_000)) for number in range(200)]
    produce(kafka.bootstrap_servers, name, rows)
    archive = tmp_path / "kcoord.tar.gz"
    ship(archive)
    with StandaloneCluster(tmp_path) as cluster:
        assert [module for module in ("spark_kcoord", "kafka", "msgspec", "coordinator") if cluster.lacks(module)] == [
            "spark_kcoord",
            "kafka",
            "msgspec",
            "coordinator",
        ]
        done = cluster.submit(
            ROOT / "jobs" / "ingest_stream.py",
            *["--coordinator", coordinator.address, "--group", name, "--topic", name, "--as-text"],
            *["--starting-offsets", "earliest", "--available-now"],
            *["--output", str(tmp_path / "rows"), "--checkpoint", str(tmp_path / "checkpoint")],
            archive=archive,
            folder=tmp_path,
        )
        executors = "\n".join(path.read_text(errors="replace") for path in cluster.work.glob("*/*/stderr"))
        assert done.returncode == 0, f"{done.stdout[-6000:]}\n{executors[-3000:]}"
    table = ds.dataset([str(path) for path in output_files(tmp_path / "rows")], format="parquet").to_table()
    assert sorted(int(value) for value in table.column("value").to_pylist()) == list(range(200))
    assert GroupView(coordinator.address, name).committed() == 200
    assert executors, "no executor of the cluster has run"


def test_the_archive_is_the_same_each_time_and_holds_nothing_of_the_driver(tmp_path: Path) -> None:
    assert ship(tmp_path / "a.tar.gz") == ship(tmp_path / "b.tar.gz")
    assert (tmp_path / "a.tar.gz").read_bytes() == (tmp_path / "b.tar.gz").read_bytes()
    with tarfile.open(tmp_path / "a.tar.gz") as archive:
        names = archive.getnames()
    assert {"spark_kcoord/fetch/ranges.py", "kafka/__init__.py", "cramjam/__init__.py"} <= set(names)
    assert not [name for name in names if name.startswith(("coordinator", "msgspec")) or "__pycache__" in name]
    ship(tmp_path / "whole.tar.gz", with_driver=True)
    with tarfile.open(tmp_path / "whole.tar.gz") as archive:
        assert {
            "coordinator/protocol/messages/__init__.py",
            "coordinator/client/request.py",
            "msgspec/__init__.py",
            "pyspark_kcoord.py",
        } <= set(archive.getnames())
