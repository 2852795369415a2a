"""All nodes of a cluster, asked together, with notes on those that could not be; and the list of all groups."""

from collections.abc import Sequence
from typing import Final

import typer

from coordinator.cli.parts.asking import coordinators_of
from coordinator.cli.parts.exits import ExitCode, must_not_be_refused, notes, tool_errors_as_text
from coordinator.cli.parts.notes import DocCode
from coordinator.client.cluster_view import ClusterView, view
from coordinator.client.every_node import GroupsListed, find_nodes, find_unreached
from coordinator.client.every_node import list_groups as ask_for_groups
from coordinator.protocol.parts import GroupSummary
from coordinator.protocol.text.addresses import format_address

_MOST_NAMED: Final = 20


def survey(coordinator: str, timeout_s: float) -> ClusterView:
    """Ask every node about the cluster; where none answers that is shown, and ends the program."""
    with tool_errors_as_text():
        return view(find_nodes(coordinators_of(coordinator), timeout_s))


def survey_where_members_are_sent(coordinator: str, timeout_s: float) -> ClusterView:
    """Do the same, and ask each node at the address that members are told too, if it was asked at another one."""
    with tool_errors_as_text():
        coordinators = coordinators_of(coordinator)
        found = find_nodes(coordinators, timeout_s)
        return view(found, find_unreached(found, coordinators, timeout_s))


def note_silent_nodes(cluster: ClusterView) -> None:
    """Say which nodes could not be asked, and so what of them is not shown."""
    for node in cluster.nodes:
        if node.why_not_asked:
            where = "" if node.address is None else f" at {format_address(node.address)}"
            notes.print(f"Warning: node {node.described.node_id}{where} could not be asked: it {node.why_not_asked}.")


def every_group(coordinator: str, timeout_s: float) -> tuple[Sequence[GroupSummary], bool]:
    """Return the groups of all nodes, and whether these are all groups.

    It says which node could not be asked, and of which shards groups are missing.
    """
    with tool_errors_as_text():
        listed = ask_for_groups(coordinators_of(coordinator), timeout_s)
    if not isinstance(listed, GroupsListed):
        must_not_be_refused(listed)
        notes.error(
            f"the coordinator answered with {type(listed).__name__}; is it of another release?", DocCode.OTHER_RELEASE
        )
        raise typer.Exit(ExitCode.ERROR)
    for address, why in (listed.why_not or {}).items():
        notes.print(f"Warning: the node at {format_address(address)} could not be asked: it {why}.")
    if listed.unlisted:
        named = ", ".join(str(shard) for shard in listed.unlisted[:_MOST_NAMED])
        more = f" and {len(listed.unlisted) - _MOST_NAMED} more" if len(listed.unlisted) > _MOST_NAMED else ""
        shards = "shards" if len(listed.unlisted) > 1 else "shard"
        notes.print(
            f"Warning: groups of {shards} {named}{more} are not known: no node serves them now. `kcoord shard list` "
            "says how they are."
        )
    return listed.groups, not listed.unlisted
