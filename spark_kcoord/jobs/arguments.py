"""The command-line arguments of a job that reads ``format("kcoord")``, and the source options they make.

Secrets never stand on a command line, where every user of the machine can read them: an option whose value is one is
refused there and taken from an environment variable or a file instead. What an option means is the source's own
affair.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from coordinator.client.security import SECURITY_NAMES, SECURITY_SETTINGS
from coordinator.protocol.text.durations import parse_duration_ms
from spark_kcoord.options.kafka_settings import KAFKA_OPTIONS

__all__ = [
    "add_option_arguments",
    "add_source_arguments",
    "coordinator_security",
    "given_options",
    "read_pairs",
    "seconds",
    "source_options",
]

_SECRETS: Final = frozenset(
    [option.name.lower() for option in KAFKA_OPTIONS if option.kind.is_secret]
    + [setting.name for setting in SECURITY_SETTINGS if setting.is_secret]
)


def add_source_arguments(parser: argparse.ArgumentParser, *, needs_group: bool, names_start: bool = True) -> None:
    """Add the arguments that say what is read and as which member; a stream needs a coordinator and a group."""
    source = parser.add_argument_group("what is read")
    source.add_argument(
        "--coordinator",
        metavar="HOST:PORT[,…]",
        required=needs_group,
        help="coordinator nodes to ask first" + ("" if needs_group else "; they tell where Kafka is"),
    )
    source.add_argument(
        "--group",
        required=needs_group,
        help="consumer group" + (" to join" if needs_group else ""),
    )
    source.add_argument("--topic", action="append", required=True, help="topic to read; repeat for several")
    if names_start:
        source.add_argument(
            "--starting-offsets",
            metavar="WHERE",
            help="earliest, latest, committed or JSON, where neither the group nor the checkpoint has an offset "
            "(default: earliest)"
            if needs_group
            else "earliest, committed or JSON (default: earliest)",
        )
    source.add_argument("--include-headers", action="store_true", help="read the column headers too")
    add_option_arguments(
        source,
        meaning="another option of the source, such as kafka.security.protocol=SASL_SSL",
        hidden="kafka.sasl.password=env:KAFKA_PASSWORD",
    )


def add_option_arguments(parser: argparse._ActionsContainer, *, meaning: str, hidden: str) -> None:
    """Add the arguments that give options by their names; `hidden` is an example of one whose value does not show."""
    parser.add_argument(
        "--option", action="append", default=[], metavar="KEY=VALUE", help=f"{meaning}; repeat for several"
    )
    parser.add_argument(
        "--secret",
        action="append",
        default=[],
        metavar="KEY=env:NAME|file:PATH",
        help="an option whose value is read from an environment variable or a file, such as "
        f"{hidden}; repeat for several",
    )


def given_options(arguments: argparse.Namespace) -> dict[str, str]:
    """Return the options that are given by their names; raises ValueError for a secret that shows, or is nowhere."""
    options = read_pairs(arguments.option, "--option")
    for name in options:
        if name.lower() in _SECRETS:
            raise ValueError(
                f"--option {name}=… would show a secret to every user of this machine: use --secret {name}=env:NAME "
                f"or --secret {name}=file:PATH"
            )
    return options | {name: _secret(name, place) for name, place in read_pairs(arguments.secret, "--secret").items()}


def coordinator_security(options: Mapping[str, str]) -> dict[str, str]:
    """Return those of a source's options that say how coordinators are spoken to, by lower-case name."""
    return {name.lower(): text for name, text in options.items() if name.lower() in SECURITY_NAMES}


def source_options(arguments: argparse.Namespace) -> dict[str, str]:
    """Return the options of ``format("kcoord")``; raises ValueError for an argument that cannot be used."""
    named = {
        "kcoord.bootstrap.servers": arguments.coordinator,
        "kcoord.group.id": arguments.group,
        "subscribe": ",".join(arguments.topic),
        "startingOffsets": getattr(arguments, "starting_offsets", None),
        "includeHeaders": "true" if arguments.include_headers else None,
    }
    return given_options(arguments) | {name: value for name, value in named.items() if value is not None}


def seconds(text: str) -> float:
    """Read a duration such as ``15m`` as seconds, which a number without a unit is; raises ArgumentTypeError."""
    try:
        return parse_duration_ms(text, bare_unit="s") / 1000
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def read_pairs(pairs: list[str], argument: str) -> dict[str, str]:
    """Return KEY=VALUE pairs as a dict; raises ValueError for text of another form."""
    read: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise ValueError(f"{argument} needs the form KEY=VALUE")
        read[name.strip()] = value
    return read


def _secret(name: str, place: str) -> str:
    kind, _, where = place.partition(":")
    if kind == "env" and where:
        if where not in os.environ:
            raise ValueError(f"--secret {name} names the environment variable {where}, which is not set")
        return os.environ[where]
    if kind == "file" and where:
        try:
            return Path(where).read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"--secret {name} names the file {where}, which cannot be read: {error}") from error
    raise ValueError(f"--secret {name} needs env:NAME or file:PATH after the =, not the secret itself")
