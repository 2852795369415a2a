"""Both decoders beside kafka-python's: the same rows of any batches, and of damaged ones the same or an error."""

import random
import struct
from typing import Any

import google_crc32c
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from kafka.errors import CorruptRecordError

from spark_kcoord.errors import KcoordError
from spark_kcoord.fetch.decoding.decode import COLUMNS, DECODERS, AbortedTransaction, DecodedBatch, load_decoder
from spark_kcoord.fetch.decoding.record_set import batches
from tests.helpers.decoders import available_decoders
from tests.helpers.examples import examples
from tests.helpers.memory_records import decoded_rows, oracle_rows
from tests.helpers.record_batches import COMPRESS, HEADER_BYTES, TRANSACTIONAL, Row, end_marker, record_batch

END = 1 << 62

texts = st.text(max_size=6)
blobs = st.none() | st.binary(max_size=70) | st.integers(0, 20_000).map(bytes)
rows = st.builds(
    Row,
    key=blobs,
    value=blobs,
    timestamp=st.integers(-(10**15), 10**15),
    headers=st.lists(st.tuples(texts, st.none() | st.binary(max_size=70)), max_size=3),
)


@st.composite
def record_sets(draw: st.DrawFn) -> tuple[bytes, list[AbortedTransaction]]:
    """Draw batches of every kind one after the other, and transactions that were aborted among them."""
    record_set, offset, aborted = b"", draw(st.integers(0, 1 << 40)), []
    open_since: dict[int, int] = {}
    for _ in range(draw(st.integers(0, 5))):
        producer_id = draw(st.integers(-1, 2))
        holes = st.integers(1, 3)
        placed = {}
        base = offset
        for row in draw(st.lists(rows, max_size=5)):
            placed[offset] = row
            offset += draw(holes)
        is_transactional = producer_id >= 0 and draw(st.booleans())
        record_set += record_batch(
            placed,
            base_offset=base,
            last_offset=offset,
            codec=draw(st.sampled_from(sorted(COMPRESS))),
            flags=TRANSACTIONAL * is_transactional,
            producer_id=producer_id,
            append_time=draw(st.none() | st.integers(0, 10**14)),
        )
        offset += 1
        if is_transactional:
            open_since.setdefault(producer_id, base)
        if producer_id in open_since and draw(st.booleans()):
            is_abort = draw(st.booleans())
            record_set += end_marker(offset, producer_id, is_abort=is_abort)
            offset += 1
            first_offset = open_since.pop(producer_id)
            if is_abort:
                aborted.append(AbortedTransaction(producer_id, first_offset))
    return record_set, aborted


def outcome(name: str, record_set: bytes, start: int, end: int, **more: Any) -> DecodedBatch | str:
    """Return what the decoder makes of it: rows, or that it refused."""
    try:
        decoded = load_decoder(name).decode(record_set, "t", 1, start, end, columns=COLUMNS, **more)
    except KcoordError:
        return "refused"
    decoded.rows.validate(full=True)
    return decoded


def agreed(record_set: bytes, start: int, end: int, **more: Any) -> DecodedBatch | str:
    """Return what all decoders make of it."""
    first, *others = (outcome(name, record_set, start, end, **more) for name in available_decoders())
    for other in others:
        assert isinstance(first, str) == isinstance(other, str)
        if not isinstance(first, str):
            assert (other.next_offset, other.rows) == (first.next_offset, first.rows)
    return first


@settings(deadline=None)
@given(drawn=record_sets())
def test_any_batches_give_the_rows_kafka_python_reads(drawn: tuple[bytes, list[AbortedTransaction]]) -> None:
    record_set, _ = drawn

    decoded = agreed(record_set, 0, END)

    assert isinstance(decoded, DecodedBatch)
    assert decoded_rows(decoded.rows) == oracle_rows(record_set)


@settings(deadline=None)
@given(drawn=record_sets(), data=st.data())
def test_any_part_is_the_same_from_both(drawn: tuple[bytes, list[AbortedTransaction]], data: st.DataObject) -> None:
    record_set, aborted = drawn
    whole = agreed(record_set, 0, END, aborted=aborted)
    assert isinstance(whole, DecodedBatch)
    first = data.draw(st.integers(0, whole.next_offset))
    end = data.draw(st.integers(first, whole.next_offset + 2))
    cut = data.draw(st.integers(0, len(record_set)))

    part = agreed(record_set, first, end, aborted=aborted)
    assert isinstance(part, DecodedBatch)
    assert decoded_rows(part.rows) == [row for row in decoded_rows(whole.rows) if first <= row[0] < end]
    agreed(record_set[:cut], first, end, aborted=aborted, max_bytes=data.draw(st.integers(1, 500)))


