from collections.abc import Callable

import pytest

from coordinator.core.log.entry import CorruptLogError, UnknownFormatError
from coordinator.core.log.meta import (
    ClusterMemory,
    DirectoryMeta,
    Membership,
    decode_memory,
    decode_meta,
    encode_memory,
    encode_meta,
)

META = DirectoryMeta(8, "3f2a")
GOLDEN_V1 = b'{"format":1,"shards":8,"directory_id":"3f2a","crc32c":"5ca5d4fc"}\n'
OF_CLUSTER = DirectoryMeta(50, "3f2a", Membership(2, "c7", 9))
GOLDEN_V2 = (
    b'{"format":2,"shards":50,"directory_id":"3f2a","cluster_id":"c7","node_id":2,"starts":9,"crc32c":"58a5c052"}\n'
)
GOLDEN_MEMORY = b'{"controller_epoch":12,"crc32c":"2362ef4f"}\n'
GOLDEN_INTENDED = (
    b'{"controller_epoch":12,"crc32c":"37cc9312","node_epoch":3,"buckets":{"10":4},"lacks":[5],"intended_epoch":4}\n'
)
GOLDEN_SEEN = b'{"controller_epoch":12,"crc32c":"8b45464d","node_epoch":3,"buckets":{"0":7,"10":4}}\n'


@pytest.mark.parametrize(("meta", "golden"), [(META, GOLDEN_V1), (OF_CLUSTER, GOLDEN_V2)], ids=["1", "2"])
def test_meta_of_each_format_keeps_its_bytes(meta: DirectoryMeta, golden: bytes) -> None:
    assert encode_meta(meta) == golden
    assert decode_meta(golden, path_hint="meta.json") == meta


def test_a_node_that_has_joined_no_cluster_yet_is_told_from_a_standalone_one() -> None:
    new = DirectoryMeta(0, "3f2a", Membership(2, "", 1))
    assert decode_meta(encode_meta(new), path_hint="meta.json") == new


def test_what_is_remembered_keeps_its_bytes() -> None:
    assert encode_memory(ClusterMemory(12)) == GOLDEN_MEMORY
    assert decode_memory(GOLDEN_MEMORY, path_hint="cluster.json") == ClusterMemory(12)
    seen = ClusterMemory(12, 3, {10: 4, 0: 7})
    assert encode_memory(seen) == GOLDEN_SEEN
    assert decode_memory(GOLDEN_SEEN, path_hint="cluster.json") == seen
    for lacking in (ClusterMemory(lacks=frozenset({7, 0})), ClusterMemory(12, 3, {10: 4}, frozenset({5}))):
        assert decode_memory(encode_memory(lacking), path_hint="cluster.json") == lacking
    intended = ClusterMemory(12, 3, {10: 4}, frozenset({5}), 4)
    assert encode_memory(intended) == GOLDEN_INTENDED
    assert decode_memory(GOLDEN_INTENDED, path_hint="cluster.json") == intended


@pytest.mark.parametrize(
    ("golden", "decode"),
    [
        (GOLDEN_V1, lambda data: decode_meta(data, path_hint="meta.json")),
        (GOLDEN_V2, lambda data: decode_meta(data, path_hint="meta.json")),
        (GOLDEN_MEMORY, lambda data: decode_memory(data, path_hint="cluster.json")),
        (GOLDEN_SEEN, lambda data: decode_memory(data, path_hint="cluster.json")),
        (GOLDEN_INTENDED, lambda data: decode_memory(data, path_hint="cluster.json")),
    ],
    ids=["1", "2", "memory", "memory of versions", "memory of a registration"],
)
def test_any_flipped_bit_and_any_cut_is_detected(golden: bytes, decode: Callable[[bytes], object]) -> None:
    for position in range(len(golden)):
        with pytest.raises(CorruptLogError):
            decode(golden[:position])
        for bit in range(8):
            damaged = bytearray(golden)
            damaged[position] ^= 1 << bit
            with pytest.raises((CorruptLogError, UnknownFormatError)):
                decode(bytes(damaged))


def test_unknown_format_is_refused_whatever_else_it_holds() -> None:
    with pytest.raises(UnknownFormatError, match="format 3"):
        decode_meta(b'{"format":3,"new":true}', path_hint="meta.json")
