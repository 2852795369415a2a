import contextlib
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from coordinator.client.request import ask
from coordinator.local.errors import LocalServiceError
from coordinator.local.node import LocalCoordinator
from coordinator.local.process.ports import free_ports
from coordinator.protocol.claim_columns import advance_of, claims_in_columns
from coordinator.protocol.columns import OffsetToCommit, in_columns
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    CommitOffsets,
    ConfirmClaims,
    DescribeGroup,
    FetchOffsets,
    FindCoordinator,
    FindCoordinatorResponse,
    ListGroupEvents,
    Ping,
)
from coordinator.protocol.parts import Claim, ClaimStatuses, NodeAddress, Outcomes, StartPartition
from coordinator.protocol.text.addresses import parse_address
from tests.helpers.processes import eventually, group_lives
from tests.helpers.raw_member import RawMember

if TYPE_CHECKING:
    from coordinator.local.kafka.broker import LocalKafka

NO_KAFKA = "127.0.0.1:1"


@contextmanager
def coordinator(kafka: "LocalKafka", data_dir: Path) -> Iterator[LocalCoordinator]:
    with LocalCoordinator(kafka.bootstrap_servers, data_dir) as node:
        yield node


def exit_of(node: LocalCoordinator) -> str:
    with pytest.raises(LocalServiceError) as caught:
        node.start()
    return str(caught.value)


def grants_of(owned: dict[tuple[str, int], StartPartition]) -> dict[tuple[str, int], tuple[int, int]]:
    """Return owner epoch and offset of each partition; its leader may not be known yet after a restart."""
    return {key: (start.owner_epoch, start.offset) for key, start in owned.items()}


