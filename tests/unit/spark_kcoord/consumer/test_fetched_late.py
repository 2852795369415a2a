"""What was fetched and comes late, or of another leader: a partition goes on where it was, and nothing comes twice."""

from spark_kcoord.consumer.core.held import Grant
from spark_kcoord.consumer.core.machine import ConsumerMachine
from spark_kcoord.fetch.tailing.fetched import Chunk, Wanted
from tests.helpers.fake_consuming import chunk, rows

KEY = ("t", 0)


def reading() -> ConsumerMachine:
    machine = ConsumerMachine(auto_commit=False, starts_over=True)
    machine.assign([Grant("t", 0, None, None, 0)])
    return machine


def asked(machine: ConsumerMachine) -> Wanted:
    """Have the fetcher know what is wanted; return what of the partition."""
    wanted = machine.wanted()
    assert wanted is not None
    machine.is_wanted(wanted)
    return wanted[KEY]


def offsets(machine: ConsumerMachine) -> list[int]:
    pieces = machine.take(100)
    machine.mark_returned(pieces)
    machine.settle()
    return [at for piece in pieces for at in piece.rows.column("offset").to_pylist()]


def paused_and_resumed(machine: ConsumerMachine) -> Wanted:
    machine.pause([KEY])
    assert machine.wanted() == {}
    machine.is_wanted({})
    machine.resume([KEY])
    return asked(machine)


def test_records_that_were_decoded_while_a_partition_was_paused_do_not_stand_in_the_way_of_those_after_them() -> None:
    machine = reading()
    before = asked(machine)
    machine.receive([chunk(KEY, before.token, 0, 4)])
    since = paused_and_resumed(machine)
    assert since.position == 4
    machine.receive([chunk(KEY, before.token, 4, 6), chunk(KEY, since.token, 4, 9), chunk(KEY, since.token, 9, 12)])
    assert offsets(machine) == list(range(12))
    assert machine.freed_bytes == 10 * (4 + 2 + 5 + 3), "every byte that came is free again"


def test_a_partition_that_is_resumed_goes_on_under_the_leader_that_wrote_what_is_buffered() -> None:
    machine = reading()
    before = asked(machine)
    machine.receive([chunk(KEY, before.token, 0, 4)])
    assert offsets(machine) == [0, 1, 2, 3]
    machine.receive([Chunk(KEY, before.token, 4, 6, rows(KEY, (4, 5)), 20, ((6, 4),), 6, 6)])
    since = paused_and_resumed(machine)
    assert (since.position, since.last_epoch) == (6, 4), "offset 6 is behind the end of leader epoch 3"


def test_markers_of_a_later_leader_that_are_passed_over_are_known_as_its() -> None:
    machine = reading()
    before = asked(machine)
    machine.receive([chunk(KEY, before.token, 0, 4)])
    assert offsets(machine) == [0, 1, 2, 3]
    machine.receive([Chunk(KEY, before.token, 4, 6, None, 0, ((6, 4),), 6, 6)])
    assert offsets(machine) == []
    since = paused_and_resumed(machine)
    assert (since.position, since.last_epoch) == (6, 4)
