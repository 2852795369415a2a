"""Values in ZooKeeper keep what is unknown, and garbage costs only the entity whose value it is."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.core.cluster.znodes import (
    ActiveController,
    Bucket,
    Cluster,
    ControllerEpoch,
    KnownNode,
    LiveNode,
    LogEnd,
    NodeState,
    ShardEntry,
    Unreadable,
    bucket_count,
    bucket_of,
    decode,
    decode_bucket,
    encode,
    encode_bucket,
    number_in,
)

CLUSTER = Cluster(cluster_id="c1", shards=50, buckets=50, replication_factor=3, min_insync_replicas=2)
LIVE = LiveNode(
    node_epoch=3,
    directory_id="d1",
    addresses={"members": "n1:9292", "peers": "n1:9293"},
    rack="r1",
    release="0.1.0",
    state=NodeState.DRAINING,
    log_ends={7: LogEnd(leader_epoch=4, end=1202)},
)
ENTRY = ShardEntry(
    leader=1, leader_node_epoch=9, leader_epoch=4, isr=(1, 2), replicas=(1, 2, 3), changed_by="controller 1"
)
VALUES = [
    CLUSTER,
    ControllerEpoch(epoch=3, node_id=1),
    ControllerEpoch(epoch=0),
    ActiveController(node_id=1, node_epoch=2, controller_epoch=3),
    KnownNode(directory_id="d1", starts=4),
    LIVE,
    ENTRY,
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_value_is_read_as_it_was_written(value: Cluster) -> None:
    assert decode(type(value), "/at", encode(value)) == value


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_fields_of_a_later_release_are_kept(value: Cluster) -> None:
    stored = {**json.loads(encode(value)), "later": {"deep": [1]}, "unknown": 7}
    read = decode(type(value), "/at", json.dumps(stored).encode())
    assert not isinstance(read, Unreadable)
    assert json.loads(encode(read)) == stored


def test_what_is_stored_is_this() -> None:
    assert encode_bucket(Bucket(shards={7: ENTRY})) == (
        b'{"shards":{"7":{"adding":[],"changed_by":"controller 1","isr":[1,2],"leader":1,"leader_epoch":4,'
        b'"leader_node_epoch":9,"removing":[],"replicas":[1,2,3],"unclean_epoch":0}}}'
    )
    assert encode(LIVE) == (
        b'{"addresses":{"members":"n1:9292","peers":"n1:9293"},"directory_id":"d1","lacks":[],'
        b'"log_ends":{"7":{"end":1202,"leader_epoch":4}},"node_epoch":3,"place":"","rack":"r1","release":"0.1.0",'
        b'"session_timeout_ms":0,"state":"draining"}'
    )


def test_an_entry_that_cannot_be_read_costs_its_shard_alone_and_is_left_as_it_is() -> None:
    stored = {
        "later": 1,
        "shards": {
            "7": json.loads(encode(ENTRY)) | {"later": 2},
            "8": {"leader": "nobody"},
            "9": [],
            "07": json.loads(encode(ENTRY)),
        },
    }
    bucket = decode_bucket("/shards/0", json.dumps(stored).encode())
    assert isinstance(bucket, Bucket)
    assert list(bucket.shards) == [7]
    assert sorted(bucket.why_unread) == ["07", "8", "9"]
    assert "leader" in bucket.why_unread["8"]
    assert json.loads(encode_bucket(bucket)) == stored


@pytest.mark.parametrize(
    "change",
    [
        {"leader": 3},
        {"leader": None},
        {"leader_node_epoch": None},
        {"isr": [1, 1]},
        {"isr": [1, 9]},
        {"replicas": []},
        {"leader_epoch": -1},
        {"leader_epoch": 2**70},
        {"leader_epoch": 2**32},
        {"isr": [1.5]},
        {"adding": [4]},
    ],
    ids=str,
)
def test_an_entry_that_contradicts_itself_cannot_be_read(change: dict[str, object]) -> None:
    stored = json.dumps({"shards": {"7": json.loads(encode(ENTRY)) | change}}).encode()
    bucket = decode_bucket("/shards/0", stored)
    assert isinstance(bucket, Bucket)
    assert not bucket.shards
    assert bucket.why_unread["7"]


@pytest.mark.parametrize("name", ["07", "-1", "x", "", " 7"])
def test_a_name_that_is_no_number_of_a_shard_is_left_as_it_is(name: str) -> None:
    stored = {"shards": {name: json.loads(encode(ENTRY)), "8": json.loads(encode(ENTRY))}}
    bucket = decode_bucket("/shards/0", json.dumps(stored).encode())
    assert isinstance(bucket, Bucket)
    assert (list(bucket.shards), list(bucket.unread)) == ([8], [name])
    assert json.loads(encode_bucket(bucket)) == stored


@pytest.mark.parametrize("where", ["bucket", "entry"])
@pytest.mark.parametrize("name", ["unknown", "later"])
def test_a_field_of_any_name_is_kept_in_a_bucket(where: str, name: str) -> None:
    stored = {"shards": {"7": json.loads(encode(ENTRY))}}
    (stored if where == "bucket" else stored["shards"]["7"])[name] = {"a": 1}
    bucket = decode_bucket("/shards/0", json.dumps(stored).encode())
    assert isinstance(bucket, Bucket)
    assert list(bucket.shards) == [7]
    assert json.loads(encode_bucket(bucket)) == stored


def test_a_shard_whose_data_is_lost_everywhere_has_nobody_in_sync() -> None:
    entry = ShardEntry(leader=None, leader_epoch=4, isr=(), replicas=(1, 2))
    assert decode(ShardEntry, "/at", encode(entry)) == entry


def test_another_format_is_said() -> None:
    read = decode(Cluster, "/cluster", encode(CLUSTER).replace(b'"format":1', b'"format":2'))
    assert read == Unreadable("/cluster", "its format is 2 and this release reads 1: run the release that wrote it")


@given(st.binary(max_size=200))
def test_garbage_is_unreadable_with_a_reason(data: bytes) -> None:
    for kind in (Cluster, LiveNode, KnownNode):
        read = decode(kind, "/at", data)
        assert isinstance(read, Unreadable)
        assert read.why
    assert isinstance(decode_bucket("/shards/0", data), Unreadable)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["7", "8", "x", "", "-1", "٣"]), json_values, max_size=4), json_values)
def test_a_bucket_with_anything_in_it_is_written_back_as_it_was(shards: object, later: object) -> None:
    stored = {"shards": shards, "later": later}
    bucket = decode_bucket("/shards/0", json.dumps(stored).encode())
    if isinstance(bucket, Bucket):
        assert json.loads(encode_bucket(bucket)) == stored


def test_deep_nesting_is_unreadable() -> None:
    assert isinstance(decode(Cluster, "/cluster", b"[" * 100_000), Unreadable)


def test_names_are_numbers_as_this_layout_writes_them() -> None:
    assert [number_in(name) for name in ("0", "12", "012", "", "-1", "1e3", "٣", "9" * 11)] == [0, 12] + [None] * 6
    assert [number_in(name) for name in ("2147483647", "2147483648")] == [2**31 - 1, None]


@pytest.mark.parametrize(
    "addresses", [{"peers": "h" * 5_000}, {"p" * 5_000: "h:1"}, dict.fromkeys(map(str, range(101)), "")]
)
def test_addresses_that_no_message_could_carry_cannot_be_read(addresses: dict[str, str]) -> None:
    stored = json.dumps(json.loads(encode(LIVE)) | {"addresses": addresses}).encode()
    assert isinstance(decode(LiveNode, "/at", stored), Unreadable)


def test_shards_are_spread_over_at_most_64_buckets() -> None:
    assert [bucket_count(shards) for shards in (1, 50, 64, 1_000)] == [1, 50, 64, 64]
    assert [bucket_of(shard, 64) for shard in (0, 63, 64, 999)] == [0, 63, 0, 39]
