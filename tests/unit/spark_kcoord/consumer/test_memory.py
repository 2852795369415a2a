"""The fetcher is told of a consumer's memory once, also where nothing is freed; and partitions are set aside in it."""

from spark_kcoord.consumer.core.held import Grant
from spark_kcoord.consumer.core.machine import ConsumerMachine
from spark_kcoord.consumer.core.memory import Memory, parked
from spark_kcoord.fetch.tailing.fetched import Chunk

Key = tuple[str, int]
A, B = ("t", 0), ("t", 1)
MOST, LEAST = 100, 10
"""The memory, and the room for one partition."""


def machine_of(**bytes_of: int) -> ConsumerMachine:
    """Return a machine that reads two partitions, each with a chunk of so many bytes."""
    machine = ConsumerMachine(auto_commit=False, starts_over=True)
    machine.assign([Grant(*key, None, None, 0) for key in (A, B)])
    for key, size in zip((A, B), bytes_of.values(), strict=True):
        receive(machine, key, size)
    return machine


def receive(machine: ConsumerMachine, key: Key, size: int) -> None:
    held = machine.held(key)
    assert held is not None
    if size:
        machine.receive([Chunk(key, held.token, held.fetch_at, held.fetch_at + 1, object(), size)])


def wanted(machine: ConsumerMachine) -> set[Key]:
    return {held.key for held in machine if held.may_be_fetched}


def test_what_is_parked_is_told_also_where_nothing_is_freed() -> None:
    machine = machine_of(a=7, b=5)
    told: list[tuple[int, int]] = []
    memory = Memory(MOST, LEAST)

    def tell() -> None:
        memory.tell(machine, lambda freed, parked: told.append((freed, parked)))

    tell()
    machine.pause([A])
    tell()
    tell()
    machine.freed_bytes = 3
    tell()
    machine.resume([A])
    tell()
    assert told == [(0, 7), (3, 7), (0, 0)]
    assert machine.freed_bytes == 0


def test_what_is_not_named_is_set_aside_when_there_is_no_room_for_one_partition() -> None:
    memory = Memory(MOST, LEAST)
    memory.ask_for([A])
    machine = machine_of(a=0, b=90)
    memory.set_aside(machine)
    assert (wanted(machine), parked(machine)) == ({A, B}, 0)
    receive(machine, B, 1)
    memory.set_aside(machine)
    assert (wanted(machine), parked(machine)) == ({A}, 91)


def test_nothing_is_set_aside_where_nothing_is_named() -> None:
    memory = Memory(MOST, LEAST)
    machine = machine_of(a=0, b=200)
    memory.set_aside(machine)
    assert (wanted(machine), parked(machine)) == ({A, B}, 0)


def test_a_partition_of_which_nothing_is_held_is_fetched_also_where_it_is_not_named() -> None:
    memory = Memory(MOST, LEAST)
    memory.ask_for([B])
    machine = machine_of(a=0, b=200)
    memory.set_aside(machine)
    assert (wanted(machine), parked(machine)) == ({A, B}, 0)


def test_what_is_asked_for_again_is_fetched_again_under_a_new_token_when_little_is_left_of_it() -> None:
    memory = Memory(MOST, LEAST)
    machine = machine_of(a=0, b=90)
    receive(machine, B, 10)
    held = machine.held(B)
    assert held is not None
    token = held.token
    memory.ask_for([A])
    memory.set_aside(machine)
    memory.ask_for([])
    memory.set_aside(machine)
    assert (wanted(machine), held.token) == ({A}, token)
    held.buffer.popleft()
    memory.set_aside(machine)
    assert wanted(machine) == {A, B}
    assert held.token > token


def test_a_seek_has_a_partition_fetched_again_that_was_set_aside() -> None:
    memory = Memory(MOST, LEAST)
    memory.ask_for([A])
    machine = machine_of(a=0, b=100)
    memory.set_aside(machine)
    machine.seek(B, 40)
    memory.set_aside(machine)
    assert wanted(machine) == {A, B}
