"""A shard's records are appended in the epoch in which its node leads, which begins with a record."""

from coordinator.core.groups.hard.journal import NO_EPOCH, Journal
from coordinator.core.groups.hard.life_records import LeaderBegan
from coordinator.core.groups.hard.records import decode_record
from coordinator.core.groups.hard.state import ShardState


def test_a_log_in_which_nobody_has_led_yet_is_in_no_epoch() -> None:
    journal = Journal(0)
    journal.open("life")
    append = journal.take_append()
    assert append is not None
    assert (append.leader_epoch, len(append.records)) == (NO_EPOCH, 1)


def test_an_epoch_begins_with_a_record_that_belongs_to_no_group_and_changes_none() -> None:
    journal = Journal(0)
    journal.begin_epoch(3, node=2, wall_ms=70)
    append = journal.take_append()
    assert append is not None
    assert (append.base_offset, append.leader_epoch) == (0, 3)
    assert [decode_record(record) for record in append.records] == [LeaderBegan(3, 2, 70)]
    assert journal.state == ShardState()


def test_a_log_with_epochs_is_loaded_as_one_without() -> None:
    journal, loaded = Journal(0), Journal(0)
    journal.begin_epoch(3, node=2, wall_ms=70)
    append = journal.take_append()
    assert append is not None
    loaded.take_batch(0, append.records)
    assert (loaded.log_end_offset, loaded.state) == (1, journal.state)
