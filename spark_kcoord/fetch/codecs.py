"""Record batches without their compression: cramjam's codecs in the framing Kafka uses.

Kafka's gzip, LZ4 and Zstandard are the standard frames; its Snappy is xerial's framing (blocks of raw Snappy)
or, from some producers, one raw block.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Final

import cramjam

__all__ = ["CODECS", "decompress"]

CODECS: Final[Mapping[int, str]] = {0: "none", 1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES: Final = 16
_BLOCK_LENGTH: Final = struct.Struct(">i")


def decompress(codec: int, data: memoryview) -> memoryview:
    """Return the plain bytes; raises ValueError for an unknown codec and cramjam.DecompressionError for bad data."""
    try:
        function = _FUNCTIONS[codec]
    except KeyError:
        raise ValueError(f"compression codec {codec} is unknown") from None
    return function(data)


def _snappy(data: memoryview) -> memoryview:
    if bytes(data[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return memoryview(cramjam.snappy.decompress_raw(data))
    plain = bytearray()
    position = _XERIAL_HEADER_BYTES
    while position < len(data):
        if position + _BLOCK_LENGTH.size > len(data):
            raise cramjam.DecompressionError("a Snappy block has no length")
        (length,) = _BLOCK_LENGTH.unpack_from(data, position)
        position += _BLOCK_LENGTH.size
        if length < 0 or position + length > len(data):
            raise cramjam.DecompressionError("a Snappy block is cut short")
        plain += memoryview(cramjam.snappy.decompress_raw(data[position : position + length]))
        position += length
    return memoryview(plain)


_FUNCTIONS: Final[Mapping[int, Callable[[memoryview], memoryview]]] = {
    0: lambda data: data,
    1: lambda data: memoryview(cramjam.gzip.decompress(data)),
    2: _snappy,
    3: lambda data: memoryview(cramjam.lz4.decompress(data)),
    4: lambda data: memoryview(cramjam.zstd.decompress(data)),
}
