"""Each write names what it expects, has room in a multi, and is refused when that is not so any more."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.core.cluster.image import Image, read_all
from coordinator.core.cluster.transactions import (
    BucketChange,
    Joining,
    Operations,
    become_controller,
    change_isr,
    change_shards,
    change_state,
    form_cluster,
    register,
)
from coordinator.core.cluster.znodes import (
    CONTROLLER_ACTIVE,
    CONTROLLER_EPOCH,
    ActiveController,
    Bucket,
    Cluster,
    ControllerEpoch,
    KnownNode,
    LiveNode,
    NodeState,
    ShardEntry,
    Versioned,
)
from coordinator.core.cluster.zookeeper import (
    MOST_BYTES,
    ZkApplied,
    ZkCheck,
    ZkCreate,
    ZkDelete,
    ZkOutcome,
    ZkRead,
    ZkRefusal,
    ZkRefused,
    ZkSet,
    check_limits,
)
from tests.helpers.zookeeper_nodes import Node, SimulatedEnsemble

CLUSTER = Cluster(cluster_id="c1", shards=4, buckets=2, replication_factor=3, min_insync_replicas=2)
ENTRY = ShardEntry(leader=1, leader_node_epoch=9, leader_epoch=4, isr=(1, 2), replicas=(1, 2, 3))


def live(node_id: int) -> LiveNode:
    return LiveNode(node_epoch=0, directory_id=f"d{node_id}", addresses={}, rack=f"r{node_id}", release="1")


class Member:
    """A node of the model, with the image that it reads."""

    def __init__(self, node: Node, node_id: int) -> None:
        self.node = node
        self.node_id = node_id

    def write(self, *multis: Operations) -> ZkOutcome:
        """Do multis one after another, to the first that is refused."""
        outcome: ZkOutcome = ZkApplied(())
        for operations in multis:
            check_limits(operations)
            outcome = self.node.multi(*operations)
            if not isinstance(outcome, ZkApplied):
                break
        return outcome

    def image(self) -> Image:
        folders = ("/nodes/known", "/nodes/live", "/shards")
        names = self.node.read(children=folders).children
        paths = ["/cluster", CONTROLLER_EPOCH, CONTROLLER_ACTIVE]
        paths += [f"{folder}/{name}" for folder, there in zip(folders, names, strict=True) for name in there or ()]
        values = self.node.read(*paths, children=folders)
        return read_all(Image(), ZkRead(1, 0, tuple(paths), folders), values)

    def register(self, **more: object) -> ZkOutcome:
        known = self.image().known.get(self.node_id)
        starts = 1 if known is None else known.value.starts + 1
        return self.write(*register(self.node_id, known, live(self.node_id), starts=starts, **more))  # type: ignore[arg-type]

    def become_controller(self, **more: int) -> ZkOutcome:
        epoch = self.image().epoch
        assert epoch is not None
        return self.write(become_controller(epoch, self.node_id, 0, **more))


@pytest.fixture
def members() -> list[Member]:
    """Three nodes of a cluster that is formed; 1 and 2 are registered."""
    ensemble = SimulatedEnsemble(0)
    members = [Member(ensemble.node(), node_id) for node_id in (1, 2, 3)]
    assert isinstance(members[0].write(form_cluster(CLUSTER)), ZkApplied)
    for member in members[:2]:
        assert isinstance(member.register(), ZkApplied)
    return members


def refused(outcome: ZkOutcome, refusal: ZkRefusal, path: str) -> bool:
    return isinstance(outcome, ZkRefused) and outcome.refusal == refusal and path in outcome.why


def bucket(**shards: ShardEntry) -> Bucket:
    return Bucket(shards={int(name[1:]): entry for name, entry in shards.items()})


def test_a_cluster_is_formed_once(members: list[Member]) -> None:
    assert refused(members[1].write(form_cluster(CLUSTER)), ZkRefusal.NODE_EXISTS, "/cluster")
    image = members[1].image()
    assert image.cluster == Versioned(CLUSTER, 0)
    assert image.epoch == Versioned(ControllerEpoch(epoch=0), 0)


def test_each_registration_has_the_next_node_epoch(members: list[Member]) -> None:
    first = members[0].image()
    assert first.known[1] == Versioned(KnownNode(directory_id="d1", starts=1), 0)
    assert first.live[1].value.node_epoch == 0
    assert isinstance(members[0].register(former_live=0), ZkApplied)
    second = members[0].image()
    assert second.known[1] == Versioned(KnownNode(directory_id="d1", starts=2), 1)
    assert second.live[1].value.node_epoch == 1


def test_two_that_register_as_one_node_do_not_both_succeed(members: list[Member]) -> None:
    twin = Member(members[2].node, 1)
    assert refused(twin.register(), ZkRefusal.NODE_EXISTS, "/nodes/live/1")
    known = twin.image().known[1]
    assert isinstance(members[0].register(former_live=0), ZkApplied)
    late = twin.write(*register(1, known, live(1), starts=9, former_live=0))
    assert refused(late, ZkRefusal.BAD_VERSION, "/nodes/known/1")


def test_a_node_leaves_in_sync_sets_in_the_multi_that_registers_it(members: list[Member]) -> None:
    members[1].become_controller()
    members[1].write(*change_shards(1, [BucketChange(0, bucket(s0=ENTRY), None)]))
    left = BucketChange(0, bucket(s0=ShardEntry(leader=None, leader_epoch=4, isr=(2,), replicas=(1, 2, 3))), 0)
    multis = register(1, members[0].image().known[1], live(1), starts=2, former_live=0, leaves=[left])
    assert len(multis) == 1
    # somebody has written the bucket meanwhile: nothing of it is done
    members[1].write(*change_shards(1, [BucketChange(0, bucket(s0=ENTRY), 0)]))
    assert refused(members[0].write(*multis), ZkRefusal.BAD_VERSION, "/shards/0")
    assert members[0].image().known[1].version == 0


def test_who_leaves_more_than_one_multi_holds_has_left_before_it_registers() -> None:
    data = "x" * 4_000
    entries = {
        f"s{number}": ShardEntry(leader=None, leader_epoch=1, isr=(2,), replicas=(2,), changed_by=data)
        for number in range(40)
    }
    changes = [BucketChange(number, bucket(**entries), 3) for number in range(5)]
    multis = register(1, None, live(1), starts=1, leaves=changes)
    assert len(multis) > 1
    for operations in multis:
        check_limits(operations)
    assert [operation.path for operation in multis[-1]][:2] == ["/nodes/known/1", "/nodes/live/1"]
    paths = [operation.path for operations in multis for operation in operations if "/shards/" in operation.path]
    assert sorted(paths) == [f"/shards/{number}" for number in range(5)]


def test_a_controller_takes_the_next_epoch_and_one_at_a_time(members: list[Member]) -> None:
    assert isinstance(members[0].become_controller(), ZkApplied)
    image = members[1].image()
    assert image.epoch == Versioned(ControllerEpoch(epoch=1, node_id=1), 1)
    assert image.active is not None
    assert image.active.value == ActiveController(node_id=1, node_epoch=0, controller_epoch=1)
    assert refused(members[1].become_controller(), ZkRefusal.NODE_EXISTS, CONTROLLER_ACTIVE)
    assert isinstance(members[1].become_controller(former_active=0), ZkApplied)
    assert members[0].image().epoch == Versioned(ControllerEpoch(epoch=2, node_id=2), 2)


def test_a_candidate_deletes_nobody_but_whom_it_has_read_of(members: list[Member]) -> None:
    members[0].become_controller()
    epoch = members[2].image().epoch
    assert epoch is not None
    members[1].become_controller(former_active=0)  # whose node has version 0 as well
    late = members[2].write(become_controller(epoch, 3, 0, former_active=0))
    assert refused(late, ZkRefusal.BAD_VERSION, CONTROLLER_EPOCH)


def test_a_deposed_controller_writes_nothing(members: list[Member]) -> None:
    members[0].become_controller()
    assert isinstance(members[0].write(*change_shards(1, [BucketChange(0, bucket(s0=ENTRY), None)])), ZkApplied)
    members[1].become_controller(former_active=0)
    late = members[0].write(*change_shards(1, [BucketChange(0, bucket(s0=ENTRY), 0)]))
    assert refused(late, ZkRefusal.BAD_VERSION, CONTROLLER_EPOCH)
    assert members[2].image().shard(0) == ENTRY
    assert members[2].image().shard(2) is None


def test_who_drains_restarts_or_was_never_ready_is_not_taken_in(members: list[Member]) -> None:
    members[0].become_controller()
    members[0].write(*change_shards(1, [BucketChange(0, bucket(s0=ENTRY), None)]))
    change = BucketChange(0, bucket(s0=ENTRY), 0)
    two = Joining(2, 0, 0)
    assert members[0].write(change_isr(change, [two])) == ZkApplied((1, 0, 0))

    image = members[1].image()
    assert isinstance(members[1].write(change_state(2, image.live[2], NodeState.DRAINING)), ZkApplied)
    again = BucketChange(0, bucket(s0=ENTRY), 1)
    assert refused(members[0].write(change_isr(again, [two])), ZkRefusal.BAD_VERSION, "/nodes/live/2")
    assert members[0].image().live[2].value.state is NodeState.DRAINING

    assert isinstance(members[1].register(former_live=1), ZkApplied)
    assert refused(members[0].write(change_isr(again, [two])), ZkRefusal.BAD_VERSION, "/nodes/known/2")
    assert members[0].write(change_isr(again, [Joining(2, 1, 0)])) == ZkApplied((2, 1, 0))
    assert members[0].write(change_isr(BucketChange(0, bucket(s0=ENTRY), 2))) == ZkApplied((3,))


def test_what_a_former_life_wanted_of_itself_does_not_change_the_next_one(members: list[Member]) -> None:
    late = change_state(2, members[1].image().live[2], NodeState.DRAINING)
    assert isinstance(members[1].register(former_live=0), ZkApplied)
    assert refused(members[1].write(late), ZkRefusal.BAD_VERSION, "/nodes/known/2")
    live = members[1].image().live[2]
    assert (live.version, live.value.node_epoch, live.value.state) == (0, 1, NodeState.READY)


def test_a_leader_does_not_write_over_the_controllers_change(members: list[Member]) -> None:
    members[0].become_controller()
    members[0].write(*change_shards(1, [BucketChange(0, bucket(s0=ENTRY), None)]))
    members[0].write(*change_shards(1, [BucketChange(0, bucket(s0=ENTRY), 0)]))
    late = members[1].write(change_isr(BucketChange(0, bucket(s0=ENTRY), 0)))
    assert refused(late, ZkRefusal.BAD_VERSION, "/shards/0")


@given(st.lists(st.integers(0, 120_000), max_size=300))
def test_any_change_is_cut_into_multis_that_all_check_the_epoch(sizes: list[int]) -> None:
    changes = [
        BucketChange(number, Bucket(shards={}, unknown={"x": "x" * size}), 7) for number, size in enumerate(sizes)
    ]
    multis = list(change_shards(5, changes))
    for operations in multis:
        check_limits(operations)
        assert operations[0] == ZkCheck(CONTROLLER_EPOCH, 5)
    written = [operation for operations in multis for operation in operations[1:]]
    assert written == [change.operation() for change in changes]
    assert len(multis) <= 1 + len(sizes) // 190 + 2 * sum(sizes) // MOST_BYTES + 1


def test_a_bucket_that_has_no_room_is_our_mistake() -> None:
    with pytest.raises(ValueError, match="/shards/0 has no room"):
        list(change_shards(1, [BucketChange(0, Bucket(shards={}, unknown={"x": "x" * MOST_BYTES}), 1)]))


def test_what_a_node_wrote_that_is_unknown_here_outlives_its_next_registration() -> None:
    known = Versioned(KnownNode(directory_id="d1", starts=1, unknown={"later": 1}), 4)
    (operations,) = register(1, known, live(1), starts=2, former_live=6)
    assert operations[0] == ZkSet("/nodes/known/1", b'{"directory_id":"d1","later":1,"starts":2}', 4)
    assert operations[1] == ZkDelete("/nodes/live/1", 6)
    assert isinstance(operations[2], ZkCreate)
    assert operations[2].is_ephemeral


def test_a_bucket_of_another_version_is_refused_before_a_registration_is(members: list[Member]) -> None:
    members[0].become_controller()
    members[0].write(*change_shards(1, [BucketChange(0, bucket(s0=ENTRY), None)]))
    late = members[0].write(change_isr(BucketChange(0, bucket(s0=ENTRY), 7), [Joining(2, 9, 9)]))
    assert refused(late, ZkRefusal.BAD_VERSION, "/shards/0")
