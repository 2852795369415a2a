"""Canaries in every secret setting of real nodes and of their clients: whoever looks at what these show finds none.

Three nodes hold them all, since a node has one way to log in to Kafka. Neither comes into Kafka, which is when secrets
are most at hand: each log-in fails against a broker that wants none.
"""

import signal
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING, Final
from zipfile import ZipFile

import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

from coordinator.cli import app
from coordinator.client.cluster_view import view
from coordinator.client.every_node import NodesFound
from coordinator.client.request import ask
from coordinator.client.security import SECURITY_SETTINGS, Coordinators, security_of_options
from coordinator.console.known.picture import Picture
from coordinator.console.settings import ConsoleSettings
from coordinator.console.web.app import make_app
from coordinator.console.web.changes import Changes
from coordinator.console.web.reading import Reader
from coordinator.protocol.columns import OffsetToCommit, in_columns
from coordinator.protocol.messages import (
    CommitOffsets,
    CommitOffsetsResponse,
    DescribeCluster,
    DescribeClusterResponse,
    DescribeGroup,
    DescribeGroupResponse,
)
from coordinator.protocol.parts import GroupSummary
from coordinator.protocol.text.addresses import parse_address
from tests.helpers.canaries import FILES_OF_NODES, OF_CLIENTS, OF_NODES, canary, found_in, put_into_file, variable_of
from tests.helpers.certificates import Authority, lock
from tests.helpers.node_process import NodeProcess
from tests.helpers.processes import eventually

if TYPE_CHECKING:
    from coordinator.local.kafka.broker import LocalKafka

pytestmark = pytest.mark.kafka

PATHS: Final = ("/livez", "/readyz", "/startupz", "/metrics", "/")


class PlantedNode:
    """A node with some of the canaries, which serves HTTP too."""

    def __init__(
        self,
        folder: Path,
        kafka: str,
        secrets: tuple[str, ...],
        settings: Mapping[str, object],
        mode: str = "standalone",
    ) -> None:
        self.secrets = secrets
        folder.mkdir()
        files = {name: put_into_file(folder, name) for name in secrets if name in FILES_OF_NODES}
        told = {"admin.listen": "127.0.0.1:0", "log.level": "debug", **settings, **files}
        self.process = NodeProcess(
            folder / "node",
            *(f"{name}={value}" for name, value in told.items()),
            kafka=kafka,
            environment={variable_of(name): canary(name) for name in secrets if name in OF_NODES},
            mode=mode,
        )

    def shows(self) -> Iterator[tuple[str, str | bytes]]:
        """Yield all that a node shows to others, by its place."""
        address = self.process.wait_until_it_serves_http()
        for path in PATHS:
            connection = HTTPConnection(*address, timeout=30)
            connection.request("GET", path)
            yield path, connection.getresponse().read()
            connection.close()
        for number, word in ((signal.SIGUSR1, "SIGUSR1 came"), (signal.SIGQUIT, "SIGQUIT came")):
            self.process.send(number)
            self.process.wait_until_it_says(word)
        yield "process list", Path(f"/proc/{self.process.process.pid}/cmdline").read_bytes()
        yield "log", self.process.said


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def nodes(kafka: "LocalKafka", authority: Authority, tmp_path: Path) -> Iterator[list[PlantedNode]]:
    """Return three nodes, which start together; the first one is for clients."""
    at = kafka.bootstrap_servers
    pair = lock(authority.pair("node"), canary("tls.key_password_file"))
    tls = {"tls.certificate": pair.certificate, "tls.key": pair.key, "tls.trusted_certificates": authority.trusted}
    shown = lock(authority.pair("for-kafka"), canary("kafka.key_password_file"))
    peer = lock(authority.pair("peer"), canary("peers.key_password_file"))
    peers = {
        "peers.certificate": peer.certificate,
        "peers.key": peer.key,
        "peers.trusted_certificates": authority.trusted,
        "peers.listen": "127.0.0.1:0",
        "zookeeper.hosts": "127.0.0.1:1",
    }
    plain = {"kafka.sasl_mechanism": "PLAIN", "kafka.sasl_username": "u"}
    with ExitStack() as ending:

        def start(*arguments: object) -> PlantedNode:
            node = PlantedNode(*arguments)  # type: ignore[arg-type]
            ending.callback(node.process.kill)
            return node

        yield [
            start(
                tmp_path / "1",
                at,
                ("kafka.sasl_password", "tls.key_password_file"),
                tls
                | plain
                | {
                    "tls.client_auth": "required",
                    "kafka.security_protocol": "SASL_PLAINTEXT",
                    "audit.file": tmp_path / "audit.log",
                },
            ),
            start(
                tmp_path / "2",
                at,
                ("kafka.sasl_password_file", "kafka.key_password_file"),
                plain
                | {
                    "kafka.security_protocol": "SASL_SSL",
                    "kafka.certificate": shown.certificate,
                    "kafka.key": shown.key,
                    "kafka.trusted_certificates": authority.trusted,
                },
            ),
            start(
                tmp_path / "3",
                at,
                ("kafka.sasl_token_file", "peers.key_password_file"),
                peers | {"kafka.sasl_mechanism": "OAUTHBEARER", "kafka.security_protocol": "SASL_PLAINTEXT"},
                "cluster",
            ),
        ]


