"""The console as a process beside a real coordinator with a real Kafka."""

import json
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
from typer.testing import CliRunner

from coordinator.cli import app
from coordinator.console.web.changes import STREAMS
from coordinator.local.console import LocalConsole
from tests.helpers.kafka_topics import produce_numbers
from tests.helpers.processes import eventually
from tests.helpers.raw_member import RawMember

if TYPE_CHECKING:
    from coordinator.local.kafka.broker import LocalKafka
    from coordinator.local.node import LocalCoordinator

pytestmark = pytest.mark.kafka

TIMEOUT_S = 2.0
"""A page that waits for a coordinator which hangs takes as long, each time that it is asked for."""


def ask(console: LocalConsole, path: str) -> Any:
    with urllib.request.urlopen(f"{console.url}api/v1/{path}", timeout=30) as said:
        return json.loads(said.read())


def test_a_console_shows_a_real_group_and_outlives_its_coordinator(
    kafka: "LocalKafka", topic: Callable[..., str], own_coordinator: "LocalCoordinator", tmp_path: Path
) -> None:
    name, node = topic(2), own_coordinator
    produce_numbers(kafka.bootstrap_servers, name, 2, 0, 30)
    flags = ("--refresh", "0.3", "--timeout", "20")
    with (
        LocalConsole(node.address, tmp_path / "console", flags=flags) as console,
        RawMember(node.address, "g & <b>", name) as member,
    ):
        assert ask(console, "overview")["nodes"] in (None, 1)
        member.register()
        member.wait_until_complete()
        assert eventually(lambda: ask(console, "groups?search=G%20%26")["total"] == 1)
        details = "groups/g%20%26%20%3Cb%3E"

        def partitions() -> list[tuple[Any, ...]]:
            rows = ask(console, f"{details}/partitions")["rows"]
            return [(row["committed"], row["end"], row["consumer_id"], row["client_id"]) for row in rows]

        # What is shown is what the last round has heard, which may have come before the assignment, or Kafka's answer.
        assert eventually(lambda: partitions() == [(0, 15, member.member_id, "raw")] * 2), partitions()
        assert [row["assignment"] for row in ask(console, f"{details}/members")["rows"]] == [f"{name}:0-1"]
        kinds = {row["kind"] for row in ask(console, f"{details}/events")["rows"]}
        assert {"member-joined", "rebalance", "granted"} <= kinds
        assert [row["topic"] for row in ask(console, "topics")["rows"]] == [name]

        node.kill()
        assert eventually(lambda: ask(console, "overview")["trouble"] is not None)
        assert ask(console, "groups")["total"] == 1
        assert eventually(lambda: "cannot be reached" in ask(console, "groups")["trouble"])
        node.start()
        assert eventually(lambda: ask(console, "overview")["trouble"] is None)


