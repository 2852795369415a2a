"""The connections between the nodes of a simulated cluster, as the port to the peers promises them, and as they fail.

Two nodes are in contact when both want each other in the lives that they are in, both run and no direction between them
is cut. Within a contact what one says comes in its order, later or soon; messages of different contacts, and of the two
directions, overtake one another. When a contact ends, both ends learn of it in their own time, and what was under way
is lost from some message on.
"""

from collections import defaultdict, deque
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import TYPE_CHECKING

from coordinator.core.peers.effects import ConnectPeers
from coordinator.core.peers.events import ContactBegan, ContactEnded, PeerPinged, PeerRefused, PeerSaid, PeersEvent
from coordinator.protocol import peer_messages as wire
from tests.sim.schedule import Schedule

if TYPE_CHECKING:
    from tests.sim.cluster.process import ClusterProcess

SILENCE_MS = 1_500
LOOK_MS = 50
PINGED_EVERY = 6
"""At every so many looks each end of a contact that hears the other is told that it lives."""
REFUSED_EVERY = 10
"""Attempts are made at every look; every so many of them that are refused are told."""


@dataclass(eq=False, slots=True)
class Contact:
    """One contact, by the lives of the two processes; `last_ms` is when the last message to each arrives."""

    number: int
    lives: dict[int, int]
    node_epochs: dict[int, int]
    is_over: bool = False
    told: set[int] = field(default_factory=set)
    """Those that are told of it, or will be."""
    began: set[int] = field(default_factory=set)
    """Those that have been told that it began."""
    under_way: dict[int, deque[PeersEvent]] = field(default_factory=lambda: defaultdict(deque))
    last_ms: dict[int, int] = field(default_factory=dict)
    silent_since_ms: int | None = None


