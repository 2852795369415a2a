"""What a disk hands on says how a log compares with others."""

import pytest

from coordinator.core.log.entry import Batch
from coordinator.core.replica.epochs import ReplicaLog
from coordinator.core.replica.opening import log_found

BATCHES = [Batch(5, 1, (b"a", b"b")), Batch(7, 1, (b"c",)), Batch(8, 4, (b"d", b"e"))]


def test_an_empty_disk_has_an_empty_log_under_the_number_that_was_given() -> None:
    assert log_found(3, None, []) == ReplicaLog(number=3, first_number=3)


def test_epochs_begin_where_their_first_batch_does() -> None:
    log = log_found(0, None, [Batch(0, 1, (b"", b"")), Batch(2, 1, (b"",)), Batch(3, 4, (b"",))])
    assert (log.epochs, log.end, log.durable_end) == (((1, 0), (4, 3)), 4, 4)


def test_a_snapshot_tells_the_epoch_of_the_record_that_it_ends_with() -> None:
    log = log_found(2, (5, 1), BATCHES)
    assert log == ReplicaLog(5, 10, 10, 2, ((1, 4), (4, 8)), 2)
    assert [log.epoch_before(offset) for offset in (5, 8, 9)] == [1, 1, 4]
    assert log_found(2, (5, 0), BATCHES).epochs == ((0, 4), (1, 5), (4, 8))


def test_a_log_that_is_only_a_snapshot_is_matched_at_its_end() -> None:
    log = log_found(0, (5, 1), [])
    assert log.continues(5, 1)
    assert not log.continues(5, 0)


def test_a_gap_is_a_mistake_of_the_disk() -> None:
    with pytest.raises(AssertionError, match="without gaps"):
        log_found(0, (4, 1), BATCHES)