@pytest.mark.kafka
def test_members_commits_and_owners_survive_a_sigkill_without_a_rebalance(
    kafka: "LocalKafka", topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic(4)
    with coordinator(kafka, tmp_path) as node, RawMember(node.address, "g", name) as one:
        assert one.register().error is ErrorCode.NONE
        before = one.wait_until_complete()
        assert sorted(before) == [(name, number) for number in range(4)]
        commit = one.ask(
            CommitOffsets(
                "g",
                in_columns(
                    OffsetToCommit(name, number, 10 + number, before[name, number].owner_epoch) for number in range(4)
                ),
            )
        )
        assert (commit.accepted, commit.refused) == (4, ())
        told = one.ask(ListGroupEvents("g")).events

        node.kill()
        node.start()
        one.connect()
        answer = one.register()
        after = one.wait_until_complete()

        assert answer.error is ErrorCode.NONE
        assert {key: epoch for key, (epoch, _) in grants_of(after).items()} == {
            key: epoch for key, (epoch, _) in grants_of(before).items()
        }
        offsets = {(o.topic, o.partition): o.offset for o in one.ask(FetchOffsets("g")).offsets}
        assert offsets == {(name, number): 10 + number for number in range(4)}
        events = one.ask(ListGroupEvents("g")).events
        assert "rebalance" in {event.kind for event in told}
        assert events[: len(told)] == told, "the timeline outlives the node"
        assert [event.kind for event in events[len(told) :]] == ["member-returned"]
        assert one.ask(Ping(answer.member_epoch)).error is ErrorCode.NONE


@pytest.mark.kafka
def test_a_running_claim_survives_a_sigkill(kafka: "LocalKafka", topic: Callable[..., str], tmp_path: Path) -> None:
    name = topic(1)
    with coordinator(kafka, tmp_path) as node, RawMember(node.address, "g", name) as one:
        one.register()
        start = one.wait_until_complete()[name, 0]
        claim = Claim(name, start.topic_id, 0, start.owner_epoch, start.offset, start.offset + 5)
        assert one.ask(advance_of((), (claim,))).claims == Outcomes(1)
        assert one.ask(ConfirmClaims(claims_in_columns((claim,)))).claims == ClaimStatuses(1)

        node.kill()
        node.start()
        one.connect()
        assert one.register(claims=(claim,)).claims == ClaimStatuses(1)
        one.wait_until_complete()
        assert one.ask(advance_of((claim,), ())).finished == Outcomes(1)


@pytest.mark.kafka
def test_a_clean_stop_and_start_loses_nothing_and_keeps_the_port(
    kafka: "LocalKafka", topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic(2)
    with coordinator(kafka, tmp_path) as node, RawMember(node.address, "g", name) as one:
        one.register()
        before = one.wait_until_complete()
        address = node.address
        node.restart()
        assert node.address == address
        one.connect()
        one.register()
        assert grants_of(one.wait_until_complete()) == grants_of(before)


@pytest.mark.kafka
def test_what_was_acknowledged_while_it_stopped_is_there_afterwards(
    kafka: "LocalKafka", topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic(1)
    with coordinator(kafka, tmp_path) as node, RawMember(node.address, "g", name) as one:
        one.register()
        epoch = one.wait_until_complete()[name, 0].owner_epoch
        stopping = threading.Thread(target=node.stop)
        acknowledged = 0
        with contextlib.suppress(EOFError, ConnectionError):
            for offset in range(1, 1_000_000):
                if offset == 50:
                    stopping.start()
                answer = one.ask(CommitOffsets("g", in_columns((OffsetToCommit(name, 0, offset, epoch),))))
                assert answer.accepted == 1
                acknowledged = offset
        stopping.join()
        assert acknowledged >= 49, "what came before the stop was answered"
        node.start()
        one.connect()
        (committed,) = one.ask(FetchOffsets("g")).offsets
    assert committed.offset in {acknowledged, acknowledged + 1}


@pytest.mark.kafka
def test_any_peer_learns_where_the_coordinator_and_kafka_are(kafka: "LocalKafka", tmp_path: Path) -> None:
    with coordinator(kafka, tmp_path) as node, RawMember(node.address, "g") as tool:
        found = tool.ask(FindCoordinator("g"))
    assert (found.coordinator.host, found.coordinator.port) == ("127.0.0.1", node.port)
    assert found.kafka_bootstrap == (kafka.bootstrap_servers,)


def test_without_kafka_it_serves_and_says_so(tmp_path: Path) -> None:
    with LocalCoordinator(NO_KAFKA, tmp_path) as node, RawMember(node.address, "g") as tool:
        assert tool.ask(FindCoordinator("g")).error is ErrorCode.NONE
        assert tool.ask(DescribeGroup("g")).error is ErrorCode.GROUP_ID_NOT_FOUND
        assert eventually(lambda: f"Kafka at {NO_KAFKA} cannot be reached: Connection refused" in node.log_tail())
        assert "Traceback" not in node.log_path.read_text()


def test_strangers_are_one_line_each_and_no_traceback(tmp_path: Path) -> None:
    with LocalCoordinator(NO_KAFKA, tmp_path) as node:
        for greeting in (b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00" + b"x" * 64, struct.pack(">i", 1 << 30)):
            with socket.create_connection(("127.0.0.1", node.port), 10) as stranger:
                stranger.sendall(greeting)
                while stranger.recv(4096):
                    pass
        assert eventually(lambda: node.log_path.read_text().count('"stranger"') == 3)
        assert "Traceback" not in node.log_path.read_text()


def test_a_port_in_use_is_a_clear_error(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = exit_of(LocalCoordinator(NO_KAFKA, tmp_path, port=port))
    assert "exit code 1" in said
    assert f"error: cannot listen on 127.0.0.1:{port}: " in said
    assert "Traceback" not in said


def test_every_address_without_an_advertised_one_is_a_clear_error(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "coordinator", "serve", "--data", str(tmp_path), "--listen", "0.0.0.0:0"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert (
        "error: node.listen is 0.0.0.0:0, which is every address of this machine: set node.advertised" in ended.stderr
    )
    assert "Traceback" not in ended.stderr


def test_a_data_directory_in_use_is_a_clear_error(tmp_path: Path) -> None:
    with LocalCoordinator(NO_KAFKA, tmp_path):
        said = exit_of(LocalCoordinator(NO_KAFKA, tmp_path))
    assert "error: the data directory" in said
    assert "Traceback" not in said


def test_a_data_directory_that_is_a_file_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("x")
    said = exit_of(LocalCoordinator(NO_KAFKA, tmp_path))
    assert "error: the data directory" in said
    assert "This is a file, and a directory is needed: look at --data (node.data_dir)" in said
    assert "Traceback" not in said


def test_the_parent_of_a_data_directory_is_a_clear_error(tmp_path: Path) -> None:
    with LocalCoordinator(NO_KAFKA, tmp_path / "data"):
        pass
    said = exit_of(LocalCoordinator(NO_KAFKA, tmp_path))
    assert "exit code 1" in said
    assert f"{tmp_path / 'data' / 'data'} does: is it the one that was meant?" in said
    assert "Traceback" not in said


def test_an_empty_data_directory_is_said_when_it_is_taken_and_never_again(tmp_path: Path) -> None:
    for _ in range(2):
        with LocalCoordinator(NO_KAFKA, tmp_path) as node:
            pass
    warned = [line for line in node.log_path.read_text().splitlines() if "new-data-directory" in line]
    assert len(warned) == 1
    assert f"{tmp_path / 'data'} was empty: no group is known" in warned[0]
    assert '"warning"' in warned[0]


@pytest.mark.kafka
def test_a_damaged_log_is_refused_with_the_file_and_place(
    kafka: "LocalKafka", topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic(1)
    with coordinator(kafka, tmp_path) as node, RawMember(node.address, "g", name) as one:
        one.register()
        start = one.wait_until_complete()[name, 0]
        for offset in range(1, 20):
            one.ask(CommitOffsets("g", in_columns((OffsetToCommit(name, 0, offset, start.owner_epoch),))))
        node.kill()
        damaged = next(
            log for log in sorted((tmp_path / "data").glob("shard-*/*.log")) if name.encode() in log.read_bytes()
        )
        content = bytearray(damaged.read_bytes())
        content[content.index(name.encode())] ^= 0xFF
        damaged.write_bytes(content)
        said = exit_of(node)
    assert "exit code 1" in said
    assert str(damaged) in said
    assert "Traceback" not in said


def test_no_orphan_is_left_when_the_owner_is_killed(tmp_path: Path) -> None:
    script = (
        "import sys, time; from pathlib import Path; from coordinator.local.node import LocalCoordinator\n"
        f"node = LocalCoordinator({NO_KAFKA!r}, Path({str(tmp_path)!r})); node.start()\n"
        "print(node.process_group_id, flush=True); time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        group_id = int(owner.stdout.readline())
        assert group_lives(group_id)
        owner.send_signal(signal.SIGKILL)
        owner.wait()
    assert eventually(lambda: not group_lives(group_id))


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
def test_the_command_stops_cleanly_on_sigterm_and_prints_an_address_that_tools_take(tmp_path: Path, host: str) -> None:
    command = [sys.executable, "-m", "coordinator", "serve", "--standalone", "--kafka", NO_KAFKA]
    environment = os.environ | {"KCOORD_LOG_LEVEL": "warning"}
    with subprocess.Popen(
        [*command, "--data", str(tmp_path / "data"), "--listen", f"{host}:0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
    ) as node:
        assert node.stdout is not None
        line = node.stdout.readline()
        assert line.startswith(f"kcoord: listening on {host}:")
        address = parse_address(line.split()[-1])
        answer = ask((address,), FindCoordinator("g"), 10)
        assert isinstance(answer, FindCoordinatorResponse)
        assert answer.coordinator == NodeAddress(1, *address)
        node.terminate()
        assert node.wait(60) == 0
        assert node.stdout.read() == ""


@pytest.mark.kafka
def test_dev_up_prints_all_addresses_and_stops_all(tmp_path: Path) -> None:
    port, kafka_port, admin_port = free_ports(3)
    command = [sys.executable, "-m", "coordinator", "dev", "up", "--data", str(tmp_path)]
    with subprocess.Popen(
        [*command, "--port", str(port), "--kafka-port", str(kafka_port), "--admin-port", str(admin_port)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as up:
        assert up.stdout is not None
        assert up.stdout.readline() == f"kafka 127.0.0.1:{kafka_port}\n"
        assert up.stdout.readline() == f"coordinator 127.0.0.1:{port}\n"
        assert up.stdout.readline() == f"metrics http://127.0.0.1:{admin_port}/metrics\n"
        with urllib.request.urlopen(f"http://127.0.0.1:{admin_port}/metrics", timeout=30) as said:
            assert b"kcoord_build_info" in said.read()
        with RawMember(f"127.0.0.1:{port}", "g") as tool:
            assert tool.ask(FindCoordinator("g")).error is ErrorCode.NONE
        name, url = up.stdout.readline().split()
        assert name == "console"
        with urllib.request.urlopen(f"{url}api/v1/overview", timeout=30) as said:
            assert said.status == 200
        up.send_signal(signal.SIGINT)
        assert up.wait(60) == 0
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), 5)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(parse_address(url.removeprefix("http://").rstrip("/")), 5)
