"""A cluster of real nodes whose conversation is TLS: it keeps plain nodes out, and its certificates are exchanged."""

import secrets
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from coordinator.local.zookeeper import LocalZooKeeper
from tests.helpers.certificates import Authority, Pair
from tests.helpers.node_process import NodeProcess
from tests.helpers.processes import eventually

PATIENCE_S = 60

Start = Callable[..., NodeProcess]


@pytest.fixture
def start(zookeeper: LocalZooKeeper, tmp_path: Path) -> Iterator[Start]:
    """Return a starter of node N of one cluster, `start(1, "setting=value")`; all are killed at the end."""
    path = f"/kcoord-{secrets.token_hex(4)}"
    with ExitStack() as stack:

        def begin(number: int, *settings: str) -> NodeProcess:
            node = NodeProcess(
                tmp_path / f"n{number}",
                *(f"node.id={number}", f"zookeeper.path={path}", f"zookeeper.hosts={zookeeper.address}"),
                *("zookeeper.session_timeout_ms=4000", "cluster.shards=2", "cluster.replication_factor=2"),
                *("cluster.min_insync_replicas=2", "tls.look_ms=86400000", *settings),
                mode="cluster",
            )
            stack.callback(node.kill)
            return node

        yield begin


def tls_of(pair: Pair, authority: Authority, listen: str = "127.0.0.1:0") -> tuple[str, ...]:
    return (
        f"peers.listen={listen}",
        f"peers.certificate={pair.certificate}",
        f"peers.key={pair.key}",
        f"peers.trusted_certificates={authority.trusted}",
    )


def test_nodes_speak_tls_and_take_new_certificates_of_a_new_authority_one_by_one(start: Start, tmp_path: Path) -> None:
    old = Authority(tmp_path, "old")
    pairs = [old.pair("one"), old.pair("two")]
    # A node that the machine leaves standing for a moment is not lost by the other, which is what is looked for.
    patient = "peers.silence_ms=60000"
    nodes = [start(number, patient, *tls_of(pair, old)) for number, pair in enumerate(pairs, 1)]
    for node in nodes:
        node.wait_until_it_serves(PATIENCE_S)
        node.wait_until_it_says("peer-met")
    # The runbook: trust both, then change the certificates, then trust the new one alone.
    new = Authority(tmp_path, "new")
    both = old.trusted.read_bytes() + new.trusted.read_bytes()
    new_certificate = new.trusted.read_bytes()

    def exchange(node: NodeProcess) -> None:
        before = node.said.count('"file-read"')
        node.send(signal.SIGHUP)
        assert eventually(lambda: node.said.count('"file-read"') > before, PATIENCE_S), node.said[-2000:]
        assert "file-refused" not in node.said

    old.trusted.write_bytes(both)
    for node in nodes:
        exchange(node)
    for node, file in zip(nodes, ("one", "two"), strict=True):
        new.pair(file)
        exchange(node)
    old.trusted.write_bytes(new_certificate)
    for node in nodes:
        exchange(node)
    assert all("peer-lost" not in node.said for node in nodes)
    # A node that starts anew shows the new one to the others, who trust nothing else.
    met = nodes[0].said.count('"peer-met"')
    assert nodes[1].stop() == 0
    again = start(2, patient, *tls_of(pairs[1], old))
    again.wait_until_it_says("peer-met", PATIENCE_S)
    assert eventually(lambda: nodes[0].said.count('"peer-met"') > met, PATIENCE_S)


def test_a_plain_node_is_kept_out_and_both_sides_say_why(start: Start, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    secure = start(1, *tls_of(authority.pair("one"), authority))
    plain = start(2, "peers.listen=127.0.0.1:0")
    plain.wait_until_it_says("one end speaks TLS and the other does not", PATIENCE_S)
    secure.wait_until_it_says("speak TLS", PATIENCE_S)
    assert "peers.security_protocol" in secure.said + plain.said
    assert "peer-met" not in secure.said + plain.said


def test_a_node_that_others_reach_does_not_start_without_certificates_unless_told_by_name(start: Start) -> None:
    node = start(1, "peers.listen=0.0.0.0:0", "peers.advertised=127.0.0.1:1")
    assert node.process.wait(PATIENCE_S) == 2
    assert "nodes do not show each other certificates" in node.said
    assert "Traceback" not in node.said
    told = start(1, "peers.listen=0.0.0.0:0", "peers.advertised=127.0.0.1:1", "peers.security_protocol=PLAINTEXT")
    told.wait_until_it_says("zookeeper-connected", PATIENCE_S)
