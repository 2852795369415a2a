"""A log's epochs are those of its records, whatever was cut or let go."""

import pytest

from coordinator.core.log.leader_epochs import LeaderEpochs

RECORDS = [1, 1, 1, 2, 2, 5, 7, 7]


def of(records: list[int], first: int = 0) -> LeaderEpochs:
    epochs = LeaderEpochs()
    for at, epoch in enumerate(records):
        epochs.note(epoch, first + at)
    return epochs


def test_each_epoch_has_the_offset_of_its_first_record() -> None:
    assert of(RECORDS).marks == ((1, 0), (2, 3), (5, 5), (7, 6))
    assert of([0, 0]).marks == ((0, 0),)


@pytest.mark.parametrize("end", range(len(RECORDS) + 1))
def test_a_log_that_is_cut_has_the_epochs_of_what_is_left(end: int) -> None:
    epochs = of(RECORDS)
    epochs.cut(end)
    assert epochs.marks == of(RECORDS[:end]).marks
    assert epochs.last == (RECORDS[end - 1] if end else 0)
    assert of(RECORDS).before(end) == epochs.last


@pytest.mark.parametrize("start", range(1, len(RECORDS) + 1))
def test_the_record_before_the_start_keeps_its_epoch(start: int) -> None:
    epochs = of(RECORDS)
    epochs.start_at(start)
    for offset in range(start, len(RECORDS) + 1):
        assert epochs.before(offset) == RECORDS[offset - 1]
    assert len(epochs.marks) == len(set(RECORDS[start - 1 :]))


def test_what_was_cut_to_is_gone_on_from_in_an_older_epoch() -> None:
    epochs = of(RECORDS)
    epochs.cut(4)
    epochs.note(2, 4)
    epochs.note(3, 5)
    assert (epochs.marks, epochs.last) == (((1, 0), (2, 3), (3, 5)), 3)
