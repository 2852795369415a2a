"""The short suite that runs on each Spark: `python -m tests.compat.suite`, in that Spark's environment.

It has kcoord and Spark, and of the project's tests little but this file. It writes a line of JSON for each case.
The broker and the coordinator are the caller's, and the topic holds the numbers from 0 on, dealt to two partitions.
A case says what it waits for; how long that may take is only the end of the patience with something that never comes.
A case that Spark's own time-out ends is tried again.
"""

import argparse
import json
import logging
import os
import re
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import DataFrame, SparkSession

import spark_kcoord
from coordinator.local.process.ports import free_ports, is_port_free
from tests.helpers.processes import eventually
from tests.helpers.spark_limits import try_until_spark_waits

PATIENCE_S = 600.0
"""How long something may take that takes seconds: a machine that others use as well was forty times slower."""
POLL_TIMEOUT_MS = "300000"
SESSION_TIMEOUT = "2m"
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
}
CONNECT_SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
STREAM_FAILED = "the stream before it has failed"
CAN_STREAM = [int(number) for number in re.findall(r"\d+", pyspark.__version__)[:2]] >= [4, 2]


@dataclass
class Place:
    """What every case uses, and what the case of a stream leaves for those after it."""

    spark: SparkSession
    kafka: str
    coordinator: str
    topic: str
    records: int
    group: str
    folder: Path
    attempt: int = 1
    attachment: spark_kcoord.Attachment | None = None
    query: Any = None
    has_streamed: bool = False
    reports: list[spark_kcoord.LagReport] = field(default_factory=list)

    def read(self, **options: str) -> DataFrame:
        """Return a snapshot of the topic."""
        reader = self.spark.read.format("kcoord").option("kafka.bootstrap.servers", self.kafka)
        return reader.option("subscribe", self.topic).options(**options).load()

    def member(self, group: str) -> dict[str, str]:
        """Return the options of a member of a group that starts at the beginning."""
        named = {"kcoord.bootstrap.servers": self.coordinator, "kcoord.group.id": f"{self.group}-{group}"}
        waiting = {"kcoord.session.timeout": SESSION_TIMEOUT, "kafkaConsumer.pollTimeoutMs": POLL_TIMEOUT_MS}
        return named | waiting | {"subscribe": self.topic, "startingOffsets": "earliest"}

    def start_stream(self) -> Any:
        """Start a run that reads what is there, in more than one micro-batch where there is much."""
        options = self.member("stream") | {"maxOffsetsPerTrigger": str(self.records * 3 // 5)}
        rows = self.spark.readStream.format("kcoord").options(**options).load()
        writer = rows.selectExpr("CAST(CAST(value AS STRING) AS INT) AS number").writeStream.format("parquet")
        writer = writer.option("path", str(self.folder / "rows"))
        return writer.option("checkpointLocation", str(self.folder / "checkpoint")).trigger(availableNow=True).start()

    def streamed(self) -> list[int]:
        """Return the numbers that the stream has written, in order."""
        return sorted(row.number for row in self.spark.read.parquet(str(self.folder / "rows")).collect())


def batch(place: Place) -> None:
    """A snapshot has each record once."""
    numbers = place.read().selectExpr("CAST(CAST(value AS STRING) AS INT) AS number").collect()
    assert sorted(row.number for row in numbers) == list(range(place.records))


def filters(place: Place) -> None:
    """Filters are taken into the read."""
    place.spark.conf.set(PUSHDOWN, "true")
    try:
        rows = place.read(**{"kcoord.push.filters": "one-scan"}).where("partition = 1 AND offset >= 30")
        assert rows.count() == place.records // 2 - 30
    finally:
        place.spark.conf.set(PUSHDOWN, "false")


def wrong_option(place: Place) -> None:
    """A misspelt option is refused at load, with Connect once the columns are asked for, with the right one."""
    said = _refusal(lambda: place.read(startingOfsets="earliest").columns)
    assert "OptionError" in said, said
    assert "startingOffsets" in said, said


def member_batch(place: Place) -> None:
    """A batch as a member commits what it has read, so that the next one has nothing to read."""
    group = f"batch-{place.attempt}"
    with _batch(place, group) as new:
        assert new.records == place.records
        assert new.rows.count() == place.records
    assert _left(place, group) == 0


def stream(place: Place) -> None:
    """A run that ends by itself writes each record once."""
    if place.attachment is None:
        place.attachment = spark_kcoord.attach(place.spark)
        place.spark.streams.addListener(spark_kcoord.LagListener(place.reports.append))
    place.query = place.start_stream()
    assert place.query.awaitTermination(PATIENCE_S), "the run did not end"
    assert place.streamed() == list(range(place.records))
    place.has_streamed = True


def attach(place: Place) -> None:
    """Without a further trigger the group's offsets are those of the stream."""
    assert place.has_streamed, STREAM_FAILED
    assert place.attachment is not None
    place.attachment.wait(place.query, PATIENCE_S)
    assert _left(place, "stream") == 0


def lag(place: Place) -> None:
    """The listener says that nothing is behind after the last micro-batch."""
    assert place.has_streamed, STREAM_FAILED
    caught_up = eventually(lambda: bool(place.reports) and place.reports[-1].total_behind == 0, PATIENCE_S)
    assert caught_up, place.reports[-1:]


def restart(place: Place) -> None:
    """A second run from the checkpoint reads nothing twice."""
    assert place.has_streamed, STREAM_FAILED
    again = place.start_stream()
    assert again.awaitTermination(PATIENCE_S), "the run did not end"
    assert place.streamed() == list(range(place.records))


def refused_stream(place: Place) -> None:
    """A stream is refused in one sentence that names the version it needs."""

    def run() -> None:
        place.start_stream().awaitTermination(PATIENCE_S)

    said = _refusal(run)
    assert f"A stream of kcoord needs Spark 4.2 or newer, and this is Spark {pyspark.__version__}" in said, said
    assert "UnboundLocalError" not in said, said


CASES: tuple[Callable[[Place], None], ...] = (
    batch,
    filters,
    wrong_option,
    member_batch,
    *((stream, attach, lag, restart) if CAN_STREAM else (refused_stream,)),
)


def _attempt(case: Callable[[Place], None], place: Place, number: int) -> str | None:
    place.attempt = number
    try:
        case(place)
    except Exception:  # noqa: BLE001 (whatever it is, the case has failed, and those after it are tried)
        return traceback.format_exc()
    return None


def _refusal(call: Callable[[], object]) -> str:
    try:
        call()
    except Exception as error:  # noqa: BLE001 (Spark has classes of its own for a session of each kind)
        return str(error)
    raise AssertionError("it was not refused")


def _left(place: Place, group: str) -> int:
    """Return how many records a group has not read."""
    with _batch(place, group) as new:
        assert new.records == 0, f"{new.records} records were left"
        return new.records


def _batch(place: Place, group: str) -> spark_kcoord.GroupBatch:
    return spark_kcoord.batch(place.spark, place.member(group), assignment_timeout_s=PATIENCE_S)


@contextmanager
def _session(kind: str, folder: Path) -> Iterator[SparkSession]:
    if kind == "connect":
        with _connect_server(folder) as address:
            spark = SparkSession.builder.remote(address).getOrCreate()
            yield spark
            spark.stop()
        return
    sockets = {"spark.python.unix.domain.socket.enabled": "true"}
    builder = SparkSession.builder.master("local[2]").appName("compat")
    for key, value in (SETTINGS | _folders(folder) | sockets).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    yield spark
    spark.stop()


@contextmanager
def _connect_server(folder: Path) -> Iterator[str]:
    """Run a server of Spark Connect in a process of its own, and give the address for its clients."""
    (port,) = free_ports(1)
    binding = {"spark.connect.grpc.binding.address": "127.0.0.1", "spark.connect.grpc.binding.port": str(port)}
    submit = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--master", "local[2]"]
    for key, value in (SETTINGS | _folders(folder) | binding).items():
        submit += ["--conf", f"{key}={value}"]
    with (folder / "server.log").open("wb") as log:
        server = subprocess.Popen(
            [*submit, "--class", CONNECT_SERVER], stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    try:
        eventually(lambda: not is_port_free(port) or server.poll() is not None, PATIENCE_S)
        assert not is_port_free(port), (folder / "server.log").read_text(errors="replace")[-4000:]
        yield f"sc://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(PATIENCE_S)


def _folders(folder: Path) -> dict[str, str]:
    return {"spark.local.dir": str(folder / "spark"), "spark.sql.warehouse.dir": str(folder / "warehouse")}


def main() -> None:
    """Run the cases and say how each went."""
    parser = argparse.ArgumentParser()
    for name in ("kind", "kafka", "coordinator", "topic", "group", "folder"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--records", type=int, required=True)
    given = parser.parse_args()
    logging.basicConfig(level=logging.WARNING)
    os.environ |= {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    os.environ.pop("PYSPARK_DRIVER_PYTHON", None)
    os.environ.pop("SPARK_HOME", None)
    folder = Path(given.folder)
    with _session(given.kind, folder) as spark:
        place = Place(spark, given.kafka, given.coordinator, given.topic, given.records, given.group, folder)
        for case in CASES:
            began = time.monotonic()
            tried = try_until_spark_waits(partial(_attempt, case, place))
            told = {"case": case.__name__, "seconds": time.monotonic() - began, "why": tried.why, "met": tried.told()}
            print(json.dumps(told), flush=True)
        if place.attachment is not None:
            place.attachment.close()


if __name__ == "__main__":
    main()
