"""Replicas of a cluster: a new one whose node dies before it is in sync, and a directory that is put back as a copy."""

from contextlib import ExitStack

from coordinator.client.changing import ask_controller
from coordinator.local.zookeeper import LocalZooKeeper
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import ReassignShards, ReassignShardsResponse
from coordinator.protocol.parts import ShardReplicas
from coordinator.protocol.text.addresses import parse_addresses
from tests.helpers.copies import copied_while_it_runs
from tests.helpers.waiting import wait_until
from tests.helpers.watched_cluster import PATIENCE_S, WatchedCluster
from tests.standing.case import Case, must
from tests.standing.trial import Trial

TICK_MS = 500
SESSION_MS = 8_000
FOUR = 4


def new_node_dies(trial: Trial) -> None:
    """Kill a new replica's node before it is in sync; it comes back once, and once it does not, and is given up."""
    with ExitStack() as stack:
        zookeeper = stack.enter_context(LocalZooKeeper(trial.folder / "zookeeper", tick_ms=TICK_MS))
        cluster = stack.enter_context(
            WatchedCluster(trial.kafka, zookeeper, trial.folder, session_timeout_ms=SESSION_MS)
        )
        fourth = stack.enter_context(cluster.another(FOUR, "node-4"))
        cluster.wait_until_well()

        def begin(shard: int, replicas: tuple[int, ...]) -> None:
            """Have a shard be given replicas, one on the fourth node, which stands still and then dies."""
            fourth.pause()
            asked = ReassignShards((ShardReplicas(shard, replicas),), "test", is_dry_run=False)
            answer = ask_controller(parse_addresses(cluster.addresses), asked, PATIENCE_S)
            assert isinstance(answer, ReassignShardsResponse)
            must(answer.results[0].error is ErrorCode.NONE, f"refused: {answer.results[0].message}")
            fourth.kill()
            cluster.wait_until_all_have_committed()
            cluster.wait_until_status_says(
                f"shard {shard} has a reassignment that waits until node {FOUR} is in sync, which is not there",
                "kcoord shard reassign SHARD… --replicas NODE,…",
            )

        begin(0, (FOUR, 2, 3))
        must(FOUR not in cluster.entry(0)["isr"], "it is in sync without having been there")
        fourth.start()
        cluster.wait_until_well()
        must(cluster.entry(0)["replicas"] == [FOUR, 2, 3], f"it has not gone on: {cluster.entry(0)}")

        before = cluster.entry(1)["replicas"]
        begin(1, (FOUR, *before[1:]))
        said = cluster.tool("shard", "reassign", "1", "--replicas", ",".join(map(str, before)), "--execute", "--wait")
        must(said.exit_code == 0, f"it cannot be taken back: {said.output}")
        entry = cluster.entry(1)
        must(
            (entry["replicas"], entry["adding"], entry["removing"]) == (before, [], []), f"it is not as before: {entry}"
        )
        said = cluster.tool("node", "remove", str(FOUR), "--execute", "--wait")
        must(said.exit_code == 0, f"a node that is gone cannot be removed: {said.output}")
        cluster.wait_until_well()
        cluster.wait_until_all_have_committed()
        cluster.must_have_kept()


def directory_copied(trial: Trial) -> None:
    """Copy a leader's directory while it runs; later put the copy in its place, after a stop and after a kill."""
    with (
        LocalZooKeeper(trial.folder / "zookeeper", tick_ms=TICK_MS) as zookeeper,
        WatchedCluster(trial.kafka, zookeeper, trial.folder, session_timeout_ms=SESSION_MS) as cluster,
    ):
        everybody = {node.number for node in cluster.nodes}
        for is_killed in (False, True):
            node = cluster.node(cluster.entry(0)["leader"])
            data, copy = node.data_dir / "data", trial.folder / f"copy-{is_killed}"
            copied_while_it_runs(data, copy)
            cluster.wait_until_all_have_committed()
            if is_killed:
                node.kill()
            else:
                node.stop()
            data.rename(trial.folder / f"newer-{is_killed}")
            copy.rename(data)
            node.start()
            wait_until(lambda: set(cluster.entry(0)["isr"]) == everybody, timeout_s=PATIENCE_S, what="it has caught up")
            cluster.wait_until_well()
            said = cluster.tool("shard", "elect", "--execute")
            must(said.exit_code == 0, f"shards cannot be led by their first replicas: {said.output}")
            cluster.wait_until_all_have_committed()
        cluster.must_have_kept()


CASES = [
    Case(
        "cluster-reassignment",
        "a reassignment whose new node dies waits for it and says so, goes on when it is back, and can be taken back",
        new_node_dies,
        timeout_s=600,
    ),
    Case(
        "cluster-directory-copied",
        "a node on a copy of its directory, made while it ran, catches up before it leads",
        directory_copied,
        timeout_s=600,
    ),
]