def damage(record_set: bytes, chance: random.Random) -> bytes:
    """Change a few bytes, more often those of headers and lengths than those of long values."""
    batch = bytearray(record_set)
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(min(len(batch), chance.choice((61, 90, len(batch)))))
        batch[at] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256), batch[at] ^ 1 << chance.randrange(8)))
    return bytes(batch[: chance.randint(len(batch) // 2, len(batch))] if chance.random() < 0.1 else batch)


@st.composite
def damaged_sets(draw: st.DrawFn) -> tuple[bytes, list[AbortedTransaction]]:
    record_set, aborted = draw(record_sets().filter(lambda drawn: bool(drawn[0])))
    return damage(record_set, random.Random(draw(st.integers(0, 1 << 32)))), aborted


def one_record(*fields: bytes, length: bytes | None = None) -> bytes:
    """Return a batch of one record of these bytes, at offset 0 and time 0; its checksum is wrong."""
    record = b"".join(fields)
    batch = bytearray(record_batch([Row(timestamp=0)]))
    batch[HEADER_BYTES:] = (bytes([2 * len(record)]) if length is None else length) + record
    batch[8:12] = struct.pack(">i", len(batch) - 12)
    return bytes(batch)


NO_BITS = b"\x80"
"""A byte of a number that adds nothing to it and says that more follows."""
NO_VALUE_NO_HEADERS = b"\x01\x00"
ATTRIBUTES_LIKE_A_NUMBER = one_record(b"\x80", b"\x00", b"\x00", b"\x06", b"\x80\x80\x00", NO_VALUE_NO_HEADERS)
"""It is a record of offset 3 and another key where the attributes are read as a number, not as one byte."""
TIME_OF_MORE_THAN_64_BITS = one_record(b"\x00", NO_BITS * 9 + b"\x7e", b"\x00", b"\x01", NO_VALUE_NO_HEADERS)
LENGTH_OF_MORE_THAN_64_BITS = one_record(
    b"\x00", b"\x00", b"\x00", b"\x01", NO_VALUE_NO_HEADERS, length=NO_BITS * 10 + b"\x7e"
)


@settings(deadline=None, max_examples=examples(75, 300))
@given(drawn=damaged_sets())
@example(drawn=(ATTRIBUTES_LIKE_A_NUMBER, []))
@example(drawn=(TIME_OF_MORE_THAN_64_BITS, []))
@example(drawn=(LENGTH_OF_MORE_THAN_64_BITS, []))
def test_damaged_batches_are_an_error_or_correct_rows(drawn: tuple[bytes, list[AbortedTransaction]]) -> None:
    damaged, aborted = drawn

    agreed(damaged, 0, END, aborted=aborted, check_crcs=False)
    decoded = agreed(damaged, 0, END, check_crcs=False)
    if isinstance(decoded, str):
        return
    # Batches come in order, so one that begins past the end is the last that a decoder looks at.
    past = next((batch.position for batch in batches(memoryview(damaged), "t") if batch.base_offset >= END), None)
    try:
        expected = [row for row in oracle_rows(damaged[:past]) if 0 <= row[0] < END]
    except (CorruptRecordError, ValueError, IndexError):
        return  # kafka-python refuses header keys that are not UTF-8, and what follows the last whole batch
    assert decoded_rows(decoded.rows) == expected


def test_attributes_of_a_record_are_one_byte_that_says_nothing() -> None:
    decoded = agreed(ATTRIBUTES_LIKE_A_NUMBER, 0, END, check_crcs=False)

    assert isinstance(decoded, DecodedBatch)
    assert decoded_rows(decoded.rows) == [(0, 0, 0, b"\x80\x80\x00", None, None)]


@pytest.mark.parametrize(
    ("time", "delta", "key_length"),
    [
        (NO_BITS * 9 + b"\x00", b"\x00", b"\x02"),
        (NO_BITS * 9 + b"\x7e", b"\x00", b"\x02"),
        (b"\x00", NO_BITS * 4 + b"\x00", b"\x02"),
        (b"\x00", b"\x00", b"\x82" + NO_BITS * 3 + b"\x00"),
    ],
)
def test_numbers_longer_than_they_need_to_be_are_read_as_kafka_does(
    time: bytes, delta: bytes, key_length: bytes
) -> None:
    decoded = agreed(one_record(b"\x00", time, delta, key_length, b"k", NO_VALUE_NO_HEADERS), 0, END, check_crcs=False)

    assert isinstance(decoded, DecodedBatch)
    assert decoded_rows(decoded.rows) == [(0, 0, 0, b"k", None, None)]


@pytest.mark.parametrize(
    ("time", "delta", "key_length"),
    [
        (NO_BITS * 10 + b"\x00", b"\x00", b"\x02"),
        (b"\x00", NO_BITS * 5 + b"\x00", b"\x02"),
        (b"\x00", NO_BITS * 4 + b"\x10", b"\x02"),
        (b"\x00", b"\x00", b"\x82" + NO_BITS * 4 + b"\x00"),
        (b"\x00", b"\x00", b"\x82" + NO_BITS * 3 + b"\x10"),
    ],
)
def test_numbers_of_more_bytes_or_bits_than_kafkas_are_refused(time: bytes, delta: bytes, key_length: bytes) -> None:
    record = one_record(b"\x00", time, delta, key_length, b"k", NO_VALUE_NO_HEADERS)

    assert agreed(record, 0, END, check_crcs=False) == "refused"


@pytest.mark.parametrize("name", set(available_decoders()) - {"numpy"})
def test_compiled_checksum_is_crc32c_of_any_length(name: str) -> None:
    checksum = load_decoder(name).checksum  # type: ignore[attr-defined]
    data = random.Random(5).randbytes(20_000)

    for size in [*range(600), 2048 * 3 - 1, 2048 * 3, 2048 * 6 + 128 * 3 + 9, len(data)]:
        for at in (0, 1):
            expected = google_crc32c.value(data[at : at + size])
            assert checksum(data[at : at + size]) == expected
            assert checksum(data[at : at + size], by_table=True) == expected


def test_numpy_decoder_is_in_every_install() -> None:
    assert set(available_decoders()) in ({"numpy"}, set(DECODERS))
