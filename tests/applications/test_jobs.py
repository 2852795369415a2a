"""The jobs as spark-submit runs them, on a real broker and coordinator; a run shows several promises.

With them the Unix sockets between Spark and its Python processes, which a job uses where they can be.
"""

import json
import os
import re
import secrets
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.dataset as ds
import pyspark
import pytest

from coordinator.demo.data.sink import output_files
from coordinator.local.kafka.broker import LocalKafka
from coordinator.local.node import LocalCoordinator
from tests.helpers.group_view import GroupView
from tests.helpers.kafka_topics import produce_numbers
from tests.helpers.small_spark import JAVA_OPTIONS
from tests.helpers.waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

ROOT = Path(__file__).parents[2]
OURS = ROOT / "conf"
"""Settings that say that sockets are used; those of Spark itself say nothing."""
SUBMIT = ["--master", "local[2]", "--conf", "spark.ui.enabled=false", "--conf", "spark.driver.host=127.0.0.1"]
JAVA = ["--conf", f"spark.driver.extraJavaOptions={JAVA_OPTIONS}"]
SOCKETS = "spark.python.unix.domain.socket.enabled"


@dataclass
class Submitted:
    """A job that has ended: its exit code, what it said, and the settings that its session had, if it had one."""

    code: int
    said: str
    settings: dict[str, str] = field(default_factory=dict)


