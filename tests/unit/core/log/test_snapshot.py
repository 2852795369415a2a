import struct
from collections.abc import Callable

import google_crc32c
import pytest

from coordinator.core.log import snapshot as snapshot_module
from coordinator.core.log.entry import CorruptLogError, UnknownFormatError
from coordinator.core.log.snapshot import Snapshot, decode_snapshot, encode_snapshot

SNAPSHOT = Snapshot(258, 7, (b"join", b""))
GOLDEN_V1 = "6b63736e6170 61da5a74 0001 0000000000000102 00000007 00000002 92c4046a6f696ec400"


def test_snapshot_of_format_1_keeps_its_bytes() -> None:
    assert encode_snapshot(SNAPSHOT).hex() == GOLDEN_V1.replace(" ", "")
    assert decode_snapshot(bytes.fromhex(GOLDEN_V1), path_hint="s") == SNAPSHOT


def test_any_flipped_bit_is_detected() -> None:
    data = encode_snapshot(SNAPSHOT)
    for position in range(len(data)):
        for bit in range(8):
            damaged = bytearray(data)
            damaged[position] ^= 1 << bit
            with pytest.raises(CorruptLogError):
                decode_snapshot(bytes(damaged), path_hint="s")


def test_cut_at_any_byte_or_longer_is_detected() -> None:
    data = encode_snapshot(SNAPSHOT)
    for cut in range(len(data)):
        with pytest.raises(CorruptLogError):
            decode_snapshot(data[:cut], path_hint="s")
    with pytest.raises(CorruptLogError):
        decode_snapshot(data + b"\0", path_hint="s")


def _with_checksum(body: bytes) -> bytes:
    return b"kcsnap" + struct.pack(">I", google_crc32c.value(body)) + body


def test_unknown_format_is_refused() -> None:
    body = encode_snapshot(SNAPSHOT)[10:]
    with pytest.raises(UnknownFormatError, match="format 2, this release reads format 1"):
        decode_snapshot(_with_checksum(b"\0\2" + body[2:]), path_hint="s")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda body: body + b"\0", "cannot be decoded"),
        (lambda body: body[:17] + b"\5" + body[18:], "holds 2 records but its header says 5"),
    ],
)
def test_intact_bytes_that_were_never_written_are_refused(change: Callable[[bytes], bytes], message: str) -> None:
    with pytest.raises(CorruptLogError, match=message):
        decode_snapshot(_with_checksum(change(encode_snapshot(SNAPSHOT)[10:])), path_hint="s")


def test_size_is_checked_before_encoding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_module, "MAX_SNAPSHOT_BYTES", 100)
    with pytest.raises(ValueError, match="passes the limit of 100"):
        encode_snapshot(Snapshot(1, 0, (bytes(100),)))
