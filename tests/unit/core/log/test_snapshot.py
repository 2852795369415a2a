import struct
from dataclasses import replace

import google_crc32c
import pytest

from coordinator.core.log import snapshot as snapshot_module
from coordinator.core.log.entry import CorruptLogError, UnknownFormatError
from coordinator.core.log.snapshot import HEADER_BYTES, SnapshotPiece, encode_piece, read_pieces

PIECES = (
    SnapshotPiece(258, 7, (b"join", b""), 0, is_last=False),
    SnapshotPiece(258, 7, (), 1, is_last=False),
    SnapshotPiece(258, 7, (b"leave",), 2, is_last=True),
)
GOLDEN_V2 = "6b63736e6170 9bd195a3 0002 00000009 0000000000000102 00000007 00000000 00 92c4046a6f696ec400"


def read(data: bytes) -> list[SnapshotPiece]:
    return list(read_pieces(lambda position, length: data[position : position + length], len(data), path_hint="s"))


def written(*pieces: SnapshotPiece) -> bytes:
    return b"".join(map(encode_piece, pieces))


def test_piece_of_format_2_keeps_its_bytes() -> None:
    assert encode_piece(PIECES[0]).hex() == GOLDEN_V2.replace(" ", "")


def test_pieces_are_read_as_they_were_written_and_one_at_a_time() -> None:
    data = written(*PIECES)
    assert read(data) == list(PIECES)
    read_up_to = 0

    def note(position: int, length: int) -> bytes:
        nonlocal read_up_to
        read_up_to = position + length
        return data[position : position + length]

    pieces = read_pieces(note, len(data), path_hint="s")
    assert (next(pieces), read_up_to) == (PIECES[0], len(encode_piece(PIECES[0])))


def test_any_flipped_bit_is_detected() -> None:
    data = written(*PIECES)
    for position in range(len(data)):
        for bit in range(8):
            damaged = bytearray(data)
            damaged[position] ^= 1 << bit
            with pytest.raises(CorruptLogError):
                read(bytes(damaged))


def test_cut_at_any_byte_or_longer_is_detected() -> None:
    data = written(*PIECES)
    for cut in range(len(data)):
        with pytest.raises(CorruptLogError):
            read(data[:cut])
    with pytest.raises(CorruptLogError, match="bytes follow the last piece"):
        read(data + b"\0")


@pytest.mark.parametrize(
    ("pieces", "message"),
    [
        ((PIECES[0], PIECES[2]), "piece 1 was next, but this is piece 2"),
        ((PIECES[1], PIECES[2]), "piece 0 was next, but this is piece 1"),
        ((PIECES[0], PIECES[0]), "piece 1 was next, but this is piece 0"),
        ((PIECES[0], replace(PIECES[1], end_offset=259)), "piece 1 is of another snapshot"),
        ((PIECES[0], replace(PIECES[1], leader_epoch=8)), "piece 1 is of another snapshot"),
        ((PIECES[0], PIECES[1]), "ends before its last piece"),
        ((*PIECES, PIECES[0]), "bytes follow the last piece"),
    ],
)
def test_intact_pieces_that_are_not_one_snapshot_are_refused(pieces: tuple[SnapshotPiece, ...], message: str) -> None:
    with pytest.raises(CorruptLogError, match=message):
        read(written(*pieces))


def _with_checksum(rest: bytes) -> bytes:
    return b"kcsnap" + struct.pack(">I", google_crc32c.value(rest)) + rest


def test_unknown_format_is_refused() -> None:
    rest = encode_piece(PIECES[2])[10:]
    with pytest.raises(UnknownFormatError, match="format 3, this release reads format 2"):
        read(_with_checksum(b"\0\3" + rest[2:]))


def test_intact_bytes_that_were_never_written_are_refused() -> None:
    rest = encode_piece(PIECES[2])[10:]
    longer = struct.pack(">HI", 2, len(rest) - HEADER_BYTES + 11)
    with pytest.raises(CorruptLogError, match="cannot be decoded"):
        read(_with_checksum(longer + rest[6:] + b"\0"))


def test_length_is_checked_before_it_is_read() -> None:
    data = bytearray(encode_piece(PIECES[2]))
    data[12:16] = b"\xff" * 4
    with pytest.raises(CorruptLogError, match="claims 4294967295 bytes"):
        read(bytes(data))


def test_size_is_checked_before_encoding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_module, "MAX_PIECE_BYTES", 100)
    with pytest.raises(ValueError, match="passes the limit of 100"):
        encode_piece(SnapshotPiece(1, 0, (bytes(100),)))
