"""What is asked of a log fits what was asked before, or is refused at once."""

import pytest

from coordinator.core.log.entry import MAX_BATCH_BYTES, Batch
from coordinator.core.log.requests import CloseLog, CutLog, ForgetIncoming, LogRequests, MoveAside
from coordinator.core.log.snapshot import SnapshotPiece
from coordinator.core.log.storage import OpenedLog

LOG = OpenedLog(3, 6, ((1, 2), (2, 4)), 5)


def opened(log: OpenedLog = LOG) -> LogRequests:
    requests = LogRequests(64 * 1024 * 1024)
    requests.open_log(0, log)
    return requests


def everything_durable(_shard: int) -> int:
    return 2**40


def piece(end: int, index: int = 0, *, is_last: bool = True, epoch: int = 9) -> SnapshotPiece:
    return SnapshotPiece(end, epoch, (b"piece %d" % index,), index, is_last)


def test_an_open_log_is_as_it_was_found_with_what_waits() -> None:
    requests = opened()
    requests.append_batches(0, 5, [Batch(6, 2, (b"a",)), Batch(7, 4, (b"b", b"c"))])
    assert requests.opened(0) == OpenedLog(3, 9, ((1, 2), (2, 4), (4, 7)), 5)
    assert requests.opened(1) is None


@pytest.mark.parametrize(
    ("number", "second", "message"),
    [
        (4, Batch(7, 4, (b"b",)), "batches for the log with number 4, but it has 5"),
        (5, Batch(8, 4, (b"b",)), "append at offset 8, but the log ends at 7"),
        (5, Batch(7, 1, (b"b",)), "leader epoch 1 is smaller than 2"),
        (5, Batch(7, 4, ()), "at least one record"),
        (5, Batch(7, 4, (bytes(MAX_BATCH_BYTES),)), "passes the limit of a frame"),
    ],
)
def test_of_batches_that_do_not_follow_one_another_none_is_taken(number: int, second: Batch, message: str) -> None:
    requests = opened()
    with pytest.raises(ValueError, match=message):
        requests.append_batches(0, number, [Batch(6, 2, (b"a",)), second])
    assert requests.opened(0) == LOG
    assert not requests


def test_a_cut_comes_before_what_is_appended_after_it_and_has_its_own_number() -> None:
    requests = opened()
    requests.append_batches(0, 5, [Batch(6, 2, (b"a",))])
    requests.truncate(0, 4, 6)
    requests.append_batches(0, 6, [Batch(4, 3, (b"x",))])
    work = requests.take(everything_durable)
    assert (work.changes, dict(work.group), dict(work.numbers)) == (
        (CutLog(0, 4, 1, 6),),
        {0: Batch(4, 3, (b"x",))},
        {0: 6},
    )
    assert not requests


@pytest.mark.parametrize(("end", "message"), [(2, "a snapshot stands for all below 3"), (6, "the log ends at 6")])
def test_a_cut_of_what_is_not_there_or_was_committed_is_refused(end: int, message: str) -> None:
    requests = opened()
    with pytest.raises(ValueError, match=message):
        requests.truncate(0, end, 6)
    assert requests.opened(0) == LOG


def test_a_cut_below_a_snapshot_that_is_being_written_is_refused() -> None:
    requests = opened()
    requests.write_snapshot(0, piece(5, is_last=False))
    with pytest.raises(ValueError, match="below the end of a snapshot"):
        requests.truncate(0, 4, 6)
    requests.truncate(0, 5, 6)


def test_a_snapshot_has_the_epoch_of_its_last_record_and_the_number_it_was_begun_under() -> None:
    requests = opened()
    requests.write_snapshot(0, piece(4, is_last=False))
    requests.truncate(0, 5, 6)
    requests.write_snapshot(0, piece(4, 1))
    first = requests.take(everything_durable)
    second = requests.take(everything_durable)
    assert [work.pieces[0].leader_epoch for work in (first, second)] == [1, 1]
    assert [dict(work.snapshot_numbers) for work in (first, second)] == [{0: 5}, {0: 5}]


