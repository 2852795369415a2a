"""Words to a fetcher of the memory that the chunks of a consumer take."""

from __future__ import annotations

from collections.abc import Callable

from spark_kcoord.consumer.core.machine import ConsumerMachine

__all__ = ["Memory"]


class Memory:
    """The bytes that are free again and those that are parked, of which the fetcher knows."""

    def __init__(self) -> None:
        self._parked_bytes = 0

    def tell(self, machine: ConsumerMachine, free: Callable[[int, int], object]) -> None:
        """Tell the fetcher what has changed, if anything: also where nothing is free, it is to know what is parked."""
        parked_bytes = machine.parked_bytes
        if machine.freed_bytes or parked_bytes != self._parked_bytes:
            free(machine.freed_bytes, parked_bytes)
            machine.freed_bytes, self._parked_bytes = 0, parked_bytes
