"""`kcoord shard reassign|elect`, `kcoord node drain|undrain|remove`: what operators change in a cluster.

Each is a dry run unless `--execute` is given, and is recorded in the log of the node that decides it, with who asks and
why. A reassignment goes on in the background, whoever is controller; `--wait` returns when it is done.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Final

import typer

from coordinator.cli.parts.asking import Coordinator, Output, Timeout, coordinators_of
from coordinator.cli.parts.deciding import DryRun, Execute, Why, end, is_dry
from coordinator.cli.parts.exits import EXIT_OF_REFUSAL, ExitCode, must_not_be_refused, notes, tool_errors_as_text
from coordinator.cli.parts.notes import DocCode
from coordinator.cli.parts.surveying import note_silent_nodes, survey
from coordinator.cli.parts.tables import Cell, OutputFormat, write_document, write_rows
from coordinator.cli.verbs.shards.unclean import choose_unclean
from coordinator.client.changing import ask_controller, ask_node
from coordinator.client.cluster_view import ClusterView, ShardView, shards_have
from coordinator.client.operating.author import who_asks
from coordinator.client.replica_plan import plan_replicas
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    DrainNode,
    DrainNodeResponse,
    ElectLeaders,
    ElectLeadersResponse,
    ReassignShards,
    ReassignShardsResponse,
)
from coordinator.protocol.parts import ShardChange, ShardReplicas
from coordinator.protocol.text.counts import counted
from coordinator.protocol.vocabulary import NodeStatus

MOVE_COLUMNS: Final = (
    "SHARD",
    "REPLICAS",
    "NEW-REPLICAS",
    "ADDED",
    "REMOVED",
    "LEADER",
    "NEW-LEADER",
)
_LOOK_S: Final = 0.2

Shards = Annotated[list[int] | None, typer.Argument(metavar="[SHARD]...", help="The shards' numbers.", min=0)]
NodeId = Annotated[int, typer.Argument(metavar="NODE", help="The node's id.", min=0)]
Wait = Annotated[bool, typer.Option("--wait", help="Return when it is done, or --timeout is over.")]


def add_shard_verbs(shards: typer.Typer) -> None:
    """Add this file's verbs to those of `kcoord shard`."""
    shards.command()(reassign)
    shards.command()(elect)


def add_node_verbs(nodes: typer.Typer) -> None:
    """Add this file's verbs to those of `kcoord node`."""
    nodes.command()(drain)
    nodes.command()(undrain)
    nodes.command()(remove)


def reassign(
    coordinator: Coordinator,
    shard: Shards = None,
    replicas: Annotated[
        str,
        typer.Option(metavar="NODE,...", help="All replicas that the shards are to have, the first to lead first."),
    ] = "",
    nodes: Annotated[
        str, typer.Option(metavar="NODE,...", help="Spread the shards over these nodes, moving as little as possible.")
    ] = "",
    execute: Execute = False,
    dry_run: DryRun = False,
    wait: Wait = False,
    why: Why = "",
    output: Output = OutputFormat.TABLE,
    timeout: Timeout = 30.0,
) -> None:
    """Move replicas of shards to other nodes: to --replicas, or spread over --nodes, all unless some are named."""
    dry = is_dry(execute=execute, dry_run=dry_run)
    if bool(replicas) == bool(nodes):
        raise typer.BadParameter("name either --replicas, for the shards that are named, or --nodes")
    if replicas and not shard:
        raise typer.BadParameter("--replicas is for shards that are named: `kcoord shard reassign 3 --replicas 1,2,4`")
    cluster = survey(coordinator, timeout)
    note_silent_nodes(cluster)
    shards = _shards_meant(cluster, shard)
    if replicas:
        target = _numbers_in("--replicas", replicas)
        plan = {each.shard: target for each in cluster.shards if each.shard in shards and each.target != target}
    else:
        plan = _spread(cluster, shards, _numbers_in("--nodes", nodes))
    _reassign(coordinator, cluster, plan, _under_way(cluster, shards, plan), why, output, timeout, dry=dry, wait=wait)


