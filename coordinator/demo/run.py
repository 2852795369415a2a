"""Sets the stage for one demo and plays it: a broker, a coordinator of one node or several, a topic, then the story.

All of it lives in one directory and ends with this call, whatever happens in between.
"""

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from coordinator.client.request import RequestError, ask, ask_until_answered
from coordinator.demo.applications import ApplicationSettings
from coordinator.demo.errors import DemoError
from coordinator.demo.nodes import CoordinatorNodes
from coordinator.demo.screen.view import View
from coordinator.demo.settings import GROUP, PARTITIONS, TOPIC, DemoSettings
from coordinator.demo.story import Ending, Stage, Story
from coordinator.demo.watch import GroupWatch
from coordinator.local.cluster import LocalCluster
from coordinator.local.console import LocalConsole, can_run_console
from coordinator.local.errors import LocalServiceError
from coordinator.local.java.jars import ReportProgress
from coordinator.local.kafka.broker import LocalKafka
from coordinator.local.node import LocalCoordinator
from coordinator.protocol.messages import Request, Response
from coordinator.protocol.text.addresses import parse_addresses

_ASK_TIMEOUT_S: Final = 20.0


def run_demo(settings: DemoSettings, directory: Path, view: View, report: ReportProgress | None = None) -> Ending:
    """Play the demo in an empty directory; raises DemoError with the reason when it fails.

    `report` hears about the download of Kafka's jars, should one be needed.
    """
    try:
        with ExitStack() as stack:
            return _play(settings, directory, view, report, stack)
    except (LocalServiceError, RequestError) as error:
        reason, _, details = str(error).partition("\n")
        raise DemoError(reason, details) from error


def _play(
    settings: DemoSettings, directory: Path, view: View, report: ReportProgress | None, stack: ExitStack
) -> Ending:
    started_s = time.monotonic()

    def say(text: str) -> None:
        view.say(time.monotonic() - started_s, text)

    say("Kafka starts")
    kafka = stack.enter_context(LocalKafka(directory / "kafka", port=settings.kafka_port, report=report))
    what = (
        "the coordinator starts" if settings.nodes == 1 else f"ZooKeeper and {settings.nodes} coordinator nodes start"
    )
    say(f"Kafka is ready on {kafka.bootstrap_servers}; {what}")
    nodes = _start_nodes(settings, kafka.bootstrap_servers, directory, report, stack)
    kafka.create_topic(TOPIC, PARTITIONS)
    say(f"the coordinator is ready on {nodes.addresses}; topic {TOPIC} has {PARTITIONS} partitions")
    if can_run_console():
        console = stack.enter_context(LocalConsole(nodes.addresses, directory / "console"))
        say(f"the console shows the group on {console.url}groups/{GROUP}")
    stage = Stage(
        kafka=kafka,
        kafka_address=kafka.bootstrap_servers,
        coordinator=nodes,
        applications=ApplicationSettings(directory, nodes.addresses, GROUP, TOPIC),
        watch=GroupWatch(_asking(settings, nodes.addresses), GROUP),
    )
    story = stack.enter_context(Story(settings, stage, view, started_s))
    return story.play()


def _start_nodes(
    settings: DemoSettings, kafka: str, directory: Path, report: ReportProgress | None, stack: ExitStack
) -> CoordinatorNodes:
    port = settings.coordinator_port
    if settings.nodes == 1:
        alone = stack.enter_context(LocalCoordinator(kafka, directory / "coordinator", port=port))
        return CoordinatorNodes({alone.address: alone})
    cluster = stack.enter_context(
        LocalCluster(
            kafka,
            directory / "coordinator",
            nodes=settings.nodes,
            ports=range(port, port + settings.nodes) if port else (),
            report=report,
        )
    )
    return CoordinatorNodes({node.address: node for node in cluster.nodes})


def _asking(settings: DemoSettings, addresses: str) -> Callable[[Request], Response]:
    """Return how to ask: where a node may be killed, another one is asked until there is an answer."""
    how = ask if settings.nodes == 1 else ask_until_answered
    return lambda request: how(parse_addresses(addresses), request, _ASK_TIMEOUT_S)
