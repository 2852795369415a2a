"""Sets the stage for one demo and plays it: a broker, a coordinator, a topic, then the story.

All of it lives in one directory and ends with this call, whatever happens in between.
"""

import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

from coordinator.client.request import RequestError, ask
from coordinator.demo.applications import ApplicationSettings
from coordinator.demo.errors import DemoError
from coordinator.demo.screen.view import View
from coordinator.demo.settings import GROUP, PARTITIONS, TOPIC, DemoSettings
from coordinator.demo.story import Ending, Stage, Story
from coordinator.demo.watch import GroupWatch
from coordinator.local.errors import LocalServiceError
from coordinator.local.java.jars import ReportProgress
from coordinator.local.kafka.broker import LocalKafka
from coordinator.local.node import LocalCoordinator
from coordinator.protocol.messages import Request, Response
from coordinator.protocol.text.addresses import Address, parse_addresses

_ASK_TIMEOUT_S: Final = 10.0


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
    say(f"Kafka is ready on {kafka.bootstrap_servers}; the coordinator starts")
    coordinator = stack.enter_context(
        LocalCoordinator(kafka.bootstrap_servers, directory / "coordinator", port=settings.coordinator_port)
    )
    kafka.create_topic(TOPIC, PARTITIONS)
    say(f"the coordinator is ready on {coordinator.address}; topic {TOPIC} has {PARTITIONS} partitions")
    stage = Stage(
        kafka=kafka,
        kafka_address=kafka.bootstrap_servers,
        coordinator=coordinator,
        applications=ApplicationSettings(directory, coordinator.address, GROUP, TOPIC),
        watch=GroupWatch(_asking(coordinator), GROUP),
    )
    story = stack.enter_context(Story(settings, stage, view, started_s))
    return story.play()


def _asking(coordinator: LocalCoordinator) -> Callable[[Request], Response]:
    return partial(_ask, parse_addresses(coordinator.address))


def _ask(addresses: tuple[Address, ...], request: Request) -> Response:
    return ask(addresses, request, _ASK_TIMEOUT_S)
