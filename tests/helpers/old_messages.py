"""Builds messages of formats 0 and 1, as brokers before Kafka 0.11 wrote them, and places them in a broker's log.

A broker of today writes neither, but serves what is in its segment files. A compressed set is a wrapper: one message
whose value is the set, and whose offset is that of its last message. Format 0 has the offsets of the inner messages as
they are, format 1 counts them from the wrapper's first.
"""

import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import cramjam

from spark_kcoord.fetch.decoding.old_lz4 import xxh32
from tests.helpers.record_batches import COMPRESS, Row

LOG_APPEND_TIME = 0x08
OLD_CODECS = ("none", "gzip", "snappy", "lz4")
"""The codecs of their time; the LZ4 of format 0 has a header checksum of its own making."""

_PREFIX = struct.Struct(">qi")
_CRC = struct.Struct(">I")
_HEAD = struct.Struct(">bb")
_TIME = struct.Struct(">q")
_LENGTH = struct.Struct(">i")
_BLOCK = struct.Struct("<I")
_LZ4_MAGIC = struct.pack("<I", 0x184D2204)
_LZ4_DESCRIPTOR = b"\x60\x40"  # version 1, blocks of their own, 64 KiB at most
_STORED = 1 << 31
_LZ4_BLOCK_BYTES = 64 << 10


def message(
    magic: int, offset: int, row: Row, *, attributes: int = 0, timestamp: int | None = None, crc: int | None = None
) -> bytes:
    """Return one message with its offset and length; a `timestamp` goes before the row's."""
    time = _TIME.pack(row.timestamp if timestamp is None else timestamp) if magic else b""
    body = _HEAD.pack(magic, attributes) + time + _field(row.key) + _field(row.value)
    body = _CRC.pack(zlib.crc32(body) if crc is None else crc) + body
    return _PREFIX.pack(offset, len(body)) + body


def _field(data: bytes | None) -> bytes:
    return _LENGTH.pack(-1) if data is None else _LENGTH.pack(len(data)) + data


@dataclass(frozen=True)
class OldSet:
    """Messages of one format by their offsets, each for itself or in one wrapper with a codec."""

    magic: int
    rows: Mapping[int, Row]
    codec: str = "none"
    append_time: int | None = None

    def to_bytes(self) -> bytes:
        """Return the set as a broker kept it."""
        flags = LOG_APPEND_TIME if self.append_time is not None else 0
        if self.codec == "none":
            return b"".join(
                message(self.magic, offset, row, attributes=flags, timestamp=self.append_time)
                for offset, row in self.rows.items()
            )
        # The broker stamps the wrapper alone.
        first, last = min(self.rows), max(self.rows)
        inner = b"".join(message(self.magic, at - first if self.magic else at, row) for at, row in self.rows.items())
        latest = max(row.timestamp for row in self.rows.values())
        return wrapper(
            self.magic, last, inner, self.codec, flags, latest if self.append_time is None else self.append_time
        )


def wrapper(magic: int, offset: int, inner: bytes, codec: str, flags: int = 0, timestamp: int = 0) -> bytes:
    """Return the message whose value is `inner`, compressed."""
    number, compress = COMPRESS[codec]
    value = lz4_frame(inner, magic) if codec == "lz4" else compress(inner)
    return message(magic, offset, Row(None, value, timestamp), attributes=number | flags)


def lz4_frame(data: bytes, magic: int) -> bytes:
    """Return an LZ4 frame as Kafka writes it: blocks that do not depend on each other, and no size of the content.

    In messages of format 0 the header's checksum covers the frame's magic number as well, which is wrong.
    """
    head = _LZ4_MAGIC + _LZ4_DESCRIPTOR
    blocks = []
    for at in range(0, len(data), _LZ4_BLOCK_BYTES):
        plain = data[at : at + _LZ4_BLOCK_BYTES]
        packed = bytes(cramjam.lz4.compress_block(plain, store_size=False))
        if len(packed) < len(plain):
            blocks += [_BLOCK.pack(len(packed)), packed]
        else:
            blocks += [_BLOCK.pack(len(plain) | _STORED), plain]
    checksum = xxh32(_LZ4_DESCRIPTOR if magic else head) >> 8 & 0xFF
    return head + bytes([checksum]) + b"".join(blocks) + _BLOCK.pack(0)


def place_segment(data_dir: Path, topic: str, partition: int, log: bytes) -> None:
    """Make `log` the whole log of a partition from offset 0 on; its broker must be stopped, and indexes it anew."""
    (folder,) = data_dir.rglob(f"{topic}-{partition}")
    for old in folder.iterdir():
        if old.suffix in (".log", ".index", ".timeindex"):
            old.unlink()
    (folder / f"{0:020}.log").write_bytes(log)
