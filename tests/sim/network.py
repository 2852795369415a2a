"""The network between queries and the coordinator: TCP as it fails.

Within one direction of a connection bytes keep their order or are lost for good; connections overtake each other, so
that what an old one still brings can come after its successor has begun. A reset is learned of by each end in its own
time, a silent one by nobody. A held direction delivers late what it could not deliver in time.
"""

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any, Protocol

from coordinator.protocol.errors import RemoteProtocolError
from coordinator.protocol.messages import Push, Response
from coordinator.protocol.session import HelloReceived, RequestReceived, Role, Session
from tests.sim.coordinator import Coordinator
from tests.sim.schedule import Schedule


class Peer(Protocol):
    """The member's end of connections: one process on one host."""

    name: str
    host: str
    is_alive: bool

    def on_connected(self, connection_id: int) -> None:
        """Take note of an open connection."""

    def on_bytes(self, connection_id: int, data: bytes) -> None:
        """Take what came."""

    def on_lost(self, connection_id: int, why: str) -> None:
        """Take note of a connection that failed or is gone."""


class Link:
    """One connection; ids differ at its two ends."""

    __slots__ = (
        "connection_id",
        "is_deaf_at_member",
        "is_deaf_at_node",
        "is_open_at_member",
        "is_open_at_node",
        "life",
        "member_connection_id",
        "peer",
        "session",
        "to_member_ms",
        "to_node_ms",
    )

    def __init__(self, connection_id: int, peer: Peer, member_connection_id: int, life: int) -> None:
        self.connection_id = connection_id
        self.peer = peer
        self.member_connection_id = member_connection_id
        self.life = life
        self.session = Session(Role.COORDINATOR)
        self.is_open_at_node = True
        self.is_open_at_member = True
        self.is_deaf_at_node = False
        self.is_deaf_at_member = False
        self.to_node_ms = 0
        self.to_member_ms = 0