def elect(
    coordinator: Coordinator,
    shard: Shards = None,
    unclean: Annotated[
        bool,
        typer.Option("--unclean", help="Of shards that nobody in sync can lead, whoever has most: the rest is lost."),
    ] = False,
    execute: Execute = False,
    dry_run: DryRun = False,
    why: Why = "",
    output: Output = OutputFormat.TABLE,
    timeout: Timeout = 10.0,
) -> None:
    """Have shards be led by their first replicas now, all shards that are not if none is named."""
    dry = is_dry(execute=execute, dry_run=dry_run)
    if unclean and not (shard and why):
        raise typer.BadParameter("--unclean gives up what was acknowledged: name the shards, and the reason with --why")
    cluster = survey(coordinator, timeout)
    note_silent_nodes(cluster)
    if unclean:
        chosen = choose_unclean(cluster, _shards_meant(cluster, shard))
        request = ElectLeaders((), who_asks(), why, dry, chosen)
        _elect(coordinator, request, output, timeout)
        return
    elsewhere = {each.shard for each in cluster.shards if each.replicas and each.leader not in (None, each.replicas[0])}
    wanted = _shards_meant(cluster, shard) if shard else sorted(elsewhere)
    if not wanted:
        notes.print("Each shard that has a leader is led by the first of its replicas.")
        return
    _elect(coordinator, ElectLeaders(tuple(wanted), who_asks(), why, dry), output, timeout)


def drain(
    node: NodeId,
    coordinator: Coordinator,
    execute: Execute = False,
    dry_run: DryRun = False,
    wait: Wait = False,
    why: Why = "",
    output: Output = OutputFormat.TABLE,
    timeout: Timeout = 30.0,
) -> None:
    """Have a node lead nothing and be in no in-sync set, until it is undrained or started anew; SIGTERM does it too."""
    dry = is_dry(execute=execute, dry_run=dry_run)
    response = _ask_to_drain(coordinator, node, why, timeout, dry=dry, is_drained=True)
    _show_drain(node, response, output)
    if response.kept:
        kept = ", ".join(str(shard) for shard in response.kept)
        notes.print(f"Warning: no other node may lead shards {kept} now: none that is in sync is there and ready.")
    end(dry=dry, does_something=True)
    if wait and not dry:
        what = f"node {node} still leads, or is in in-sync sets that can do without it"
        _wait_until(coordinator, timeout, lambda cluster: _not_handed_over(cluster, node), what)
        notes.print(f"Node {node} leads nothing, and is in no in-sync set that can do without it.")


def undrain(
    node: NodeId,
    coordinator: Coordinator,
    execute: Execute = False,
    dry_run: DryRun = False,
    why: Why = "",
    output: Output = OutputFormat.TABLE,
    timeout: Timeout = 10.0,
) -> None:
    """Have a node that was drained follow and lead again."""
    dry = is_dry(execute=execute, dry_run=dry_run)
    _show_drain(node, _ask_to_drain(coordinator, node, why, timeout, dry=dry, is_drained=False), output)
    end(dry=dry, does_something=True)


def remove(
    node: NodeId,
    coordinator: Coordinator,
    execute: Execute = False,
    dry_run: DryRun = False,
    wait: Wait = False,
    why: Why = "",
    output: Output = OutputFormat.TABLE,
    timeout: Timeout = 30.0,
) -> None:
    """Move everything that a node has to the others, so that it can be stopped for good; also of one that is gone."""
    dry = is_dry(execute=execute, dry_run=dry_run)
    cluster = survey(coordinator, timeout)
    note_silent_nodes(cluster)
    _must_be_nodes(cluster, [node])
    _must_know_replicas(cluster, [each.shard for each in cluster.shards])
    others = [
        each.described.node_id
        for each in cluster.nodes
        if each.described.status == NodeStatus.READY and each.described.node_id != node
    ]
    having = [shard.shard for shard in cluster.shards if node in shard.replicas]
    if not having:
        notes.print(f"Node {node} has no replica of any shard: stop it, and leave it stopped.")
        return
    if len(others) < cluster.replication_factor:
        notes.print(
            f"Warning: {counted(len(others), 'node is', 'nodes are')} left and ready, so shards have "
            f"{counted(len(others), 'replica')} and not {cluster.replication_factor}. Add a node first if there are to "
            "be as many."
        )
    plan = _spread(cluster, having, others)
    _reassign(coordinator, cluster, plan, _under_way(cluster, having, plan), why, output, timeout, dry=dry, wait=wait)
    if wait and not dry:
        _wait_until(coordinator, timeout, lambda now: _may_have(now, node), f"node {node} still has replicas")
        notes.print(f"Node {node} has no replica of any shard: stop it, and leave it stopped.")


def _elect(coordinator: str, request: ElectLeaders, output: OutputFormat, timeout: float) -> None:
    with tool_errors_as_text():
        response = ask_controller(coordinators_of(coordinator), request, timeout)
    must_not_be_refused(response)
    assert isinstance(response, ElectLeadersResponse), "the client lets no other answer through"
    _end_with_changes(response.results, output, dry=request.is_dry_run)


# ---- reassignments ---------------------------------------------------------------------------------------------------


