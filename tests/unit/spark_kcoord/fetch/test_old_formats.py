"""Messages of formats 0 and 1: every row once, as Java's consumer has it, alone and mixed with batches of today's."""

import random
import struct
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.memory_records import MemoryRecords, MemoryRecordsBuilder

from spark_kcoord.errors import KcoordError
from spark_kcoord.fetch.decoding import codecs, old_messages
from spark_kcoord.fetch.decoding.decode import COLUMNS, AbortedTransaction, DecodedBatch, arrow_schema, decode, end_of
from spark_kcoord.fetch.decoding.mixed_sets import entries
from spark_kcoord.fetch.decoding.old_lz4 import xxh32
from spark_kcoord.fetch.sizes import sample_sizes
from tests.helpers.decoders import decoder as decoder
from tests.helpers.examples import examples
from tests.helpers.memory_records import OracleRow, decoded_rows
from tests.helpers.old_messages import LOG_APPEND_TIME, OLD_CODECS, OldSet, lz4_frame, message, wrapper
from tests.helpers.record_batches import TRANSACTIONAL, Row, end_marker, record_batch
from tests.helpers.scripted_kafka import ScriptedKafka, fetched

END = 1 << 40
ROWS = {
    40: Row(b"k0", b"v0", 1_400_000_000_000),
    41: Row(None, b"v1", 1_400_000_000_001),
    43: Row(b"", b"", 7),
    44: Row(b"k4", None, 3),
    49: Row(b"\xff\x00", b"v" * 70_000, -1),
}


def decode_all(record_set: bytes, start: int = 0, end: int = END, **more: Any) -> DecodedBatch:
    """Return everything that calls in a row give, as a reader makes them."""
    decoded = decode(record_set, "t", 3, start, end, **{"columns": COLUMNS, **more})
    decoded.rows.validate(full=True)
    return decoded


def read_to_end(record_set: bytes, start: int = 0, end: int = END, **more: Any) -> list[OracleRow]:
    """Return the rows of as many calls as a reader makes, and see that each moves on."""
    records_end = end_of(record_set, "t")
    rows: list[OracleRow] = []
    position = start
    while records_end is not None and position < min(records_end.next_offset, end):
        decoded = decode_all(record_set, position, end, **more)
        assert decoded.next_offset > position
        position = decoded.next_offset
        rows += decoded_rows(decoded.rows)
    return rows


def expected(magic: int, rows: Mapping[int, Row], append_time: int | None = None) -> list[OracleRow]:
    if not magic:
        return [(offset, -1, -1, row.key, row.value, None) for offset, row in rows.items()]
    if append_time is not None:
        return [(offset, append_time, 1, row.key, row.value, None) for offset, row in rows.items()]
    return [(offset, row.timestamp, 0, row.key, row.value, None) for offset, row in rows.items()]


@pytest.mark.parametrize("codec", [*OLD_CODECS, "raw snappy"])
@pytest.mark.parametrize("magic", [0, 1])
def test_every_codec_gives_every_row_also_where_compaction_left_holes(magic: int, codec: str) -> None:
    record_set = OldSet(magic, ROWS, codec).to_bytes()

    decoded = decode_all(record_set, 40)

    assert end_of(record_set, "t") == (50, -1)
    assert decoded.next_offset == 50
    assert decoded.rows.schema.equals(arrow_schema(COLUMNS))
    assert decoded_rows(decoded.rows) == expected(magic, ROWS)
    assert set(decoded.rows.column("topic").to_pylist()) == {"t"}
    assert set(decoded.rows.column("partition").to_pylist()) == {3}


@pytest.mark.parametrize("codec", OLD_CODECS)
def test_time_of_the_broker_is_the_wrappers_and_of_type_1(codec: str) -> None:
    rows = decode_all(OldSet(1, ROWS, codec, append_time=86_400_000).to_bytes()).rows

    assert decoded_rows(rows) == expected(1, ROWS, 86_400_000)


