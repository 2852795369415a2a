import pytest

from coordinator.core.log.entry import MAX_BATCH_BYTES, Batch, batch_bytes, encode_batch
from coordinator.core.log.queue import AppendQueue, QueueFullError


def queue(max_pending_bytes: int = 64 * 1024 * 1024) -> AppendQueue:
    result = AppendQueue(max_pending_bytes)
    result.open_shard(0, 10, 1)
    result.open_shard(1, 0, 0)
    return result


def test_what_waits_becomes_one_batch_a_shard() -> None:
    waiting = queue()
    waiting.add(0, 10, 1, [b"a"])
    waiting.add(1, 0, 0, [b"x"])
    waiting.add(0, 11, 1, [b"b", b"c"])
    assert waiting.take_group() == {0: Batch(10, 1, (b"a", b"b", b"c")), 1: Batch(0, 0, (b"x",))}
    assert not waiting


def test_new_leader_epoch_starts_a_new_group() -> None:
    waiting = queue()
    waiting.add(0, 10, 1, [b"a"])
    waiting.add(0, 11, 2, [b"b"])
    assert waiting.take_group() == {0: Batch(10, 1, (b"a",))}
    assert waiting.take_group() == {0: Batch(11, 2, (b"b",))}


def test_group_that_would_pass_the_frame_limit_is_split() -> None:
    waiting = queue()
    half = bytes(MAX_BATCH_BYTES // 2 - 5)
    for offset in range(3):
        waiting.add(1, offset, 0, [half])
    first, second = waiting.take_group()[1], waiting.take_group()[1]
    assert (len(first.records), second.base_offset, len(second.records)) == (2, 2, 1)
    assert encode_batch(first)


def test_an_append_that_passes_the_frame_limit_becomes_several() -> None:
    waiting = queue()
    records = [bytes([number]) * (MAX_BATCH_BYTES // 2 - 5) for number in range(5)]
    waiting.add(1, 0, 0, records)
    waiting.add(1, 5, 0, [b"after"])
    batches = [waiting.take_group()[1] for _ in range(3)]
    assert [(batch.base_offset, len(batch.records)) for batch in batches] == [(0, 2), (2, 2), (4, 2)]
    assert [record for batch in batches for record in batch.records] == [*records, b"after"]
    assert all(encode_batch(batch) for batch in batches)
    assert not waiting
    waiting.finish()
    assert waiting.pending_bytes == 0


def test_a_record_that_fits_no_frame_is_refused_and_nothing_of_its_append_is_taken() -> None:
    waiting = queue()
    with pytest.raises(ValueError, match=f"a record of {MAX_BATCH_BYTES} bytes passes the limit of a frame"):
        waiting.add(1, 0, 0, [b"a", bytes(MAX_BATCH_BYTES)])
    assert (waiting.pending_bytes, waiting.end_offset(1), bool(waiting)) == (0, 0, False)


def test_bytes_count_until_they_are_finished_and_the_limit_holds() -> None:
    waiting = queue(max_pending_bytes=100)
    waiting.add(0, 10, 1, [bytes(60)])
    assert waiting.take_group()
    assert waiting.pending_bytes == batch_bytes([bytes(60)])
    waiting.add(1, 0, 0, [bytes(60)])
    with pytest.raises(QueueFullError, match="130 bytes wait, more than 100"):
        waiting.add(0, 11, 1, [b"a"])
    waiting.finish()
    assert waiting.take_group()
    waiting.finish()
    assert waiting.pending_bytes == 0
    waiting.add(0, 11, 1, [bytes(60)])


def test_one_large_append_passes_the_limit_once() -> None:
    waiting = queue(max_pending_bytes=100)
    waiting.add(0, 10, 1, [bytes(60)])
    waiting.add(0, 11, 1, [bytes(1_000)] * 3)
    with pytest.raises(QueueFullError):
        waiting.add(1, 0, 0, [b"a"])


def test_closed_shard_takes_nothing_but_what_waits_is_written() -> None:
    waiting = queue()
    waiting.add(0, 10, 1, [b"a"])
    waiting.close_shard(0)
    with pytest.raises(ValueError, match="has not been recovered"):
        waiting.add(0, 11, 1, [b"b"])
    with pytest.raises(ValueError, match="still has records"):
        waiting.open_shard(0, 11, 1)
    assert waiting.take_group() == {0: Batch(10, 1, (b"a",))}
    waiting.open_shard(0, 11, 1)
    assert waiting.end_offset(0) == 11


# ---- a log that is cut ---------------------------------------------------------------------------------------------


def test_what_waits_above_a_cut_is_not_written() -> None:
    waiting = queue()
    waiting.add(0, 10, 1, [b"a", b"b"])
    waiting.add(0, 12, 2, [b"c", b"d"])
    waiting.add(0, 14, 3, [b"e"])
    assert waiting.cut(0, 13, 7) == 2
    assert (waiting.end_offset(0), waiting.number(0), waiting.pending_bytes) == (13, 7, batch_bytes([b"a", b"b", b"c"]))
    assert [waiting.take_group(), waiting.take_group()] == [
        {0: Batch(10, 1, (b"a", b"b"))},
        {0: Batch(12, 2, (b"c",))},
    ]
    assert not waiting


def test_a_log_goes_on_where_it_was_cut_in_the_epoch_before() -> None:
    waiting = queue()
    waiting.add(0, 10, 1, [b"a"])
    waiting.add(0, 11, 4, [b"b"])
    assert waiting.cut(0, 11, 1) == 1
    waiting.add(0, 11, 2, [b"c"])
    with pytest.raises(ValueError, match="leader epoch 1 is smaller than 2"):
        waiting.add(0, 12, 1, [b"d"])
    assert waiting.take_group() == {0: Batch(10, 1, (b"a",))}
    assert waiting.take_group() == {0: Batch(11, 2, (b"c",))}


def test_a_cut_below_what_was_taken_has_the_next_batch_begin_there() -> None:
    waiting = queue()
    waiting.open_shard(1, 3, 4, marks=((2, 0), (4, 2)))
    waiting.add(1, 3, 5, [b"a", b"b"])
    assert waiting.take_group() == {1: Batch(3, 5, (b"a", b"b"))}
    waiting.add(1, 5, 5, [b"c"])
    assert waiting.cut(1, 2, 1) == 2
    waiting.add(1, 2, 6, [b"x"])
    waiting.finish()
    assert waiting.take_group() == {1: Batch(2, 6, (b"x",))}
    waiting.finish()
    assert (waiting.pending_bytes, waiting.epochs(1).marks) == (0, ((2, 0), (6, 2)))


def test_a_cut_that_leaves_nothing_waiting_leaves_no_shard_to_be_written() -> None:
    waiting = queue()
    waiting.add(0, 10, 1, [b"a"])
    waiting.cut(0, 10, 1)
    assert not waiting
    assert (waiting.take_group(), waiting.pending_bytes) == ({}, 0)


@pytest.mark.parametrize("end", [11, 12])
def test_a_cut_that_takes_nothing_away_is_refused(end: int) -> None:
    waiting = queue()
    waiting.add(0, 10, 1, [b"a"])
    with pytest.raises(ValueError, match=f"a cut to {end}, but the log ends at 11"):
        waiting.cut(0, end, 1)


def test_a_shard_that_is_forgotten_writes_nothing_more_and_takes_nothing() -> None:
    waiting = queue()
    waiting.add(0, 10, 1, [b"a"])
    waiting.add(1, 0, 1, [b"b"])
    waiting.forget_shard(0)
    with pytest.raises(ValueError, match="shard 0 has not been recovered"):
        waiting.add(0, 11, 1, [b"c"])
    assert waiting.take_group() == {1: Batch(0, 1, (b"b",))}
    waiting.finish()
    assert waiting.pending_bytes == 0