def _shards_meant(cluster: ClusterView, named: Sequence[int] | None) -> list[int]:
    every = [shard.shard for shard in cluster.shards]
    unknown = sorted(set(named or ()) - set(every))
    if unknown or not every:
        there = f"shards are 0 to {len(every) - 1}" if every else "the cluster has no shards yet"
        notes.error(f"there is no shard {unknown[0] if unknown else ''}".rstrip() + f"; {there}", DocCode.NAME)
        raise typer.Exit(ExitCode.NOT_FOUND)
    return list(dict.fromkeys(named)) if named else every


def _numbers_in(option: str, text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts):
        raise typer.BadParameter(f"'{text}' is no list of node ids such as 1,2,4", param_hint=option)
    return tuple(int(part) for part in parts)


def _must_be_nodes(cluster: ClusterView, nodes: Sequence[int]) -> None:
    known = {each.described.node_id for each in cluster.nodes}
    for node in nodes:
        if node not in known:
            there = ", ".join(str(each) for each in sorted(known))
            notes.error(f"no node has the id {node}; there are {there}", DocCode.NAME)
            raise typer.Exit(ExitCode.NOT_FOUND)


def _must_know_replicas(cluster: ClusterView, shards: Sequence[int]) -> None:
    """Exit where nobody who answers says who has a shard, as before a controller has told the nodes after a start."""
    unknown = [each.shard for each in cluster.shards if each.shard in shards and not each.replicas]
    if unknown:
        notes.error(
            f"{shards_have(unknown)} replicas on nodes that are not known now, so what is to move cannot be planned: "
            "ask again when `kcoord cluster status` names a controller, and that one answers",
            DocCode.NOT_KNOWN_NOW,
        )
        raise typer.Exit(ExitCode.REFUSED_BY_STATE)


def _spread(cluster: ClusterView, shards: Sequence[int], nodes: Sequence[int]) -> dict[int, tuple[int, ...]]:
    """Plan for some shards; the others stay as they are, on whichever nodes they are."""
    _must_be_nodes(cluster, nodes)
    _must_know_replicas(cluster, shards)
    racks = {each.described.node_id: each.described.rack for each in cluster.nodes if each.described.node_id in nodes}
    if not racks:
        notes.error(
            "no other node is ready, so there is nowhere to move anything: start another one first", DocCode.STATE
        )
        raise typer.Exit(ExitCode.REFUSED_BY_STATE)
    before = {shard.shard: shard.target for shard in cluster.shards if shard.shard in shards}
    plan = plan_replicas(before, racks, cluster.replication_factor)
    return {shard: replicas for shard, replicas in plan.items() if replicas != before[shard]}


def _under_way(
    cluster: ClusterView, shards: Sequence[int], plan: Mapping[int, tuple[int, ...]]
) -> dict[int, tuple[int, ...]]:
    """Return what some shards are to have that are not planned for and are being moved there already."""
    return {
        each.shard: each.target
        for each in cluster.shards
        if each.shard in shards and each.shard not in plan and (each.adding or each.removing)
    }


def _may_have(cluster: ClusterView, node: int) -> list[int]:
    """Return the shards of which a node has a replica, or of which nobody who answers says who has one."""
    return [each.shard for each in cluster.shards if node in each.replicas or not each.replicas]


def _reassign(
    coordinator: str,
    cluster: ClusterView,
    plan: Mapping[int, tuple[int, ...]],
    under_way: Mapping[int, tuple[int, ...]],
    why: str,
    output: OutputFormat,
    timeout: float,
    *,
    dry: bool,
    wait: bool,
) -> None:
    """Ask for what is planned; wait for that and for what is under way already, if it is to be waited for."""
    if under_way:
        named = ", ".join(str(shard) for shard in sorted(under_way))
        notes.print(f"Being moved there already: shards {named}; `kcoord shard list` shows their REPLICAS and IN-SYNC.")
    if plan:
        _ask_for(coordinator, plan, why, output, timeout, dry=dry)
    elif not under_way:
        notes.print("Nothing has to move: the shards are where they are to be.")
        return
    if dry:
        return
    if not wait:
        if plan:
            notes.print(
                "The shards are being moved; `kcoord shard list` shows REPLICAS and IN-SYNC until that is done."
            )
        return
    wanted = {**plan, **under_way}
    _wait_until(
        coordinator,
        timeout,
        lambda now: [s.shard for s in now.shards if s.shard in wanted and not _is_moved(s, wanted[s.shard])],
        "not moved yet, and going on",
    )
    notes.print(f"Moved: {len(wanted)} of {counted(len(cluster.shards), 'shard')}.")


