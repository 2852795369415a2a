"""A console that listens for other machines, beside a real node where people log in: TLS, passwords, tokens, rules."""

import json
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
from typer.testing import CliRunner

from coordinator.cli import app
from coordinator.client.request import ask
from coordinator.client.security import Coordinators, security_of_options
from coordinator.protocol.columns import OffsetToCommit, in_columns
from coordinator.protocol.messages import CommitOffsets, CommitOffsetsResponse
from coordinator.protocol.text.addresses import parse_addresses
from coordinator.runtime.security.users_store import add_password
from tests.browser.chromium import a_browser
from tests.helpers.certificates import lock
from tests.helpers.node_process import NO_KAFKA
from tests.helpers.processes import eventually
from tests.helpers.secured_node import PASSWORD, Secured, secured, signed

if TYPE_CHECKING:
    from coordinator.local.node import LocalCoordinator

RULES = """
allow User:console describe group literal *
allow User:console describe cluster
allow User:alice alter group literal hers
allow User:robot describe group prefix his
allow User:robot describe cluster
allow User:root all group literal *
allow User:root all topic literal *
"""
KEY_PASSWORD = "c4n4ry-k3y-p4ssw0rd"
OTHER_PASSWORD = "c4n4ry-0th3r-p4ssw0rd"
TOKEN_S = 8
"""The time that a token is good for which ends within a test: long enough for one request on a slow machine."""


class Console:
    """The real command as a child, and requests to it as somebody."""

    def __init__(self, on: Secured, folder: Path, *flags: str) -> None:
        config = folder / "console.properties"
        config.touch(mode=0o600)
        lines = on.by_password("console") | {"kcoord.sasl.mechanism": "SCRAM-SHA-256"}
        config.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
        self.log_path = folder / "console.log"
        command = [sys.executable, "-m", "coordinator", "--command-config", str(config), "console"]
        command += ["--coordinator", on.address, "--refresh", "0.3", *flags]
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self._trusted = ssl.create_default_context(cafile=on.trusting["kcoord.ssl.ca.location"])
        assert eventually(lambda: "kcoord: console on" in self.said or self.process.poll() is not None, 60)
        assert "kcoord: console on https://" in self.said, self.said
        self.port = int(self.said.partition("console on https://")[2].split("/")[0].rpartition(":")[2])

    @property
    def said(self) -> str:
        return self.log_path.read_text()

    def get(self, path: str, log_in: tuple[str, str] | str | None, **headers: str) -> httpx2.Response:
        return self.ask("GET", path, log_in, headers)

    def ask(
        self, method: str, path: str, log_in: tuple[str, str] | str | None, headers: dict[str, str], body: Any = None
    ) -> httpx2.Response:
        auth = log_in if isinstance(log_in, tuple) else None
        if isinstance(log_in, str):
            headers = headers | {"Authorization": f"Bearer {log_in}"}
        url = f"https://localhost:{self.port}{path}"
        with httpx2.Client(verify=self._trusted, trust_env=False, timeout=20) as client:
            return client.request(method, url, headers=headers, auth=auth, json=body)

    def groups(self, log_in: tuple[str, str] | str) -> list[str]:
        said = self.get("/api/v1/groups", log_in)
        return [row["group"] for row in said.json()["rows"]] if said.status_code == 200 else [str(said.status_code)]


@contextmanager
def console_beside(on: Secured, folder: Path, *flags: str) -> Iterator[Console]:
    web, password = on.authority.pair("web", "localhost"), folder / "key.password"
    lock(web, KEY_PASSWORD)
    password.write_text(KEY_PASSWORD)
    files = ("--tls-certificate", str(web.certificate), "--tls-key", str(web.key))
    console = Console(on, folder, *files, "--tls-key-password-file", str(password), *flags)
    try:
        yield console
    finally:
        console.process.terminate()
        assert console.process.wait(60) == 0


def commit(on: Secured, *groups: str) -> None:
    coordinators = Coordinators(parse_addresses(on.address), security_of_options(on.by_password("root"), {}))
    for group in groups:
        said = ask(coordinators, CommitOffsets(group, in_columns([OffsetToCommit("t", 0, 7)])), 20)
        assert isinstance(said, CommitOffsetsResponse)


