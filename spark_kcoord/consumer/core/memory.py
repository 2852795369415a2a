"""The memory that the chunks of a consumer take: what of it is held for later, and words to the fetcher about that.

Records that a program does not take keep none from it that it asks for. While a call names partitions, the others are
not taken from, and neither is one whose next record cannot be given. Where what is buffered leaves no room, such
partitions are set aside: nothing more is fetched of them, and the fetcher counts what is buffered as held for later,
beside which it fetches the others. One that is asked for again is fetched again when little of it is left.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from coordinator.protocol.ids import TopicPartition
from spark_kcoord.consumer.core.held import Held
from spark_kcoord.consumer.core.machine import ConsumerMachine
from spark_kcoord.fetch.tailing.room import least_room

__all__ = ["Memory", "parked"]


@dataclass(slots=True)
class Memory:
    """The memory of one consumer: so many bytes, of which a request takes at most `partition_bytes` of a partition."""

    max_bytes: int
    partition_bytes: int
    _named: frozenset[TopicPartition] = frozenset()
    _may_be_idle: bool = False
    """True where some partition may be idle, or set aside: where none may be, none is looked at."""
    _parked_bytes: int = 0

    def ask_for(self, keys: Collection[TopicPartition]) -> None:
        """Note which partitions the latest call takes from, none for all."""
        self._named = frozenset(keys)
        self._may_be_idle = self._may_be_idle or bool(keys)

    def note_stuck(self) -> None:
        """Note that there is a partition whose next record could not be given."""
        self._may_be_idle = True

    def set_aside(self, machine: ConsumerMachine) -> None:
        """Set aside what nobody takes and others need the memory of; have fetched again what is asked for again."""
        if not self._may_be_idle:
            return
        every = machine.every()
        least = least_room(self.max_bytes, self.partition_bytes)
        is_tight = sum(held.buffered_bytes for held in every) > self.max_bytes - least
        for held in every:
            if self._is_idle(held):
                held.is_set_aside = held.is_set_aside or (is_tight and bool(held.buffer))
            elif held.is_set_aside and held.buffered_bytes <= least:
                if held.can_go_on:
                    machine.retry(held.key)
                held.is_set_aside = False
        self._may_be_idle = bool(self._named) or any(held.is_set_aside or held.is_stuck for held in every)

    def _is_idle(self, held: Held) -> bool:
        return held.is_stuck or (bool(self._named) and held.key not in self._named)

    def tell(self, machine: ConsumerMachine, free: Callable[[int, int], object]) -> None:
        """Tell the fetcher what has changed, if anything: also where nothing is free, it is to know what is parked."""
        parked_bytes = parked(machine)
        if machine.freed_bytes or parked_bytes != self._parked_bytes:
            free(machine.freed_bytes, parked_bytes)
            machine.freed_bytes, self._parked_bytes = 0, parked_bytes


def parked(machine: ConsumerMachine) -> int:
    """Return the bytes of what is held for later."""
    return sum(held.buffered_bytes for held in machine.every() if held.is_parked)
