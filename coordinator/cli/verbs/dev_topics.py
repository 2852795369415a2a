"""`kcoord dev topic` and `kcoord dev produce`: something to read while trying things out."""

import logging
from typing import Annotated

import typer

from coordinator.cli.parts.exits import notes
from coordinator.protocol.text.addresses import format_address, parse_addresses
from coordinator.protocol.text.counts import counted


def _brokers(text: str) -> str:
    """Return the addresses of brokers as they were given; raises typer.BadParameter for what is none."""
    try:
        return ",".join(format_address(address) for address in parse_addresses(text))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic's name.")]
Kafka = Annotated[
    str,
    typer.Option("--kafka", parser=_brokers, metavar="HOST:PORT", help="A broker, such as that of `kcoord dev up`."),
]


def topic(
    topic: Topic,
    partitions: Annotated[int, typer.Option(help="How many partitions it has.", min=1, max=10_000)] = 4,
    kafka: Kafka = "127.0.0.1:9092",
) -> None:
    """Make a topic."""
    from coordinator.cli.verbs.dev import errors_as_text
    from coordinator.local.kafka.topics import create_topic

    logging.getLogger("kafka").setLevel(logging.CRITICAL)  # what goes wrong is told once, by us
    with errors_as_text():
        create_topic(kafka, topic, partitions)
    notes.print(f"Topic '{topic}' has {counted(partitions, 'partition')}.")


def produce(
    topic: Topic,
    records: Annotated[int, typer.Option(help="How many records.", min=1, max=10_000_000)] = 1_000,
    kafka: Kafka = "127.0.0.1:9092",
) -> None:
    """Write records with numbers as keys to the partitions of a topic in turn."""
    from coordinator.cli.verbs.dev import errors_as_text
    from coordinator.local.kafka.topics import produce_numbers

    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    with errors_as_text():
        partitions = produce_numbers(kafka, topic, records)
    notes.print(f"Wrote {counted(records, 'record')} to {counted(partitions, 'partition')} of topic '{topic}'.")


def add_verbs(app: typer.Typer) -> None:
    """Add this file's verbs to those of `kcoord dev`."""
    app.command("topic")(topic)
    app.command("produce")(produce)
