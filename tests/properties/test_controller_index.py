"""What a controller finds by its index is what a look at every shard for every node would find, whatever was read."""

from collections.abc import Sequence
from dataclasses import replace

import msgspec.structs
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.core.cluster.events import ElectUnclean, StepDown, StepDownReason
from coordinator.core.cluster.image import Image, read_children, read_node
from coordinator.core.cluster.office.due import Due, Office
from coordinator.core.cluster.office.index import BucketIndex, ShardIndex, index_of
from coordinator.core.cluster.office.settings import ControllerSettings
from coordinator.core.cluster.office.telling import Mailbox, Outbox, late, take_answer, tell
from coordinator.core.cluster.znodes import (
    MOST_LEADER_EPOCH,
    Bucket,
    Cluster,
    KnownNode,
    LiveNode,
    NodeState,
    ShardEntry,
    encode,
    encode_bucket,
)
from coordinator.core.cluster.zookeeper import ZkNode
from tests.helpers.examples import examples

CLUSTER = Cluster(cluster_id="c1", shards=7, buckets=3, replication_factor=2, min_insync_replicas=1)
NODES = (1, 2, 3)
NODE = st.sampled_from(NODES)
LIFE = st.integers(0, 1)
SETTINGS = ControllerSettings(moves_at_once=2, balance_delay_ms=100, elect_wait_ms=50)


@st.composite
def entries(draw: st.DrawFn) -> ShardEntry:
    replicas = draw(st.lists(NODE, min_size=1, max_size=3, unique=True))
    isr = draw(st.lists(st.sampled_from(replicas), min_size=1, unique=True))
    leader = draw(st.none() | st.sampled_from(isr))
    # Nobody is both added and removed.
    changing = draw(st.lists(st.sampled_from(replicas[1:]), unique=True)) if len(replicas) > 1 else []
    return ShardEntry(
        leader=leader,
        leader_node_epoch=None if leader is None else draw(st.sampled_from((0, 0, 0, 1))),
        leader_epoch=draw(st.sampled_from((1, 2, 2, 3, MOST_LEADER_EPOCH))),
        isr=tuple(isr),
        replicas=tuple(replicas),
        adding=tuple(changing[:1]),
        removing=tuple(changing[1:]),
    )


@st.composite
def buckets(draw: st.DrawFn) -> tuple[str, ZkNode | None]:
    """Draw a bucket as it is read: gone, garbage, or with shards, some of them in another's place."""
    path = f"/shards/{draw(st.integers(0, 3))}"
    if draw(st.integers(0, 5)) == 0:
        return path, draw(st.none() | st.just(ZkNode(b"garbage", 9)))
    shards = draw(st.dictionaries(st.integers(0, 9), entries(), max_size=6))
    return path, ZkNode(encode_bucket(Bucket(shards=shards)), draw(st.integers(0, 2)))


@st.composite
def nodes(draw: st.DrawFn) -> tuple[str, ZkNode | None]:
    number = draw(NODE)
    if draw(st.integers(0, 4)) == 0:
        return f"/nodes/known/{number}", draw(
            st.none() | st.just(ZkNode(encode(KnownNode(directory_id="d", starts=1)), 0))
        )
    live = LiveNode(
        node_epoch=draw(LIFE),
        directory_id="d",
        addresses={},
        rack="r",
        release="1",
        state=draw(st.sampled_from(NodeState)),
    )
    return f"/nodes/live/{number}", draw(st.none() | st.just(ZkNode(encode(live), draw(st.integers(0, 2)), owner=5)))


CLUSTERS = st.sampled_from(
    (
        ("/cluster", ZkNode(encode(CLUSTER), 0)),
        ("/cluster", ZkNode(encode(msgspec.structs.replace(CLUSTER, shards=4)), 1)),
        ("/cluster", None),
    )
)
READS = st.lists(st.one_of(buckets(), buckets(), nodes(), CLUSTERS), max_size=8)


def read(image: Image, reads: Sequence[tuple[str, ZkNode | None]]) -> Image:
    for path, found in reads:
        image = read_node(image, path, found)
    return image


BEGUN = read(
    Image(),
    [("/cluster", ZkNode(encode(CLUSTER), 0))]
    + [(f"/nodes/known/{node}", ZkNode(encode(KnownNode(directory_id="d", starts=1)), 0)) for node in NODES],
)


@given(READS, st.lists(st.sampled_from(("0", "1", "2", "7"))))
def test_an_index_that_follows_an_image_is_the_index_of_that_image(
    reads: list[tuple[str, ZkNode | None]], names: list[str]
) -> None:
    image, index = BEGUN, index_of(BEGUN)
    for each in reads:
        image = read(image, [each])
        before, index = index, index_of(image, index)
        assert index == index_of(image)
        assert dict(index.entries()) == dict(image.shards())
        changed = {number for number, bucket in index.buckets.items() if bucket in list(index.changed_since(before))}
        assert {number for number in index.buckets if before.buckets.get(number) != index.buckets[number]} <= changed
        assert read(image, [each]) is image or each[1] is None or each[0] in image.unreadable, "it is read again"
    image = read_children(image, "/shards", tuple(names))
    assert index_of(image, index) == index_of(image)


class FullLook(Due):
    """Looks at every shard."""

    def looked_at(self, bucket: BucketIndex) -> list[int]:
        return list(bucket.entries)


