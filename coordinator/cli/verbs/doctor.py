"""`kcoord doctor`: is everything here that kcoord needs, and does it answer?

Each check is a row: its name, ok, warn, fail or skip, what was found, and what it means. What decodes records is asked
of a process of its own: a compiled module that does not fit ends its process. With Spark here that process runs the
Python that Spark would start; without it nothing here has to decode, and what is missing for it is passed over.
"""

import os
import platform
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer

from coordinator.cli.diagnosis.doctor_check import SLOW_FSYNC_MS, Check, UnansweredError, said_by, write_checks
from coordinator.cli.diagnosis.doctor_spark import MINIMUM_PYTHON, look_at_spark
from coordinator.cli.parts.asking import coordinators_of, parse_timeout, take_addresses
from coordinator.cli.parts.tables import OutputFormat
from coordinator.client.refusals import refusal_of
from coordinator.client.request import RequestError, ask
from coordinator.local.errors import LocalServiceError
from coordinator.local.java.runtime import find_java
from coordinator.protocol.messages import FindCoordinator, FindCoordinatorResponse
from coordinator.protocol.text.addresses import format_address
from coordinator.protocol.text.counts import counted

ENOUGH_FILES: Final = 16_384
"""Open files that a coordinator of some thousands of members needs; each member is one."""
FSYNCS: Final = 15
GROUP: Final = "kcoord-doctor"
"""A group to ask for; asking does not make it."""


def doctor(
    coordinator: Annotated[
        str | None,
        typer.Option(
            callback=take_addresses,
            metavar="HOST:PORT[,...]",
            envvar="KCOORD_COORDINATOR",
            help="Coordinator nodes of which one should answer.",
        ),
    ] = None,
    kafka: Annotated[
        str | None, typer.Option(metavar="HOST:PORT[,...]", help="Kafka's brokers; else where the coordinator says.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where to time the disk, such as a node's data directory.")
    ] = None,
    output: Annotated[OutputFormat, typer.Option("--output", "-o", help="How to write it.")] = OutputFormat.TABLE,
    timeout: Annotated[
        float,
        typer.Option(
            "--timeout",
            parser=parse_timeout,
            metavar="DURATION",
            help="How long to wait for each, such as 5s; a number is seconds.",
        ),
    ] = 5.0,
) -> None:
    """Check this machine, this install, a coordinator and Kafka; exit with 1 when anything fails."""
    write_checks(output, checks_of_machine(coordinator, kafka, data, timeout))


def checks_of_machine(coordinator: str | None, kafka: str | None, data: Path | None, timeout: float) -> list[Check]:
    """Return the checks of this machine and this install, and of what is named or what that names."""
    spark = look_at_spark(os.environ)
    checks = [
        python_check(sys.version_info[:3]),
        java_check(),
        *package_checks(),
        *spark.checks,
        *decoder_checks([spark.python, "-m", "spark_kcoord.deploy.doctor_facts"], is_needed=spark.is_here),
        open_files_check(resource.getrlimit(resource.RLIMIT_NOFILE)[0]),
        fsync_check(data or Path(tempfile.gettempdir())),
    ]
    reached = coordinator_check(coordinator, timeout)
    checks.append(reached.check)
    servers = tuple(kafka.split(",")) if kafka else reached.kafka
    checks.append(kafka_check(servers, timeout))
    return checks


def python_check(version: tuple[int, ...]) -> Check:
    """Check the version of Python."""
    value = f"{'.'.join(map(str, version))} {platform.python_implementation()} on {platform.platform()}"
    if version[:2] < MINIMUM_PYTHON:
        return Check("python", "fail", value, f"Python {'.'.join(map(str, MINIMUM_PYTHON))} or newer is needed")
    return Check("python", "ok", value)


def java_check() -> Check:
    """Check that there is a Java for Spark; a coordinator needs none."""
    try:
        java = find_java()
    except LocalServiceError as error:
        return Check("java", "warn", "none", f"{error} Spark and a local Kafka need it; a coordinator does not.")
    return Check("java", "ok", java.version, str(java.executable))


def package_checks() -> Iterator[Check]:
    """Check the version of kcoord and of the package that asks Kafka."""
    for name in ("kcoord", "kafka-python"):
        try:
            yield Check(name, "ok", metadata.version(name))
        except metadata.PackageNotFoundError:
            yield Check(name, "fail", "none", "install kcoord again")


