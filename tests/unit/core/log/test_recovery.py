from collections.abc import Iterator

import pytest

from coordinator.core.log.entry import Batch, CorruptLogError, encode_batch
from coordinator.core.log.recovery import RecoveredLog, SegmentBytes, recover_log

SPACE = bytes(512)
A, B, C = Batch(0, 1, (b"a0", b"a1")), Batch(2, 1, (b"b2",)), Batch(3, 2, (b"c3", b"c4"))


def seal(offset: int, leader_epoch: int = 1) -> Batch:
    return Batch(offset, leader_epoch, ())


def segment(base: int, *batches: Batch, extra: bytes = b"") -> SegmentBytes:
    return SegmentBytes(f"{base}.log", base, b"".join(map(encode_batch, batches)) + extra + SPACE)


def recover(*segments: SegmentBytes, snapshot_end: int | None = None) -> tuple[RecoveredLog, tuple[Batch, ...]]:
    taken: list[Batch] = []
    return recover_log("shard", snapshot_end, segments, taken.append), tuple(taken)


def test_segments_join_into_one_log() -> None:
    log, batches = recover(segment(0, A, B, seal(3)), segment(3, C))
    assert (batches, log.log_end_offset, log.leader_epoch) == ((A, B, C), 5, 2)
    assert (log.active_base, log.active_bytes, log.cut_bytes) == (3, len(encode_batch(C)), 0)
    assert [(tail.base_offset, tail.frame) for tail in log.tails] == [
        (0, encode_batch(seal(3))),
        (3, encode_batch(C)),
    ]


def test_only_what_follows_the_snapshot_is_given() -> None:
    _, batches = recover(segment(0, A, B, seal(3)), segment(3, C), snapshot_end=1)
    assert batches == (Batch(1, 1, (b"a1",)), B, C)
    assert recover(segment(0, A), snapshot_end=2)[1] == ()


def test_segments_are_read_one_by_one_and_what_they_hold_is_given_before_the_next_but_one_is_read() -> None:
    events: list[object] = []

    def read() -> Iterator[SegmentBytes]:
        for each in (segment(0, A, seal(2)), segment(2, B, seal(3)), segment(3, C)):
            events.append(each.base_offset)
            yield each

    recover_log("shard", None, read(), events.append)
    assert events == [0, 2, A, 3, B, C]


def test_blank_segment_after_a_seal_is_where_the_log_goes_on() -> None:
    log, batches = recover(segment(0, A, seal(2)), segment(2))
    assert (batches, log.active_base, log.active_bytes, log.surplus_base) == ((A,), 2, 0, None)


@pytest.mark.parametrize("extra", [b"", encode_batch(seal(2))[:20]])
def test_roll_that_did_not_get_to_the_seal_goes_on_in_the_old_segment(extra: bytes) -> None:
    log, batches = recover(segment(0, A, extra=extra), segment(2))
    assert (batches, log.active_base, log.surplus_base) == ((A,), 0, 2)
    assert log.active_bytes == len(encode_batch(A))
    assert log.cut_bytes == len(extra.rstrip(b"\0"))


def test_roll_that_only_named_the_new_segment_goes_on_in_the_old_one() -> None:
    assert recover(segment(0, A), SegmentBytes("2.log", 2, b""))[0].surplus_base == 2


@pytest.mark.parametrize(
    ("segments", "message"),
    [
        ((), "its segments are missing"),
        ((segment(3, C),), "the log before it is missing and there is no snapshot"),
        ((segment(0, A, seal(2)),), "sealed, but the one after it is missing"),
        ((segment(0, A, seal(2)), segment(3, C)), "a gap: 2 was next"),
        ((segment(0, A, B, seal(3)), segment(2, B)), "an overlap: 3 was next"),
        ((segment(0, A, B), segment(3, C)), "not sealed, but others follow"),
        ((segment(0, A), segment(2), segment(3, C)), "not sealed, but others follow"),
        ((segment(0, A, extra=b"torn"), segment(2, B)), "not the last of the log"),
        ((SegmentBytes("0.log", 0, b""),), "the file is empty"),
        ((segment(0, A, seal(2)), SegmentBytes("2.log", 2, b"")), "the file is empty"),
        ((segment(0, A, B, seal(3, 3)), segment(3, C)), "leader epoch 2 is smaller than 3"),
    ],
)
def test_what_no_crash_explains_is_refused(segments: tuple[SegmentBytes, ...], message: str) -> None:
    with pytest.raises(CorruptLogError, match=message):
        recover(*segments)


def test_log_that_ends_before_its_snapshot_is_refused() -> None:
    with pytest.raises(CorruptLogError, match="its snapshot was made of the log up to 4"):
        recover(segment(0, A, B), snapshot_end=4)


def test_segments_that_start_after_the_snapshot_are_refused() -> None:
    with pytest.raises(CorruptLogError, match="the log before it is missing: it starts at log offset 3"):
        recover(segment(3, C), snapshot_end=2)
