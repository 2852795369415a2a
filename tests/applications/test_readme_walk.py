"""The README as a newcomer types it: its commands and blocks as printed, on what its own `kcoord dev up` starts.

Only addresses and directories are other ones, since a machine may have those of the README in use.
"""

import csv
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from coordinator.local.process.ports import free_ports
from tests.helpers.python_path import python_path
from tests.helpers.small_spark import JAVA_OPTIONS

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(1_200)]

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PATIENCE_S = 240
"""How long a command may take: some seconds, and on a machine that is busy with other things some minutes."""
SPARK_PAGE = (ROOT / "docs" / "SPARK.md").read_text(encoding="utf-8")


def hear_interrupts() -> None:
    """Have this process end by Ctrl-C, as one does that a person starts: what runs in the background ignores it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Walk:
    """A shell in an empty home, on addresses of its own."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.port, self.kafka_port = free_ports(2)
        self._children: list[subprocess.Popen[str]] = []
        scripts = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        kept = ("JAVA_HOME", "KCOORD_CACHE", "XDG_CACHE_HOME", "LANG")
        self.environment = {
            **{name: os.environ[name] for name in kept if name in os.environ},
            "PATH": scripts,
            "HOME": str(home),
            "PYTHONPATH": python_path(ROOT),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "JAVA_TOOL_OPTIONS": JAVA_OPTIONS,
        }
        self.environment.setdefault("XDG_CACHE_HOME", str(Path.home() / ".cache"))  # the jars are not fetched again

    def block(self, page: str, word: str) -> str:
        """Return the one block of a page with a word in it, with this walk's addresses and directories."""
        (found,) = [block for block in re.findall(r"```\w*\n(.*?)```", page, re.DOTALL) if word in block]
        here = {
            "127.0.0.1:9292": f"127.0.0.1:{self.port}",
            "--port 9292": f"--port {self.port}",
            "9092": str(self.kafka_port),
            "/tmp/kcoord": str(self.home),
            ". .venv/bin/activate\n": "",
        }
        # In one pass: what is put in may have 9092 in it.
        return re.sub("|".join(map(re.escape, here)), lambda one: here[one[0]], found)

    def start(self, *command: str, log: str) -> subprocess.Popen[str]:
        """Start a command that goes on, with its output in a file."""
        with (self.home / log).open("w") as output:
            child = subprocess.Popen(
                command,
                cwd=self.home,
                env=self.environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                text=True,
                preexec_fn=hear_interrupts,
            )
        self._children.append(child)
        return child

    def hear(self, child: subprocess.Popen[str], words: str, log: str) -> None:
        """Wait until a command that goes on has said something; raises AssertionError with its log if it has ended."""
        deadline = time.monotonic() + PATIENCE_S
        while words not in self.said(log):
            code = child.poll()
            assert code is None, f"ended with {code} before it said {words!r}; it said:\n{self.said(log)}"
            assert time.monotonic() < deadline, f"not {words!r} within {PATIENCE_S} s; it said:\n{self.said(log)}"
            time.sleep(0.02)

    def said(self, log: str) -> str:
        """Return what a command that goes on has said."""
        return (self.home / log).read_text(errors="replace")

    def run(self, command: str, timeout_s: float = PATIENCE_S) -> str:
        """Return the standard output of a line typed into a shell, which must end well."""
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.home,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout

    def python(self, script: str, name: str) -> str:
        """Return what a script says, which must end well."""
        (self.home / name).write_text(script, encoding="utf-8")
        return self.run(f"python {name}")

    def interrupt(self, child: subprocess.Popen[str]) -> None:
        """End what was started by Ctrl-C; raises TimeoutExpired if it does not end by it."""
        child.send_signal(signal.SIGINT)
        child.wait(PATIENCE_S)

    def end(self) -> None:
        """End all that was started, the last first; raises TimeoutExpired of what does not end by Ctrl-C."""
        try:
            for child in reversed(self._children):
                self.interrupt(child)
        finally:
            for child in self._children:
                child.kill()
                child.wait()


@pytest.fixture(scope="module")
def walk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Walk]:
    """Return a shell where what the README starts runs, and has records to read; both pages begin with that."""
    walk = Walk(tmp_path_factory.mktemp("home"))
    try:
        (up,) = walk.block(README, "dev up").splitlines()
        broker = walk.start("bash", "-c", f"exec {up}", log="up.log")
        walk.hear(broker, f"coordinator 127.0.0.1:{walk.port}", "up.log")
        for line in walk.block(README, "dev topic").splitlines():
            walk.run(line.replace("events", f"events --kafka 127.0.0.1:{walk.kafka_port}"))
        walk.environment["KCOORD_COORDINATOR"] = f"127.0.0.1:{walk.port}"
        yield walk
    finally:
        walk.end()


def values_in(directory: Path) -> set[str]:
    return set(ds.dataset(str(directory), format="parquet").to_table(columns=["value"]).column("value").to_pylist())


def test_the_readme_works_as_it_is_typed(walk: Walk) -> None:
    (walk.home / "job.py").write_text(walk.block(README, "readStream"))
    job = walk.start("python", "job.py", log="job.log")
    walk.run(f"kcoord group wait ingest --members 1 --lag-below 1 --timeout {PATIENCE_S - 10}s")
    assert values_in(walk.home / "events") == {f"event {number}" for number in range(10_000)}

    (member,) = csv.DictReader(walk.run("kcoord group members ingest -o csv").splitlines())
    assert member["CLIENT-ID"] == "job.py", "an application without a name has its script's"

    operate = walk.block(README, "kcoord group describe ingest").splitlines()
    assert operate[0].startswith("export ")
    for line in operate[1:]:
        if "MEMBER" in line:
            line = line.replace("MEMBER", member["CONSUMER-ID"][:6])
        walk.run(f"{operate[0]}\n{line}")
    assert "reset-planned" in walk.run("kcoord group events ingest")
    walk.interrupt(job)

    jobs = walk.block(README, "spark_kcoord.jobs.lag_report").splitlines()
    (lag_report,) = [line for line in jobs if "lag_report" in line]
    walk.run(lag_report.replace("H:P", f"127.0.0.1:{walk.port}").replace("--group G", "--group ingest"))

    session = "from pyspark.sql import SparkSession\nspark = SparkSession.builder.getOrCreate()\n"
    batches = [walk.block(README, "spark.read."), walk.block(README, "spark_kcoord.batch(")]
    assert "partition" in walk.python("\n".join([session, *batches]), "batches.py")
    assert len(values_in(walk.home / "nightly")) == 10_000

    (walk.home / "consumer.py").write_text(
        walk.block(README, "from kcoord import Consumer").replace("ingest", "by-hand")
    )
    consumer = walk.start("python", "-u", "consumer.py", log="consumer.log")
    walk.hear(consumer, "b'event 9999'", "consumer.log")


def test_the_page_about_spark_works_as_it_is_typed(walk: Walk) -> None:
    stream = walk.block(README, "readStream").split("query = ")[0].replace('"ingest"', '"attached"')
    listener = walk.block(SPARK_PAGE, "LagListener(").replace("import spark_kcoord\n", "")
    attached = walk.block(SPARK_PAGE, "attachment = spark_kcoord.attach(spark)")
    said = walk.python("\n".join([stream, "import spark_kcoord", listener, attached]), "attached.py")
    assert "group attached: 0 offsets behind" in said
    walk.run("kcoord group lag attached --fail-above 0")
    assert len(values_in(walk.home / "attached")) == 10_000
