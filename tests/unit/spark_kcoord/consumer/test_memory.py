"""What a fetcher is told of a consumer's memory: once, and also where nothing is freed."""

from typing import Any

from spark_kcoord.consumer.core.memory import Memory


class Held:
    """As much of a machine as there is to tell."""

    freed_bytes = 0
    parked_bytes = 0


def test_what_is_parked_is_told_also_where_nothing_is_freed() -> None:
    machine: Any = Held()
    told: list[tuple[int, int]] = []
    memory = Memory()

    def tell() -> None:
        memory.tell(machine, lambda freed, parked: told.append((freed, parked)))

    tell()
    machine.parked_bytes = 7
    tell()
    tell()
    machine.freed_bytes = 3
    tell()
    machine.parked_bytes = 0
    tell()
    assert told == [(0, 7), (3, 7), (0, 0)]
    assert machine.freed_bytes == 0
