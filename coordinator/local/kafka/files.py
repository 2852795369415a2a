"""The files a local broker is started from: its properties and its logging, as text.

One node is broker and controller in one process (KRaft), replication is 1 everywhere, retention is off
because the data directory is the retention. Decides nothing about when they are written.
"""

from collections.abc import Mapping
from pathlib import Path

from coordinator.local.process.ports import LOOPBACK

NODE_ID = 1

_FIXED = {
    "process.roles": "broker,controller",
    "node.id": str(NODE_ID),
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": ",".join(
        f"{name}:{name}" for name in ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
    )
    + ",CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "num.partitions": "8",
    "default.replication.factor": "1",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
    "log.retention.ms": "-1",
    "log.segment.bytes": str(256 * 1024 * 1024),
    "log.cleaner.dedupe.buffer.size": str(16 * 1024 * 1024),
    "message.max.bytes": str(16 * 1024 * 1024),
    "metadata.max.idle.interval.ms": "0",  # no record every 500 ms of a controller that has nobody to tell it to
    "num.network.threads": "2",
    "num.io.threads": "4",
    "num.recovery.threads.per.data.dir": "1",
}


def broker_properties(
    storage: Path,
    port: int,
    controller_port: int,
    overrides: Mapping[str, str],
    secure_ports: Mapping[str, int] | None = None,
) -> str:
    """Return `server.properties`; an override wins over what it would have been.

    `secure_ports` are ports by security protocol of listeners beside the plain one; keys and logins of theirs are
    overrides.
    """
    ports = {"PLAINTEXT": port, **(secure_ports or {})}
    for_clients = ",".join(f"{protocol}://{LOOPBACK}:{number}" for protocol, number in ports.items())
    properties = {
        **_FIXED,
        "controller.quorum.voters": f"{NODE_ID}@{LOOPBACK}:{controller_port}",
        "listeners": f"{for_clients},CONTROLLER://{LOOPBACK}:{controller_port}",
        "advertised.listeners": for_clients,
        "log.dirs": str(storage),
        **overrides,
    }
    return "".join(f"{name}={escaped(value)}\n" for name, value in properties.items())


def logging_properties(level: str) -> str:
    """Return `log4j2.properties`: everything from `level` up goes to standard output."""
    return (
        "status=error\n"
        f"rootLogger.level={level.lower()}\n"
        "rootLogger.appenderRef.console.ref=Console\n"
        "appender.console.type=Console\n"
        "appender.console.name=Console\n"
        "appender.console.layout.type=PatternLayout\n"
        "appender.console.layout.pattern=[%d] %p %m (%c)%n\n"
    )


def escaped(value: str) -> str:
    """Return a value as Java reads it in a file of properties, which is Latin-1 whatever the machine writes."""
    plain = value.replace("\\", "\\\\").replace("\n", "\\n")
    return "".join(letter if letter.isascii() else _as_units(letter) for letter in plain)


def _as_units(letter: str) -> str:
    data = letter.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{data[at] << 8 | data[at + 1]:04x}" for at in range(0, len(data), 2))
