"""Jobs and the Unix sockets between Spark and its Python processes: used where they can be, and none left behind."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pyspark
import pytest

from coordinator.local.kafka.broker import LocalKafka
from tests.helpers.kafka_topics import produce_numbers
from tests.helpers.small_spark import JAVA_OPTIONS

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

ROOT = Path(__file__).parents[2]
ENABLED = "spark.python.unix.domain.socket.enabled"
ROWS = 30


@pytest.fixture
def short() -> Iterator[Path]:
    """Return a directory whose path is short enough for a socket, as pytest's own are not."""
    with tempfile.TemporaryDirectory(prefix="kc-", dir="/tmp") as name:
        yield Path(name)


def snapshot(
    kafka: LocalKafka, name: str, directory: Path, temporary: Path, *conf: str
) -> tuple[subprocess.CompletedProcess[str], dict[str, str]]:
    """Read a topic by a batch job with Spark's own settings and these; return how it ended and the settings it had."""
    shutil.rmtree(directory, ignore_errors=True)
    for folder in (directory / "events", directory / "conf", temporary):
        folder.mkdir(parents=True, exist_ok=True)
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"{JAVA_OPTIONS} -Djava.io.tmpdir={temporary}",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": str(directory / "events"),
    }
    done = subprocess.run(
        [
            *[str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--master", "local[2]"],
            *[part for key, value in settings.items() for part in ("--conf", f"{key}={value}")],
            *[part for pair in conf for part in ("--conf", pair)],
            *[str(ROOT / "jobs" / "ingest_batch.py"), "--snapshot", "--topic", name, "--output", "rows"],
            *["--option", f"kafka.bootstrap.servers={kafka.bootstrap_servers}"],
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
            "SPARK_CONF_DIR": str(directory / "conf"),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
        },
    )
    events = [json.loads(line) for path in (directory / "events").iterdir() for line in path.read_text().splitlines()]
    used = [event["Spark Properties"] for event in events if event["Event"] == "SparkListenerEnvironmentUpdate"]
    return done, used[0] if used else {}


def test_job_uses_sockets_where_they_fit_and_leaves_none(
    kafka: LocalKafka, topic: Callable[..., str], tmp_path: Path, short: Path
) -> None:
    name = topic()
    produce_numbers(kafka.bootstrap_servers, name, 1, 0, ROWS)

    done, used = snapshot(kafka, name, tmp_path / "job", short)
    assert done.returncode == 0, done.stdout
    assert f"{ROWS} rows written" in done.stdout
    assert used[ENABLED] == "true"
    assert not list(short.rglob("*.sock"))

    done, used = snapshot(kafka, name, tmp_path / "job", short, f"{ENABLED}=false")
    assert done.returncode == 0, done.stdout
    assert used[ENABLED] == "false"


def test_job_with_a_temporary_directory_that_is_too_long_for_sockets_does_without_or_says_so(
    kafka: LocalKafka, topic: Callable[..., str], tmp_path: Path, short: Path
) -> None:
    name = topic()
    produce_numbers(kafka.bootstrap_servers, name, 1, 0, ROWS)
    long = short / ("x" * 60)

    done, used = snapshot(kafka, name, tmp_path / "job", long)
    assert done.returncode == 0, done.stdout
    assert ENABLED not in used

    done, _ = snapshot(kafka, name, tmp_path / "job", long, f"{ENABLED}=true")
    assert done.returncode == 1
    assert f"the path of a socket in '{long}' would be longer than the 107 bytes" in done.stdout
