"""Every node of a cluster, asked at the same time: found from the addresses that are known, and asked once each.

No node is followed to another one here: each answers for itself. One that does not answer keeps nobody from the answers
of the others; why it does not is a text which continues a sentence that begins with the node. Blocking, with a thread
for each of some nodes.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Final

from coordinator.client.connection import Connection, NodeError
from coordinator.client.refusals import refusal_of, show_refusal
from coordinator.client.request import TRY_TIMEOUT_S, RequestError, RequestTimeoutError, ask
from coordinator.client.security import PLAINTEXT, ClientSecurity, security_of
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    DescribeCluster,
    DescribeClusterResponse,
    ErrorResponse,
    ListGroups,
    ListGroupsResponse,
    Request,
    Response,
)
from coordinator.protocol.messages.pages import ask_for_all
from coordinator.protocol.parts import GroupSummary
from coordinator.protocol.text.addresses import Address, format_address

NODES_AT_ONCE: Final = 16
LIST_AGAIN_S: Final = 3.0
"""The time in which nodes are asked again for the groups of shards that none of them served."""
_PAUSE_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class NodesFound:
    """The nodes that answered, by id, and why others did not.

    `why_not` is by address: of nodes that others have named, and of addresses that were given.
    """

    descriptions: Mapping[int, DescribeClusterResponse]
    addresses: Mapping[int, Address]
    why_not: Mapping[Address, str]

    @property
    def shards(self) -> frozenset[int]:
        """The shards that any node has described."""
        return frozenset(shard.shard for description in self.descriptions.values() for shard in description.shards)

    @property
    def shard_count(self) -> int | None:
        """The number of shards of the cluster, None where nodes have described some of them alone."""
        shards = self.shards
        return len(shards) if shards == set(range(len(shards))) else None


@dataclass(frozen=True, slots=True)
class GroupsListed:
    """The groups of all nodes together, by id; `unlisted` are shards that no node served, whose groups are missing."""

    groups: tuple[GroupSummary, ...]
    unlisted: tuple[int, ...] = ()
    why_not: Mapping[Address, str] | None = None


def find_nodes(coordinators: Sequence[Address], timeout_s: float) -> NodesFound:
    """Ask every node for a description: those at these addresses, and those that these name.

    Raises RequestError when none answers, or when they are of different clusters.
    """
    descriptions: dict[int, DescribeClusterResponse] = {}
    addresses: dict[int, Address] = {}
    why_not: dict[Address, str] = {}
    asked: set[Address] = set()
    wanted = list(dict.fromkeys(coordinators))
    deadline_s = time.monotonic() + timeout_s
    while wanted:
        asked.update(wanted)
        answers, failures = ask_each_node(
            wanted, DescribeCluster(), max(deadline_s - time.monotonic(), _PAUSE_S), security_of(coordinators)
        )
        why_not |= failures
        for address, answer in answers.items():
            if not isinstance(answer, DescribeClusterResponse):
                why_not[address] = f"does not describe itself: {_why_refused(answer)}"
                continue
            _must_be_of_one_cluster(descriptions, addresses, answer, address)
            descriptions.setdefault(answer.node_id, answer)
            addresses.setdefault(answer.node_id, address)
        named = {
            (node.host, node.port)
            for description in descriptions.values()
            for node in description.nodes
            if node.host and node.node_id not in descriptions
        }
        wanted = sorted(named - asked)
    if not descriptions:
        whys = "; ".join(f"the coordinator at {format_address(address)} {why}" for address, why in why_not.items())
        if all("did not answer within" in why for why in why_not.values()):
            raise RequestTimeoutError(whys, whys, None)
        raise RequestError(f"{whys}; check the addresses, and that a coordinator is running there")
    return NodesFound(descriptions, addresses, why_not)


def find_unreached(found: NodesFound, coordinators: Sequence[Address], timeout_s: float) -> dict[int, str]:
    """Return the nodes that answered elsewhere than where members are sent and cannot be asked there, each with why."""
    told = {
        number: address
        for number, description in found.descriptions.items()
        for address in _own_address(description)
        if address != found.addresses[number] and address[0]
    }
    answers, failures = ask_each_node(list(told.values()), DescribeCluster(), timeout_s, security_of(coordinators))
    unreached = {}
    for number, address in told.items():
        answer = answers.get(address)
        if address in failures:
            unreached[number] = failures[address]
        elif isinstance(answer, DescribeClusterResponse) and answer.node_id != number:
            unreached[number] = f"is not to be found, but node {answer.node_id}"
    return unreached


def list_groups(coordinators: Sequence[Address], timeout_s: float) -> GroupsListed | Response:
    """Return the groups of a coordinator: of one node if it serves every shard, else of all nodes together.

    A refusal is returned as the response that carries it. Raises RequestError.
    """
    deadline_s = time.monotonic() + timeout_s
    response = ask(coordinators, ListGroups(), timeout_s)
    if isinstance(response, ListGroupsResponse):
        return GroupsListed(response.groups)
    refusal = refusal_of(response)
    if refusal is None or refusal[0] is not ErrorCode.NOT_COORDINATOR:
        return response
    return _list_everywhere(coordinators, deadline_s)


def _list_everywhere(coordinators: Sequence[Address], deadline_s: float) -> GroupsListed:
    groups: dict[str, GroupSummary] = {}
    listed: set[int] = set()
    again_until_s = min(deadline_s, time.monotonic() + LIST_AGAIN_S)
    while True:
        found = find_nodes(coordinators, max(deadline_s - time.monotonic(), _PAUSE_S))
        left_s = max(deadline_s - time.monotonic(), _PAUSE_S)
        answers, failures = ask_each_node(
            list(found.addresses.values()), ListGroups(of_served=True), left_s, security_of(coordinators)
        )
        for answer in answers.values():
            if isinstance(answer, ListGroupsResponse):
                listed.update(answer.shards)
                groups.update((group.group_id, group) for group in answer.groups)
        unlisted = tuple(sorted(found.shards - listed))
        if not unlisted or time.monotonic() + _PAUSE_S >= again_until_s:
            known = tuple(groups[group_id] for group_id in sorted(groups))
            return GroupsListed(known, unlisted, {**found.why_not, **failures})
        time.sleep(_PAUSE_S)


def ask_each_node(
    addresses: Sequence[Address], request: Request, timeout_s: float, security: ClientSecurity = PLAINTEXT
) -> tuple[dict[Address, Response], dict[Address, str]]:
    """Return what the node at each address answers, and why one does not; an answer in pages comes as one."""
    if not addresses:
        return {}, {}
    answers: dict[Address, Response] = {}
    failures: dict[Address, str] = {}
    ask_one = partial(_ask_node, request=request, timeout_s=min(timeout_s, TRY_TIMEOUT_S), security=security)
    for address, said in zip(addresses, _at_once(ask_one, addresses), strict=True):
        if isinstance(said, str):
            failures[address] = said
        else:
            answers[address] = said
    return answers, failures


def _at_once(ask_one: Callable[[Address], Response | str], addresses: Sequence[Address]) -> Iterable[Response | str]:
    if len(addresses) == 1:
        return [ask_one(addresses[0])]
    with ThreadPoolExecutor(min(NODES_AT_ONCE, len(addresses)), thread_name_prefix="kcoord-ask") as pool:
        return list(pool.map(ask_one, addresses))


def _ask_node(address: Address, request: Request, timeout_s: float, security: ClientSecurity) -> Response | str:
    deadline_s = time.monotonic() + timeout_s
    try:
        with Connection(address, timeout_s, security) as connection:
            return ask_for_all(lambda page: connection.ask(page, max(deadline_s - time.monotonic(), _PAUSE_S)), request)
    except NodeError as error:
        return str(error)


def _why_refused(answer: Response) -> str:
    if isinstance(answer, ErrorResponse) and answer.error is ErrorCode.UNSUPPORTED_VERSION:
        return "it is of an older release"
    refusal = refusal_of(answer)
    return f"it answered with {type(answer).__name__}" if refusal is None else show_refusal(refusal)


def _must_be_of_one_cluster(
    descriptions: Mapping[int, DescribeClusterResponse],
    addresses: Mapping[int, Address],
    answer: DescribeClusterResponse,
    address: Address,
) -> None:
    for node, other in descriptions.items():
        is_other_cluster = other.cluster_id != answer.cluster_id
        is_other_node = answer.cluster_id is None and _own_address(other) != _own_address(answer)
        if is_other_cluster or is_other_node:
            raise RequestError(
                f"{format_address(addresses[node])} is {_name_of(other)} and {format_address(address)} is "
                f"{_name_of(answer)}: name nodes of one cluster"
            )


def _own_address(description: DescribeClusterResponse) -> list[Address]:
    return [(node.host, node.port) for node in description.nodes if node.node_id == description.node_id]


def _name_of(description: DescribeClusterResponse) -> str:
    if description.cluster_id is None:
        return "a coordinator that is alone"
    return f"a node of cluster {description.cluster_id}"
