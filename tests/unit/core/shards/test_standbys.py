"""A standby replays what is committed, makes snapshots of it, and is what a load begins with."""

from collections.abc import Sequence

import pytest

from coordinator.core.effects import BugMet, Effect, LoadShard, WriteSnapshot
from coordinator.core.events import LeadershipGiven, LeadershipTaken, ShardRecovered, StandbyDropped, StandbyFed, Ticked
from coordinator.core.groups.hard.journal import Journal
from coordinator.core.groups.hard.replay import replay as replaying
from coordinator.core.groups.hard.state import ShardState
from coordinator.core.limits import Limits
from coordinator.core.node import Node
from coordinator.core.shards.snapshots import REST_MS
from coordinator.protocol.columns import OffsetToCommit, in_columns
from coordinator.protocol.messages import CommitOffsets
from coordinator.protocol.parts import NodeAddress
from tests.helpers.node_world import NodeWorld

T0 = ("t", 0)
SMALL = Limits(snapshot_interval_records=30)


@pytest.fixture(scope="module")
def log() -> tuple[bytes, ...]:
    """Return the log of a shard in which a member commits a hundred times."""
    world = NodeWorld({"t": 2}, shards=1)
    member = world.join("m1")
    for offset in range(150, 250):
        member.commit(T0, offset)
    return tuple(world.written[0])


def follower(limits: Limits = SMALL) -> Node:
    node = Node(limits, 1, NodeAddress(1, "h", 1), ("k:9092",))
    node.join(0, 0, "i")
    return node


def feed(node: Node, records: Sequence[bytes], offset: int = 0) -> list[object]:
    return list(node.step(StandbyFed(0, 1, offset, records), after_a_rest(node)))


def tick(node: Node) -> list[Effect]:
    return node.step(Ticked(0), after_a_rest(node))


def after_a_rest(node: Node) -> int:
    return node._clock.now_ms + REST_MS


def replayed(records: Sequence[bytes]) -> ShardState:
    journal = Journal(0)
    journal.take_batch(0, records)
    return journal.state


def begins_to_lead(node: Node, log: Sequence[bytes], begins: int = 0) -> ShardState:
    """Lead in epoch 2 over a log that was read from the disk, and return the state before anything is decided."""
    effects = node.step(LeadershipGiven(0, 2, len(log)), 0)
    assert any(isinstance(effect, LoadShard) for effect in effects)
    assert node.standbys.end(0) is not None
    node.step(ShardRecovered(0, 2, 1, [(False, begins, log[begins:])]), 0)
    for _ in range(100):
        if node.is_loaded(0):
            break
        tick(node)
    return node.hard_state(0)


def test_a_standby_is_the_replay_of_what_it_was_fed(log: tuple[bytes, ...]) -> None:
    node = follower()
    feed(node, log[:40])
    feed(node, log[40:], offset=40)
    assert (node.standbys.end(0), node.standbys.state(0)) == (len(log), replayed(log))
    assert not node.is_loaded(0)
    assert node.hard_state(0) == ShardState()


def test_a_snapshot_of_which_a_part_was_fed_is_no_standby_yet(log: tuple[bytes, ...]) -> None:
    (first, *rest) = snapshot_of(log)
    node = follower(Limits())
    node.step(StandbyFed(0, 1, first.end_offset, first.records, is_snapshot=True, is_complete=not rest), 0)
    assert rest
    assert (node.standbys.end(0), node.standbys.state(0)) == (None, None)
    for piece in rest:
        node.step(StandbyFed(0, 1, piece.end_offset, piece.records, is_snapshot=True, is_complete=piece.is_last), 0)
    assert node.standbys.end(0) == first.end_offset
    feed(node, log[first.end_offset :], offset=first.end_offset)
    assert node.standbys.state(0) == replayed(log)


def snapshot_of(log: tuple[bytes, ...]) -> list[WriteSnapshot]:
    """Return the pieces of the snapshot that a standby makes of a log."""
    node = follower(Limits(snapshot_interval_records=30, snapshot_piece_bytes=100, slice_bytes=100))
    effects = feed(node, log)
    for _ in range(200):
        written = [effect for effect in effects if isinstance(effect, WriteSnapshot)]
        if written and written[-1].is_last:
            return written
        if written:
            node._snapshots.piece_written(0, written[-1].end_offset, is_whole=False)
        effects += tick(node)
    raise AssertionError("the snapshot is not made")