@st.composite
def offices(draw: st.DrawFn, index: ShardIndex) -> Office:
    """Draw what a controller may have been told, and have found before, with an index."""
    shard = st.integers(0, 8)
    outbox = Outbox(1, 1, {node: Mailbox(draw(LIFE), known=dict.fromkeys(range(8), (2, True))) for node in NODES})
    stepped_down: dict[int, StepDown] = {}
    for each in draw(st.sets(shard, max_size=2)):
        entry = index.entry(each)
        epoch = draw(st.integers(1, 4)) if entry is None or draw(st.booleans()) else entry.leader_epoch
        reason, successor = draw(st.sampled_from(StepDownReason)), draw(st.none() | NODE)
        stepped_down[each] = StepDown(each, epoch, reason, draw(NODE), draw(LIFE), successor=successor)
    return Office(
        controller_epoch=1,
        epoch_version=1,
        since_ms=draw(st.sampled_from((0, 80))),
        balance_due_ms=draw(st.sampled_from((0, 0, 1_000))),
        told=dict(index.entries()),
        in_sync_since_ms=dict.fromkeys(range(draw(st.sampled_from((7, 3)))), 0),
        stepped_down=stepped_down,
        unfit=frozenset(draw(st.lists(st.tuples(shard, NODE, LIFE), max_size=2))),
        wanted=dict(draw(st.lists(st.tuples(shard, st.permutations(NODES).map(tuple)), max_size=2))),
        given_back=frozenset(draw(st.lists(shard, max_size=3))),
        unclean={
            each: ElectUnclean(each, draw(NODE), entry.leader_epoch)
            for each in draw(st.sets(shard, max_size=2))
            if (entry := index.entry(each)) is not None
        },
        outbox=outbox,
        late=draw(st.sampled_from((frozenset(), *(frozenset({(node, 0)}) for node in NODES)))),
    )


def whole(live: dict[int, NodeState], shards: dict[int, ShardEntry]) -> Image:
    """Return an image in which these nodes live, all in their first life, and these shards are."""
    found: list[tuple[str, ZkNode | None]] = []
    for node, state in live.items():
        value = LiveNode(node_epoch=0, directory_id="d", addresses={}, rack="r", release="1", state=state)
        found.append((f"/nodes/live/{node}", ZkNode(encode(value), 0, owner=5)))
    for bucket in range(CLUSTER.buckets):
        its = {shard: entry for shard, entry in shards.items() if shard % CLUSTER.buckets == bucket}
        found.append((f"/shards/{bucket}", ZkNode(encode_bucket(Bucket(shards=its)), 0)))
    return read(BEGUN, found)


STATES = st.sampled_from((NodeState.READY, NodeState.READY, NodeState.DRAINING))
LIVE = st.dictionaries(NODE, STATES, min_size=2, max_size=3)


@settings(max_examples=examples(100, 400))
@given(LIVE, st.lists(entries(), min_size=7, max_size=7), st.data())
def test_what_is_due_is_what_a_look_at_every_shard_finds(
    live: dict[int, NodeState], shards: list[ShardEntry], data: st.DataObject
) -> None:
    index = index_of(whole(live, dict(enumerate(shards))))
    office, refused = data.draw(offices(index)), data.draw(st.sets(st.tuples(NODE, LIFE), max_size=1))
    found = list(Due(index, office, SETTINGS, refused, "c", 120).changes(CLUSTER))
    assert found == list(FullLook(index, office, SETTINGS, refused, "c", 120).changes(CLUSTER))


@settings(max_examples=40)
@given(
    st.lists(st.tuples(READS, st.sets(NODE, max_size=1), st.sets(NODE, max_size=1), st.lists(NODE)), max_size=4),
)
def test_what_nodes_are_told_does_not_depend_on_what_is_kept_of_it(
    rounds: list[tuple[list[tuple[str, ZkNode | None]], set[int], set[int], list[int]]],
) -> None:
    """An outbox that keeps nothing by bucket looks at every shard for every node, each time."""
    image, index = BEGUN, index_of(BEGUN)
    kept, forgetful = Outbox(1, 1), Outbox(1, 1)
    for now_ms, (reads, dead, unreached, answering) in enumerate(rounds):
        image = read(image, [each for each in reads if each[0] != "/cluster"])
        index = index_of(image, index)
        lives = {node: live.value.node_epoch for node, live in image.live.items() if node not in dead}
        reached = frozenset((node, life) for node, life in lives.items() if node not in unreached)
        kept, said = tell(kept, index, lives, reached, now_ms)
        forgetful, also_said = tell(_without_index(forgetful), index_of(image), lives, reached, now_ms)
        assert said == also_said
        assert late(kept, 2, now_ms) == late(forgetful, 2, now_ms)
        assert {node: box.owed for node, box in kept.mailboxes.items()} == {
            node: box.owed for node, box in forgetful.mailboxes.items()
        }
        for node in answering:
            box = kept.mailboxes.get(node)
            if box is not None and box.sent is not None:
                kept = take_answer(kept, node, box.node_epoch, box.number)
                forgetful = take_answer(forgetful, node, box.node_epoch, box.number)


def _without_index(outbox: Outbox) -> Outbox:
    mailboxes = {node: replace(box, owed={}) for node, box in outbox.mailboxes.items()}
    return replace(outbox, mailboxes=mailboxes, told_of=None)
