import pytest

from coordinator.core.log.entry import CorruptLogError, UnknownFormatError
from coordinator.core.log.meta import DirectoryMeta, decode_meta, encode_meta

META = DirectoryMeta(8, "3f2a")
GOLDEN_V1 = b'{"format":1,"shards":8,"directory_id":"3f2a","crc32c":"5ca5d4fc"}\n'


def test_meta_of_format_1_keeps_its_bytes() -> None:
    assert encode_meta(META) == GOLDEN_V1
    assert decode_meta(GOLDEN_V1, path_hint="meta.json") == META


def test_any_flipped_bit_and_any_cut_is_detected() -> None:
    for position in range(len(GOLDEN_V1)):
        with pytest.raises(CorruptLogError):
            decode_meta(GOLDEN_V1[:position], path_hint="meta.json")
        for bit in range(8):
            damaged = bytearray(GOLDEN_V1)
            damaged[position] ^= 1 << bit
            with pytest.raises((CorruptLogError, UnknownFormatError)):
                decode_meta(bytes(damaged), path_hint="meta.json")


def test_unknown_format_is_refused_whatever_else_it_holds() -> None:
    with pytest.raises(UnknownFormatError, match="format 2"):
        decode_meta(b'{"format":2,"new":true}', path_hint="meta.json")
