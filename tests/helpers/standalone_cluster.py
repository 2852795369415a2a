"""A real standalone Spark cluster on loopback: a master and workers, whose Python has nothing of ours installed."""

import os
import re
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import pyspark

from coordinator.local.process.child import ChildProcess
from coordinator.local.process.ports import LOOPBACK, free_ports
from tests.helpers.small_spark import JAVA_OPTIONS
from tests.helpers.waiting import wait_until

SPARK_HOME = Path(pyspark.__file__).parent
OF_THE_CLUSTER = ("pyspark", "py4j", "pyarrow", "numpy", "numpy.libs", "pyarrow.libs")
"""The Python packages of a cluster: Spark's own, with what Spark needs for Arrow."""


class StandaloneCluster:
    """A master and a worker on each of some hosts of loopback; a context manager. They are gone when their owner is."""

    def __init__(self, folder: Path, *, hosts: Sequence[str] = (LOOPBACK,), cores: int = 2) -> None:
        self._folder = folder
        self._hosts = hosts
        self._cores = cores
        (self._port,) = free_ports(1)
        self._children: list[ChildProcess] = []
        self.python = folder / "venv" / "bin" / "python3"

    @property
    def url(self) -> str:
        """Return the address for --master."""
        return f"spark://{LOOPBACK}:{self._port}"

    @property
    def work(self) -> Path:
        """Return the folder in which executors run and log."""
        return self._folder / "work"

    def __enter__(self) -> Self:
        self._make_python()
        try:
            self._start("master.Master", LOOPBACK, "-p", str(self._port), "--webui-port", "0")
            offer = ("-c", str(self._cores), "-m", "1g", "-d", str(self.work), "--webui-port", "0")
            for host in self._hosts:
                self._start("worker.Worker", host, *offer, self.url)
            wait_until(self._has_all_workers, what="the workers to register")
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._end()

    def executors(self) -> list[Path]:
        """Return the folders of the executors that have ever run."""
        return sorted(self.work.glob("*/*"))

    def _has_all_workers(self) -> bool:
        log = (self._folder / f"master.Master-{LOOPBACK}.log").read_text(errors="replace")
        return log.count("Registering worker") >= len(self._hosts)

    def _make_python(self) -> None:
        venv.create(self._folder / "venv", with_pip=False)
        (packages,) = (self._folder / "venv" / "lib").glob("python*/site-packages")
        for name in OF_THE_CLUSTER:
            source = SPARK_HOME.parent / name
            if source.exists():
                (packages / name).symlink_to(source)

    def _start(self, name: str, host: str, *arguments: str) -> None:
        environment = {
            "PATH": f"{self.python.parent}{os.pathsep}{os.environ['PATH']}",
            "HOME": os.environ.get("HOME", "/"),
            "JAVA_HOME": os.environ.get("JAVA_HOME", ""),
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_LOCAL_IP": host,
            "SPARK_NO_DAEMONIZE": "1",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": JAVA_OPTIONS,
        }
        child = ChildProcess(
            name,
            [str(SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", "-h", host, *arguments],
            log_path=self._folder / f"{name}-{host}.log",
            environment={key: value for key, value in environment.items() if value},
            stop_timeout_s=10,
        )
        child.start()
        self._children.append(child)

    def _end(self) -> None:
        for child in reversed(self._children):
            child.stop()
        self._children.clear()

    def lacks(self, module: str) -> bool:
        """Say whether the cluster's Python cannot import a module."""
        found = subprocess.run(
            [self.python, "-c", f"import {module}"], capture_output=True, text=True, check=False, cwd=self._folder
        )
        return bool(re.search(rf"No module named '{module}'", found.stderr))

    def submit(self, job: Path, *arguments: str, archive: Path, folder: Path) -> subprocess.CompletedProcess[str]:
        """Run a job by spark-submit, with this Python as the Spark driver's and the cluster's as the executors'."""
        conf = {
            "spark.ui.enabled": "false",
            "spark.driver.host": LOOPBACK,
            "spark.driver.memory": "512m",
            "spark.driver.extraJavaOptions": JAVA_OPTIONS,
            "spark.executor.memory": "512m",
            "spark.executor.extraJavaOptions": JAVA_OPTIONS,
            "spark.executorEnv.PYTHONPATH": "kcoord",
        }
        return subprocess.run(
            [
                str(SPARK_HOME / "bin" / "spark-submit"),
                *["--master", self.url, "--archives", f"{archive}#kcoord"],
                *[part for key, value in conf.items() for part in ("--conf", f"{key}={value}")],
                *[str(job), *arguments],
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=200,
            check=False,
            cwd=folder,
            # The name of the interpreter is the same for driver and executors; each finds its own by its PATH.
            env={
                **os.environ,
                "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
                "SPARK_HOME": str(SPARK_HOME),
                "SPARK_LOCAL_IP": LOOPBACK,
                "PYSPARK_PYTHON": "python3",
            },
        )
