"""`kcoord dev …`: local services for trying things out on one machine."""

import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from coordinator.cli.parts.notes import DocCode
from coordinator.cli.verbs import dev_topics
from coordinator.local.errors import LocalServiceError
from coordinator.protocol.text.escaping import lines

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

    from coordinator.local.java.jars import JarProgress
    from coordinator.local.kafka.broker import LocalKafka
    from coordinator.local.process.service import LocalService

app = typer.Typer(help="Local services for trying things out on this machine.", no_args_is_help=True)

_LOOK_S = 0.2
_notes = Console(stderr=True, highlight=False, soft_wrap=True)


class _Asked(BaseException):
    """Somebody asked this command to end; not an `Exception`, so that no library catches it on its way."""


@app.command()
def jars() -> None:
    """Download the jars of Kafka and ZooKeeper and print the directories that hold them, one a line."""
    from coordinator.local.java.jars import resolve_jars
    from coordinator.local.kafka.broker import KAFKA_JARS
    from coordinator.local.zookeeper import ZOOKEEPER_JARS

    with errors_as_text(), jar_progress() as report:
        for jar_set in (KAFKA_JARS, ZOOKEEPER_JARS):
            sys.stdout.write(f"{resolve_jars(jar_set, report)[0].parent}\n")


@app.command()
def kafka(
    port: Annotated[int, typer.Option(help="Port on 127.0.0.1; 0 takes a free one.", min=0, max=65535)] = 0,
    data: Annotated[
        Path | None,
        typer.Option(help="Data directory, kept; without it a temporary one is used and removed.", file_okay=False),
    ] = None,
) -> None:
    """Run a real Kafka broker on this machine until Ctrl-C, and print its address."""
    from coordinator.local.kafka.broker import LocalKafka

    with errors_as_text(), ending_when_asked(), ExitStack() as stack:
        data_dir = data or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kcoord-kafka-")))
        with jar_progress() as report:
            broker = stack.enter_context(LocalKafka(data_dir, port=port, report=report))
        _notes.print(f"Kafka is ready on {broker.bootstrap_servers}, data in {data_dir}; Ctrl-C stops it.")
        sys.stdout.write(f"{broker.bootstrap_servers}\n")
        sys.stdout.flush()
        broker.wait()
        raise LocalServiceError(f"Kafka ended by itself. The end of {broker.log_path}:\n{broker.log_tail()}")


@app.command()
def up(
    port: Annotated[
        int,
        typer.Option(help="Port of the coordinator, 0 a free one; other nodes have those after it.", min=0, max=65000),
    ] = 0,
    kafka_port: Annotated[int, typer.Option(help="Port of Kafka; 0 takes a free one.", min=0, max=65535)] = 0,
    data: Annotated[
        Path | None,
        typer.Option(help="Data directory, kept; without it a temporary one is used and removed.", file_okay=False),
    ] = None,
    nodes: Annotated[
        int,
        typer.Option(help="Coordinator nodes: 1 is standalone, 3 and more a cluster with a ZooKeeper.", min=1, max=9),
    ] = 1,
    console_port: Annotated[int, typer.Option(help="Port of the console; 0 takes a free one.", min=0, max=65535)] = 0,
    admin_port: Annotated[
        int | None,
        typer.Option(help="Port of probes and /metrics; other nodes have those after it. Else none.", min=1, max=65000),
    ] = None,
) -> None:
    """Run a real Kafka broker, a coordinator or a cluster, and a console, until Ctrl-C; print their addresses."""
    from coordinator.local.kafka.broker import LocalKafka
    from coordinator.local.node import LocalCoordinator, admin_setting

    if nodes == 2:
        raise typer.BadParameter("a cluster of 2 stops when one of them does: take 1, or 3", param_hint="--nodes")
    with errors_as_text(), ending_when_asked(), ExitStack() as stack:
        data_dir = data or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kcoord-dev-")))
        with jar_progress() as report:
            broker = stack.enter_context(LocalKafka(data_dir / "kafka", port=kafka_port, report=report))
            if nodes > 1:
                _run_cluster(stack, broker, data_dir, nodes, (port, console_port, admin_port), report)
        node = stack.enter_context(
            LocalCoordinator(
                broker.bootstrap_servers, data_dir / "coordinator", port=port, settings=admin_setting(admin_port)
            )
        )
        _notes.print(f"Kafka and the coordinator are ready, data in {data_dir}; Ctrl-C stops all.")
        sys.stdout.write(f"kafka {broker.bootstrap_servers}\ncoordinator {node.address}\n")
        _say_metrics(admin_port, 1)
        _run_console(stack, node.address, data_dir, console_port)
        raise _ended_by_itself(_first_to_end(broker, node))