def client_of(authority: Authority) -> dict[str, str]:
    """Return the settings of a client that a node lets in, whose key is locked by a canary."""
    name = "kcoord.ssl.key.password"
    pair = lock(authority.pair("alice", common_name="alice"), canary(name))
    return {
        "kcoord.security.protocol": "SSL",
        "kcoord.ssl.ca.location": str(authority.trusted),
        "kcoord.ssl.certificate.location": str(pair.certificate),
        "kcoord.ssl.key.location": str(pair.key),
        name: canary(name),
    }


def told_by_tools(address: str, settings: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield what the command line says, with its secrets in the environment: also where one is too much or wrong."""
    names = {setting.name: setting.variable for setting in SECURITY_SETTINGS}
    right = {names[name]: text for name, text in settings.items()}
    everything = right | {names[name]: canary(name) for name in OF_CLIENTS}
    wrong = right | {names["kcoord.ssl.key.password"]: canary("kcoord.ssl.key.password") + "x"}
    nodes = {variable_of(name): canary(name) for name in OF_NODES}
    changing = ["group", "delete-offsets", "g", "--topic", "t:0", "--execute", "--why", "tidy"]
    for words, environment, is_good in (
        (["group", "list"], right, True),
        (changing, right, True),
        (["group", "events", "g"], right, True),
        (["group", "describe", "g", "--output", "json"], right, True),
        (["group", "list"], everything, None),
        (["group", "list"], wrong, False),
        (["group", "list"], {}, False),
        (["doctor"], right, None),
        (["cluster", "doctor"], right, None),
        (["serve", "--print-config"], nodes, None),
    ):
        asked = words if words[0] == "serve" else [*words, "--coordinator", address]
        result = CliRunner().invoke(app, asked, env=dict(environment))
        assert is_good is None or (result.exit_code == 0) is is_good, (asked, result.output)
        yield " ".join(words), f"{result.output} {result.exception!r}"


def told_by_a_bundle(address: str, settings: Mapping[str, str], folder: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a bundle that is made with every secret of a node in the environment."""
    names = {setting.name: setting.variable for setting in SECURITY_SETTINGS}
    environment = {names[name]: text for name, text in settings.items()}
    environment |= {variable_of(name): canary(name) for name in OF_NODES}
    (folder / "node.toml").write_text("[kafka]\nsasl_mechanism = 'PLAIN'\nsasl_username = 'u'\n")
    words = ["cluster", "bundle", "--output", str(folder / "b.zip"), "--config", str(folder / "node.toml")]
    result = CliRunner().invoke(app, [*words, "--group", "g", "--coordinator", address], env=environment)
    assert result.exit_code == 0, result.output
    with ZipFile(folder / "b.zip") as archive:
        for name in archive.namelist():
            yield f"bundle {name}", archive.read(name)


def told_by_the_console(coordinators: Coordinators) -> Iterator[tuple[str, str]]:
    """Yield pages and documents of a console that asks the node."""
    picture = Picture()
    answers = [ask(coordinators, request, 20) for request in (DescribeCluster(), DescribeGroup("g"))]
    cluster, group = answers
    assert isinstance(cluster, DescribeClusterResponse)
    assert isinstance(group, DescribeGroupResponse)
    address = coordinators[0]
    picture.see_cluster(view(NodesFound({1: cluster}, {1: address}, {})), 1)
    picture.see_list({"g": (GroupSummary("g", "Empty", 0, 0, 0), 1)}, ())
    picture.see_described(group, [], 1)
    settings = ConsoleSettings(coordinators, ("127.0.0.1", 7480), timeout_s=20)
    client = TestClient(make_app(Reader(settings, picture), Changes(picture)), base_url="http://127.0.0.1:7480")
    for path in ("/", "/groups/g", "/groups/g/timeline", "/settings", "/api/v1/settings", "/api/v1/groups/g/events"):
        said = client.get(path)
        assert said.status_code == 200, (path, said.text)
        yield f"console {path}", said.text


def test_no_secret_of_nodes_and_their_clients_is_shown_anywhere(
    nodes: list[PlantedNode], authority: Authority, tmp_path: Path
) -> None:
    assert sorted(name for node in nodes for name in node.secrets) == sorted((*OF_NODES, *FILES_OF_NODES)), (
        "a secret of a node is planted nowhere: give it to one of the nodes here"
    )
    address = nodes[0].process.wait_until_it_serves()
    settings = client_of(authority)
    coordinators = Coordinators([parse_address(address)], security_of_options(settings, {}))
    commit = CommitOffsets("g", in_columns([OffsetToCommit("t", 0, 7)]))
    assert isinstance(ask(coordinators, commit, 20), CommitOffsetsResponse)
    shown: list[tuple[str, str | bytes]] = [*told_by_tools(address, settings), *told_by_the_console(coordinators)]
    shown += told_by_a_bundle(address, settings, tmp_path)
    for node in nodes:
        node.process.wait_until_it_says("kafka-unreachable")
        shown += node.shows()
    audit = tmp_path / "audit.log"
    assert eventually(lambda: "DeleteOffsets" in audit.read_text())
    shown.append(("audit log", audit.read_text()))
    for node in nodes:
        node.process.kill()  # which has its log whole, and no file go away that is found
        shown.append(("log at its end", node.process.said))
    shown += [(str(path), path.read_bytes()) for path in tmp_path.rglob("data/**/*") if path.is_file()]
    assert len(shown) > 30
    assert {place: found for place, text in shown if (found := found_in(text))} == {}
