"""Two logs are compared by their ends and the epochs of their records."""

from coordinator.core.replica.epochs import EMPTY_LOG, NO_EPOCH, ReplicaLog

LOG = ReplicaLog(start=2, end=9, durable_end=7, number=3, epochs=((1, 0), (4, 5), (6, 8)))


def test_the_epoch_of_a_record_is_that_of_the_last_epoch_begun_before_it() -> None:
    assert [LOG.epoch_before(offset) for offset in (2, 5, 6, 8, 9)] == [1, 1, 4, 4, 6]
    assert EMPTY_LOG.epoch_before(0) == NO_EPOCH


def test_an_epoch_that_a_log_does_not_have_ends_where_the_one_before_it_ends() -> None:
    assert [LOG.end_of(epoch) for epoch in (0, 1, 3, 4, 5, 6, 9)] == [
        (NO_EPOCH, 0),
        (1, 5),
        (1, 5),
        (4, 8),
        (4, 8),
        (6, 9),
        (6, 9),
    ]


def test_a_log_continues_another_when_it_has_its_last_record() -> None:
    assert LOG.continues(8, 4)
    assert not LOG.continues(8, 1), "the record there is of another epoch"
    assert not LOG.continues(10, 6), "there is no record there"
    assert LOG.continues(0, NO_EPOCH), "an empty log is the begin of every other"


def test_a_cut_takes_epochs_and_durable_records_with_it_and_gives_another_number() -> None:
    assert LOG.cut(5) == ReplicaLog(start=2, end=5, durable_end=5, number=4, epochs=((1, 0),))
    assert LOG.cut(8).last_epoch == 4


def test_a_sync_goes_no_further_than_the_log_and_never_back() -> None:
    assert LOG.synced(20).durable_end == 9
    assert LOG.synced(3) is LOG


def test_records_of_another_epoch_begin_it() -> None:
    assert LOG.appended(6, 10).epochs == LOG.epochs
    assert LOG.appended(7, 11).epochs == (*LOG.epochs, (7, 9))


def test_a_log_that_begins_later_still_knows_the_epoch_of_what_its_snapshot_ends_with() -> None:
    later = LOG.started_at(8)
    assert (later.epochs, later.epoch_before(8)) == (((4, 5), (6, 8)), 4)
    assert later.started_at(3) is later
