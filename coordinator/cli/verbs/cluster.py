"""`kcoord cluster …` and `kcoord node …`: the nodes that share the group space, and whether all is as it should be."""

from collections.abc import Mapping
from typing import Annotated

import typer

from coordinator.cli.parts.asking import Coordinator, Output, Timeout
from coordinator.cli.parts.exits import ExitCode, notes
from coordinator.cli.parts.notes import DocCode
from coordinator.cli.parts.surveying import note_silent_nodes, survey, survey_where_members_are_sent
from coordinator.cli.parts.tables import Cell, OutputFormat, write_document, write_rows
from coordinator.cli.verbs.looking.bundle import bundle
from coordinator.cli.verbs.looking.cluster_doctor import cluster_doctor
from coordinator.cli.verbs.moving import backups
from coordinator.cli.verbs.shards import moving
from coordinator.client.cluster_view import ClusterView, NodeView
from coordinator.protocol.text.addresses import format_address
from coordinator.protocol.text.counts import counted
from coordinator.protocol.vocabulary import NodeStatus

clusters = typer.Typer(help="Look at all nodes and shards together.", no_args_is_help=True)
nodes = typer.Typer(help="Look at the nodes of a cluster, and drain them.", no_args_is_help=True)

NODE_COLUMNS = (
    "NODE-ID",
    "ADDRESS",
    "STATE",
    "CONTROLLER",
    "#LEADS",
    "#REPLICAS",
    "#IN-SYNC",
    "NODE-EPOCH",
    "RACK",
    "RELEASE",
)
COPY_COLUMNS = ("SHARD", "STATE", "LEADER", "LEADER-EPOCH", "IN-SYNC", "LOG-END-OFFSET", "HIGH-WATERMARK")

NodeId = Annotated[int, typer.Argument(metavar="NODE", help="The node's id.", min=0)]


@clusters.command("describe")
def describe_cluster(coordinator: Coordinator, output: Output = OutputFormat.TABLE, timeout: Timeout = 10.0) -> None:
    """Show the cluster's id, its controller and settings, and how many of its nodes and shards are well."""
    cluster = survey(coordinator, timeout)
    note_silent_nodes(cluster)
    if output.is_document:
        write_document(output, _cluster_as_json(cluster))
        return
    facts: list[tuple[Cell, ...]] = [
        ("cluster id", cluster.cluster_id or "none: the coordinator is alone"),
        ("controller", cluster.controller),
        ("controller epoch", cluster.controller_epoch),
        ("nodes", len(cluster.nodes)),
        ("nodes that answered", sum(not node.why_not_asked for node in cluster.nodes)),
        ("shards", len(cluster.shards)),
        ("shards without a leader", sum(shard.leader is None for shard in cluster.shards)),
        ("shards with replicas out of sync", sum(len(shard.isr) < len(shard.replicas) for shard in cluster.shards)),
        ("replicas of a shard", cluster.replication_factor),
        ("least in-sync replicas", cluster.min_insync_replicas),
    ]
    write_rows(output, ("FACT", "VALUE"), facts)


@clusters.command()
def status(coordinator: Coordinator, output: Output = OutputFormat.TABLE, timeout: Timeout = 10.0) -> None:
    """Say whether every shard is served and in sync and every node answers; if not, what is wrong, with exit code 4."""
    cluster = survey_where_members_are_sent(coordinator, timeout)
    troubles = cluster.troubles()
    if output.is_document:
        write_document(output, {**_cluster_as_json(cluster), "is_well": not troubles, "troubles": troubles})
    else:
        rows: list[tuple[Cell, ...]] = [(trouble,) for trouble in troubles]
        write_rows(output, ("TROUBLE",), rows)
    if troubles:
        raise typer.Exit(ExitCode.REFUSED_BY_STATE)
    there = [node for node in cluster.nodes if node.described.status != NodeStatus.GONE]
    notes.print(f"All is well: {counted(len(there), 'node')}, {counted(len(cluster.shards), 'shard')}.")


