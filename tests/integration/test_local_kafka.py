"""The embedded broker is real: ready when it says so, durable, gone with its owner, clear when it fails."""

import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition

from coordinator.local.errors import LocalServiceError
from coordinator.local.kafka.broker import LocalKafka
from coordinator.local.kafka.readiness import why_not_ready
from coordinator.local.process.ports import LOOPBACK, free_ports
from tests.helpers.processes import eventually, group_lives

pytestmark = pytest.mark.kafka

ROOT = Path(__file__).parents[2]
DEV_KAFKA = [sys.executable, "-W", "ignore", "-c", "from coordinator.cli import main; main()", "dev", "kafka"]


def produce(broker: LocalKafka, topic: str, values: list[bytes]) -> None:
    with KafkaProducer(bootstrap_servers=broker.bootstrap_servers, acks="all") as producer:
        for future in [producer.send(topic, value=value, partition=0) for value in values]:
            future.get(timeout=30)


def consume(broker: LocalKafka, topic: str, count: int) -> list[bytes]:
    with KafkaConsumer(
        bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest", group_id=None
    ) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        values: list[bytes] = []

        def got_them() -> bool:
            values.extend(record.value for records in consumer.poll(500).values() for record in records)
            return len(values) >= count

        assert eventually(got_them), f"only {len(values)} of {count} records came"
        return values


def test_a_started_broker_takes_and_gives_records(kafka: LocalKafka, topic: Callable[..., str]) -> None:
    name = topic(partitions=3)
    values = [b"one", b"two", b"three"]
    produce(kafka, name, values)
    assert consume(kafka, name, 3) == values


def test_a_started_broker_is_the_one_that_was_formatted_here(kafka: LocalKafka) -> None:
    with KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers) as admin:
        cluster = admin.describe_cluster()
    assert cluster["cluster_id"] == kafka.cluster_id
    assert [(broker["host"], broker["port"]) for broker in cluster["brokers"]] == [(LOOPBACK, kafka.port)]


def test_a_topic_that_exists_cannot_be_created_again(kafka: LocalKafka, topic: Callable[..., str]) -> None:
    name = topic()
    with pytest.raises(LocalServiceError, match=f"Topic '{name}' exists on"):
        kafka.create_topic(name)


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[LocalKafka]:
    """Return a broker that a test may stop and kill; a lost session is noticed soon."""
    with LocalKafka(tmp_path / "kafka", config={"broker.session.timeout.ms": "2000"}) as broker:
        yield broker


def test_data_ports_and_cluster_survive_restart_and_kill(own_broker: LocalKafka, tmp_path: Path) -> None:
    before = (own_broker.port, own_broker.cluster_id)
    own_broker.create_topic("kept")
    produce(own_broker, "kept", [b"one"])

    own_broker.restart()
    assert (own_broker.port, own_broker.cluster_id) == before
    assert consume(own_broker, "kept", 1) == [b"one"]
    produce(own_broker, "kept", [b"two"])

    group_id = own_broker.process_group_id
    own_broker.kill()
    assert not group_lives(group_id)
    assert not own_broker.is_running
    own_broker.start()
    assert consume(own_broker, "kept", 2) == [b"one", b"two"]

    own_broker.stop()
    assert not own_broker.is_running
    with LocalKafka(tmp_path / "kafka") as again:
        assert again.cluster_id == before[1]
        assert consume(again, "kept", 2) == [b"one", b"two"]


