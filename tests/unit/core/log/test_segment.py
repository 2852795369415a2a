"""Damage and torn writes at every byte: detected, or only the frame that was never acknowledged is lost."""

import struct
from itertools import pairwise

import google_crc32c
import pytest

from coordinator.core.log.entry import Batch, CorruptLogError, UnknownFormatError, encode_batch
from coordinator.core.log.segment import SECTOR_BYTES, SegmentScan, is_blank, scan_segment

FIRST = Batch(100, 1, tuple(b"first %d" % number * 5 for number in range(4)))
MIDDLE = Batch(104, 1, tuple(b"middle %d" % number * 9 for number in range(6)))
LAST = Batch(110, 2, tuple(b"last %d" % number * 30 for number in range(9)))  # lies in three sectors
BATCHES = (FIRST, MIDDLE, LAST)
FRAMES = tuple(map(encode_batch, BATCHES))
LOG = b"".join(FRAMES)
MIDDLE_AT = len(FRAMES[0])
LAST_AT = MIDDLE_AT + len(FRAMES[1])
SPACE = bytes(4096)


def scan(data: bytes, *, may_be_torn: bool = True, base_offset: int = 100, leader_epoch: int = 0) -> SegmentScan:
    return scan_segment(
        data, path_hint="s.log", base_offset=base_offset, leader_epoch=leader_epoch, may_be_torn=may_be_torn
    )


@pytest.mark.parametrize("space", [b"", SPACE, bytes(3)])
def test_whole_segment_is_read_with_or_without_space_after_it(space: bytes) -> None:
    whole = SegmentScan(BATCHES, 119, 2, LAST_AT, len(LOG), 0, is_sealed=False)
    assert scan(LOG + space) == whole
    assert scan(LOG + space, may_be_torn=False) == whole


def test_blank_segment_holds_nothing() -> None:
    assert scan(SPACE) == SegmentScan((), 100, 0, 0, 0, 0, is_sealed=False)
    assert is_blank(SPACE)
    assert not is_blank(LOG)


@pytest.mark.parametrize("erased_to_zero", [True, False])
def test_write_torn_at_any_byte_is_cut_and_nothing_before_it_is_lost(erased_to_zero: bool) -> None:
    for start, kept in ((MIDDLE_AT, (FIRST,)), (LAST_AT, (FIRST, MIDDLE))):
        end = start + len(FRAMES[len(kept)])
        for cut in range(start, end):
            torn = LOG[:cut] + (SPACE if erased_to_zero else b"")
            result = scan(torn)
            assert (result.batches, result.valid_bytes) == (kept, start), cut
            assert result.cut_bytes == len(torn.rstrip(b"\0")[start:]), cut


def test_write_that_missed_any_sectors_is_cut() -> None:
    borders = [
        LAST_AT,
        *range(LAST_AT - LAST_AT % SECTOR_BYTES + SECTOR_BYTES, len(LOG), SECTOR_BYTES),
        len(LOG),
    ]
    pieces = list(pairwise(borders))
    assert len(pieces) >= 3
    for missing in range(1, 2 ** len(pieces)):
        torn = bytearray(LOG + SPACE)
        for number, (start, end) in enumerate(pieces):
            if missing >> number & 1:
                torn[start:end] = bytes(end - start)
        result = scan(bytes(torn))
        assert (result.batches, result.valid_bytes) == ((FIRST, MIDDLE), LAST_AT), bin(missing)


def test_other_bytes_after_a_frame_that_looks_torn_are_damage() -> None:
    hole = LAST_AT - LAST_AT % SECTOR_BYTES + SECTOR_BYTES
    data = LOG[:hole] + bytes(SECTOR_BYTES) + LOG[hole + SECTOR_BYTES :]
    assert scan(data).batches == (FIRST, MIDDLE)
    with pytest.raises(CorruptLogError, match=f"other bytes follow it at {len(LOG)}"):
        scan(data + b"\0\0other" + SPACE)


@pytest.mark.parametrize("space", [b"", SPACE])
def test_any_flipped_bit_in_any_frame_is_detected(space: bytes) -> None:
    for position in range(len(LOG)):
        for bit in range(8):
            damaged = bytearray(LOG + space)
            damaged[position] ^= 1 << bit
            with pytest.raises((CorruptLogError, UnknownFormatError)):
                scan(bytes(damaged))


def test_any_inverted_byte_in_any_frame_is_detected() -> None:
    for position in range(len(LOG)):
        damaged = bytearray(LOG + SPACE)
        damaged[position] ^= 0xFF
        with pytest.raises(CorruptLogError):
            scan(bytes(damaged))


def test_flipped_bit_in_the_space_after_the_log_loses_nothing() -> None:
    for position in range(len(LOG), len(LOG) + 1200):
        damaged = bytearray(LOG + SPACE)
        damaged[position] ^= 0x10
        try:
            assert scan(bytes(damaged)).batches == BATCHES
        except CorruptLogError as error:
            assert error.offset == 119  # noqa: PT017 - either answer is right, nothing is lost


def test_erased_sector_before_an_intact_frame_is_detected() -> None:
    data = LOG + encode_batch(Batch(119, 2, (b"after",)))
    erased = data[:LAST_AT] + bytes(len(FRAMES[2])) + data[len(LOG) :]
    with pytest.raises(CorruptLogError, match="shows that it was acknowledged") as caught:
        scan(erased + SPACE)
    assert (caught.value.path_hint, caught.value.position, caught.value.offset) == ("s.log", LAST_AT, 110)


def test_torn_end_of_a_segment_that_is_not_the_last_is_damage() -> None:
    with pytest.raises(CorruptLogError, match="not the last of the log"):
        scan(LOG[:-1] + SPACE, may_be_torn=False)


@pytest.mark.parametrize(("base_offset", "kind"), [(120, "a gap"), (118, "an overlap")])
def test_offsets_that_do_not_continue_are_damage(base_offset: int, kind: str) -> None:
    with pytest.raises(CorruptLogError, match=f"log offset {base_offset}, {kind}: 119 was next"):
        scan(LOG + encode_batch(Batch(base_offset, 2, (b"x",))))


def test_segment_of_another_offset_is_damage() -> None:
    with pytest.raises(CorruptLogError, match="starts at log offset 100, a gap: 99 was next"):
        scan(LOG, base_offset=99)


def test_leader_epoch_never_goes_back() -> None:
    with pytest.raises(CorruptLogError, match="leader epoch 1 is smaller than 3"):
        scan(LOG, leader_epoch=3)


def test_seal_ends_a_segment() -> None:
    seal = encode_batch(Batch(119, 2, ()))
    assert scan(LOG + seal + SPACE).is_sealed
    with pytest.raises(CorruptLogError, match="follows the seal"):
        scan(LOG + seal + encode_batch(Batch(119, 2, (b"x",))))
    with pytest.raises(CorruptLogError, match="not the last of the log"):
        scan(LOG + seal + b"garbage!")


def test_unknown_format_is_refused_not_skipped() -> None:
    body = bytearray(FRAMES[2][8:])
    body[0] = 0xC2
    newer = struct.pack(">II", len(body), google_crc32c.value(bytes(body))) + body
    with pytest.raises(UnknownFormatError, match="has format 194, this release reads format 193"):
        scan(LOG[:LAST_AT] + newer)


def test_frame_inside_a_record_is_not_taken_for_a_frame() -> None:
    inner = Batch(100, 1, (b"padding", encode_batch(Batch(101, 1, (b"x",)))))
    assert scan(encode_batch(inner) + SPACE).batches == (inner,)