@pytest.mark.parametrize("codec", [0, 1])
@pytest.mark.parametrize("magic", [0, 1])
def test_what_kafka_python_writes_is_read_as_it_reads_it(magic: int, codec: int) -> None:
    builder = MemoryRecordsBuilder(magic, codec, 1 << 20)
    for number in range(50):
        builder.append(1_000 + number, b"%d" % number if number % 3 else None, b"v" * number if number % 5 else None)
    builder.close()
    record_set = bytes(builder.buffer())
    if codec:  # a broker gives a wrapper the offset of its last message; checksums do not cover it
        record_set = struct.pack(">q", 49) + record_set[8:]

    rows = decoded_rows(decode_all(record_set).rows)

    assert [(offset, key, value) for offset, _, _, key, value, _ in rows] == [
        (record.offset, record.key, record.value) for batch in MemoryRecords(record_set) for record in batch
    ]
    assert {row[2] for row in rows} == {0 if magic else -1}


def test_format_0_in_a_wrapper_of_format_1_has_no_time_and_offsets_that_count_from_the_wrappers() -> None:
    inner = message(0, 0, Row(b"a", b"1")) + message(1, 1, Row(b"b", b"2", 77))

    rows = decoded_rows(decode_all(wrapper(1, 11, inner, "gzip", timestamp=99)).rows)

    assert rows == [(10, -1, -1, b"a", b"1", None), (11, 77, 0, b"b", b"2", None)]


def test_format_1_in_a_wrapper_of_format_0_has_a_time_without_a_type() -> None:
    rows = decoded_rows(decode_all(wrapper(0, 11, message(1, 11, Row(b"b", b"2", 77)), "gzip")).rows)

    assert rows == [(11, 77, -1, b"b", b"2", None)]


def test_only_the_columns_wanted_are_built_in_sparks_order() -> None:
    decoded = decode_all(OldSet(1, ROWS, "lz4").to_bytes(), columns=("offset", "key"))

    assert decoded.rows.to_pylist() == [{"key": row.key, "offset": offset} for offset, row in ROWS.items()]


def mixed_set() -> tuple[bytes, list[OracleRow]]:
    """Return a log that was begun by an old broker, was written by a new one, then with old settings, then anew."""
    first = {offset: Row(b"%d" % offset, b"first", offset) for offset in range(4)}
    second = {offset: Row(b"%d" % offset, b"second", offset) for offset in (4, 6, 7)}
    third = {offset: Row(b"%d" % offset, b"third", offset) for offset in range(10, 14)}
    fourth = {offset: Row(b"%d" % offset, b"fourth", offset) for offset in (20, 22)}
    fifth = {offset: Row(b"%d" % offset, b"fifth", offset) for offset in range(30, 33)}
    record_set = b"".join(
        (
            OldSet(0, first).to_bytes(),
            OldSet(1, second, "snappy").to_bytes(),
            record_batch(third, base_offset=10, last_offset=13, codec="zstd"),
            OldSet(1, fourth, "lz4", append_time=5).to_bytes(),
            record_batch(fifth, base_offset=30, last_offset=35),
        )
    )
    rows = [
        *expected(0, first),
        *expected(1, second),
        *expected(1, third),
        *expected(1, fourth, 5),
        *expected(1, fifth),
    ]
    return record_set, rows


def test_mixed_set_gives_all_rows_in_order() -> None:
    record_set, rows = mixed_set()

    assert end_of(record_set, "t") == (36, 0)
    assert read_to_end(record_set) == rows


@settings(deadline=None)
@given(data=st.data())
def test_any_part_of_a_mixed_set_gives_its_rows(data: st.DataObject) -> None:
    record_set, rows = mixed_set()
    start = data.draw(st.integers(0, 36))
    end = data.draw(st.integers(start, 40))
    most = data.draw(st.integers(1, 60))

    assert read_to_end(record_set, start, end, max_bytes=most) == [row for row in rows if start <= row[0] < end]


def test_set_cut_anywhere_ends_with_its_last_whole_message() -> None:
    record_set, rows = mixed_set()
    whole = [0]
    for entry in entries(memoryview(record_set), "t"):
        whole.append(whole[-1] + len(entry.data))

    for cut in range(len(record_set)):
        part = record_set[:cut]
        found = end_of(part, "t")
        assert (found is None) == (cut < whole[1])
        next_offset = found.next_offset if found else 0
        assert read_to_end(part) == [row for row in rows if row[0] < next_offset]
        assert found == end_of(record_set[: max(size for size in whole if size <= cut)], "t")