def _run_cluster(
    stack: ExitStack,
    broker: "LocalKafka",
    data_dir: Path,
    nodes: int,
    first_ports: tuple[int, int, int | None],
    report: Callable[["JarProgress"], None],
) -> NoReturn:
    """Run a cluster for as long as Kafka and ZooKeeper run, and start a node again that has ended.

    `first_ports` are those of the first node, of the console and of the first node's metrics.
    """
    from coordinator.local.cluster import LocalCluster

    port, console_port, admin_port = first_ports
    ports = range(port, port + nodes) if port else ()
    cluster = stack.enter_context(
        LocalCluster(broker.bootstrap_servers, data_dir, nodes=nodes, ports=ports, admin_port=admin_port, report=report)
    )
    first, addresses = cluster.nodes[0], cluster.addresses
    _notes.print(
        f"Kafka, ZooKeeper and {nodes} nodes are ready, data in {data_dir}; Ctrl-C stops all. What to do next:\n"
        f"  export KCOORD_COORDINATOR={addresses}\n"
        "  kcoord group list\n"
        f"  spark-submit … with kcoord.bootstrap.servers={addresses}\n"
        f"  kill -9 {first.process_group_id} ends node 1 as a crash would; others lead on, and it is started again\n"
        f"Each node's log is {data_dir}/node-N/node.log.",
        markup=False,
    )
    kept, zookeeper = (broker, *cluster.zookeeper.servers), cluster.zookeeper.hosts
    sys.stdout.write(f"kafka {broker.bootstrap_servers}\nzookeeper {zookeeper}\ncoordinator {addresses}\n")
    _say_metrics(admin_port, nodes)
    _run_console(stack, addresses, data_dir, console_port)
    keep_running(kept, cluster.nodes)


def keep_running(kept: Sequence["LocalService"], nodes: Sequence["LocalService"]) -> NoReturn:
    """Start nodes again that have ended; raises LocalServiceError when one of the others ends, or one as it starts.

    None is waited for: where all have ended they need each other to be ready.
    """
    starting: set[str] = set()
    while True:
        for service in kept:
            if not service.is_running:
                raise _ended_by_itself(service)
        for node in nodes:
            if node.is_running:
                if node.name in starting and node.is_ready:
                    starting.remove(node.name)
                    _notes.print(f"{node.name} serves again.")
                continue
            if node.name in starting:
                raise _ended_by_itself(node)
            _notes.print(f"{node.name} has ended; it is started again. The end of {node.log_path}:", markup=False)
            _notes.print(node.log_tail(3), markup=False)
            node.stop()
            node.begin()
            starting.add(node.name)
        time.sleep(_LOOK_S)


def _say_metrics(first_port: int | None, nodes: int) -> None:
    """Print where each node has its metrics, if it has any, and flush what has been printed."""
    from coordinator.local.node import admin_setting

    for number in range(nodes if first_port else 0):
        (address,) = admin_setting(first_port, number).values()
        sys.stdout.write(f"metrics http://{address}/metrics\n")
    sys.stdout.flush()


def _run_console(stack: ExitStack, coordinators: str, data_dir: Path, port: int) -> None:
    """Run a console beside the others and print its address; without its packages say how to have it."""
    from coordinator.local.console import LocalConsole, can_run_console

    if not can_run_console():
        _notes.print("There is no console: `pip install 'kcoord[console]'` installs what it needs.", markup=False)
        return
    console = stack.enter_context(LocalConsole(coordinators, data_dir / "console", port=port))
    sys.stdout.write(f"console {console.url}\n")
    sys.stdout.flush()


def _ended_by_itself(ended: "LocalService") -> "LocalServiceError":
    return LocalServiceError(f"{ended.name} ended by itself. The end of {ended.log_path}:\n{ended.log_tail()}")


def _first_to_end(*services: "LocalService") -> "LocalService":
    while True:
        for service in services:
            if not service.is_running:
                return service
        time.sleep(_LOOK_S)


@contextmanager
def jar_progress() -> Iterator[Callable[["JarProgress"], None]]:
    """Show the download of jars on standard error: a bar on a terminal, a line now and then elsewhere."""
    if not _notes.is_terminal:
        told: set[tuple[str, int]] = set()

        def tell(step: "JarProgress") -> None:
            tenth = step.done * 10 // max(1, step.total)
            if (step.doing, tenth) not in told:
                told.add((step.doing, tenth))
                _notes.print(f"jars: {step.doing} {step.done}/{step.total} {step.what}", markup=False)

        yield tell
        return
    columns = (TextColumn("jars: {task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=_notes, transient=True) as bar:
        task = bar.add_task("looking up", total=None, visible=False)

        def show(step: "JarProgress") -> None:
            bar.update(task, description=step.doing, completed=step.done, total=step.total, visible=True)

        yield show


@contextmanager
def ending_when_asked() -> Iterator[None]:
    """End the block, in an orderly way and with success, on Ctrl-C, SIGTERM or a closed terminal."""

    def end(_number: int, _frame: FrameType | None) -> None:
        handle(signal.SIG_IGN)  # once is enough: nothing may interrupt the orderly end
        raise _Asked

    def handle(handler: Callable[[int, FrameType | None], None] | signal.Handlers) -> None:
        for number in before:
            signal.signal(number, handler)

    def swallowed(unraisable: "UnraisableHookArgs") -> None:
        if not isinstance(unraisable.exc_value, _Asked):
            hook(unraisable)
            return
        # The signal came within a finalizer, out of which nothing is raised: it comes again a little later.
        handle(end)
        again = threading.Timer(_LOOK_S, os.kill, (os.getpid(), signal.SIGTERM))
        again.daemon = True
        waiting.append(again)
        again.start()

    waiting: list[threading.Timer] = []
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    hook, sys.unraisablehook = sys.unraisablehook, swallowed
    handle(end)
    try:
        yield
    except _Asked:
        _notes.print("stopped")
    finally:
        sys.unraisablehook = hook
        for again in waiting:  # whoever handles signals after the block has not been asked
            again.cancel()
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def errors_as_text() -> Iterator[None]:
    """Show a `LocalServiceError` as its text on standard error and exit with code 1."""
    try:
        yield
    except LocalServiceError as error:
        _notes.print(f"error: {lines(str(error))} [{DocCode.SERVICE}]", markup=False)
        raise typer.Exit(1) from error


dev_topics.add_verbs(app)
