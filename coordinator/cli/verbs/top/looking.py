"""One look at a cluster: its nodes, their groups, and of as many groups as time allows their partitions.

Groups that are shown are asked for first, also for the times of their commits, and then the others, each in turn and as
far as the time between two looks lets them: ten thousand groups cost a node no more than a few hundred. Of a look
each node has one connection; nodes are asked at the same time. All that a look finds is told to `Known`.
"""

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from coordinator.cli.verbs.top.known import Known
from coordinator.cli.verbs.top.seen import Seen
from coordinator.client.cluster_view import ClusterView, view
from coordinator.client.connection import Connection, NodeError
from coordinator.client.every_node import GroupsListed, find_nodes, list_groups
from coordinator.client.operating.refusal_kinds import UNAUTHORISED
from coordinator.client.refusals import refusal_of, show_refusal
from coordinator.client.request import TRY_TIMEOUT_S, ask
from coordinator.client.security import Coordinators
from coordinator.protocol.errors import ErrorCode, LocalProtocolError
from coordinator.protocol.messages import (
    DescribeCluster,
    DescribeGroup,
    DescribeGroupResponse,
    FetchOffsets,
    FetchOffsetsResponse,
    ListGroups,
    ListGroupsResponse,
    Request,
    Response,
)
from coordinator.protocol.messages.pages import ask_for_all
from coordinator.protocol.parts import CommittedOffset, GroupSummary
from coordinator.protocol.text.addresses import Address, format_address

OTHERS_PART: Final = 0.5
"""The part of the time between two looks in which groups that are not shown are asked for."""
_ALONE: Final = -1
"""The number of the node that answers, where the cluster may not be described."""

Listed: TypeAlias = Mapping[str, tuple[GroupSummary, int]]


class LookRefusedError(Exception):
    """The coordinators refused to list groups; `response` says why."""

    def __init__(self, response: Response) -> None:
        refusal = refusal_of(response)
        why = f"answered with {type(response).__name__}" if refusal is None else f"refused: {show_refusal(refusal)}"
        super().__init__(f"the coordinator {why}")
        self.response = response


@dataclass(frozen=True, slots=True)
class _Overview:
    """The cluster, its nodes and their groups; `shards` is how many there are, None where that is not known."""

    cluster: ClusterView | None
    addresses: Mapping[int, Address]
    listed: Listed
    unlisted: Collection[int]
    shards: int | None = None


@dataclass(slots=True)
class _Told:
    """The groups of one node, as it has told of them."""

    descriptions: list[tuple[DescribeGroupResponse, Sequence[CommittedOffset] | None, int, float]] = field(
        default_factory=list
    )
    refused: list[str] = field(default_factory=list)
    why_silent: str = ""


