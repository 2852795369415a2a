"""The thread that asks: nodes, the groups of each node, and then each group, over one kept connection a node.

It rests after each group for three times as long as that took, so that a console costs a node a quarter of what it
could at most, however many groups there are and however many people look. Groups that are looked at come first. What
cannot be asked now is asked in the next round; nothing here changes anything.
"""

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Final

from coordinator.client.cluster_view import view
from coordinator.client.connection import Connection, NodeError, NodeTimeoutError
from coordinator.client.every_node import find_nodes
from coordinator.client.request import RequestError
from coordinator.console.known.picture import Picture
from coordinator.console.settings import ConsoleSettings
from coordinator.protocol.errors import LocalProtocolError
from coordinator.protocol.messages import (
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
from coordinator.protocol.parts import GroupSummary
from coordinator.protocol.text.addresses import Address

_REST: Final = 3.0
_LONGEST_REST_S: Final = 2.0
_LONGEST_END_S: Final = 2.0
ENDED_BY_A_BUG: Final = "this console met a bug, which it has printed, and asks nobody any more: start it again"
_TRIES: Final = 2
"""A kept connection may be of a node that was started again: it is made anew once."""
_MOST_LATE: Final = 2
"""Groups in a row for which a node gives no answer in time; then it is asked for no other one in this round."""


class Survey:
    """Asks the coordinators in a thread of its own, from `start` to `stop`."""

    def __init__(
        self,
        settings: ConsoleSettings,
        picture: Picture,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._settings = settings
        self._picture = picture
        self._now_ms = now_ms
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kcoord-console-survey", daemon=True)
        self._connections: dict[Address, Connection] = {}
        self._addresses: Mapping[int, Address] = {}
        self._late: dict[Address, int] = {}
        """The groups in a row that each node left without an answer, in this round."""
        self._has_seen_all = False

    def start(self) -> None:
        """Begin to ask."""
        self._thread.start()

    def stop(self) -> None:
        """Stop asking; a request that is on its way is waited for, but not long."""
        self._stopping.set()
        self._thread.join(min(self._settings.timeout_s, _LONGEST_END_S))

    def stop_asking(self) -> None:
        """Close the connections, of a survey whose thread does not run."""
        self._close_others(())

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                began_s = time.monotonic()
                self.look_once()
                self._wait(began_s + self._settings.refresh_s)
        finally:
            self._close_others(())
            if not self._stopping.is_set():  # a bug of ours, which Python has printed by now or prints next
                self._picture.see_trouble(ENDED_BY_A_BUG)

    def look_once(self) -> None:
        """Ask for everything once."""
        listed = self._look_at_cluster()
        for name, (_, node) in listed.items():
            self._look_at_watched()
            if self._stopping.is_set():
                return
            self._describe(name, node)
        self._has_seen_all = self._has_seen_all or bool(listed)

    def _look_at_cluster(self) -> Mapping[str, tuple[GroupSummary, int]]:
        """Ask nodes for themselves and for their groups; return the groups, each with its node."""
        try:
            found = find_nodes(self._settings.coordinators, self._settings.timeout_s)
        except RequestError as error:
            self._picture.see_trouble(str(error))
            self._close_others(())
            return {}
        self._addresses = found.addresses
        self._late = {}
        self._close_others(found.addresses.values())
        listed: dict[str, tuple[GroupSummary, int]] = {}
        served: set[int] = set()
        for node, address in found.addresses.items():
            with suppress(NodeError):
                answer = self._ask(address, ListGroups(of_served=True))
                if isinstance(answer, ListGroupsResponse):
                    served.update(answer.shards)
                    listed.update((group.group_id, (group, node)) for group in answer.groups)
        self._picture.see_cluster(view(found), self._now_ms())
        self._picture.see_list(listed, found.shards - served, found.shard_count)
        return listed

    def _look_at_watched(self) -> None:
        refresh_ms = round(self._settings.refresh_s * 1000)
        for name, node in self._picture.due(self._now_ms(), refresh_ms):
            if node is not None and not self._stopping.is_set():
                self._describe(name, node)

    def _describe(self, name: str, node: int) -> None:
        address = self._addresses.get(node)
        if address is None or self._late.get(address, 0) >= _MOST_LATE:
            return
        began_s = time.monotonic()
        try:
            offsets = self._ask(address, FetchOffsets(name))
            description = self._ask(address, DescribeGroup(name))
        except NodeTimeoutError:
            self._late[address] = self._late.get(address, 0) + 1
        except (NodeError, LocalProtocolError):
            pass
        else:
            self._late.pop(address, None)
            if isinstance(description, DescribeGroupResponse) and not description.error:
                told = offsets.offsets if isinstance(offsets, FetchOffsetsResponse) else ()
                self._picture.see_described(description, told, self._now_ms())
        rest = _REST if self._has_seen_all else 1.0
        self._stopping.wait(min(_LONGEST_REST_S, (time.monotonic() - began_s) * rest))

    def _ask(self, address: Address, request: Request) -> Response:
        """Ask a node over its kept connection; raises NodeError."""
        for left in reversed(range(_TRIES)):
            is_kept = address in self._connections
            try:
                if not is_kept:
                    self._connections[address] = Connection(
                        address, self._settings.timeout_s, self._settings.coordinators.security
                    )
                connection = self._connections[address]
                return ask_for_all(lambda page: connection.ask(page, self._settings.timeout_s), request)  # noqa: B023
            except NodeError as error:
                self._drop(address)
                if isinstance(error, NodeTimeoutError) or not (is_kept and left):
                    raise
        raise AssertionError("a request is answered or fails")

    def _close_others(self, kept: Iterable[Address]) -> None:
        for address in set(self._connections) - set(kept):
            self._drop(address)

    def _drop(self, address: Address) -> None:
        connection = self._connections.pop(address, None)
        if connection is not None:
            connection.__exit__()

    def _wait(self, until_s: float) -> None:
        """Wait for the next round, and look at what is watched meanwhile."""
        while not self._stopping.is_set() and (left_s := until_s - time.monotonic()) > 0:
            self._stopping.wait(min(left_s, 0.5))
            self._look_at_watched()
