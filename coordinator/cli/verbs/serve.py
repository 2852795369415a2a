"""`kcoord serve`, `kcoord check-config`, `kcoord version`: the node itself and its settings."""

import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from coordinator.cli.parts.notes import DocCode, Notes

if TYPE_CHECKING:
    from coordinator.config import Settings

_USAGE = 2

_notes = Notes()

ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", help="TOML file; `kcoord serve --print-config` shows every key.", dir_okay=False),
]
Kafka = Annotated[
    str | None, typer.Option("--kafka", metavar="HOST:PORT[,...]", help="Kafka's brokers (kafka.bootstrap_servers).")
]
Data = Annotated[Path | None, typer.Option("--data", metavar="DIR", help="Data directory (node.data_dir).")]
Listen = Annotated[
    str | None,
    typer.Option("--listen", metavar="HOST:PORT", help="Address for members; port 0 takes a free one (node.listen)."),
]
Admin = Annotated[
    str | None,
    typer.Option("--admin", metavar="HOST:PORT", help="Address for probes and metrics by HTTP (admin.listen)."),
]
Standalone = Annotated[
    bool, typer.Option("--standalone", help="One node, one copy of the log, no ZooKeeper (node.mode); the default.")
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Any other setting; may be given several times."),
]


def serve(
    config: ConfigFile = None,
    *,
    standalone: Standalone = False,
    kafka: Kafka = None,
    data: Data = None,
    listen: Listen = None,
    admin: Admin = None,
    settings: Set = None,
    print_config: Annotated[
        bool, typer.Option("--print-config", help="Print every setting with the value it would have, and end.")
    ] = False,
) -> None:
    """Run a coordinator node until SIGTERM or Ctrl-C; it prints its address when members can connect."""
    from coordinator.runtime.process.signals import standing_by
    from coordinator.runtime.process.starting import without_rounds

    with standing_by(), without_rounds(), errors_as_lines():
        from coordinator.config import config_file, load_settings

        flags = flags_of(standalone=standalone, kafka=kafka, data=data, listen=listen, admin=admin, settings=settings)
        loaded = load_settings(config, flags)
        if print_config:
            sys.stdout.write(config_file(loaded))
            return

        from coordinator import service

        try:
            code = service.run(loaded)
        except service.StartError as error:
            _notes.error(str(error), DocCode.START)
            raise typer.Exit(1) from error
    raise typer.Exit(code)


def check_config(
    config: ConfigFile = None,
    *,
    defaults: Annotated[bool, typer.Option("--defaults", help="Print a file with every key and its default.")] = False,
    settings: Set = None,
) -> None:
    """Say whether the settings can be used here, with the files they name, by a line for every error (exit code 2)."""
    from coordinator.config import default_file, load_settings

    if defaults:
        sys.stdout.write(default_file())
        return
    with errors_as_lines():
        loaded = load_settings(config, flags_of(settings=settings))
        _files_must_be_usable(loaded)
        _addresses_must_be_told(loaded)
    sys.stdout.write(f"{config or 'settings'}: OK\n")


def _files_must_be_usable(settings: "Settings") -> None:
    """Read the files that a node with these settings reads when it starts; raises ConfigError as that would."""
    import structlog

    from coordinator.runtime.security.log_ins import log_ins_of
    from coordinator.runtime.security.rules import rules_of
    from coordinator.runtime.security.tls import tls_of_members, tls_of_peers

    log = structlog.wrap_logger(structlog.ReturnLogger())
    tls_of_members(settings.tls, log)
    if settings.node.mode == "cluster":
        tls_of_peers(settings.peer_tls, log)
    log_ins_of(settings, log)
    rules_of(settings.authorization, log, lambda _: None)


def _addresses_must_be_told(settings: "Settings") -> None:
    """Raise ConfigError where others could not be told the address of a node with these settings."""
    from coordinator.config import ConfigError
    from coordinator.service.lifecycle import why_untold

    own, peers = settings.node, settings.peers
    why = [why_untold("node", own.listen, own.advertised, "members")]
    if own.mode == "cluster":
        why.append(why_untold("peers", peers.listen, peers.advertised, "other nodes"))
    if any(why):
        raise ConfigError([each for each in why if each])


def version() -> None:
    """Print the versions that an error report should name."""
    sys.stdout.write(f"kcoord {metadata.version('kcoord')}\n")
    for package in ("kafka-python", "msgspec", "pyspark"):
        try:
            sys.stdout.write(f"{package} {metadata.version(package)}\n")
        except metadata.PackageNotFoundError:
            sys.stdout.write(f"{package} not installed\n")
    sys.stdout.write(f"Python {platform.python_version()} on {platform.platform()}\n")


def flags_of(
    *,
    standalone: bool = False,
    kafka: str | None = None,
    data: Path | None = None,
    listen: str | None = None,
    admin: str | None = None,
    settings: list[str] | None = None,
) -> dict[str, object]:
    """Return the settings that flags give, by dotted key."""
    from coordinator.config import ConfigError

    flags: dict[str, object] = {}
    bad = []
    for setting in settings or []:
        key, equals, value = setting.partition("=")
        if not equals or "." not in key:  # the value stays unsaid, for it may be a secret
            bad.append(f"--set {key}: is not SECTION.KEY=VALUE, such as group.rebalance_window_ms=50")
        flags[key.strip()] = value.strip()
    if bad:
        raise ConfigError(bad)
    named = {
        "node.mode": "standalone" if standalone else None,
        "kafka.bootstrap_servers": kafka,
        "node.data_dir": data,
        "node.listen": listen,
        "admin.listen": admin,
    }
    return flags | {key: value for key, value in named.items() if value is not None}


@contextmanager
def errors_as_lines() -> Iterator[None]:
    """Show a ConfigError as its lines on standard error and exit with code 2."""
    from coordinator.config import ConfigError

    try:
        yield
    except ConfigError as error:
        for line in error.lines:
            _notes.error(line, DocCode.SETTINGS)
        raise typer.Exit(_USAGE) from error
