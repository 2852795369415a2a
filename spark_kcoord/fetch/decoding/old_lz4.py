"""LZ4 frames of messages of format 0, whose header checksum is wrong: Kafka's own code had it cover a number too much.

Java's consumer passes over that byte; here it is made right, because the library that decompresses looks at it. No
library that executors have computes XXH32, so it is here, for the few bytes of a header.
"""

from __future__ import annotations

import struct
from typing import Final

__all__ = ["with_right_checksum", "xxh32"]

_DESCRIPTOR_AT: Final = 4
_HAS_CONTENT_SIZE: Final = 0x08
_CONTENT_SIZE_BYTES: Final = 8
_HAS_DICTIONARY: Final = 0x01
_DICTIONARY_BYTES: Final = 4

_LARGEST_BYTES: Final = 15
"""Longer inputs have a main loop in XXH32."""
_PRIME_1: Final = 0x9E3779B1
_PRIME_2: Final = 0x85EBCA77
_PRIME_3: Final = 0xC2B2AE3D
_PRIME_4: Final = 0x27D4EB2F
_PRIME_5: Final = 0x165667B1
_MASK: Final = (1 << 32) - 1
_WORD: Final = struct.Struct("<I")


def with_right_checksum(frame: memoryview) -> memoryview:
    """Return the frame with the header checksum that it should have; bytes that are no frame come back as they are."""
    if len(frame) <= _DESCRIPTOR_AT:
        return frame
    flags = frame[_DESCRIPTOR_AT]
    checksum_at = _DESCRIPTOR_AT + 2
    checksum_at += _CONTENT_SIZE_BYTES if flags & _HAS_CONTENT_SIZE else 0
    checksum_at += _DICTIONARY_BYTES if flags & _HAS_DICTIONARY else 0
    if len(frame) <= checksum_at:
        return frame
    right = bytearray(frame)
    right[checksum_at] = xxh32(bytes(frame[_DESCRIPTOR_AT:checksum_at])) >> 8 & 0xFF
    return memoryview(right)


def xxh32(data: bytes) -> int:
    """Return the 32-bit xxHash, with seed 0, of at most 15 bytes; raises ValueError for more."""
    if len(data) > _LARGEST_BYTES:
        raise ValueError(f"at most {_LARGEST_BYTES} bytes can be hashed here, not {len(data)}")
    result = (_PRIME_5 + len(data)) & _MASK
    position = 0
    while position + _WORD.size <= len(data):
        (word,) = _WORD.unpack_from(data, position)
        result = _rotated((result + word * _PRIME_3) & _MASK, 17) * _PRIME_4 & _MASK
        position += _WORD.size
    for byte in data[position:]:
        result = _rotated((result + byte * _PRIME_5) & _MASK, 11) * _PRIME_1 & _MASK
    result = (result ^ result >> 15) * _PRIME_2 & _MASK
    result = (result ^ result >> 13) * _PRIME_3 & _MASK
    return result ^ result >> 16


def _rotated(number: int, bits: int) -> int:
    return (number << bits | number >> (32 - bits)) & _MASK
