"""The image is what was read last; what cannot be read is named and takes nothing else with it."""

from dataclasses import replace

import msgspec.structs
import pytest

from coordinator.core.cluster.image import Image, read_all, read_children, read_node
from coordinator.core.cluster.znodes import (
    Bucket,
    Cluster,
    KnownNode,
    LiveNode,
    ShardEntry,
    Versioned,
    encode,
    encode_bucket,
)
from coordinator.core.cluster.zookeeper import ZkNode, ZkRead, ZkValues

CLUSTER = Cluster(cluster_id="c1", shards=4, buckets=2, replication_factor=1, min_insync_replicas=1)
ENTRY = ShardEntry(leader=1, leader_node_epoch=9, leader_epoch=4, isr=(1,), replicas=(1,))
LIVE = LiveNode(node_epoch=3, directory_id="d1", addresses={}, rack="r1", release="1")
BUCKETS = {0: Bucket(shards={0: ENTRY, 2: ENTRY}), 1: Bucket(shards={1: ENTRY, 3: ENTRY})}


def whole() -> Image:
    image = read_node(Image(), "/cluster", ZkNode(encode(CLUSTER), 0))
    image = read_node(image, "/nodes/known/1", ZkNode(encode(KnownNode(directory_id="d1", starts=1)), 3))
    image = read_node(image, "/nodes/live/1", ZkNode(encode(LIVE), 0, 77))
    for number, bucket in BUCKETS.items():
        image = read_node(image, f"/shards/{number}", ZkNode(encode_bucket(bucket), 5))
    return image


def test_what_is_read_is_there_with_its_version_and_owner() -> None:
    image = whole()
    assert image.cluster == Versioned(CLUSTER, 0)
    assert image.live == {1: Versioned(LIVE, 0, 77)}
    assert image.known[1].version == 3
    assert image.buckets[1] == Versioned(BUCKETS[1], 5)
    assert dict(image.shards()) == dict.fromkeys(range(4), ENTRY)
    assert image.shard(3) == ENTRY
    assert image.unreadable_shards() == frozenset()


def test_an_entry_of_no_shard_of_this_cluster_or_in_anothers_bucket_is_no_shard() -> None:
    stray = Bucket(shards={**BUCKETS[0].shards, 1: ENTRY, 4: ENTRY, 99_999_999: ENTRY})
    image = read_node(whole(), "/shards/0", ZkNode(encode_bucket(stray), 6))
    image = read_node(image, "/shards/7", ZkNode(encode_bucket(Bucket(shards={3: ENTRY, 7: ENTRY})), 0))
    assert sorted(shard for shard, _ in image.shards()) == [0, 1, 2, 3]
    without = read_node(image, "/shards/1", None)
    assert sorted(shard for shard, _ in without.shards()) == [0, 2]
    assert without.unreadable_shards() == {1, 3}
    assert not list(read_node(image, "/cluster", None).shards())


def test_what_is_read_again_as_it_was_changes_nothing_not_even_the_image() -> None:
    image = whole()
    bucket = ZkNode(encode_bucket(BUCKETS[0]), 5)
    assert read_node(image, "/shards/0", bucket) is image
    assert read_children(image, "/shards", ("0", "1")) is image
    for other in (ZkNode(bucket.data, 6), ZkNode(encode_bucket(Bucket(shards={0: ENTRY})), 5)):
        changed = read_node(image, "/shards/0", other)
        assert changed is not image
        assert changed.buckets[0].version == other.version
        assert changed.buckets[1] is image.buckets[1]
    registered_anew = read_node(image, "/nodes/live/1", ZkNode(encode(LIVE), 0, 78))
    assert registered_anew.live[1].owner == 78
    garbage = read_node(image, "/shards/0", ZkNode(b"garbage", 5))
    assert read_node(garbage, "/shards/0", bucket) == image


def test_what_is_gone_is_gone_whether_its_node_or_its_folder_was_read() -> None:
    assert not read_node(whole(), "/nodes/live/1", None).live
    assert not read_children(whole(), "/nodes/live", ()).live
    assert not read_children(whole(), "/nodes/live", None).live
    assert read_children(whole(), "/nodes/live", ("1", "2")).live == whole().live
    assert list(read_children(whole(), "/shards", ("1",)).buckets) == [1]
    assert not read_children(whole(), "/nodes/known", ()).known
    assert read_node(whole(), "/controller/active", None) == whole()


def test_garbage_in_one_node_quarantines_that_node() -> None:
    image = read_node(whole(), "/shards/0", ZkNode(b"\xff", 6))
    assert list(image.unreadable) == ["/shards/0"]
    assert image.unreadable_shards() == {0, 2}
    assert image.shard(0) is None
    assert image.shard(1) == ENTRY
    again = read_node(image, "/shards/0", ZkNode(encode_bucket(BUCKETS[0]), 7))
    assert again.unreadable == {}
    assert again.shard(0) == ENTRY
    image = read_node(image, "/nodes/live/1", ZkNode(b"{}", 0))
    assert not image.live
    assert sorted(read_children(image, "/nodes/live", ()).unreadable) == ["/shards/0"]


def test_one_entry_that_cannot_be_read_is_one_unreadable_shard() -> None:
    stored = encode_bucket(BUCKETS[0]).replace(b'"0":{', b'"0":{"isr":7,"was":{},', 1).replace(b'"isr":[1],', b"", 1)
    image = read_node(whole(), "/shards/0", ZkNode(stored, 6))
    assert image.unreadable_shards() == {0}
    assert image.shard(2) == ENTRY


def test_without_the_cluster_nothing_is_said_of_shards() -> None:
    image = read_node(whole(), "/cluster", None)
    assert image.shard(0) is None
    assert image.unreadable_shards() == frozenset()