@nodes.command("list")
def list_nodes(coordinator: Coordinator, output: Output = OutputFormat.TABLE, timeout: Timeout = 10.0) -> None:
    """List the nodes with what they lead, and who is the controller."""
    cluster = survey(coordinator, timeout)
    note_silent_nodes(cluster)
    if output.is_document:
        write_document(output, [_node_as_json(node) for node in cluster.nodes])
        return
    write_rows(output, NODE_COLUMNS, [_node_row(node) for node in cluster.nodes])


@nodes.command("describe")
def describe_node(
    node: NodeId, coordinator: Coordinator, output: Output = OutputFormat.TABLE, timeout: Timeout = 10.0
) -> None:
    """Show the shards that a node leads or follows, as they are there."""
    cluster = survey(coordinator, timeout)
    seen = next((each for each in cluster.nodes if each.described.node_id == node), None)
    if seen is None:
        known = ", ".join(str(each.described.node_id) for each in cluster.nodes)
        notes.error(f"no node has the id {node}; there are {known}", DocCode.NAME)
        raise typer.Exit(ExitCode.NOT_FOUND)
    if seen.why_not_asked:
        notes.error(f"node {node} could not be asked: it {seen.why_not_asked}", DocCode.NOT_KNOWN_NOW)
        raise typer.Exit(ExitCode.ERROR)
    copies = [(shard, shard.copies[node]) for shard in cluster.shards if node in shard.copies]
    if output.is_document:
        shards = [
            {
                "shard": shard.shard,
                "state": copy.status,
                "leader": shard.leader,
                "leader_epoch": copy.leader_epoch,
                "is_in_sync": node in shard.isr,
                "log_end_offset": copy.log_end,
                "high_watermark": copy.high_watermark,
            }
            for shard, copy in copies
        ]
        write_document(output, {**_node_as_json(seen), "shards": shards})
        return
    rows: list[tuple[Cell, ...]] = [
        (
            shard.shard,
            copy.status,
            shard.leader,
            copy.leader_epoch,
            "yes" if node in shard.isr else "no",
            copy.log_end,
            copy.high_watermark,
        )
        for shard, copy in copies
    ]
    write_rows(output, COPY_COLUMNS, rows)
    if not rows:
        notes.print(f"Node {node} has no shard.")


def _node_row(node: NodeView) -> tuple[Cell, ...]:
    described = node.described
    return (
        described.node_id,
        None if node.address is None else format_address(node.address),
        _state_of(node),
        "yes" if node.is_controller else "no",
        node.leads,
        node.replicas,
        node.in_sync,
        described.node_epoch,
        described.rack,
        described.release,
    )


def _state_of(node: NodeView) -> str:
    """Return a node's state; of one that has a session with ZooKeeper and does not answer, that."""
    if node.why_not_asked and node.described.status != NodeStatus.GONE:
        return f"{node.described.status}, silent"
    return node.described.status


def _node_as_json(node: NodeView) -> dict[str, object]:
    described = node.described
    return {
        "node_id": described.node_id,
        "address": None if node.address is None else format_address(node.address),
        "state": described.status,
        "why_not_asked": node.why_not_asked or None,
        "is_controller": node.is_controller,
        "leads": node.leads,
        "replicas": node.replicas,
        "in_sync": node.in_sync,
        "node_epoch": described.node_epoch,
        "rack": described.rack or None,
        "release": described.release or None,
    }


def _cluster_as_json(cluster: ClusterView) -> Mapping[str, object]:
    return {
        "cluster_id": cluster.cluster_id,
        "controller": cluster.controller,
        "controller_epoch": cluster.controller_epoch,
        "replication_factor": cluster.replication_factor,
        "min_insync_replicas": cluster.min_insync_replicas,
        "nodes": [_node_as_json(node) for node in cluster.nodes],
        "shards": len(cluster.shards),
        "shards_without_leader": [shard.shard for shard in cluster.shards if shard.leader is None],
        "shards_out_of_sync": [shard.shard for shard in cluster.shards if len(shard.isr) < len(shard.replicas)],
    }


# `--help` shows these after those above: first what only looks.
clusters.command("doctor")(cluster_doctor)
clusters.command("bundle")(bundle)
backups.add_verbs(clusters)
moving.add_node_verbs(nodes)