def test_transaction_aborted_before_old_messages_hides_nothing_after_them() -> None:
    aborted = record_batch({0: Row(b"k", b"aborted")}, base_offset=0, flags=TRANSACTIONAL, producer_id=7)
    kept = record_batch({10: Row(b"k", b"kept")}, base_offset=10, flags=TRANSACTIONAL, producer_id=7)
    open_one = record_batch({20: Row(b"k", b"aborted too")}, base_offset=20, flags=TRANSACTIONAL, producer_id=7)
    old = OldSet(1, {5: Row(b"k", b"old")}).to_bytes()
    old_again = OldSet(1, {15: Row(b"k", b"old again")}).to_bytes()
    record_set = b"".join(
        (
            *(aborted, end_marker(1, 7, is_abort=True), old, kept, end_marker(11, 7, is_abort=False)),
            *(old_again, open_one, end_marker(21, 7, is_abort=True)),
        )
    )

    rows = read_to_end(record_set, aborted=[AbortedTransaction(7, 0), AbortedTransaction(7, 20)])

    assert [row[4] for row in rows] == [b"old", b"kept", b"old again"]
    assert [row[4] for row in read_to_end(record_set[len(aborted) :], 5, aborted=[AbortedTransaction(7, 20)])] == [
        b"old",
        b"kept",
        b"old again",
    ]


@pytest.mark.parametrize("codec", ["none", "gzip"])
@pytest.mark.parametrize("magic", [0, 1])
def test_checksum_is_looked_at_unless_told_otherwise(magic: int, codec: str) -> None:
    good = OldSet(magic, {5: Row(b"k", b"v")}, codec).to_bytes()
    bad = good[:12] + bytes([good[12] ^ 1]) + good[13:]

    with pytest.raises(KcoordError, match=r"batch at offset 5 is damaged: its checksum is .*'kafka\.check\.crcs'"):
        decode_all(bad)
    assert decode_all(bad, check_crcs=False).rows == decode_all(good).rows
    assert decode_all(bad, 6).rows.num_rows == 0


def test_checksum_of_a_message_in_a_wrapper_is_looked_at() -> None:
    inner = message(1, 0, Row(b"a", b"1")) + message(1, 1, Row(b"b", b"2"), crc=1)
    record_set = wrapper(1, 9, inner, "snappy")

    with pytest.raises(KcoordError, match="batch at offset 9 is damaged: its checksum is"):
        decode_all(record_set)
    assert [row[3] for row in decoded_rows(decode_all(record_set, check_crcs=False).rows)] == [b"a", b"b"]


def test_wrapper_that_ends_before_the_offset_asked_for_is_not_looked_into() -> None:
    record_set = wrapper(1, 9, b"no messages", "gzip") + OldSet(1, {10: Row(b"k", b"v")}).to_bytes()

    assert [row[0] for row in read_to_end(record_set, 10)] == [10]


def test_wrapper_that_begins_after_the_range_is_not_looked_into() -> None:
    record_set = OldSet(1, {10: Row(b"k", b"v")}, "gzip").to_bytes() + wrapper(1, 19, b"no messages", "gzip")

    assert [row[0] for row in read_to_end(record_set, 0, 11)] == [10]


PLAIN = message(1, 0, Row(b"a", b"1"))


@pytest.mark.parametrize(
    ("record_set", "why"),
    [
        (wrapper(1, 9, b"", "gzip"), "its compressed set is empty"),
        (message(1, 9, Row(), attributes=1), r"gzip: "),
        (message(1, 9, Row(b"", b"not gzip"), attributes=1), r"gzip: "),
        (message(1, 9, Row(b"", b"not lz4"), attributes=3), r"lz4: "),
        (message(0, 9, Row(b"", b"short"), attributes=3), r"lz4: "),
        (message(1, 9, Row(b"", b"zstd"), attributes=4), "compression codec 4 is unknown in format 1"),
        (wrapper(1, 9, wrapper(1, 9, PLAIN, "gzip"), "gzip"), "more than plain messages"),
        (wrapper(1, 9, record_batch([Row()]), "gzip"), "more than plain messages"),
        (wrapper(1, 9, PLAIN[:-1], "gzip"), "cut short"),
        (wrapper(1, 9, PLAIN + b"\x00" * 5, "gzip"), "more than plain messages"),
        (wrapper(1, 3, message(1, 4, Row()), "gzip"), "outside of its batch"),
        (wrapper(0, 3, message(0, 4, Row()), "gzip"), "outside of its batch"),
        (wrapper(0, 3, message(0, 4, Row()) + message(0, 3, Row()), "gzip"), "outside of its batch"),
    ],
)
def test_wrapper_that_makes_no_sense_is_a_clear_error(record_set: bytes, why: str) -> None:
    with pytest.raises(KcoordError, match=rf"topic 't' partition 3: the batch at offset \d cannot be read \(.*{why}"):
        decode_all(record_set)


