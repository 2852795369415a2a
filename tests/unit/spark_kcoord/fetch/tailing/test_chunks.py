"""From raw records to chunks: every offset once and in order, and rows before a bad batch come before its trouble."""

from spark_kcoord.fetch.decoding.columns import COLUMNS
from spark_kcoord.fetch.tailing.chunks import chunks_of
from spark_kcoord.fetch.tailing.fetched import Chunk, Trouble
from tests.helpers.record_batches import Row, record_batch

KEY = ("t", 3)


def made(records: bytes, start: int, end: int) -> list[Chunk | Trouble]:
    return list(
        chunks_of(KEY, 5, records, start, end, columns=COLUMNS, aborted=None, check_crcs=True, ends=(end, end + 2))
    )


def rows(count: int) -> list[Row]:
    return [Row(value=b"v") for _ in range(count)]


def test_offsets_come_once_from_where_they_are_asked_for() -> None:
    (chunk,) = made(record_batch(rows(4)) + record_batch(rows(3), base_offset=4), 2, 7)
    assert isinstance(chunk, Chunk)
    assert (chunk.start, chunk.next_offset, chunk.token) == (2, 7, 5)
    assert chunk.rows.column("offset").to_pylist() == [2, 3, 4, 5, 6]
    assert (chunk.end, chunk.high_watermark, chunk.size > 0) == (7, 9, True)


def test_what_comes_before_a_damaged_batch_comes_first() -> None:
    damaged = bytearray(record_batch(rows(3), base_offset=4))
    damaged[-1] ^= 0xFF
    before, trouble = made(record_batch(rows(4)) + bytes(damaged), 0, 7)
    assert isinstance(before, Chunk)
    assert isinstance(trouble, Trouble)
    assert (before.start, before.next_offset) == (0, 4)
    assert (trouble.position, trouble.is_of_record, "checksum" in str(trouble.error)) == (4, True, True)
