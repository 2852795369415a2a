"""The Kafka cluster that a verb is about: the one that the coordinator reads, or the one that is named."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from coordinator.cli.parts.asking import ask_for, must_be_addresses
from coordinator.cli.parts.exits import ExitCode, notes
from coordinator.cli.parts.notes import DocCode
from coordinator.client.security import SecurityError
from coordinator.protocol.messages import FindCoordinator, FindCoordinatorResponse
from coordinator.protocol.text.addresses import format_address, parse_addresses

if TYPE_CHECKING:
    from coordinator.cli.moving.kafka_groups import KafkaGroups


def _addresses(text: str | None) -> str | None:
    return None if text is None else must_be_addresses(text)


Kafka = Annotated[
    str | None,
    typer.Option(
        "--kafka",
        callback=_addresses,
        metavar="HOST:PORT[,...]",
        help="Kafka's brokers; without it those that the coordinator reads.",
    ),
]
KafkaConfig = Annotated[
    Path | None,
    typer.Option(
        "--kafka-config",
        envvar="KCOORD_KAFKA_CONFIG",
        metavar="FILE",
        help="Lines NAME=VALUE that say how brokers are spoken to, such as security.protocol=SASL_SSL.",
    ),
]


@contextmanager
def kafka_meant(
    coordinator: str, group: str, kafka: str | None, config: Path | None, timeout_s: float
) -> Iterator["KafkaGroups"]:
    """Yield the groups of the cluster that is meant; what keeps it from being asked ends the program."""
    from coordinator.cli.moving.kafka_groups import (
        KafkaGroupError,
        UnstableOffsetsError,
        kafka_groups,
        read_kafka_config,
    )

    try:
        options = read_kafka_config(config)
    except SecurityError as error:
        notes.error(str(error), DocCode.INPUT)
        raise typer.Exit(ExitCode.USAGE) from None
    if kafka is not None:
        servers = tuple(map(format_address, parse_addresses(kafka)))
    elif "kafka.bootstrap.servers" in options:
        servers = ()  # the options name them
    else:
        servers = find_group(coordinator, group, timeout_s).kafka_bootstrap
    try:
        with kafka_groups(servers, options, timeout_s) as groups:
            yield groups
    except UnstableOffsetsError as error:
        notes.error(str(error), DocCode.KAFKA)
        raise typer.Exit(ExitCode.ERROR) from error
    except KafkaGroupError as error:
        notes.error(f"{error}; --kafka names brokers, and --kafka-config a file that says how to log in", DocCode.KAFKA)
        raise typer.Exit(ExitCode.ERROR) from error


def find_group(coordinator: str, group: str, timeout_s: float) -> FindCoordinatorResponse:
    """Return which node leads a group, and the Kafka cluster that it reads."""
    return ask_for(coordinator, FindCoordinator(group), timeout_s, FindCoordinatorResponse, group)