def test_the_broker_is_gone_when_its_owner_is_killed(tmp_path: Path) -> None:
    script = (
        "import sys, threading\nfrom pathlib import Path\nfrom coordinator.local.kafka.broker import LocalKafka\n"
        "broker = LocalKafka(Path(sys.argv[1]))\nbroker.start()\n"
        "print(broker.process_group_id, broker.port, flush=True)\nthreading.Event().wait()\n"
    )
    arguments = [sys.executable, "-W", "ignore", "-c", script, str(tmp_path / "kafka")]
    with subprocess.Popen(arguments, cwd=ROOT, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        group_id, port = map(int, owner.stdout.readline().split())
        assert group_lives(group_id)
        owner.kill()
    assert eventually(lambda: not group_lives(group_id))
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((LOOPBACK, port), timeout=1)


def test_a_wrong_setting_fails_with_what_kafka_says(tmp_path: Path) -> None:
    broker = LocalKafka(tmp_path, config={"num.io.threads": "many"})
    with pytest.raises(LocalServiceError, match=r"(?s)exit code 1.*Invalid value many for .*num\.io\.threads"):
        broker.start()
    assert not broker.is_running


def test_a_broker_that_ends_while_it_starts_fails_with_the_end_of_its_log(tmp_path: Path) -> None:
    with LocalKafka(tmp_path) as first:
        cluster_id = first.cluster_id
    broker = LocalKafka(tmp_path, jvm_options=["-XX:NoSuchOption"])
    with pytest.raises(LocalServiceError, match=r"(?s)exit code 1.*broker\.log.*NoSuchOption"):
        broker.start()
    assert broker.cluster_id == cluster_id
    assert not broker.is_running


def test_a_port_in_use_is_refused_by_its_number(tmp_path: Path) -> None:
    with socket.create_server((LOOPBACK, free_ports(1)[0])) as other:
        port = other.getsockname()[1]
        with pytest.raises(LocalServiceError, match=f"Port {port} is in use"):
            LocalKafka(tmp_path, port=port).start()


def test_port_of_the_controller_taken_after_it_was_chosen_is_exchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server((LOOPBACK, free_ports(1)[0])) as other:
        chosen = iter([(other.getsockname()[1],)])
        monkeypatch.setattr(
            "coordinator.local.kafka.broker.free_ports", lambda count: next(chosen, None) or free_ports(count)
        )
        (port,) = free_ports(1)
        with LocalKafka(tmp_path, port=port) as broker:
            assert broker.port == port
        assert next(chosen, None) is None


def test_readiness_is_what_a_client_sees(kafka: LocalKafka) -> None:
    assert why_not_ready(kafka.port, kafka.cluster_id) is None
    with pytest.raises(LocalServiceError, match=f"belongs to cluster {kafka.cluster_id}, not another"):
        why_not_ready(kafka.port, "another")


def test_an_open_port_is_not_readiness() -> None:
    with socket.create_server((LOOPBACK, free_ports(1)[0])) as silent:
        reason = why_not_ready(silent.getsockname()[1], "any", timeout_ms=300)
    assert reason is not None
    assert "KafkaTimeoutError" in reason


def test_dev_kafka_prints_its_address_and_ends_cleanly_on_ctrl_c(tmp_path: Path) -> None:
    with subprocess.Popen(
        [*DEV_KAFKA, "--data", str(tmp_path / "data")],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as verb:
        assert verb.stdout is not None
        address = verb.stdout.readline().strip()
        with KafkaAdminClient(bootstrap_servers=address) as admin:
            assert len(admin.describe_cluster()["brokers"]) == 1
        verb.send_signal(signal.SIGINT)
        rest, notes = verb.communicate(timeout=60)
    assert (verb.returncode, rest) == (0, "")
    assert notes.splitlines() == [
        f"Kafka is ready on {address}, data in {tmp_path / 'data'}; Ctrl-C stops it.",
        "stopped",
    ]
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((LOOPBACK, int(address.rpartition(":")[2])), timeout=1)


def test_dev_kafka_says_why_it_cannot_start(tmp_path: Path) -> None:
    with socket.create_server((LOOPBACK, free_ports(1)[0])) as other:
        port = str(other.getsockname()[1])
        verb = subprocess.run(
            [*DEV_KAFKA, "--port", port],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
    assert (verb.returncode, verb.stdout) == (1, "")
    assert verb.stderr.startswith(f"error: Port {port} is in use")
