"""`kcoord cluster doctor`: are all nodes of a cluster as they should be, and if not, what is to be done?"""

import time
from typing import Annotated

import typer

from coordinator.cli.diagnosis.admin_pages import admin_checks
from coordinator.cli.diagnosis.cluster_checks import cluster_checks
from coordinator.cli.diagnosis.doctor_check import Check, write_checks
from coordinator.cli.diagnosis.node_facts import look_at_nodes
from coordinator.cli.parts.asking import Coordinator, Output, Timeout, coordinators_of, must_be_addresses
from coordinator.cli.parts.tables import OutputFormat
from coordinator.client.cluster_view import view
from coordinator.client.every_node import find_nodes, find_unreached
from coordinator.client.request import RequestError
from coordinator.client.security import Coordinators
from coordinator.protocol.text.addresses import Address, parse_addresses


def _take_admins(given: list[str] | None) -> list[str] | None:
    for each in given or ():
        must_be_addresses(each)
    return given


Admin = Annotated[
    list[str] | None,
    typer.Option(
        "--admin",
        callback=_take_admins,
        metavar="HOST:PORT[,...]",
        help="Nodes' admin ports (admin.listen), to look at their probes and metrics too; may be given repeatedly.",
    ),
]


def cluster_doctor(
    coordinator: Coordinator, admin: Admin = None, output: Output = OutputFormat.TABLE, timeout: Timeout = 10.0
) -> None:
    """Check every node of a cluster, and what they have in common; exit with 1 when anything fails."""
    write_checks(output, checks_of_cluster(coordinators_of(coordinator), admins_of(admin), timeout))


def admins_of(given: list[str] | None) -> tuple[Address, ...]:
    """Return the admin ports that are named."""
    return tuple(address for each in given or () for address in parse_addresses(each))


def checks_of_cluster(coordinators: Coordinators, admins: tuple[Address, ...], timeout_s: float) -> list[Check]:
    """Return the checks of a cluster; of one that nobody tells of, that alone, and those of the admin ports."""
    try:
        found = find_nodes(coordinators, timeout_s)
        cluster = view(found, find_unreached(found, coordinators, timeout_s))
    except RequestError as error:
        checks = [Check("nodes", "fail", "none", str(error))]
    else:
        facts, silent = look_at_nodes(found.addresses, timeout_s, coordinators.security)
        checks = list(cluster_checks(cluster, facts, silent, time.time()))
    return [*checks, *admin_checks(admins, timeout_s)]
