"""Kafka's own kafka-consumer-groups.sh: the class that the script runs, in one JVM for many calls."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from coordinator.local.java.jars import JarSet, Module, resolve_jars
from coordinator.local.java.runtime import find_java
from coordinator.local.kafka.broker import KAFKA_JARS, QUICK_START

_KAFKA: Final = KAFKA_JARS.modules[0]
TOOLS_JARS: Final = JarSet(
    name="kafka-tools",
    modules=(Module(_KAFKA.organisation, "kafka-tools", _KAFKA.version),),
    jar_count=1,
    has_dependencies=False,
)


@dataclass(frozen=True, slots=True)
class Said:
    """The output of one call."""

    out: str
    err: str

    @property
    def offsets(self) -> dict[tuple[str, int], int]:
        """The committed offsets of a description by topic and partition."""
        rows = [line.split() for line in self.out.splitlines()]
        header = next((row for row in rows if row[:3] == ["GROUP", "TOPIC", "PARTITION"]), None)
        if header is None:
            return {}
        at = header.index("CURRENT-OFFSET")
        return {
            (row[1], int(row[2])): int(row[at])
            for row in rows
            if len(row) == len(header) and row is not header and row[at] != "-"
        }


class ConsumerGroupsTool:
    """The tool against one Kafka."""

    def __init__(self, gateway: JavaGateway, servers: str, timeout_ms: int) -> None:
        self._gateway = gateway
        self._jvm: Any = gateway.jvm
        self._servers = servers
        self._timeout_ms = timeout_ms

    def run(self, *words: str) -> Said:
        """Run `kafka-consumer-groups.sh --bootstrap-server ... WORDS` and return what it says."""
        command = ["--bootstrap-server", self._servers, "--timeout", str(self._timeout_ms), *words]
        arguments = self._gateway.new_array(self._jvm.java.lang.String, len(command))
        for at, word in enumerate(command):
            arguments[at] = word
        system = self._jvm.java.lang.System
        outputs = [self._jvm.java.io.ByteArrayOutputStream() for _ in range(2)]
        before = system.out, system.err
        streams = [self._jvm.java.io.PrintStream(output) for output in outputs]
        system.setOut(streams[0])
        system.setErr(streams[1])
        try:
            self._jvm.org.apache.kafka.tools.consumer.group.ConsumerGroupCommand.main(arguments)
        finally:
            system.setOut(before[0])
            system.setErr(before[1])
        return Said(*(output.toString() for output in outputs))

    def describe(self, group: str) -> Said:
        """Describe a group."""
        return self.run("--describe", "--group", group)


@contextmanager
def consumer_groups_tool(servers: str, timeout_ms: int = 20_000) -> Iterator[ConsumerGroupsTool]:
    """Run a JVM with the tool in it, gone when the block ends."""
    port, process = launch_gateway(
        classpath=":".join(str(jar) for jars in (TOOLS_JARS, KAFKA_JARS) for jar in resolve_jars(jars)),
        javaopts=["-Xmx128m", *QUICK_START],
        java_path=str(find_java().executable),
        die_on_exit=True,
        return_proc=True,
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auto_convert=True))
    try:
        yield ConsumerGroupsTool(gateway, servers, timeout_ms)
    finally:
        gateway.shutdown()
        process.stdin.close()
        process.wait(timeout=20)
