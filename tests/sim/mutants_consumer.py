"""Mistakes of a consumer that its user's seeks, pauses, late commits, reconnects, silences show, for `mutants.py`."""

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from spark_kcoord.consumer.core.commits import AsyncCommits
from spark_kcoord.consumer.core.held import Held
from spark_kcoord.consumer.core.machine import ConsumerMachine
from spark_kcoord.consumer.core.memory import Memory
from spark_kcoord.fetch.tailing.room import Room
from spark_kcoord.member.core.held.holdings import Assignment, Holdings
from spark_kcoord.member.core.session.patience import Idleness
from tests.sim.directed import consumers_that_do_not_wait, consumers_with_little_memory
from tests.sim.mix import Mix, draw_mix

Patches = list[tuple[Any, str, Any]]


def _sought_position_reported() -> Patches:
    return [(Held, "is_there", property(lambda _: True)), (Held, "is_not_there", property(lambda _: False))]


def _async_commit_overtakes() -> Patches:
    next_to_send = AsyncCommits.next_to_send

    def later(self: AsyncCommits, *, beside: bool = False) -> Any:
        return None if beside else next_to_send(self)

    return [(AsyncCommits, "next_to_send", later)]


def _reconnect_tells_lost() -> Patches:
    return [(Holdings, "begin_anew", lambda self, _: self.forget_grants())]


def _idle_poller_keeps_owning() -> Patches:
    return [(Idleness, "ends_now", lambda *_: False), (Idleness, "ends_ms", property(lambda _: None))]


def _late_thread_owns() -> Patches:
    return [(Assignment, "at", lambda self, *_: self)]


def _paused_holds_all() -> Patches:
    tell = Memory.tell

    def tell_what_is_free(self: Memory, machine: ConsumerMachine, free: Callable[[int, int], object]) -> None:
        if machine.freed_bytes:
            tell(self, machine, free)

    return [(Memory, "tell", tell_what_is_free)]


def _unnamed_holds_all() -> Patches:
    return [(Memory, "set_aside", lambda *_: None)]


def _first_broker_takes_all() -> Patches:
    share = Room.share
    return [(Room, "share", lambda self, room, _: min(share(self, room, 1), max(0, room)))]


def _memory_leaks() -> Patches:
    drop = Held.drop

    def drop_silently(self: Held) -> int:
        drop(self)
        return 0

    return [(Held, "drop", drop_silently)]


MISTAKES: Mapping[str, tuple[str, Callable[[], Patches], Callable[[Random], Mix]]] = {
    "sought-position-reported": (
        "a position that was sought is committed although Kafka does not have it",
        _sought_position_reported,
        draw_mix,
    ),
    "async-commit-overtakes": (
        "a commit that waits is sent behind a later one",
        _async_commit_overtakes,
        consumers_that_do_not_wait,
    ),
    "late-thread-owns": (
        "a process that stood still past its session owns what it had until its member's thread has run",
        _late_thread_owns,
        draw_mix,
    ),
    "paused-holds-all": (
        "what is paused is told only when something is free",
        _paused_holds_all,
        consumers_with_little_memory,
    ),
    "unnamed-holds-all": (
        "what a poll does not name is fetched and held as if it were",
        _unnamed_holds_all,
        consumers_with_little_memory,
    ),
    "first-broker-takes-all": (
        "room is not divided among brokers",
        _first_broker_takes_all,
        consumers_with_little_memory,
    ),
    "dropped-and-not-free": (
        "what is dropped when it is sought or given back is held for ever",
        _memory_leaks,
        draw_mix,
    ),
    "reconnect-tells-lost": ("a new connection begins with nothing", _reconnect_tells_lost, draw_mix),
    "idle-poller-keeps-owning": ("a member whose user has forgotten it stays", _idle_poller_keeps_owning, draw_mix),
}
"""Each by name: what is wrong, where it is planted, and what draws the worlds in which it is hunted."""
