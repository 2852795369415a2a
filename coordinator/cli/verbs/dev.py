"""`kcoord dev …`: local services for trying things out on one machine."""

import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from coordinator.local.errors import LocalServiceError
from coordinator.protocol.text.escaping import lines

if TYPE_CHECKING:
    from coordinator.local.java.jars import JarProgress
    from coordinator.local.kafka.broker import LocalKafka
    from coordinator.local.node import LocalCoordinator

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
    port: Annotated[int, typer.Option(help="Port of the coordinator; 0 takes a free one.", min=0, max=65535)] = 0,
    kafka_port: Annotated[int, typer.Option(help="Port of Kafka; 0 takes a free one.", min=0, max=65535)] = 0,
    data: Annotated[
        Path | None,
        typer.Option(help="Data directory, kept; without it a temporary one is used and removed.", file_okay=False),
    ] = None,
) -> None:
    """Run a real Kafka broker and a coordinator on this machine until Ctrl-C, and print their addresses."""
    from coordinator.local.kafka.broker import LocalKafka
    from coordinator.local.node import LocalCoordinator

    with errors_as_text(), ending_when_asked(), ExitStack() as stack:
        data_dir = data or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kcoord-dev-")))
        with jar_progress() as report:
            broker = stack.enter_context(LocalKafka(data_dir / "kafka", port=kafka_port, report=report))
        node = stack.enter_context(LocalCoordinator(broker.bootstrap_servers, data_dir / "coordinator", port=port))
        _notes.print(f"Kafka and the coordinator are ready, data in {data_dir}; Ctrl-C stops both.")
        sys.stdout.write(f"kafka {broker.bootstrap_servers}\ncoordinator {node.address}\n")
        sys.stdout.flush()
        ended = _first_to_end(broker, node)
        raise LocalServiceError(
            f"{'Kafka' if ended is broker else 'The coordinator'} ended by itself. "
            f"The end of {ended.log_path}:\n{ended.log_tail()}"
        )


def _first_to_end(*services: "LocalKafka | LocalCoordinator") -> "LocalKafka | LocalCoordinator":
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
        for number in before:  # once is enough: nothing may interrupt the orderly end
            signal.signal(number, signal.SIG_IGN)
        raise _Asked

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    for number in before:
        signal.signal(number, end)
    try:
        yield
    except _Asked:
        _notes.print("stopped")
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def errors_as_text() -> Iterator[None]:
    """Show a `LocalServiceError` as its text on standard error and exit with code 1."""
    try:
        yield
    except LocalServiceError as error:
        _notes.print(f"error: {lines(str(error))}", markup=False)
        raise typer.Exit(1) from error