def test_a_standby_makes_snapshots_by_the_rules_of_a_leader(log: tuple[bytes, ...]) -> None:
    node = follower()
    assert [type(effect) for effect in feed(node, log[:29])].count(WriteSnapshot) == 0
    (written,) = (effect for effect in feed(node, log[29:31], offset=29) if isinstance(effect, WriteSnapshot))
    assert (written.end_offset, written.leader_epoch, written.is_last) == (31, 1, True)
    journal = Journal(0)
    journal.take_snapshot(31, written.records)
    assert journal.state == replayed(log[:31])


def test_records_fed_while_a_snapshot_grows_are_not_in_it() -> None:
    world = NodeWorld({"t": 2}, shards=1)
    members = [world.join(f"m{number}", group_id=f"g{number}") for number in range(5)]
    begin = len(world.written[0])
    for offset in range(150, 160):
        for member in members:
            member.commit(T0, offset)
    log = tuple(world.written[0])
    node = follower(Limits(snapshot_interval_records=begin, snapshot_piece_bytes=10**6, slice_bytes=1))
    effects = feed(node, log[:begin])
    for offset, record in enumerate(log[begin:], begin):
        effects += feed(node, (record,), offset)
    written = [effect for effect in effects if isinstance(effect, WriteSnapshot)]
    assert [(piece.end_offset, piece.is_last) for piece in written] == [(begin, True)]
    journal = Journal(0)
    journal.take_snapshot(begin, written[0].records)
    assert journal.state == replayed(log[:begin])
    assert node.standbys.state(0) == replayed(log)


def test_a_load_replays_only_what_the_standby_has_not(log: tuple[bytes, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    node = follower()
    feed(node, log[:90])
    seen: list[int | None] = []
    rightly = replaying.replay

    def counted(state: ShardState, record: object, offset: int | None) -> None:
        seen.append(offset)
        rightly(state, record, offset)  # type: ignore[arg-type]

    monkeypatch.setattr("coordinator.core.groups.hard.journal.replay", counted)
    begins_to_lead(node, log)
    assert seen[: len(log) - 90] == list(range(90, len(log)))
    assert node.standbys.end(0) is None


def test_a_leader_that_was_a_standby_has_the_state_of_its_whole_log(log: tuple[bytes, ...]) -> None:
    cold, warm = follower(), follower()
    feed(cold, log[:1])
    feed(warm, log[:90])
    assert begins_to_lead(warm, log) == begins_to_lead(cold, log)


def test_a_standby_that_ends_below_the_snapshot_on_the_disk_is_not_begun_with(log: tuple[bytes, ...]) -> None:
    pieces = snapshot_of(log)
    node = follower()
    feed(node, log[:5])
    node.step(LeadershipGiven(0, 2, len(log)), 0)
    read = [(True, piece.end_offset, piece.records) for piece in pieces]
    node.step(ShardRecovered(0, 2, 1, [*read, (False, pieces[0].end_offset, log[pieces[0].end_offset :])]), 0)
    for _ in range(50):
        tick(node)
    assert node.is_loaded(0)
    assert node.hard_state(0).groups.keys() == replayed(log).groups.keys()
    assert node.hard_state(0).groups["g"].offsets == replayed(log).groups["g"].offsets


def test_a_bug_costs_a_shard_its_standby_and_nothing_else(log: tuple[bytes, ...]) -> None:
    node = follower()
    feed(node, log[:10])
    (bug,) = (effect for effect in feed(node, (b"odd",), offset=10) if isinstance(effect, BugMet))
    assert "the standby of shard 0" in bug.why
    assert (node.standbys.end(0), node.standbys.shards) == (None, {})


def test_a_dropped_standby_counts_for_nothing(log: tuple[bytes, ...]) -> None:
    node = follower()
    feed(node, log)
    node.step(StandbyDropped(0), 0)
    assert node.standbys.end(0) is None
    assert node.standbys.shards == {}


def test_a_leader_that_resigns_goes_on_as_a_standby_if_all_it_has_is_committed() -> None:
    world = NodeWorld({"t": 2}, shards=1)
    member = world.join("m1")
    member.commit(T0, 150)
    state, end = world.state(0), len(world.written[0])
    world.happen(LeadershipTaken(0, "node 2 leads it"))
    assert world.node.standbys.end(0) == end
    assert world.node.standbys.state(0) is state
    assert world.node.hard_state(0) == ShardState()


def test_a_leader_that_resigns_with_more_than_is_committed_keeps_nothing() -> None:
    world = NodeWorld({"t": 2}, shards=1)
    member = world.join("m1")
    world.is_durable_at_once = False
    member.send(CommitOffsets("g", in_columns((OffsetToCommit("t", 0, 150, member.epoch(T0)),))))
    world.happen(LeadershipTaken(0, "node 2 leads it"))
    assert world.node.standbys.end(0) is None
