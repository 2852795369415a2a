"""What nobody should do to three real nodes that serve: take their ZooKeeper session, or start a copy beside one.

The members commit all the while and must notice nothing but a pause.
"""

from collections.abc import Iterator

import pytest

from coordinator.local.errors import LocalServiceError
from coordinator.local.kafka.broker import LocalKafka
from coordinator.local.zookeeper import LocalZooKeeper
from tests.helpers.copies import copied_while_it_runs
from tests.helpers.waiting import wait_until
from tests.helpers.watched_cluster import PATIENCE_S, WatchedCluster, said_since
from tests.helpers.zookeeper_sessions import close_session

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def cluster(
    kafka: LocalKafka, zookeeper: LocalZooKeeper, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[WatchedCluster]:
    """Yield three nodes; each test leaves them well."""
    folder = tmp_path_factory.mktemp("nodes")
    with WatchedCluster(kafka, zookeeper, folder) as nodes:
        yield nodes


def test_a_node_whose_session_another_client_has_closed_hands_on_what_it_led_and_comes_back(
    cluster: WatchedCluster, zookeeper: LocalZooKeeper
) -> None:
    entry = cluster.entry(0)
    number, epoch = entry["leader"], entry["leader_epoch"]
    session = cluster.session_of(number)

    def take() -> None:
        close_session(zookeeper.hosts, session)
        wait_until(
            lambda: cluster.session_of(number) not in (0, session), timeout_s=PATIENCE_S, what="it lives under another"
        )
        wait_until(
            lambda: cluster.entry(0)["leader_epoch"] > epoch and len(cluster.entry(0)["isr"]) == len(cluster.nodes),
            timeout_s=PATIENCE_S,
            what="somebody was elected, and all are in sync",
        )
        cluster.wait_until_well()

    said = [line["event"] for line in said_since(cluster.node(number), take)]
    assert "zookeeper-session-lost" in said
    assert "registered" in said
    assert "shard-resigned" in said, "what it led in its former life it leads no longer"
    assert "loop-error" not in said
    cluster.wait_until_all_have_committed()
    cluster.must_have_kept()


def test_a_copy_of_a_directory_that_is_started_beside_its_node_is_refused_and_the_node_goes_on(
    cluster: WatchedCluster,
) -> None:
    node = cluster.node(cluster.entry(0)["leader"])
    # It waits for so long whether the other one ends.
    twin = cluster.another(node.number, "twin", **{"zookeeper.session_timeout_ms": 1_000})
    copied_while_it_runs(node.data_dir / "data", twin.data_dir / "data")

    def start() -> None:
        with pytest.raises(LocalServiceError, match=f"node {node.number} runs .*this is a copy, or that is"):
            twin.start()

    said = [line["event"] for line in said_since(node, start)]
    assert not {"zookeeper-session-lost", "registered", "shard-resigned", "halted"} & set(said)
    assert node.is_running
    cluster.wait_until_all_have_committed()
    cluster.wait_until_well()
    cluster.must_have_kept()