class Network:
    """All connections of members."""

    def __init__(self, dice: Random, schedule: Schedule, delays_ms: tuple[int, ...], coordinator: Coordinator) -> None:
        self._dice = dice
        self._schedule = schedule
        self._delays_ms = delays_ms
        self._coordinator = coordinator
        self.answer_others: Callable[[int, int, Response], object] = lambda *_: None
        """Takes answers on connections that are not the network's."""
        self.close_others: Callable[[int, str], object] = lambda *_: None
        """Closes such a connection, or one that is over."""
        self.links: dict[int, Link] = {}
        self._by_member: dict[tuple[str, int], Link] = {}
        self._next_id = 1_000
        self._held_to_node_ms: dict[str, int] = {}
        self._held_to_member_ms: dict[str, int] = {}

    # ---- faults -----------------------------------------------------------------------------------------------------

    def live_links(self) -> list[Link]:
        return [link for link in self.links.values() if link.is_open_at_member and link.peer.is_alive]

    def reset(self, link: Link) -> None:
        """Break a connection; what is under way is lost, and each end learns of it in its own time."""
        link.is_deaf_at_node = link.is_deaf_at_member = True
        self._schedule.after(self._delay_ms(), self._end_at_node, link, "connection reset by peer")
        self._schedule.after(self._delay_ms(), self._end_at_member, link, "connection reset by peer")

    def silence(self, link: Link, *, to_node: bool, to_member: bool) -> None:
        """Let nothing arrive any more, in one direction or both, and tell nobody."""
        link.is_deaf_at_node |= to_node
        link.is_deaf_at_member |= to_member

    def hold(self, host: str, ms: int, *, to_node: bool, to_member: bool) -> None:
        """Let nothing of a host pass for a while, in one direction or both; it arrives afterwards."""
        until_ms = self._schedule.now_ms + ms
        if to_node:
            self._held_to_node_ms[host] = until_ms
        if to_member:
            self._held_to_member_ms[host] = until_ms

    def host_lost(self, host: str) -> None:
        """Let a host vanish: nobody is told."""
        for link in self.links.values():
            if link.peer.host == host:
                self.silence(link, to_node=True, to_member=True)

    def heal(self, slowest_ms: int) -> None:
        """Let everything pass again, none of it later than `slowest_ms`; connections that have become deaf stay so."""
        self._delays_ms = tuple(min(delay_ms, slowest_ms) for delay_ms in self._delays_ms)
        self._held_to_node_ms.clear()
        self._held_to_member_ms.clear()

    def _delay_ms(self) -> int:
        return self._dice.choice(self._delays_ms)

    def _to_node_at(self, link: Link) -> int:
        held_ms = self._held_to_node_ms.get(link.peer.host, 0)
        link.to_node_ms = max(link.to_node_ms, self._schedule.now_ms + self._delay_ms(), held_ms)
        return link.to_node_ms

    def _to_member_at(self, link: Link) -> int:
        held_ms = self._held_to_member_ms.get(link.peer.host, 0)
        link.to_member_ms = max(link.to_member_ms, self._schedule.now_ms + self._delay_ms(), held_ms)
        return link.to_member_ms

    # ---- the member's end -------------------------------------------------------------------------------------------

    def connect(self, peer: Peer, member_connection_id: int) -> None:
        held_ms = max(self._held_to_node_ms.get(peer.host, 0), self._held_to_member_ms.get(peer.host, 0))
        at_ms = max(self._schedule.now_ms + self._delay_ms(), held_ms)
        self._schedule.at(at_ms, self._accept, peer, member_connection_id)

    def _accept(self, peer: Peer, member_connection_id: int) -> None:
        coordinator = self._coordinator
        if not coordinator.is_powered or not peer.is_alive:
            return
        if not coordinator.is_up:
            peer.on_lost(member_connection_id, "Connection refused")
            return
        self._next_id += 1
        link = Link(self._next_id, peer, member_connection_id, coordinator.life)
        self.links[link.connection_id] = link
        self._by_member[peer.name, member_connection_id] = link
        peer.on_connected(member_connection_id)
        coordinator.do(partial(self._greet, link))

    def _greet(self, link: Link) -> None:
        self._carry_to_member(link, link.session.send_hello())

    def send(self, peer: Peer, member_connection_id: int, data: bytes) -> None:
        link = self._by_member.get((peer.name, member_connection_id))
        if link is not None and link.is_open_at_member:
            self._schedule.at(self._to_node_at(link), self._arrive_at_node, link, data)

    def disconnect(self, peer: Peer, member_connection_id: int) -> None:
        """Close the member's end; the coordinator learns of it after what was sent before."""
        link = self._by_member.pop((peer.name, member_connection_id), None)
        if link is not None and link.is_open_at_member:
            link.is_open_at_member = False
            self._schedule.at(self._to_node_at(link), self._end_at_node, link, "closed by peer")

    def process_ended(self, peer: Peer) -> None:
        """Close every connection of a process, as the operating system does."""
        for link in [link for link in self.links.values() if link.peer is peer]:
            self.disconnect(peer, link.member_connection_id)

    def _arrive_at_node(self, link: Link, data: bytes) -> None:
        coordinator = self._coordinator
        if link.is_deaf_at_node:
            return
        if link.life != coordinator.life:
            if coordinator.is_powered:
                self._schedule.after(self._delay_ms(), self._end_at_member, link, "connection reset by peer")
            return
        if link.is_open_at_node:
            coordinator.do(partial(self._hear, link, data))

    def _hear(self, link: Link, data: bytes) -> None:
        if not link.is_open_at_node:
            return
        self._schedule.stamp(data)
        try:
            for said in link.session.receive_bytes(data):
                if isinstance(said, HelloReceived):
                    self._coordinator.opened(link.connection_id, link.peer.host)
                elif isinstance(said, RequestReceived):
                    self._coordinator.arrived(link.connection_id, said.correlation_id, said.request)
                if not link.is_open_at_node:
                    return
        except RemoteProtocolError as error:
            raise AssertionError(f"{link.peer.name} broke a rule of the wire: {error}") from error

    # ---- the coordinator's end --------------------------------------------------------------------------------------

    def send_response(self, connection_id: int, correlation_id: int, response: Response) -> None:
        link = self.links.get(connection_id)
        if link is None:
            self.answer_others(connection_id, correlation_id, response)
        elif link.is_open_at_node:
            self._carry_to_member(link, link.session.send_response(correlation_id, response))

    def send_push(self, connection_id: int, push: Push) -> None:
        link = self.links.get(connection_id)
        if link is not None and link.is_open_at_node:
            self._carry_to_member(link, link.session.send_push(push))

    def close(self, connection_id: int, why: str) -> None:
        """Close the coordinator's end after what was sent; it is told that it is done."""
        link = self.links.get(connection_id)
        if link is None:
            self.close_others(connection_id, why)
        else:
            self._schedule.at(self._to_member_at(link), self._end_at_member, link, "closed by the coordinator")
            self._schedule.after(0, self._end_at_node, link, why)

    def coordinator_died(self, *, is_silent: bool) -> None:
        for link in self.links.values():
            link.is_open_at_node = False
            if not is_silent and link.is_open_at_member:
                self._schedule.at(self._to_member_at(link), self._end_at_member, link, "connection reset by peer")

    def _carry_to_member(self, link: Link, data: bytes) -> None:
        self._schedule.at(self._to_member_at(link), self._arrive_at_member, link, data)

    def _arrive_at_member(self, link: Link, data: bytes) -> None:
        if link.is_open_at_member and not link.is_deaf_at_member:
            self._schedule.stamp(data)
            link.peer.on_bytes(link.member_connection_id, data)

    # ---- ends -------------------------------------------------------------------------------------------------------

    def _end_at_member(self, link: Link, why: str) -> None:
        if link.is_open_at_member:
            link.is_open_at_member = False
            self._by_member.pop((link.peer.name, link.member_connection_id), None)
            link.peer.on_lost(link.member_connection_id, why)
            self._forget_if_over(link)

    def _end_at_node(self, link: Link, why: str) -> None:
        if link.is_open_at_node and link.life == self._coordinator.life and not self._is_lost(link, why):
            self._coordinator.do(partial(self._closed_at_node, link, why))
        self._forget_if_over(link)

    def _is_lost(self, link: Link, why: str) -> bool:
        """Whether news of the peer's end of a deaf connection gets lost like everything else."""
        return link.is_deaf_at_node and why == "closed by peer"

    def _closed_at_node(self, link: Link, why: str) -> None:
        if link.is_open_at_node:
            link.is_open_at_node = False
            if link.session.version is not None:
                self._coordinator.closed(link.connection_id, why)
            self._forget_if_over(link)

    def _forget_if_over(self, link: Link) -> None:
        if not link.is_open_at_member and not link.is_open_at_node:
            self.links.pop(link.connection_id, None)
            self._by_member.pop((link.peer.name, link.member_connection_id), None)

    def unanswered(self) -> dict[str, Any]:
        """Return what hangs, for a report."""
        return {f"{link.peer.name}/{key}": link.session.unanswered for key, link in self.links.items()}