@pytest.mark.parametrize("length", [-1 << 31, -13, -12, -1, 0, 13])
def test_message_with_an_impossible_length_is_a_clear_error(length: int) -> None:
    bad = bytearray(message(0, 9, Row(b"k", b"v")))
    struct.pack_into(">i", bad, 8, length)

    for record_set in (bytes(bad), wrapper(0, 9, bytes(bad), "gzip")):
        with pytest.raises(KcoordError, match=r"the batch at offset 9 (is damaged|cannot be read)"):
            decode_all(record_set, check_crcs=False)


@pytest.mark.parametrize("size", [-1 << 31, -7, -2, 2, 1 << 30])
def test_key_or_value_that_does_not_fill_the_message_is_a_clear_error(size: int) -> None:
    for magic, key_at in ((0, 18), (1, 26)):
        for at in (key_at, key_at + 4 + 1):
            bad = bytearray(message(magic, 9, Row(b"k", b"v")))
            struct.pack_into(">i", bad, at, size)
            with pytest.raises(KcoordError, match=r"the batch at offset 9 cannot be read \(a record is cut short"):
                decode_all(bytes(bad), check_crcs=False)


def test_set_that_is_too_large_without_its_compression_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    small = type("Small", (codecs.Decompressor,), {"__init__": lambda self: super(small, self).__init__(1 << 18)})
    monkeypatch.setattr(old_messages, "Decompressor", small)

    for codec in OLD_CODECS[1:]:
        with pytest.raises(KcoordError, match="larger than 262144 bytes without its compression"):
            decode_all(OldSet(1, {0: Row(b"", bytes(1 << 19))}, codec).to_bytes())


@pytest.mark.parametrize("timestamp", [2**62, -(2**62)])
def test_time_spark_cannot_hold_is_a_clear_error(timestamp: int) -> None:
    with pytest.raises(KcoordError, match=rf"record at offset 5 has a timestamp Spark cannot hold \({timestamp} ms"):
        decode_all(OldSet(1, {4: Row(), 5: Row(timestamp=timestamp)}, "gzip").to_bytes())


def test_time_spark_cannot_hold_is_no_error_where_nobody_asks_for_it() -> None:
    record_set = OldSet(1, {4: Row(), 5: Row(timestamp=2**62)}, "gzip").to_bytes()

    assert decode_all(record_set, columns=("offset",)).rows.to_pydict() == {"offset": [4, 5]}


def test_lz4_of_format_0_is_read_with_either_checksum() -> None:
    inner = message(0, 5, Row(b"k", b"v" * 500))
    for checksum_of in (0, 1):
        packed = lz4_frame(inner, checksum_of)
        rows = decode_all(message(0, 5, Row(None, packed), attributes=3)).rows
        assert decoded_rows(rows) == [(5, -1, -1, b"k", b"v" * 500, None)]
    with pytest.raises(KcoordError, match="lz4: "):
        decode_all(message(1, 5, Row(None, lz4_frame(inner, 0)), attributes=3))


def test_xxh32_is_what_its_authors_say() -> None:
    assert [xxh32(data) for data in (b"", b"a", b"abc")] == [0x02CC5D05, 0x550D7456, 0x32D153FF]
    with pytest.raises(ValueError, match="at most 15 bytes"):
        xxh32(bytes(16))


blobs = st.none() | st.binary(max_size=40)
placed_rows = st.dictionaries(
    st.integers(0, 30), st.builds(Row, key=blobs, value=blobs, timestamp=st.integers(-(10**14), 10**14)), min_size=1
).map(lambda rows: dict(sorted(rows.items())))


