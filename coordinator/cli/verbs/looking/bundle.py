"""`kcoord cluster bundle`: what whoever helps asks for, gathered into one file without secrets."""

import os
import platform
import sys
import time
from collections.abc import Iterator
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Annotated, Final

import typer

from coordinator.cli.diagnosis.admin_pages import read_page
from coordinator.cli.diagnosis.bundle import Found, Part, document, make_bundle
from coordinator.cli.moving.backup import BackupError, write
from coordinator.cli.parts.asking import Coordinator, Timeout, ask_for, coordinators_of
from coordinator.cli.parts.exits import ExitCode, notes
from coordinator.cli.parts.new_file import must_be_free
from coordinator.cli.parts.notes import DocCode
from coordinator.cli.verbs.doctor import checks_of_machine
from coordinator.cli.verbs.looking.cluster_doctor import Admin, admins_of, checks_of_cluster
from coordinator.client.cluster_view import view
from coordinator.client.every_node import GroupsListed, find_nodes, list_groups
from coordinator.client.refusals import refusal_of, show_refusal
from coordinator.client.request import RequestError
from coordinator.protocol.messages import (
    DescribeGroup,
    DescribeGroupResponse,
    ListGroupEvents,
    ListGroupEventsResponse,
)
from coordinator.protocol.text.addresses import Address, format_address

MOST_LISTED: Final = 1_000
MOST_DESCRIBED: Final = 20
"""Groups that are described besides those that are named."""
MOST_PARTITIONS: Final = 500
MOST_MEMBERS: Final = 200
MOST_EVENTS: Final = 1_000


def bundle(
    coordinator: Coordinator,
    output: Annotated[Path, typer.Option("--output", metavar="FILE.zip", help="The file to write.")],
    group: Annotated[
        list[str] | None,
        typer.Option("--group", metavar="GROUP", help="Put this group's timeline in; may be given repeatedly."),
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="A node's file, whose settings are put in.")
    ] = None,
    admin: Admin = None,
    force: Annotated[bool, typer.Option("--force", help="Put it in the place of a file that is there.")] = False,
    timeout: Timeout = 10.0,
) -> None:
    """Write versions, checks, descriptions, timelines, settings and metrics into a zip, for whoever helps."""
    must_be_free(output, "a bundle", replaces=force, option="--force")
    named = tuple(dict.fromkeys(group or ()))
    made = make_bundle(_parts(coordinator, named, config, admins_of(admin), timeout), time.time())
    must_be_free(output, "a bundle", replaces=force, option="--force")
    try:
        write(output, made.data)
    except BackupError as error:
        notes.error(str(error), DocCode.FILE)
        raise typer.Exit(ExitCode.ERROR) from error
    missing = f"; not to be had, with the reason in their places: {', '.join(made.failed)}" if made.failed else ""
    notes.print(f"{output} has {made.files} files{missing}. Names of hosts, groups and topics are in it, no secrets.")


def _parts(
    coordinator: str, named: tuple[str, ...], config: Path | None, admins: tuple[Address, ...], timeout_s: float
) -> Iterator[Part]:
    coordinators = coordinators_of(coordinator)

    def cluster() -> Found:
        return Found(document(view(find_nodes(coordinators, timeout_s))))

    def groups() -> Found:
        return _groups(coordinator, named, timeout_s)

    yield Part("environment.json", "the machine, Python and its packages", lambda: Found(document(environment())))
    yield Part(
        "doctor.json",
        "the checks of this machine",
        lambda: Found(document(checks_of_machine(coordinator, None, None, timeout_s))),
    )
    yield Part(
        "cluster-doctor.json",
        "the checks of all nodes",
        lambda: Found(document(checks_of_cluster(coordinators, admins, timeout_s))),
    )
    yield Part("cluster.json", "nodes and shards", cluster)
    yield Part("groups.json", "the list of groups, and some of them described", groups)
    for number, group in enumerate(named, 1):
        yield Part(
            f"timelines/{number}.json",
            f"the timeline of group '{group}'",
            partial(_timeline, coordinator, group, timeout_s),
        )
    if config is not None:
        yield Part("settings.toml", f"the settings of {config}", lambda: _settings(config))
    for number, address in enumerate(admins, 1):
        for path in ("startupz", "livez", "readyz", "metrics"):
            yield Part(
                f"admin/{number}-{path}.txt",
                f"/{path} of {format_address(address)}",
                partial(_page, address, path, timeout_s),
            )


def environment() -> dict[str, object]:
    """Return facts of this machine; of its environment only the names of our variables."""
    return {
        "python": sys.version,
        "implementation": platform.python_implementation(),
        "platform": platform.platform(),
        "processors": os.cpu_count(),
        "packages": {each.metadata["Name"]: each.version for each in metadata.distributions()},
        "variables": sorted(name for name in os.environ if name.startswith("KCOORD_")),
    }


def _groups(coordinator: str, named: tuple[str, ...], timeout_s: float) -> Found:
    listed = list_groups(coordinators_of(coordinator), timeout_s)
    if not isinstance(listed, GroupsListed):
        refusal = refusal_of(listed)
        raise RequestError(type(listed).__name__ if refusal is None else show_refusal(refusal))
    left_out = [f"groups of shards {listed.unlisted}, which no node serves"] if listed.unlisted else []
    if len(listed.groups) > MOST_LISTED:
        left_out.append(f"{len(listed.groups) - MOST_LISTED} groups of the list")
    ids = [group.group_id for group in listed.groups if group.group_id not in named]
    if len(ids) > MOST_DESCRIBED:
        left_out.append(f"descriptions of {len(ids) - MOST_DESCRIBED} groups; --group names which to describe")
    described: list[object] = []
    for group in (*named, *ids[:MOST_DESCRIBED]):
        try:
            told = ask_for(coordinator, DescribeGroup(group), timeout_s, DescribeGroupResponse, group)
        except typer.Exit:
            left_out.append(f"the description of group '{group}', which was refused or did not come")
            continue
        for what, most in (("partitions", MOST_PARTITIONS), ("members", MOST_MEMBERS)):
            if len(getattr(told, what)) > most:
                left_out.append(f"{len(getattr(told, what)) - most} {what} of group '{group}'")
        fields = {name: getattr(told, name) for name in told.__struct_fields__}
        described.append(
            fields | {"partitions": told.partitions[:MOST_PARTITIONS], "members": told.members[:MOST_MEMBERS]}
        )
    text = document({"listed": listed.groups[:MOST_LISTED], "described": described})
    return Found(text, "; ".join(left_out))


def _timeline(coordinator: str, group: str, timeout_s: float) -> Found:
    told = ask_for(coordinator, ListGroupEvents(group), timeout_s, ListGroupEventsResponse, group)
    more = len(told.events) - MOST_EVENTS
    events = told.events[-MOST_EVENTS:]
    return Found(document({"group": group, "events": events}), f"the {more} oldest events" if more > 0 else "")


def _settings(config: Path) -> Found:
    from coordinator.config import config_file, load_settings

    return Found(config_file(load_settings(config, {})))


def _page(address: Address, path: str, timeout_s: float) -> Found:
    page = read_page(address, f"/{path}", timeout_s)
    return Found(f"# HTTP {page.status}\n{page.text}", "the end of it: it is too long" if page.is_cut else "")
