"""Records are read from wherever they are wanted, and nothing is handed on that is not what was written."""

import pytest

from coordinator.core.log import reading
from coordinator.core.log.entry import Batch, CorruptLogError, encode_batch
from coordinator.core.log.reading import ReadableSegment, read_batches

BATCHES = [
    [Batch(4, 1, (b"e", b"f")), Batch(6, 1, (b"g",)), Batch(7, 2, (b"h" * 300, b"i"))],
    [Batch(9, 2, (b"j",)), Batch(10, 3, (b"k", b"l"))],
]
RECORDS = [
    (batch.base_offset + at, batch.leader_epoch, each)
    for part in BATCHES
    for batch in part
    for at, each in enumerate(batch.records)
]


def segment(batches: list[Batch], *, seal: bool = False, damage: int | None = None) -> ReadableSegment:
    seals = [Batch(batches[-1].end, batches[-1].leader_epoch, ())] if seal else []
    data = bytearray(b"".join(map(encode_batch, [*batches, *seals])))
    if damage is not None:
        data[damage] ^= 1
    return ReadableSegment(
        "segment", batches[0].base_offset, len(data), lambda at, length: bytes(data[at : at + length])
    )


def log() -> list[ReadableSegment]:
    return [segment(BATCHES[0], seal=True), segment(BATCHES[1])]


def flat(batches: tuple[Batch, ...]) -> list[tuple[int, int, bytes]]:
    return [
        (batch.base_offset + at, batch.leader_epoch, each) for batch in batches for at, each in enumerate(batch.records)
    ]


@pytest.mark.parametrize("block_bytes", [64, 256 * 1024])
@pytest.mark.parametrize("from_offset", range(4, 13))
def test_all_that_follows_an_offset_is_read(
    from_offset: int, block_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "_BLOCK_BYTES", block_bytes)
    assert flat(read_batches(log(), from_offset, 12, 10**6)) == [each for each in RECORDS if each[0] >= from_offset]


@pytest.mark.parametrize("end", range(4, 13))
def test_nothing_above_the_durable_end_is_read(end: int) -> None:
    assert flat(read_batches(log()[: 1 + (end > 9)], 4, end, 10**6)) == [each for each in RECORDS if each[0] < end]


@pytest.mark.parametrize("most_bytes", [0, 1, 6, 12, 13, 400])
def test_about_so_much_is_read_and_at_least_one_record_until_all_is(most_bytes: int) -> None:
    found: list[tuple[int, int, bytes]] = []
    while len(found) < len(RECORDS):
        some = flat(read_batches(log(), 4 + len(found), 12, most_bytes))
        assert len(some) == 1 or sum(5 + len(each) for _, _, each in some) <= most_bytes
        found += some
    assert found == RECORDS
    assert read_batches(log(), 12, 12, most_bytes) == ()


def test_what_is_not_what_was_written_is_not_handed_on() -> None:
    with pytest.raises(CorruptLogError, match="CRC-32C"):
        read_batches([segment(BATCHES[1], damage=33)], 9, 12, 100)
    with pytest.raises(CorruptLogError, match="no frame of log offset 9 begins there"):
        read_batches([segment(BATCHES[1], damage=16)], 11, 12, 100)
    with pytest.raises(CorruptLogError, match="no frame of log offset 9 begins there"):
        read_batches([segment(BATCHES[0])], 8, 12, 10**6)
