"""The ZooKeeper of a cluster: servers of its quorum are killed, and its data is put back from an older copy."""

import shutil

from coordinator.local.zookeeper import LocalZooKeeper, LocalZooKeeperQuorum
from tests.helpers.copies import copied_while_it_runs
from tests.helpers.waiting import wait_until
from tests.helpers.watched_cluster import PATIENCE_S, WatchedCluster, events_of
from tests.standing.case import Case, must
from tests.standing.load import wait
from tests.standing.trial import Trial

TICK_MS = 200
SESSION_MS = 4_000
_UNHEARD_S = 2 * SESSION_MS / 1000
"""For so long nobody hears ZooKeeper: longer than a session."""
_AGAIN_WELL_S = 30.0


def killed_servers(trial: Trial) -> None:
    """Kill the server of the controller's session, later another one, and start both again."""
    with (
        LocalZooKeeperQuorum(trial.folder / "zookeeper", tick_ms=TICK_MS) as quorum,
        WatchedCluster(trial.kafka, quorum, trial.folder, session_timeout_ms=SESSION_MS) as cluster,
    ):
        before = [cluster.entry(shard) for shard in range(4)]
        sessions = [cluster.session_of(node.number) for node in cluster.nodes]
        first = _server_of(quorum, cluster.session_of(cluster.controller()))
        first.kill()
        cluster.wait_until_all_have_committed()
        cluster.wait_until_well()
        must(
            sessions == [cluster.session_of(node.number) for node in cluster.nodes], "a session was lost with a server"
        )

        second = _server_of(quorum, cluster.session_of(before[0]["leader"]))
        second.kill()
        cluster.wait_until_status_says(*(f"node {node.number} does not hear ZooKeeper" for node in cluster.nodes))
        wait(_UNHEARD_S)
        cluster.wait_until_all_have_committed()
        for server in (first, second):
            server.begin()
        for server in (first, second):
            server.await_ready()
        took_s = cluster.wait_until_well()
        must(took_s < _AGAIN_WELL_S, f"all was well only {took_s:.0f} s after ZooKeeper was back")
        cluster.wait_until_all_have_committed()
        after = [cluster.entry(shard) for shard in range(4)]
        must(before == after, f"somebody was elected, or a set changed: {before}, then {after}")
        cluster.must_have_kept()


def node_lost_without_quorum(trial: Trial) -> None:
    """Kill a node that leads while two of three servers are away: its groups wait until those are back."""
    with (
        LocalZooKeeperQuorum(trial.folder / "zookeeper", tick_ms=TICK_MS) as quorum,
        WatchedCluster(trial.kafka, quorum, trial.folder, session_timeout_ms=SESSION_MS) as cluster,
    ):
        gone = cluster.node(cluster.entry(0)["leader"])
        for server in quorum.servers[:2]:
            server.kill()
        gone.kill()
        cluster.wait_until_status_says(f"node {gone.number}", "could not be asked", "does not hear ZooKeeper")
        gone.begin()
        wait_until(
            lambda: "not-in-cluster" in gone.log_tail(),
            timeout_s=PATIENCE_S,
            what="it says that it waits for ZooKeeper",
        )
        for server in quorum.servers[:2]:
            server.begin()
        for server in quorum.servers[:2]:
            server.await_ready()
        gone.await_ready()
        took_s = cluster.wait_until_well()
        must(took_s < _AGAIN_WELL_S, f"all was well only {took_s:.0f} s after ZooKeeper was back")
        cluster.wait_until_all_have_committed()
        cluster.must_have_kept()


def _server_of(quorum: LocalZooKeeperQuorum, session: int) -> LocalZooKeeper:
    (found,) = (server for server in quorum.servers if server.is_running and server.has_session(session))
    return found


def older_copy(trial: Trial) -> None:
    """Put ZooKeeper's data back from a copy of before a node was started again; then put the newest back."""
    with (
        LocalZooKeeper(trial.folder / "zookeeper", tick_ms=TICK_MS) as zookeeper,
        WatchedCluster(trial.kafka, zookeeper, trial.folder, session_timeout_ms=SESSION_MS) as cluster,
    ):
        storage = zookeeper.data_dir / "storage"
        copied_while_it_runs(storage, trial.folder / "copy")
        follower = cluster.node(cluster.entry(0)["replicas"][-1])
        follower.kill()
        wait_until(
            lambda: follower.number not in cluster.entry(0)["isr"], timeout_s=PATIENCE_S, what="it is out of sync"
        )
        follower.start()
        cluster.wait_until_well()
        cluster.wait_until_all_have_committed()

        zookeeper.stop()
        storage.rename(trial.folder / "newest")
        shutil.copytree(trial.folder / "copy", storage)
        zookeeper.start()
        wait_until(
            lambda: not any(node.is_running for node in cluster.nodes),
            timeout_s=PATIENCE_S,
            what="every node has ended",
        )
        for node in cluster.nodes:
            whys = [str(line["why"]) for line in events_of(node, "halted")]
            is_said = len(whys) == 1 and "its data is from an earlier time" in whys[0]
            must(is_said and "put its newest data back" in whys[0], f"node {node.number} has ended with {whys}")
        zookeeper.stop()
        shutil.rmtree(storage)
        (trial.folder / "newest").rename(storage)
        zookeeper.start()
        for node in cluster.nodes:
            node.kill()  # it has ended: what is left of it is forgotten
            node.begin()
        for node in cluster.nodes:
            node.await_ready()
        cluster.wait_until_well()
        cluster.wait_until_all_have_committed()
        cluster.must_have_kept()


CASES = [
    Case(
        "cluster-quorum",
        "nodes notice nothing of one server of ZooKeeper's that is killed, and go on without a second one",
        killed_servers,
        timeout_s=600,
    ),
    Case(
        "cluster-quorum-and-node",
        "a leader that is killed while ZooKeeper has no quorum is followed, or leads again, when that is back",
        node_lost_without_quorum,
        timeout_s=600,
    ),
    Case(
        "cluster-zookeeper-older",
        "every node ends at ZooKeeper's data of before, and has all that it acknowledged with its newest",
        older_copy,
        timeout_s=600,
    ),
]