@st.composite
def old_sets(draw: st.DrawFn) -> tuple[bytes, list[OracleRow]]:
    """Draw sets of both formats and batches, one after the other, with holes."""
    record_set, rows, base = b"", [], draw(st.integers(0, 1 << 35))
    for _ in range(draw(st.integers(0, 4))):
        placed = {base + at: row for at, row in draw(placed_rows).items()}
        magic = draw(st.integers(0, 2))
        append_time = draw(st.none() | st.integers(0, 10**14)) if magic else None
        if magic == 2:
            record_set += record_batch(placed, base_offset=base, last_offset=base + 30, append_time=append_time)
        else:
            record_set += OldSet(magic, placed, draw(st.sampled_from(OLD_CODECS)), append_time).to_bytes()
        rows += expected(magic, placed, append_time)
        base += 31
    return record_set, rows


@settings(deadline=None)
@given(drawn=old_sets(), most=st.integers(1, 200))
def test_any_sets_give_their_rows(drawn: tuple[bytes, list[OracleRow]], most: int) -> None:
    record_set, rows = drawn

    assert read_to_end(record_set, max_bytes=most) == rows


@settings(deadline=None, max_examples=examples(75, 300))
@given(drawn=old_sets(), seed=st.integers(0, 1 << 32))
def test_damaged_sets_are_an_error_or_rows_of_the_range(drawn: tuple[bytes, list[OracleRow]], seed: int) -> None:
    chance = random.Random(seed)
    damaged = bytearray(drawn[0])
    for _ in range(chance.randint(1, 3) if damaged else 0):
        at = chance.randrange(min(len(damaged), chance.choice((34, 90, len(damaged)))))
        damaged[at] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
    try:
        found = end_of(bytes(damaged), "t")
        decoded = decode_all(bytes(damaged), 2, 60, check_crcs=False)
    except KcoordError:
        return
    assert decoded.next_offset >= 2
    assert found is not None or not decoded.rows.num_rows
    assert all(2 <= row[0] < min(60, decoded.next_offset) for row in decoded_rows(decoded.rows))


def test_stamp_of_a_wrapper_counts_only_where_the_broker_stamped() -> None:
    inner = message(1, 0, Row(b"a", b"1", 50))

    stamped = wrapper(1, 3, inner, "gzip", LOG_APPEND_TIME, timestamp=99)
    plain = wrapper(1, 3, inner, "gzip", timestamp=99)

    assert [row[1:3] for row in decoded_rows(decode_all(stamped).rows)] == [(99, 1)]
    assert [row[1:3] for row in decoded_rows(decode_all(plain).rows)] == [(50, 0)]


@pytest.mark.parametrize(
    ("sets", "sampled"),
    [
        ([OldSet(1, {5: Row(b"k", b"v"), 9: Row(b"k", b"v")})], (5, 10, 0)),
        ([OldSet(0, {5: Row()}, "gzip"), OldSet(1, {6: Row(b"k", b"v"), 9: Row(b"k", b"v")}, "gzip")], (6, 10, 1)),
    ],
)
def test_size_of_old_messages_is_that_of_those_whose_offsets_are_told(
    sets: list[OldSet], sampled: tuple[int, int, int]
) -> None:
    first, end, left_out = sampled
    stored = [old.to_bytes() for old in sets]
    kafka = ScriptedKafka(fetched(b"".join(stored)))

    sizes = kafka.run(lambda: sample_sizes(kafka, {("t", 0): 5}), 1)  # type: ignore[arg-type]  # a stand-in

    assert sizes == {("t", 0): sum(map(len, stored[left_out:])) / (end - first)}


def test_size_of_one_compressed_set_is_counted_from_where_it_is_read() -> None:
    stored = OldSet(1, {5: Row(b"k", b"v"), 9: Row(b"k", b"v")}, "gzip").to_bytes()
    kafka = ScriptedKafka(fetched(stored))

    sizes = kafka.run(lambda: sample_sizes(kafka, {("t", 0): 6}), 1)  # type: ignore[arg-type]  # a stand-in

    assert sizes == {("t", 0): len(stored) / (10 - 6)}


def test_reading_old_messages_does_not_load_pandas() -> None:
    script = """
import sys
from spark_kcoord.fetch.decoding.decode import COLUMNS, decode
assert decode(bytes.fromhex(sys.argv[1]), "t", 0, 0, 99, columns=COLUMNS).rows.num_rows == 5
assert "pandas" not in sys.modules
"""
    rows = {offset: Row(row.key, (row.value or b"")[:9]) for offset, row in ROWS.items()}
    record_set = OldSet(1, rows, "gzip").to_bytes().hex()
    subprocess.run([sys.executable, "-c", script, record_set], check=True)
