"""Record batches without their compression: cramjam's codecs in the framing Kafka uses, never past a limit.

Kafka's gzip, LZ4 and Zstandard are the standard frames; its Snappy is xerial's framing (blocks of raw Snappy)
or, from some producers, one raw block. The plain size is written nowhere in a batch, so it is found by trying:
one buffer is kept from batch to batch and doubled when it was too small, up to the limit.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any, Final

import cramjam

__all__ = ["CODECS", "LARGEST_PLAIN_BYTES", "Decompressor"]

CODECS: Final[Mapping[int, str]] = {0: "none", 1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}
LARGEST_PLAIN_BYTES: Final = 512 << 20
"""A batch that is larger without its compression is refused."""

_FIRST_BYTES: Final = 128 << 10
_LIKELY_RATIO: Final = 4
_TOO_SMALL: Final = "failed to write whole buffer"
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES: Final = 16
_BLOCK_LENGTH: Final = struct.Struct(">i")
_STREAMED: Final[Mapping[int, Callable[[Any, Any], int]]] = {
    1: cramjam.gzip.decompress_into,
    3: cramjam.lz4.decompress_into,
    4: cramjam.zstd.decompress_into,
}


class Decompressor:
    """Decompresses batch after batch into one buffer."""

    def __init__(self, limit: int = LARGEST_PLAIN_BYTES) -> None:
        self._limit = limit
        self._buffer = memoryview(bytearray())

    def decompress(self, codec: int, data: memoryview) -> memoryview:
        """Return the plain bytes, which hold until the next call.

        Raises ValueError for an unknown codec, for bad data (cramjam.DecompressionError's text) and for more
        plain bytes than the limit.
        """
        try:
            if codec == 2:
                return self._snappy(data)
            return self._stream(_STREAMED[codec], data)
        except KeyError:
            raise ValueError(f"compression codec {codec} is unknown") from None
        except cramjam.DecompressionError as error:
            raise ValueError(f"{CODECS[codec]}: {error}") from None

    def _stream(self, decompress_into: Callable[[Any, Any], int], data: memoryview) -> memoryview:
        self._make_room(min(self._limit, max(_FIRST_BYTES, _LIKELY_RATIO * len(data))))
        while True:
            try:
                return self._buffer[: decompress_into(data, self._buffer)]
            except cramjam.DecompressionError as error:
                if _TOO_SMALL not in str(error):
                    raise
            if len(self._buffer) >= self._limit:
                raise self._too_large()
            self._make_room(min(self._limit, 2 * len(self._buffer)))

    def _snappy(self, data: memoryview) -> memoryview:
        is_framed = bytes(data[: len(_XERIAL_MAGIC)]) == _XERIAL_MAGIC
        blocks = list(_xerial_blocks(data)) if is_framed else [data]
        sizes = [cramjam.snappy.decompress_raw_len(block) for block in blocks]
        if sum(sizes) > self._limit:
            raise self._too_large()
        self._make_room(sum(sizes))
        at = 0
        for block, size in zip(blocks, sizes, strict=True):
            at += cramjam.snappy.decompress_raw_into(block, self._buffer[at : at + size])
        return self._buffer[:at]

    def _make_room(self, size: int) -> None:
        if len(self._buffer) < size:
            self._buffer = memoryview(bytearray(size))

    def _too_large(self) -> ValueError:
        return ValueError(f"it is larger than {self._limit} bytes without its compression")


def _xerial_blocks(data: memoryview) -> list[memoryview]:
    blocks = []
    position = _XERIAL_HEADER_BYTES
    while position < len(data):
        if position + _BLOCK_LENGTH.size > len(data):
            raise cramjam.DecompressionError("a block has no length")
        (length,) = _BLOCK_LENGTH.unpack_from(data, position)
        position += _BLOCK_LENGTH.size
        if length < 0 or position + length > len(data):
            raise cramjam.DecompressionError("a block is cut short")
        blocks.append(data[position : position + length])
        position += length
    return blocks