def test_a_snapshot_made_before_its_last_record_is_refused() -> None:
    with pytest.raises(ValueError, match="made in leader epoch 1 of records of 2"):
        opened().write_snapshot(0, piece(5, epoch=1))


def test_a_log_starts_where_its_snapshot_ends() -> None:
    requests = opened()
    requests.snapshot_written(0, 5)
    assert requests.opened(0) == OpenedLog(5, 6, ((2, 4),), 5)
    with pytest.raises(ValueError, match="below 5"):
        requests.truncate(0, 4, 6)


def test_a_log_takes_nothing_from_the_last_piece_on_until_it_is_replaced() -> None:
    requests = opened()
    requests.append_batches(0, 5, [Batch(6, 2, (b"a",))])
    requests.write_snapshot(0, piece(5, is_last=False))
    requests.install(0, 6, piece(40, is_last=False))
    assert requests.opened(0) is not None
    requests.install(0, 6, piece(40, 1))
    assert requests.opened(0) is None
    with pytest.raises(ValueError, match="has not been recovered"):
        requests.append_batches(0, 6, [Batch(40, 9, (b"b",))])
    requests.give_up_install(0)
    taken = [requests.take(everything_durable) for _ in range(2)]
    assert [(work.changes, dict(work.group), dict(work.pieces)) for work in taken] == [((), {}, {})] * 2
    assert [work.incoming[0].index for work in taken] == [0, 1]
    assert not requests.is_idle(0)
    assert requests.installed(0, 40, 9) == 6
    assert requests.opened(0) == OpenedLog(40, 40, ((9, 39),), 6)
    assert requests.is_idle(0)


def test_pieces_that_do_not_continue_are_refused_and_those_of_what_was_given_up_let_go() -> None:
    requests = opened()
    requests.install(0, 6, piece(40, is_last=False))
    with pytest.raises(ValueError, match="but piece 1 of the one at 40 was next"):
        requests.install(0, 6, piece(41, 1))
    requests.give_up_install(0)
    requests.install(0, 6, piece(40, 1))
    work = requests.take(everything_durable)
    assert (work.changes, dict(work.incoming)) == ((ForgetIncoming(0),), {})
    assert requests.opened(0) == LOG


def test_a_replacement_that_begins_anew_after_it_was_given_up_is_made() -> None:
    requests = opened()
    requests.install(0, 6, piece(40, is_last=False))
    requests.give_up_install(0)
    requests.install(0, 6, piece(41))
    work = requests.take(everything_durable)
    assert (work.changes, dict(work.incoming)) == ((ForgetIncoming(0),), {0: piece(41)})


def test_a_log_that_is_dropped_while_it_is_replaced_is_not_opened_by_that() -> None:
    requests = opened()
    requests.install(0, 6, piece(40))
    assert requests.take(everything_durable).incoming == {0: piece(40)}
    requests.drop(0, 77)
    assert requests.installed(0, 40, 9) is None
    assert requests.take(everything_durable).changes == (MoveAside(0, 77),)
    assert requests.opened(0) is None


def test_what_waits_is_written_before_a_log_is_closed_and_forgotten_when_it_is_moved_aside() -> None:
    for aside_ms, group in ((None, {0: Batch(6, 2, (b"a",))}), (77, {})):
        requests = opened()
        requests.append_batches(0, 5, [Batch(6, 2, (b"a",))])
        requests.write_snapshot(0, piece(5))
        requests.drop(0, aside_ms=aside_ms)
        work = requests.take(everything_durable)
        assert work.changes == ((CloseLog(0),) if aside_ms is None else (MoveAside(0, 77),))
        assert (dict(work.group), dict(work.pieces)) == (group, {})
        assert work.shards == {0}


def test_changes_of_a_log_that_is_being_opened_wait_and_those_of_others_do_not() -> None:
    requests = opened()
    requests.drop(0, aside_ms=77)
    requests.drop(1, aside_ms=77)
    assert requests.is_waiting({0})
    assert requests.take(everything_durable, {0}).changes == (MoveAside(1, 77),)
    assert not requests.is_waiting({0})
    assert (requests.is_changing(0), requests.is_idle(0)) == (True, False)
    assert requests.take(everything_durable).changes == (MoveAside(0, 77),)