def environment(defaults: Path) -> dict[str, str]:
    return {
        **os.environ,
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_CONF_DIR": str(defaults),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }


def spark_submit(
    directory: Path, temporary: Path, job: str, *arguments: str, sockets: str = "", defaults: Path = OURS
) -> Submitted:
    """Run a job in a directory, with Java's temporary files in another and the settings of a third.

    `sockets` is what is said of them when it is submitted.
    """
    events = directory / f"events-{secrets.token_hex(4)}"
    events.mkdir()
    temporary.mkdir(exist_ok=True)
    settings = {
        "spark.driver.extraJavaOptions": f"{JAVA_OPTIONS} -Djava.io.tmpdir={temporary}",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": str(events),
        **({SOCKETS: sockets} if sockets else {}),
    }
    done = subprocess.run(
        [
            *[str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), *SUBMIT],
            *[part for name, value in settings.items() for part in ("--conf", f"{name}={value}")],
            *[str(ROOT / "jobs" / job), *arguments],
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
        cwd=directory,
        env=environment(defaults),
    )
    told = [json.loads(line) for path in events.iterdir() for line in path.read_text().splitlines()]
    used = [event["Spark Properties"] for event in told if event["Event"] == "SparkListenerEnvironmentUpdate"]
    return Submitted(done.returncode, done.stdout, used[0] if used else {})


def values(files: list[Path]) -> list[int]:
    table = ds.dataset([str(path) for path in files], format="parquet").to_table(columns=["value"])
    return sorted(int(value) for value in table.column("value").to_pylist())


@pytest.fixture(scope="module")
def short() -> Iterator[Path]:
    """Return a directory whose path is short enough for a socket, as pytest's own are not."""
    with tempfile.TemporaryDirectory(prefix="kc-", dir="/tmp") as name:
        yield Path(name)


@pytest.fixture(scope="module")
def long(short: Path) -> Path:
    """Return a directory whose path is too long for a socket."""
    return short / ("x" * 60)


@dataclass
class Ingested:
    """A group that a stream job has read to its end and a batch job has gone on from, which left two records."""

    group: str
    folder: Path
    stream: Submitted
    batch: Submitted


@pytest.fixture(scope="module")
def ingested(
    kafka: LocalKafka, coordinator: LocalCoordinator, tmp_path_factory: pytest.TempPathFactory, short: Path, long: Path
) -> Ingested:
    """Return what both jobs came to with Spark's own settings, the stream where a socket does not fit."""
    folder, nothing = tmp_path_factory.mktemp("ingested"), tmp_path_factory.mktemp("nothing")
    name = f"ingested-{secrets.token_hex(4)}"
    kafka.create_topic(name, 2)
    source = ["--coordinator", coordinator.address, "--group", name, "--topic", name, "--as-text"]
    produce_numbers(kafka.bootstrap_servers, name, 2, 0, 50)
    stream = spark_submit(
        folder,
        long,
        "ingest_stream.py",
        *[*source, "--starting-offsets", "earliest", "--available-now"],
        *["--output", "stream", "--checkpoint", "checkpoint"],
        defaults=nothing,
    )
    produce_numbers(kafka.bootstrap_servers, name, 2, 50, 6)
    sink = ["--max-offsets", "4", "--output", "batch"]
    batch = spark_submit(folder, short, "ingest_batch.py", *source, *sink, defaults=nothing)
    return Ingested(name, folder, stream, batch)


def test_the_stream_job_ends_with_what_is_there_and_the_batch_job_goes_on_from_the_group(
    coordinator: LocalCoordinator, ingested: Ingested
) -> None:
    assert ingested.stream.code == 0, ingested.stream.said
    assert "batch 0: 50 rows" in ingested.stream.said
    assert values(output_files(ingested.folder / "stream")) == list(range(50))

    assert ingested.batch.code == 0, ingested.batch.said
    assert "4 rows written to batch" in ingested.batch.said
    assert values(sorted((ingested.folder / "batch").glob("*.parquet"))) == [50, 51, 52, 53]
    assert GroupView(coordinator.address, ingested.group).committed() == 54


def test_job_uses_sockets_where_they_fit_and_leaves_none(ingested: Ingested, short: Path) -> None:
    assert ingested.batch.code == 0, ingested.batch.said
    assert ingested.batch.settings[SOCKETS] == "true"
    assert not list(short.rglob("*.sock"))


def test_job_with_a_temporary_directory_that_is_too_long_for_sockets_does_without(ingested: Ingested) -> None:
    assert ingested.stream.code == 0, ingested.stream.said
    assert ingested.stream.settings["spark.app.name"] == f"ingest {ingested.group}"
    assert SOCKETS not in ingested.stream.settings


def test_job_that_is_to_use_sockets_where_they_do_not_fit_says_so(tmp_path: Path, long: Path) -> None:
    refused = spark_submit(
        tmp_path,
        long,
        "ingest_batch.py",
        *["--snapshot", "--topic", "t", "--output", "rows", "--option", "kafka.bootstrap.servers=127.0.0.1:1"],
        sockets="true",
    )
    assert refused.code == 1
    assert f"the path of a socket in '{long}' would be longer than the 107 bytes" in refused.said


@pytest.fixture(scope="module")
def failed(kafka: LocalKafka, tmp_path_factory: pytest.TempPathFactory, short: Path) -> Submitted:
    """Return a replay whose output is below a file, in a session that is to use no sockets."""
    folder = tmp_path_factory.mktemp("failed")
    name = f"failed-{secrets.token_hex(4)}"
    kafka.create_topic(name)
    produce_numbers(kafka.bootstrap_servers, name, 1, 0, 5)
    (folder / "file").touch()
    return spark_submit(
        folder,
        short,
        "replay.py",
        *["--option", f"kafka.bootstrap.servers={kafka.bootstrap_servers}", "--topic", name],
        *["--from", "0", "--output", "file/window"],
        sockets="false",
    )


def test_an_output_that_cannot_be_written_is_one_sentence(failed: Submitted) -> None:
    assert failed.code == 1
    before, _, said = failed.said.partition("the job failed: ")
    assert "Traceback" not in before, failed.said
    sentence, _, after = said.partition("\n")
    assert re.fullmatch(r"\S+Exception: Parent path is not a directory: \S+/file", sentence), failed.said
    # A worker that Spark's daemon starts while the job ends tells of its broken pipe, with Spark's own frames.
    assert "spark_kcoord/" not in after, failed.said


def test_sockets_that_are_turned_off_stay_off_where_they_fit(failed: Submitted) -> None:
    assert failed.settings[SOCKETS] == "false"


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
            env=environment(OURS) | {"PYSPARK_SUBMIT_ARGS": shlex.join([*SUBMIT, *JAVA, "pyspark-shell"])},
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