class Looker:
    """Looks again and again; `every_s` is the time between two looks, `timeout_s` that of one answer."""

    def __init__(
        self,
        coordinators: Coordinators,
        known: Known,
        every_s: float,
        timeout_s: float,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._coordinators = coordinators
        self._known = known
        self._every_s = every_s
        self._timeout_s = timeout_s
        self._now_ms = now_ms
        self._connections: dict[Address, Connection] = {}

    def look(self, shown: Collection[str]) -> Seen:
        """Look once, and return all that is known by now.

        Raises LookRefusedError, and RequestError when no coordinator answers.
        """
        try:
            found = self._overview()
            self._known.begin(found.cluster, found.listed, found.unlisted, self._now_ms(), found.shards)
            self._describe(found.addresses, shown)
        finally:
            for connection in self._connections.values():
                connection.__exit__()
            self._connections.clear()
        return self._known.end(self._now_ms())

    def fail(self, why: str) -> Seen:
        """Return all that was known before a look that failed."""
        return self._known.fail(why, self._now_ms())

    def _overview(self) -> _Overview:
        first = ask(self._coordinators, DescribeCluster(), self._timeout_s)
        refusal = refusal_of(first)
        if refusal is not None and refusal[0] in UNAUTHORISED:
            return self._groups_alone()
        found = find_nodes(self._coordinators, self._timeout_s)
        listed: dict[str, tuple[GroupSummary, int]] = {}
        served: set[int] = set()
        for node, answer in self._list(found.addresses).items():
            served.update(answer.shards)
            listed.update((group.group_id, (group, node)) for group in answer.groups)
        return _Overview(view(found), found.addresses, listed, found.shards - served, found.shard_count)

    def _groups_alone(self) -> _Overview:
        """Return the groups that somebody sees who may not describe the cluster."""
        answer = list_groups(self._coordinators, self._timeout_s)
        if not isinstance(answer, GroupsListed):
            raise LookRefusedError(answer)
        node = self._coordinators.answered_last or self._coordinators[0]
        listed = {group.group_id: (group, _ALONE) for group in answer.groups}
        return _Overview(None, {_ALONE: node}, listed, answer.unlisted)

    def _list(self, addresses: Mapping[int, Address]) -> Mapping[int, ListGroupsResponse]:
        answers: dict[int, ListGroupsResponse] = {}

        def list_one(node: int) -> None:
            try:
                answer = self._ask(addresses[node], ListGroups(of_served=True))
            except NodeError:
                return
            if isinstance(answer, ListGroupsResponse):
                answers[node] = answer

        _at_once(list_one, list(addresses))
        return answers

    def _describe(self, addresses: Mapping[int, Address], shown: Collection[str]) -> None:
        began_s = time.monotonic()
        turns = self._known.in_turn()
        is_shown = frozenset(shown)
        told = {node: _Told() for node in addresses}

        def describe_some(node: int) -> None:
            mine = [name for name, at in turns if at == node]
            try:
                for are_shown, part in ((True, 1.0), (False, OTHERS_PART)):
                    for name in [name for name in mine if (name in is_shown) == are_shown]:
                        if time.monotonic() >= began_s + part * self._every_s:
                            break
                        self._describe_one(addresses[node], name, told[node], is_shown=are_shown)
            except (NodeError, LocalProtocolError) as error:
                told[node].why_silent = f"the node at {format_address(addresses[node])} {error}"

        _at_once(describe_some, list(addresses))
        for each in told.values():
            for description, offsets, at_ms, at_s in each.descriptions:
                self._known.see(description, offsets, at_ms, at_s)
            for why in each.refused:
                self._known.see_refused(why)
            if each.why_silent:
                self._known.see_silent(each.why_silent)

    def _describe_one(self, address: Address, name: str, told: _Told, *, is_shown: bool) -> None:
        offsets = self._ask(address, FetchOffsets(name)) if is_shown else None
        description = self._ask(address, DescribeGroup(name))
        refusal = refusal_of(description)
        if refusal is not None:
            if refusal[0] is not ErrorCode.GROUP_ID_NOT_FOUND:
                told.refused.append(refusal[0].name)
        elif isinstance(description, DescribeGroupResponse):
            commits = offsets.offsets if isinstance(offsets, FetchOffsetsResponse) else None
            told.descriptions.append((description, commits, self._now_ms(), time.monotonic()))

    def _ask(self, address: Address, request: Request) -> Response:
        """Ask a node over the connection of this look; raises NodeError."""
        timeout_s = min(self._timeout_s, TRY_TIMEOUT_S)
        connection = self._connections.get(address)
        if connection is None:
            connection = Connection(address, timeout_s, self._coordinators.security)
            self._connections[address] = connection
        return ask_for_all(lambda page: connection.ask(page, timeout_s), request)


def _at_once(act: Callable[[int], None], nodes: Sequence[int]) -> None:
    """Act for each node in a thread of its own, which keeps no program from its end."""
    if len(nodes) == 1:
        act(nodes[0])
        return
    threads = [threading.Thread(target=act, args=(node,), name="kcoord-top", daemon=True) for node in nodes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