def decoder_checks(command: list[str], *, is_needed: bool = True) -> Iterable[Check]:
    """Check what decodes records, by what a process of its own says of it; a coordinator need not have it."""
    try:
        checks = msgspec.json.decode(said_by(command), type=list[Check])
    except (UnansweredError, msgspec.DecodeError) as error:
        checks = [Check("decoder", "fail", "none", str(error))]
    if is_needed:
        return checks
    return [
        Check(check.name, "skip", check.value, "a coordinator decodes no records; whatever reads needs kcoord[spark]")
        if check.status == "fail"
        else check
        for check in checks
    ]


def open_files_check(limit: int) -> Check:
    """Check how many connections this process might hold."""
    if limit != resource.RLIM_INFINITY and limit < ENOUGH_FILES:
        why = f"each member is one; `ulimit -n {ENOUGH_FILES}` or LimitNOFILE= raises it for a coordinator"
        return Check("open-files", "warn", str(limit), why)
    return Check("open-files", "ok", "unlimited" if limit == resource.RLIM_INFINITY else str(limit))


def fsync_check(directory: Path) -> Check:
    """Check how long the disk takes to make a small write durable; every commit waits for one."""
    times = []
    try:
        with tempfile.TemporaryFile(dir=directory) as file:
            for _ in range(FSYNCS):
                began = time.perf_counter()
                file.write(b"\0" * 4096)
                file.flush()
                os.fsync(file.fileno())
                times.append((time.perf_counter() - began) * 1000)
    except OSError as error:
        return Check("fsync", "fail", "none", f"{directory}: {error.strerror or error}")
    median, longest = statistics.median(times), max(times)
    why = f"median and longest of {FSYNCS} in {directory}"
    if median > SLOW_FSYNC_MS:
        return Check("fsync", "warn", f"{median:.2f} {longest:.2f} ms", f"{why}; every commit waits for one")
    return Check("fsync", "ok", f"{median:.2f} {longest:.2f} ms", why)


@dataclass(frozen=True, slots=True)
class Reached:
    """The check of a coordinator, and the addresses at which it says that Kafka is."""

    check: Check
    kafka: tuple[str, ...] = ()


def coordinator_check(address: str | None, timeout_s: float) -> Reached:
    """Check that a coordinator answers."""
    if address is None:
        return Reached(Check("coordinator", "skip", "not named", "name one with --coordinator or KCOORD_COORDINATOR"))
    try:
        response = ask(coordinators_of(address), FindCoordinator(GROUP), timeout_s)
    except (RequestError, ValueError) as error:
        return Reached(Check("coordinator", "fail", address, str(error)))
    refusal = refusal_of(response)
    if refusal is not None or not isinstance(response, FindCoordinatorResponse) or response.coordinator is None:
        why = f"{refusal[1]} ({refusal[0].name})" if refusal is not None else "it names no node"
        return Reached(Check("coordinator", "fail", address, why))
    node = response.coordinator
    where = f"node {node.node_id} at {format_address((node.host, node.port))}"
    nodes = counted(len(response.nodes), "node")
    why = f"{nodes}, Kafka cluster {response.kafka_cluster_id or 'not known yet'}"
    return Reached(Check("coordinator", "ok", where, why), response.kafka_bootstrap)


def kafka_check(servers: tuple[str, ...], timeout_s: float) -> Check:
    """Check that Kafka answers."""
    if not servers:
        return Check("kafka", "skip", "not named", "name brokers with --kafka, or a coordinator that knows them")
    from coordinator.runtime.kafka.client import KafkaAwayError, KafkaClient

    timeout_ms = int(timeout_s * 1000)
    try:
        client = KafkaClient(servers, request_timeout_ms=timeout_ms, connect_timeout_ms=timeout_ms)
        try:
            view = client.read_topics(())
        finally:
            client.close()
    except (KafkaAwayError, ValueError) as error:
        return Check("kafka", "fail", ",".join(servers), str(error))
    brokers = counted(len(view.brokers), "broker")
    return Check("kafka", "ok", ",".join(servers), f"{brokers}, cluster {view.cluster_id}")
