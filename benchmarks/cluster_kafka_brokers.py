"""Three Kafka brokers of one cluster, each of them a controller as well (KRaft), that can be killed and started again.

Offsets have three replicas, two of which have to be in sync, as kcoord's logs have. Knows nothing of what is measured.
"""

import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from kafka import KafkaAdminClient
from kafka.errors import KafkaError

from benchmarks.group_kafka import BROKER, JVM, OFFSETS_TOPIC
from coordinator.local.kafka.broker import LocalKafka
from coordinator.local.kafka.storage import new_id
from coordinator.local.process.ports import LOOPBACK, free_ports

BROKERS: Final = (1, 2, 3)
_REPLICATED: Final = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
}
_TIMEOUT_MS: Final = 5_000


class KafkaBroker(LocalKafka):
    """One of the three; it is ready when it names itself among the brokers."""

    def __init__(self, number: int, ports: Mapping[int, tuple[int, int]], cluster_id: str, directory: Path) -> None:
        port, controller_port = ports[number]
        voters = ",".join(f"{other}@{LOOPBACK}:{controller}" for other, (_, controller) in ports.items())
        config = {
            **BROKER,
            **_REPLICATED,
            "node.id": str(number),
            "controller.quorum.voters": voters,
            "listeners": f"PLAINTEXT://{LOOPBACK}:{port},CONTROLLER://{LOOPBACK}:{controller_port}",
            "advertised.listeners": f"PLAINTEXT://{LOOPBACK}:{port}",
        }
        super().__init__(
            directory / f"broker-{number}",
            port=port,
            heap_mb=1024,
            config=config,
            jvm_options=JVM,
            cluster_id=cluster_id,
            start_timeout_s=120.0,
        )
        self.number = number

    def _why_not_ready(self) -> str:
        if not self._listens():
            return "nothing listens yet"
        try:
            with _admin(self.port) as admin:
                there = {broker["broker_id"] for broker in admin.describe_cluster()["brokers"]}
        except KafkaError as error:
            return f"{type(error).__name__}: {error}"
        return "" if self.number in there else f"the cluster's brokers are {sorted(there)}"


class KafkaBrokers:
    """The three; a context manager that leaves none."""

    def __init__(self, directory: Path) -> None:
        free = free_ports(2 * len(BROKERS))
        ports = {number: (free[2 * at], free[2 * at + 1]) for at, number in enumerate(BROKERS)}
        cluster_id = new_id()
        self._brokers = {number: KafkaBroker(number, ports, cluster_id, directory) for number in BROKERS}

    def __enter__(self) -> Self:
        """Start all; return when all are ready."""
        with ExitStack() as undo:
            undo.callback(self._kill_all)
            for broker in self._brokers.values():
                broker.begin()
            for broker in self._brokers.values():
                broker.await_ready()
            undo.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End all."""
        self._kill_all()

    @property
    def ports(self) -> dict[int, int]:
        """Return the port of each broker by its id."""
        return {number: broker.port for number, broker in self._brokers.items()}

    def create_topic(self, name: str, partitions: int) -> None:
        """Create a topic with one replica; only its partitions are given to members."""
        self._brokers[BROKERS[0]].create_topic(name, partitions)

    def kill(self, number: int) -> None:
        """End a broker with SIGKILL."""
        self._brokers[number].kill()

    def start_again(self, number: int, meanwhile: Callable[[Callable[[], bool]], None]) -> None:
        """Start a broker; `meanwhile` is called with how to ask whether it is ready, and returns when it is."""
        broker = self._brokers[number]
        broker.begin()
        failed: list[BaseException] = []

        def wait() -> None:
            try:
                broker.await_ready()
            except BaseException as error:  # noqa: BLE001 - raised where it is waited for
                failed.append(error)

        thread = threading.Thread(target=wait)
        thread.start()
        meanwhile(lambda: not thread.is_alive())
        thread.join()
        if failed:
            raise failed[0]

    def is_whole(self) -> bool:
        """Say whether every partition of the offsets has all replicas in sync."""
        try:
            with _admin(self._brokers[BROKERS[0]].port) as admin:
                (topic,) = admin.describe_topics([OFFSETS_TOPIC])
        except KafkaError:
            return False
        partitions: list[dict[str, Any]] = topic["partitions"]
        return bool(partitions) and all(len(_isr_of(one)) == len(BROKERS) for one in partitions)

    def _kill_all(self) -> None:
        for broker in self._brokers.values():
            broker.kill()


def _isr_of(partition: Mapping[str, Any]) -> list[int]:
    found: list[int] = partition["isr_nodes"]
    return found


def _admin(port: int) -> KafkaAdminClient:
    return KafkaAdminClient(
        bootstrap_servers=f"{LOOPBACK}:{port}", bootstrap_timeout_ms=_TIMEOUT_MS, request_timeout_ms=_TIMEOUT_MS
    )
