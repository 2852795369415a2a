"""A shard's records are appended in the epoch in which its node leads, which begins with a record."""

from coordinator.core.groups.hard.journal import EPOCHS_LEFT_OUT, NO_EPOCH, Journal
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


def test_owner_epochs_go_on_far_above_the_log_after_an_unclean_election() -> None:
    journal = Journal(0)
    journal.begin_epoch(3, node=2, wall_ms=70)
    journal.open("before")
    told = journal.next_epoch
    journal.open("after", unclean_epoch=3)
    assert journal.state.lives["after"] == told, "who was told of more of the life before has seen what is lost"
    assert journal.next_epoch == 3 * EPOCHS_LEFT_OUT + journal.log_end_offset
    journal.open("later", unclean_epoch=3)
    assert journal.next_epoch == 3 * EPOCHS_LEFT_OUT + journal.log_end_offset, "once for each election"
    journal.open("again", unclean_epoch=7)
    assert journal.next_epoch == 7 * EPOCHS_LEFT_OUT + journal.log_end_offset