def test_a_console_that_nobody_answers_starts_says_so_and_ends_when_asked(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "coordinator",
        "console",
        "--coordinator",
        "127.0.0.1:1",
        "--listen",
        "127.0.0.1:0",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        url = line.removeprefix("kcoord: console on ").strip()

        def trouble() -> str | None:
            with urllib.request.urlopen(f"{url}api/v1/overview", timeout=30) as said:
                return json.loads(said.read())["trouble"]

        assert eventually(lambda: "127.0.0.1:1 cannot be reached" in (trouble() or ""))
        with urllib.request.urlopen(f"{url}api/v1/changes", timeout=30) as stream:
            assert stream.readline() == b"retry: 2000\n"
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""


def test_a_console_refuses_to_listen_where_others_could_reach_it() -> None:
    said = CliRunner().invoke(app, ["console", "--coordinator", "127.0.0.1:1", "--listen", "0.0.0.0:7480"])
    assert said.exit_code == 2
    assert "name a certificate and its key with --tls-certificate" in " ".join(said.output.replace("│", " ").split())


def test_a_port_that_is_taken_is_said_with_what_to_do(own_coordinator: "LocalCoordinator") -> None:
    words = ["console", "--coordinator", own_coordinator.address, "--listen", own_coordinator.address]
    said = CliRunner().invoke(app, words)
    assert said.exit_code == 1
    assert "the console cannot listen at" in said.output
    assert "port 0" in said.output


def test_acts_of_a_console_are_done_by_a_real_coordinator_and_told_on_the_timeline(
    kafka: "LocalKafka", topic: Callable[..., str], own_coordinator: "LocalCoordinator", tmp_path: Path
) -> None:
    name, node = topic(1), own_coordinator
    produce_numbers(kafka.bootstrap_servers, name, 1, 0, 30)

    def act(what: str, status: int = 200, **said: Any) -> Any:
        path = f"{console.url}api/v1/groups/g/acts/{what}"
        answer = httpx2.post(path, json=said, headers={"X-Kcoord-Console": "test"}, trust_env=False)
        assert answer.status_code == status, answer.text
        return answer.json()

    flags = ("--refresh", "0.3", "--allow-changes")
    with LocalConsole(node.address, tmp_path / "console", flags=flags) as console:
        with RawMember(node.address, "g", name) as member:
            member.register()
            member.wait_until_complete()
            shown = act("reset-offsets", to="offset", value="12")
            assert [(row["old_offset"], row["new_offset"], row["delta"]) for row in shown["rows"]] == [(0, 12, 12)]
            assert act("delete-group", 409)["error"] == "refused"
            assert act("reset-offsets", 400, to="latest", dry_run=False, why="w")["error"] == "bad_query"
            assert act("drain", 409, member="nobody")["error"] == "refused"
            done = act("pause", dry_run=False, why="a deploy")
            assert (done["is_dry_run"], [row["state"] for row in done["rows"]]) == (False, ["let go"])
            controls = ask(console, "groups/g/controls")
            assert [(one["kind"], one["why"]) for one in controls] == [("group-paused", "a deploy")]
            assert controls[0]["who"].endswith(" by console")
            kinds = [row["kind"] for row in ask(console, "groups/g/events?kind=paused")["rows"]]
            assert kinds == ["paused"]
        assert act("nothing-such", 400)["message"].startswith("there is no act 'nothing-such'")


def comes_soon(url: str) -> bool:
    """Say whether a page, which says that the coordinator hangs, has not waited for it."""
    began_s = time.monotonic()
    with urllib.request.urlopen(url, timeout=30) as said:
        assert "did not answer within" in said.read().decode()
    return time.monotonic() - began_s < TIMEOUT_S / 2


def test_a_coordinator_that_hangs_keeps_no_page_waiting_for_long(
    topic: Callable[..., str], own_coordinator: "LocalCoordinator", tmp_path: Path
) -> None:
    flags = ("--refresh", "0.3", "--timeout", f"{TIMEOUT_S:g}")
    with (
        LocalConsole(own_coordinator.address, tmp_path / "console", flags=flags) as console,
        RawMember(own_coordinator.address, "g", topic(1)) as member,
    ):
        member.register()
        assert eventually(lambda: ask(console, "overview")["described"] == 1)
        own_coordinator.pause()
        try:
            assert eventually(lambda: ask(console, "overview")["trouble"] is not None)
            for path in ("groups/g", "groups/g/members", "groups", ""):
                assert eventually(partial(comes_soon, f"{console.url}{path}"))
        finally:
            own_coordinator.resume()
        assert eventually(lambda: ask(console, "overview")["trouble"] is None)


def test_more_streams_than_are_allowed_at_once_are_refused_and_their_places_are_free_again(tmp_path: Path) -> None:
    def refused(console: LocalConsole, count: int) -> int:
        sockets = [socket.create_connection(("127.0.0.1", console.port), 60) for _ in range(count)]
        for one in sockets:
            one.sendall(b"GET /api/v1/changes HTTP/1.1\r\nHost: localhost\r\n\r\n")
        found = sum(one.recv(30).startswith(b"HTTP/1.1 503") for one in sockets)
        for one in sockets:
            one.close()
        return found

    with LocalConsole("127.0.0.1:1", tmp_path) as console:
        assert refused(console, STREAMS + 6) == 6
        assert eventually(lambda: refused(console, STREAMS) == 0)