class PeerNetwork:
    """All contacts, by pair of nodes."""

    def __init__(self, dice: Random, schedule: Schedule, delays_ms: tuple[int, ...]) -> None:
        self._dice = dice
        self._schedule = schedule
        self._delays_ms = delays_ms
        self._numbers = count(1)
        self._looks = 0
        self.processes: dict[int, ClusterProcess] = {}
        self._wanted: dict[int, ConnectPeers] = {}
        self._contacts: dict[tuple[int, int], Contact] = {}
        self._cut_until_ms: dict[tuple[int, int], int] = {}
        self._ending: dict[tuple[int, int], int] = defaultdict(int)
        """Of how many ends the two of a pair are not told yet."""
        self._schedule.after(LOOK_MS, self._look)

    # ---- faults -----------------------------------------------------------------------------------------------------

    def cut(self, a: int, b: int, ms: int) -> None:
        """Let nothing pass from one node to another for a while; it comes later, if the contact lasts that long."""
        self._cut_until_ms[a, b] = self._schedule.now_ms + ms

    def break_contact(self, a: int, b: int) -> None:
        """End the contact of two nodes."""
        contact = self._contacts.get(_pair(a, b))
        if contact is not None:
            self._end(_pair(a, b), contact, "reset by peer")

    def heal(self) -> None:
        """Let everything pass."""
        self._cut_until_ms.clear()
        self._delays_ms = tuple(min(delay_ms, 5) for delay_ms in self._delays_ms)

    def pairs(self) -> list[tuple[int, int]]:
        """Return the pairs that are in contact."""
        return sorted(self._contacts)

    # ---- the port ---------------------------------------------------------------------------------------------------

    def connect(self, node: int, wanted: ConnectPeers) -> None:
        """Take which nodes one wants to be in contact with."""
        self._wanted[node] = wanted
        for pair, contact in list(self._contacts.items()):
            if node in pair and not self._is_wanted(contact, pair):
                self._end(pair, contact, "another life")

    def say(self, node: int, peer: int, message: wire.PeerMessage) -> None:
        """Carry a message, if there is a contact."""
        pair = _pair(node, peer)
        contact = self._contacts.get(pair)
        if contact is None or node not in contact.began:
            return
        self._carry(contact, peer, PeerSaid(node, contact.node_epochs[node], message), node)

    def end_contact(self, node: int, peer: int, why: str) -> None:
        """End a contact because of what was said in it."""
        raise AssertionError(f"node {node} does not understand node {peer}: {why}")

    def process_ended(self, node: int, *, is_silent: bool) -> None:
        """Take note that a process is no more."""
        self._wanted.pop(node, None)
        for pair, contact in list(self._contacts.items()):
            if node in pair:
                contact.told.discard(node)
                if is_silent:
                    self._schedule.after(SILENCE_MS, self._end_if_same, pair, contact)
                else:
                    self._end(pair, contact, "closed by peer")

    # ---- contacts ---------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        self._schedule.after(LOOK_MS, self._look)
        self._looks += 1
        for a in sorted(self.processes):
            for b in sorted(self.processes):
                if a < b:
                    self._look_at(a, b)
                if a != b and self._looks % REFUSED_EVERY == (a + b) % REFUSED_EVERY:
                    self._refuse(a, b)

    def _look_at(self, a: int, b: int) -> None:
        pair, contact = (a, b), self._contacts.get((a, b))
        is_open = self._is_open(a, b) and self._is_open(b, a) and self._hears(a) and self._hears(b)
        if contact is None:
            wants_a, wants_b = self._wanted.get(a), self._wanted.get(b)
            if wants_a is None or wants_b is None or not is_open or self._ending[pair]:
                return
            lives = {a: self.processes[a].life, b: self.processes[b].life}
            epochs = {a: wants_a.node_epoch, b: wants_b.node_epoch}
            contact = Contact(next(self._numbers), lives, epochs)
            if self._is_wanted(contact, pair):
                self._contacts[pair] = contact
                contact.told |= {a, b}
                self._carry(contact, a, ContactBegan(b, epochs[b]), b)
                self._carry(contact, b, ContactBegan(a, epochs[a]), a)
        elif is_open:
            contact.silent_since_ms = None
            if self._looks % PINGED_EVERY == (a + b) % PINGED_EVERY:
                self._ping(contact, pair)
        elif contact.silent_since_ms is None:
            contact.silent_since_ms = self._schedule.now_ms
        elif self._schedule.now_ms - contact.silent_since_ms >= SILENCE_MS:
            self._end(pair, contact, "silent")

    def _ping(self, contact: Contact, pair: tuple[int, int]) -> None:
        for node, other in (pair, pair[::-1]):
            if node in contact.began:
                self._carry(contact, other, PeerPinged(node, contact.node_epochs[node]), node)

    def _refuse(self, a: int, b: int) -> None:
        wanted, process = self._wanted.get(a), self.processes[b]
        if (
            wanted is None
            or b not in wanted.peers
            or process.is_up
            or not process.is_powered
            or not self._is_open(a, b)
        ):
            return
        self._schedule.after(
            self._delay_ms(), self._post, a, self.processes[a].life, PeerRefused(b, wanted.peers[b].node_epoch)
        )

    def _is_wanted(self, contact: Contact, pair: tuple[int, int]) -> bool:
        for node, other in (pair, pair[::-1]):
            wanted = self._wanted.get(node)
            if wanted is None or wanted.node_epoch != contact.node_epochs[node]:
                return False
            if other not in wanted.peers or wanted.peers[other].node_epoch > contact.node_epochs[other]:
                return False
        return True

    def _hears(self, node: int) -> bool:
        process = self.processes[node]
        return process.is_up and not process.is_paused

    def _is_open(self, a: int, b: int) -> bool:
        return self._cut_until_ms.get((a, b), 0) <= self._schedule.now_ms

    def _end_if_same(self, pair: tuple[int, int], contact: Contact) -> None:
        if self._contacts.get(pair) is contact:
            self._end(pair, contact, "silent")

    def _end(self, pair: tuple[int, int], contact: Contact, why: str) -> None:
        del self._contacts[pair]
        contact.is_over = True
        for node, other in (pair, pair[::-1]):
            ended = ContactEnded(other, contact.node_epochs[other], why)
            # What arrives before this end learns of it arrives; a connection loses the end of what was under way.
            at_ms = self._schedule.now_ms + self._delay_ms()
            contact.last_ms[node] = min(contact.last_ms.get(node, at_ms), at_ms)
            self._ending[pair] += 1
            self._schedule.at(at_ms, self._tell_end, contact, pair, node, ended)

    def _tell_end(self, contact: Contact, pair: tuple[int, int], node: int, ended: ContactEnded) -> None:
        self._ending[pair] -= 1
        if node not in contact.began:
            contact.told.discard(node)
        if node in contact.told:
            contact.told.discard(node)
            self._post(node, contact.lives[node], ended)

    def _carry(self, contact: Contact, to: int, event: PeersEvent, by: int) -> None:
        at_ms = max(contact.last_ms.get(to, 0), self._schedule.now_ms + self._delay_ms())
        contact.last_ms[to] = at_ms
        contact.under_way[to].append(event)
        self._schedule.at(at_ms, self._arrive, contact, to, by)

    def _arrive(self, contact: Contact, to: int, by: int) -> None:
        """Have the next message arrive, unless that direction is cut: then it waits, and all that follow."""
        held_ms = self._cut_until_ms.get((by, to), 0)
        if held_ms > self._schedule.now_ms and not contact.is_over:
            self._schedule.at(held_ms, self._arrive, contact, to, by)
            return
        event = contact.under_way[to].popleft()
        if to in contact.told:
            if isinstance(event, ContactBegan):
                contact.began.add(to)
            self._post(to, contact.lives[to], event)

    def _post(self, node: int, life: int, event: PeersEvent) -> None:
        process = self.processes[node]
        if process.life == life:
            process.post(event)

    def _delay_ms(self) -> int:
        return self._dice.choice(self._delays_ms)


def _pair(a: int, b: int) -> tuple[int, int]:
    return (a, b) if a < b else (b, a)