@dataclass
class Scene:
    """A node where people log in, with three groups, and a console that other machines reach."""

    on: Secured
    console: Console
    audit: Path


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("console")
    audit = folder / "audit.log"
    more = ("tls.look_ms=200", "authentication.token_leeway_ms=0", f"audit.file={audit}")
    people = ("alice", "console", "root", "stranger")
    with (
        secured(folder, NO_KAFKA, RULES, *more, people=people) as on,
        console_beside(on, folder, "--listen", "0.0.0.0:0", "--allow-changes") as console,
    ):
        commit(on, "hers", "his-1", "his-2")
        assert eventually(lambda: console.groups(("root", PASSWORD)) == ["hers", "his-1", "his-2"])
        yield Scene(on, console, audit)


def test_a_browser_brings_the_log_in_along_with_pages_parts_and_the_stream(scene: Scene) -> None:
    url = f"https://localhost:{scene.console.port}"
    log_in = {"username": "alice", "password": PASSWORD}
    troubles: list[str] = []
    with a_browser() as browser:
        page = browser.new_context(ignore_https_errors=True, http_credentials=log_in).new_page()
        page.on("console", lambda said: troubles.append(said.text))
        page.on("pageerror", lambda error: troubles.append(str(error)))
        with page.expect_response(f"{url}/api/v1/changes") as stream:
            page.goto(f"{url}/groups")
        assert stream.value.status == 200
        rows = page.locator("tbody tr")
        assert rows.count() == 1
        assert "hers" in rows.first.inner_text()
        assert "logged in as alice" in page.locator("footer").inner_text()
        page.goto(f"{url}/groups/hers/acts")
        page.get_by_role("button", name="Show what pause would do").click()
        page.get_by_text("Nothing has been changed yet").first.wait_for()
        assert troubles == []
        page.goto(f"{url}/nodes")
        assert page.locator("h1").inner_text() == "Not allowed"


@pytest.mark.parametrize(
    ("log_in", "told"),
    [
        (("stranger", PASSWORD), "describe the cluster"),
        (("console", OTHER_PASSWORD), "do not let the console itself in"),
    ],
)
def test_a_console_that_may_not_ask_itself_is_not_started(scene: Scene, log_in: tuple[str, str], told: str) -> None:
    config = scene.on.folder / "other.properties"
    config.touch(mode=0o600)
    config.write_text("".join(f"{name}={value}\n" for name, value in scene.on.by_password(*log_in).items()))
    words = ["--coordinator", scene.on.address, "--listen", "127.0.0.1:0", "--log-in"]
    said = CliRunner().invoke(app, ["--command-config", str(config), "console", *words])
    assert (said.exit_code, told in " ".join(said.output.split())) == (1, True), said.output
    assert log_in[1] not in said.output


