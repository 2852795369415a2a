import google_crc32c
import pytest

from coordinator.core.log import entry
from coordinator.core.log.entry import (
    MAX_BATCH_BYTES,
    MAX_FRAME_BYTES,
    MAX_LEADER_EPOCH,
    MAX_OFFSET,
    Batch,
    batch_bytes,
    decode_records,
    encode_batch,
    is_intact,
    read_header,
)

GOLDEN_V1 = "00000020 5fcdfcd4 c1 0000000000000102 00000007 00000002 92c4046a6f696ec4000000000000e5"
GOLDEN_SEAL_V1 = "00000018 a6dd6226 c1 0000000000000000 00000000 00000000 900000000000e5"


def test_frame_of_format_1_keeps_its_bytes() -> None:
    assert encode_batch(Batch(258, 7, (b"join", b""))).hex() == GOLDEN_V1.replace(" ", "")


def test_seal_of_format_1_keeps_its_bytes() -> None:
    assert encode_batch(Batch(0, 0, ())).hex() == GOLDEN_SEAL_V1.replace(" ", "")


def test_crc_is_castagnoli_and_runs_in_c() -> None:
    assert google_crc32c.value(b"123456789") == 0xE3069283
    assert google_crc32c.implementation == "c"


@pytest.mark.parametrize("sizes", [(), (0,), (1,), (2,), (3,), (4,), (5,), (6,), (7,), (8,), (40, 0, 300, 70_000)])
def test_frame_holds_what_was_put_in(sizes: tuple[int, ...]) -> None:
    batch = Batch(MAX_OFFSET - len(sizes), MAX_LEADER_EPOCH, tuple(bytes([size % 256]) * size for size in sizes))
    frame = encode_batch(batch)
    header = read_header(frame, 0)
    assert (header.frame_bytes, header.count) == (len(frame), len(sizes))
    assert (header.base_offset, header.leader_epoch) == (batch.base_offset, batch.leader_epoch)
    assert is_intact(frame, 0, header)
    assert decode_records(frame, 0, header) == batch.records
    assert len(frame) % 8 == 0
    assert frame[-1] != 0


def test_largest_batch_fits_the_frame_limit() -> None:
    record = bytes(MAX_BATCH_BYTES - batch_bytes([b""]))
    assert len(encode_batch(Batch(0, 0, (record,)))) <= MAX_FRAME_BYTES
    with pytest.raises(ValueError, match="passes the frame limit"):
        encode_batch(Batch(0, 0, (record, b"")))


@pytest.mark.parametrize(
    "batch",
    [Batch(-1, 0, ()), Batch(MAX_OFFSET, 0, (b"",)), Batch(0, -1, ()), Batch(0, MAX_LEADER_EPOCH + 1, ())],
)
def test_numbers_out_of_range_are_refused(batch: Batch) -> None:
    with pytest.raises(ValueError, match="out of range"):
        encode_batch(batch)


def test_length_is_checked_before_the_frame_is_read() -> None:
    huge = b"\xff\xff\xff\xf8" + bytes(60)
    header = read_header(huge, 0)
    assert not header.is_plausible
    assert not is_intact(huge, 0, header)


def test_records_that_are_not_what_the_header_says_are_refused() -> None:
    frame = bytearray(encode_batch(Batch(0, 0, (b"a",))))
    frame[24] = 2  # the count's last byte
    header = read_header(bytes(frame), 0)
    with pytest.raises(ValueError, match="holds 1 records but its header says 2"):
        decode_records(bytes(frame), 0, header)
    assert entry.PREFIX_BYTES + 17 == 25