@pytest.mark.parametrize(
    ("other", "why"),
    [
        ({"shards": 2}, "it says 2 shards, and the cluster was made with 4, which never changes"),
        ({"shards": 8}, "it says 8 shards, and the cluster was made with 4, which never changes"),
        ({"buckets": 4}, "it says 4 buckets, and the cluster was made with 2, which never changes"),
    ],
)
def test_a_cluster_of_other_numbers_than_it_was_joined_by_cannot_be_read(other: dict[str, int], why: str) -> None:
    joined = replace(whole(), made=CLUSTER)
    image = read_node(joined, "/cluster", ZkNode(encode(msgspec.structs.replace(CLUSTER, **other)), 1))
    assert (image.cluster, image.unreadable) == (None, {"/cluster": why})
    assert read_node(image, "/cluster", ZkNode(encode(CLUSTER), 2)).cluster == Versioned(CLUSTER, 2)


@pytest.mark.parametrize(
    "said",
    [None, b"garbage", encode(msgspec.structs.replace(CLUSTER, buckets=1))],
    ids=["removed", "garbage", "other numbers"],
)
def test_a_shard_is_where_it_was_when_the_cluster_was_joined_whatever_is_said_of_that_later(said: bytes | None) -> None:
    image = read_node(replace(whole(), made=CLUSTER), "/cluster", None if said is None else ZkNode(said, 1))
    assert image.cluster is None
    assert (image.bucket(3), image.shard(3)) == (Versioned(BUCKETS[1], 5), ENTRY)


def test_other_settings_of_a_cluster_and_buckets_in_which_nothing_would_be_are_read() -> None:
    made = msgspec.structs.replace(CLUSTER, buckets=4)
    other = msgspec.structs.replace(made, min_insync_replicas=1, replication_factor=2, buckets=64)
    image = read_node(Image(made=made), "/cluster", ZkNode(encode(other), 1))
    assert image.cluster == Versioned(other, 1)


def test_a_foreign_node_is_named_and_harms_nothing() -> None:
    image = read_node(whole(), "/nodes/live/me", ZkNode(encode(LIVE), 0))
    assert image.live == whole().live
    assert image.unreadable == {"/nodes/live/me": "its name is no number"}
    for path in ("/elsewhere/1", "/shards", "/nodes/live", "/nodes"):
        assert read_node(whole(), path, ZkNode(b"", 0)) == whole(), path


def test_a_whole_read_is_taken_in_at_once() -> None:
    read = ZkRead(1, 1, ("/cluster", "/nodes/live/2"), ("/nodes/live",))
    values = ZkValues((None, ZkNode(encode(LIVE), 0)), (("2",),))
    image = read_all(whole(), read, values)
    assert image.cluster is None
    assert list(image.live) == [2]


def led_in(leader_epoch: int, *, of: int = 0) -> bytes:
    """Return bucket 0 with one of its shards in another leader epoch."""
    changed = msgspec.structs.replace(ENTRY, leader_epoch=leader_epoch)
    return encode_bucket(Bucket(shards={**BUCKETS[0].shards, of: changed}))


@pytest.mark.parametrize("between", [None, ZkNode(b"garbage", 7), "removed", "not listed"])
def test_an_entry_from_before_is_kept_apart_however_it_was_put_in_the_place_of_a_newer_one(
    between: ZkNode | str | None,
) -> None:
    image = read_node(whole(), "/shards/0", ZkNode(led_in(6), 6))
    if isinstance(between, ZkNode):
        image = read_node(image, "/shards/0", between)
    elif between == "removed":
        image = read_node(image, "/shards/0", None)
    elif between == "not listed":
        image = read_children(image, "/shards", ("1",))
    version = 0 if isinstance(between, str) else 8
    older = ZkNode(led_in(5), version)
    image = read_node(image, "/shards/0", older)
    assert image.shard(0) is None
    assert image.shard(2) == ENTRY, "the other one of its bucket is as it was"
    assert image.unreadable_shards() == {0}
    bucket = image.buckets[0].value
    assert bucket.why_unread["0"] == (
        "its leader epoch is 5 and has been 6, so an older value was put in the place of a newer one, and epochs "
        "would be given again"
    )
    assert encode_bucket(bucket) == older.data, "nobody changes it"
    assert read_node(image, "/shards/0", older) is image
    assert read_node(image, "/shards/0", ZkNode(led_in(5), version + 1)).shard(0) is None, "nor by another write"
    assert read_node(image, "/shards/0", ZkNode(led_in(6), version + 1)).shard(0) is not None
    assert read_node(image, "/shards/0", ZkNode(led_in(7), version + 1)).unreadable_shards() == frozenset()


def test_a_server_that_is_behind_puts_nothing_in_the_place_of_what_is_newer() -> None:
    image = read_node(whole(), "/shards/0", ZkNode(led_in(6), 6))
    behind = read_node(image, "/shards/0", ZkNode(led_in(4), 5))
    assert behind.shard(0) == ENTRY, "conditional writes refuse whoever goes by it"
    assert read_node(behind, "/shards/0", ZkNode(led_in(5), 7)).shard(0) is None


def test_an_entry_from_before_what_is_in_this_nodes_log_is_kept_apart_when_it_is_read_first() -> None:
    image = read_node(Image(log_epochs={0: 5, 2: 4, 9: 1}), "/cluster", ZkNode(encode(CLUSTER), 0))
    image = read_node(image, "/shards/0", ZkNode(encode_bucket(BUCKETS[0]), 5))
    assert (image.shard(0), image.shard(2)) == (None, ENTRY)
    assert read_node(image, "/shards/0", ZkNode(led_in(5), 6)).unreadable_shards() == {1, 3}