def test_people_log_in_to_a_console_as_to_the_node_and_see_and_do_what_they_may(scene: Scene) -> None:
    on, console, audit, alice = scene.on, scene.console, scene.audit, ("alice", PASSWORD)
    his = signed()
    assert console.groups(alice) == ["hers"]
    assert console.groups(his) == ["his-1", "his-2"]
    assert console.groups(("stranger", PASSWORD)) == []
    assert console.groups(("alice", OTHER_PASSWORD)) == ["401"]
    assert console.get("/", None).headers["www-authenticate"].startswith("Basic realm=")
    assert console.get("/nodes", alice).status_code == 403
    assert console.get("/nodes", his).status_code == 200
    assert console.get("/groups/his-1", alice).status_code == 404
    assert console.get("/", alice, Host="evil.example").status_code == 421
    page = console.get("/groups/hers/timeline", alice)
    assert (page.status_code, "logged in as alice" in page.text) == (200, True)

    def pause(group: str, log_in: tuple[str, str] | str) -> int:
        act = {"dry_run": False, "why": "a deploy"}
        path = f"/api/v1/groups/{group}/acts/pause"
        return console.ask("POST", path, log_in, {"X-Kcoord-Console": "test"}, act).status_code

    assert [pause("hers", alice), pause("his-1", alice), pause("his-1", his)] == [200, 409, 409]

    def acts() -> list[tuple[str, str, str]]:
        lines = [json.loads(line) for line in audit.read_text().splitlines() if "ChangePause" in line]
        return [(one["principal"], one["who"], one["outcome"]) for one in lines if one["outcome"] != "dry-run"]

    assert eventually(lambda: len(acts()) == 3)
    assert acts() == [
        ("User:alice", "alice by console", "done"),
        ("User:alice", "alice by console", "refused"),
        ("User:robot", "the holder of a token by console", "refused"),
    ]

    plain = httpx2.get(f"http://127.0.0.1:{console.port}/", trust_env=False)
    assert (plain.status_code, "https://" in plain.text) == (400, True)

    # Another certificate, for a name more.
    assert console.get("/", alice, Host="console.example").status_code == 421
    lock(on.authority.pair("web", "localhost", "console.example"), KEY_PASSWORD)
    console.process.send_signal(signal.SIGHUP)
    assert eventually(lambda: "file-read" in console.said)
    assert console.get("/", alice, Host="console.example").status_code == 200

    # Another password, and a token that ends: once a log-in is looked at again, nobody sees anything by the old.
    short: list[str] = []

    def is_in_by_a_short_one() -> bool:
        short.append(signed(exp=int(time.time()) + TOKEN_S))
        return console.groups(short[-1]) == ["his-1", "his-2"]

    assert eventually(is_in_by_a_short_one)
    add_password(on.folder / "users", "alice", OTHER_PASSWORD, ("SCRAM-SHA-256", "SCRAM-SHA-512"), 4096)
    assert eventually(lambda: console.groups(alice) == ["401"])
    assert eventually(lambda: console.groups(("alice", OTHER_PASSWORD)) == ["hers"])
    assert eventually(lambda: console.groups(short[-1]) == ["401"])
    assert console.get("/api/v1/groups", short[-1]).json()["message"].endswith("the token is refused: it has expired")

    # The node goes away: who was in goes on, with what was heard last.
    on.node.kill()
    root = ("root", PASSWORD)
    assert eventually(lambda: console.get("/api/v1/overview", root).json().get("trouble") is not None)
    assert console.groups(root) == ["hers", "his-1", "his-2"]
    assert console.groups(("stranger", OTHER_PASSWORD)) == ["503"]
    shown = console.said
    assert {"logged-in", "log-in-refused"} <= {
        json.loads(line)["event"] for line in shown.splitlines() if line[0] == "{"
    }
    for secret in (PASSWORD, OTHER_PASSWORD, KEY_PASSWORD, his, *short):
        assert secret not in shown + on.node.said + audit.read_text()


@pytest.mark.kafka
def test_a_console_for_other_machines_is_not_started_over_coordinators_that_log_nobody_in(
    coordinator: "LocalCoordinator", tmp_path: Path
) -> None:
    config = tmp_path / "client.properties"
    config.touch(mode=0o600)
    config.write_text(
        f"kcoord.security.protocol=SASL_PLAINTEXT\nkcoord.sasl.username=console\nkcoord.sasl.password={PASSWORD}\n"
    )
    words = ["--coordinator", coordinator.address, "--timeout", "10", "--listen", "127.0.0.1:0", "--log-in"]
    said = CliRunner().invoke(app, ["--command-config", str(config), "console", *words])
    assert said.exit_code == 1
    assert "logs nobody in" in said.output
    assert "authentication.mechanisms" in said.output


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (("--listen", "0.0.0.0:0"), "--tls-certificate"),
        (("--listen", "0.0.0.0:0", "--tls-certificate", "/nowhere"), "authentication.mechanisms"),
        (("--tls-key", "/nowhere"), "--tls-certificate"),
        (("--tls-certificate", "/nowhere"), "/nowhere cannot be read"),
        (("--log-in",), "authentication.mechanisms"),
        (("--host", "a.example"), "--log-in"),
        (("--host", "https://a.example/"), "not the name of a host"),
    ],
)
def test_what_does_not_go_together_is_said_at_the_start_with_what_to_do(flags: tuple[str, ...], told: str) -> None:
    said = CliRunner().invoke(app, ["console", "--coordinator", "127.0.0.1:1", *flags])
    assert said.exit_code != 0
    assert told in " ".join(said.output.replace("│", " ").split())
