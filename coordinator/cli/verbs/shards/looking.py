"""`kcoord shard …`: who leads each shard and who has its log, as all nodes together say."""

from typing import Annotated, Final

import typer

from coordinator.cli.parts.asking import Coordinator, Output, Timeout
from coordinator.cli.parts.exits import ExitCode, notes
from coordinator.cli.parts.notes import DocCode
from coordinator.cli.parts.surveying import note_silent_nodes, survey
from coordinator.cli.parts.tables import Cell, OutputFormat, write_document, write_rows
from coordinator.cli.verbs.shards import moving
from coordinator.client.cluster_view import ShardView
from coordinator.protocol.vocabulary import ShardStatus

app = typer.Typer(help="Look at the shards of a cluster, and move them.", no_args_is_help=True)

SHARD_COLUMNS: Final = (
    "SHARD",
    "LEADER",
    "LEADER-EPOCH",
    "STATE",
    "REPLICAS",
    "IN-SYNC",
    "LOG-END-OFFSET",
    "HIGH-WATERMARK",
)
REPLICA_COLUMNS: Final = ("SHARD", "NODE-ID", "ROLE", "STATE", "IN-SYNC", "LEADER-EPOCH", "LOG-END-OFFSET", "LAG")


@app.command("list")
def list_shards(
    coordinator: Coordinator,
    node: Annotated[int | None, typer.Option("--node", help="Only shards of which this node has a replica.")] = None,
    out_of_sync: Annotated[
        bool, typer.Option("--out-of-sync", help="Only shards without a leader, or with a replica that is behind.")
    ] = False,
    output: Output = OutputFormat.TABLE,
    timeout: Timeout = 10.0,
) -> None:
    """List the shards with their leaders, epochs, replicas and in-sync sets."""
    cluster = survey(coordinator, timeout)
    note_silent_nodes(cluster)
    shards = [
        shard
        for shard in cluster.shards
        if (node is None or node in shard.replicas)
        and (not out_of_sync or shard.leader is None or len(shard.isr) < len(shard.replicas))
    ]
    if output.is_document:
        write_document(output, [_shard_as_json(shard) for shard in shards])
        return
    rows: list[tuple[Cell, ...]] = [
        (
            shard.shard,
            shard.leader,
            shard.leader_epoch,
            _state_of(shard),
            _numbers(shard.replicas),
            _numbers(shard.isr),
            shard.log_end,
            shard.high_watermark,
        )
        for shard in shards
    ]
    write_rows(output, SHARD_COLUMNS, rows)
    if not shards:
        notes.print("No shard is so." if node is not None or out_of_sync else "There are no shards.")


@app.command()
def describe(
    shard: Annotated[int, typer.Argument(metavar="SHARD", help="The shard's number.", min=0)],
    coordinator: Coordinator,
    output: Output = OutputFormat.TABLE,
    timeout: Timeout = 10.0,
) -> None:
    """Show each replica of a shard: its role and state, and how far its log is behind the leader's."""
    cluster = survey(coordinator, timeout)
    seen = next((each for each in cluster.shards if each.shard == shard), None)
    if seen is None:
        notes.error(f"there is no shard {shard}; shards are 0 to {len(cluster.shards) - 1}", DocCode.NAME)
        raise typer.Exit(ExitCode.NOT_FOUND)
    note_silent_nodes(cluster)
    if output.is_document:
        write_document(
            output, {**_shard_as_json(seen), "replicas": [_replica_as_json(seen, node) for node in _replicas(seen)]}
        )
        return
    rows: list[tuple[Cell, ...]] = []
    for node in _replicas(seen):
        copy = seen.copies.get(node)
        rows.append(
            (
                shard,
                node,
                _role_of(seen, node),
                None if copy is None else copy.status,
                "yes" if node in seen.isr else "no",
                None if copy is None else copy.leader_epoch,
                None if copy is None else copy.log_end,
                _lag_of(seen, node),
            )
        )
    write_rows(output, REPLICA_COLUMNS, rows)


def _replicas(shard: ShardView) -> list[int]:
    """Return the nodes that have or are to have the shard's log, the preferred leader first."""
    return list(dict.fromkeys((*shard.replicas, *shard.copies)))


def _role_of(shard: ShardView, node: int) -> str:
    return "leader" if node == shard.leader else "follower"


def _lag_of(shard: ShardView, node: int) -> int | None:
    """Return by how many records a replica is behind the leader's log, None where either is not known."""
    copy = shard.copies.get(node)
    if copy is None or copy.log_end is None or shard.log_end is None:
        return None
    return max(0, shard.log_end - copy.log_end)


def _state_of(shard: ShardView) -> str | None:
    return ShardStatus.OFFLINE if shard.leader is None else shard.status


def _numbers(nodes: tuple[int, ...]) -> str:
    return ",".join(str(node) for node in nodes)


def _shard_as_json(shard: ShardView) -> dict[str, object]:
    return {
        "shard": shard.shard,
        "leader": shard.leader,
        "leader_epoch": shard.leader_epoch,
        "state": _state_of(shard),
        "replicas": list(shard.replicas),
        "in_sync": list(shard.isr),
        "log_end_offset": shard.log_end,
        "high_watermark": shard.high_watermark,
    }


def _replica_as_json(shard: ShardView, node: int) -> dict[str, object]:
    copy = shard.copies.get(node)
    return {
        "node_id": node,
        "role": _role_of(shard, node),
        "state": None if copy is None else copy.status,
        "is_in_sync": node in shard.isr,
        "leader_epoch": None if copy is None else copy.leader_epoch,
        "log_end_offset": None if copy is None else copy.log_end,
        "high_watermark": None if copy is None else copy.high_watermark,
        "lag": _lag_of(shard, node),
    }


moving.add_shard_verbs(app)  # after those above, as `--help` shows them: first what only looks