def _ask_for(
    coordinator: str,
    plan: Mapping[int, tuple[int, ...]],
    why: str,
    output: OutputFormat,
    timeout: float,
    *,
    dry: bool,
) -> None:
    """Ask the controller for what is planned, and return when it has begun; exit if any of it is refused."""
    shards = tuple(ShardReplicas(shard, replicas) for shard, replicas in sorted(plan.items()))
    with tool_errors_as_text():
        response = ask_controller(coordinators_of(coordinator), ReassignShards(shards, who_asks(), why, dry), timeout)
    must_not_be_refused(response)
    assert isinstance(response, ReassignShardsResponse), "the client lets no other answer through"
    _end_with_changes(response.results, output, dry=dry)
    if dry:
        return
    _wait_until(
        coordinator,
        timeout,
        lambda now: [s.shard for s in now.shards if s.shard in plan and s.target != plan[s.shard]],
        "not begun: somebody has asked for other replicas since, or the controller was replaced; ask again for",
    )


def _is_moved(shard: ShardView, wanted: Sequence[int]) -> bool:
    return tuple(shard.replicas) == tuple(wanted) and set(shard.isr) == set(wanted)


def _wait_until(coordinator: str, timeout_s: float, missing: Callable[[ClusterView], Sequence[int]], what: str) -> None:
    """Return when no shard is missing; exit with the code of a time-out otherwise."""
    deadline_s = time.monotonic() + timeout_s
    while left := missing(survey(coordinator, timeout_s)):
        if time.monotonic() + _LOOK_S >= deadline_s:
            named = ", ".join(str(shard) for shard in left)
            notes.error(f"after {timeout_s:g} s {what}: shards {named}", DocCode.LATE)
            raise typer.Exit(ExitCode.TIMEOUT)
        time.sleep(_LOOK_S)


def _end_with_changes(results: Sequence[ShardChange], output: OutputFormat, *, dry: bool) -> None:
    """Show what is accepted, then what is refused and why, and exit with the code of the first that is."""
    accepted = [result for result in results if result.error is ErrorCode.NONE]
    if output.is_document:
        write_document(output, [_change_as_json(result) for result in results])
    else:
        write_rows(output, MOVE_COLUMNS, [_change_row(result) for result in accepted])
    code: int = ExitCode.OK
    for result in results:
        if result.error is not ErrorCode.NONE:
            notes.error(
                f"shard {result.shard} was refused: {result.message} ({result.error.name})", result.error.doc_code
            )
            code = code or EXIT_OF_REFUSAL.get(result.error, ExitCode.ERROR)
    end(dry=dry, does_something=bool(accepted), code=code)


def _change_row(change: ShardChange) -> tuple[Cell, ...]:
    return (
        change.shard,
        _listed(change.replicas),
        _listed(change.new_replicas),
        _listed(_added(change)) or None,
        _listed(_removed(change)) or None,
        change.leader,
        change.new_leader,
    )


def _added(change: ShardChange) -> list[int]:
    return [node for node in change.new_replicas if node not in change.replicas]


def _removed(change: ShardChange) -> list[int]:
    return [node for node in change.replicas if node not in change.new_replicas]


def _listed(nodes: Sequence[int]) -> str:
    return ",".join(str(node) for node in nodes)


def _change_as_json(change: ShardChange) -> dict[str, object]:
    is_refused = change.error is not ErrorCode.NONE
    return {
        "shard": change.shard,
        "replicas": list(change.replicas),
        "new_replicas": list(change.new_replicas),
        "added": _added(change),
        "removed": _removed(change),
        "leader": change.leader,
        "new_leader": change.new_leader,
        "error": change.error.name if is_refused else None,
        "why": change.message or None,
    }


# ---- drains ----------------------------------------------------------------------------------------------------------


def _ask_to_drain(
    coordinator: str, node: int, why: str, timeout: float, *, dry: bool, is_drained: bool
) -> DrainNodeResponse:
    with tool_errors_as_text():
        request = DrainNode(node, is_drained, who_asks(), why, dry)
        response = ask_node(coordinators_of(coordinator), request, timeout)
    must_not_be_refused(response)
    assert isinstance(response, DrainNodeResponse), "the client lets no other answer through"
    return response


def _show_drain(node: int, response: DrainNodeResponse, output: OutputFormat) -> None:
    if output.is_document:
        write_document(output, {"node_id": node, "leads": list(response.led), "kept": list(response.kept)})
        return
    rows: list[tuple[Cell, ...]] = [
        (shard, node, "no other node may lead it" if shard in response.kept else None) for shard in response.led
    ]
    write_rows(output, ("SHARD", "LEADER", "NOTE"), rows)


def _not_handed_over(cluster: ClusterView, node: int) -> list[int]:
    """Return the shards that a node leads, and those whose leaders have still to take it out of their in-sync sets."""
    return [
        each.shard
        for each in cluster.shards
        if each.leader == node
        or (each.leader is not None and node in each.isr and len(each.isr) > cluster.min_insync_replicas)
    ]
