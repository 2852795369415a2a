import pytest

from coordinator.core.effects import Append, Effect, WakeAt
from coordinator.core.events import Ticked
from coordinator.core.groups.hard.records import (
    Granted,
    MemberRemoved,
    StopBegan,
    Taken,
    TargetsAssigned,
    decode_record,
)
from coordinator.core.limits import Limits
from coordinator.protocol.messages.operators import ChangePause, ChangePauseResponse
from tests.helpers.node_member import Member
from tests.helpers.node_world import WALL_OFFSET_MS, NodeWorld

SMALL = Limits(slice_partitions=4, rebalance_window_max_ms=1_000)
MEMBERS = 6
PARTITIONS = 30


def big_group() -> tuple[NodeWorld, list[Member]]:
    world = NodeWorld({"t": PARTITIONS}, limits=SMALL)
    members = [world.join(f"m{number}", is_settled=False) for number in range(1, MEMBERS + 1)]
    world.advance(SMALL.rebalance_window_ms)
    return world, members


def changes_of(append: Append) -> int:
    """Count the partitions that one step stopped or granted."""
    records = [decode_record(data) for data in append.records]
    return sum(len(record.partitions) for record in records if isinstance(record, StopBegan | Granted))


def owned(members: list[Member]) -> list[int]:
    return [len(member.owned) for member in members]


def test_members_that_join_a_large_group_together_are_assigned_once() -> None:
    world, members = big_group()
    assert owned(members) == [5] * MEMBERS
    assert all(member.is_complete for member in members)
    assert [len(world.events(kind)) for kind in ("rebalance", "stable")] == [1, 1]


def test_large_group_waits_for_ever_more_members_no_longer_than_the_longest_window() -> None:
    world = NodeWorld({"t": PARTITIONS}, limits=SMALL)
    for number in range(SMALL.rebalance_window_max_ms // 40):
        assert not world.events("rebalance")
        world.join(f"m{number}", is_settled=False)
        world.advance(40)
    assert len(world.events("rebalance")) == 1


def test_large_group_waits_for_members_that_a_node_which_is_behind_has_not_heard_but_not_for_ever() -> None:
    world = NodeWorld({"t": PARTITIONS}, limits=SMALL)
    world.is_behind = True
    world.join("m1", is_settled=False)
    world.advance(4 * SMALL.rebalance_window_ms)
    world.join("m2", is_settled=False)
    world.advance(4 * SMALL.rebalance_window_ms)
    assert not world.events("rebalance")
    world.is_behind = False
    world.advance(SMALL.rebalance_window_ms)
    assert len(world.events("rebalance")) == 1
    world.is_behind = True
    world.join("m3", is_settled=False)
    world.advance(SMALL.rebalance_window_max_ms - 1)
    assert len(world.events("rebalance")) == 1
    world.advance(1)
    assert len(world.events("rebalance")) == 2


def test_partitions_that_lost_their_owner_are_given_away_by_a_node_that_is_behind() -> None:
    world, members = big_group()
    world.advance(SMALL.rebalance_window_ms)
    world.is_behind = True
    members[0].leave()
    world.advance(0)
    assert sum(owned(members[1:])) == PARTITIONS


def test_small_group_has_its_window_though_the_node_is_behind() -> None:
    world = NodeWorld({"t": 4})
    world.is_behind = True
    world.join("m1", is_settled=False)
    world.join("m2", is_settled=False)
    world.advance(world.limits.rebalance_window_ms)
    assert len(world.events("rebalance")) == 2, "the first member is not waited with"


def test_no_step_of_a_large_rebalance_changes_more_than_a_slice() -> None:
    world, members = big_group()
    newcomer = world.join("m9", is_settled=False)
    world.advance(SMALL.rebalance_window_ms)
    for member in members:
        member.stop_all()
    world.settle()
    assert sorted(owned([*members, newcomer])) == [4] * 5 + [5] * 2
    most = max(changes_of(effect) for effect in world.effects if isinstance(effect, Append))
    assert most <= SMALL.slice_partitions + 1


def test_partitions_that_one_member_lets_go_of_at_once_are_granted_in_slices() -> None:
    world = NodeWorld({"t": PARTITIONS}, limits=SMALL)
    m1 = world.join("m1")
    m2 = world.join("m2")
    assert len(m1.stopping) == PARTITIONS // 2
    m1.stop_all()
    world.settle()
    assert owned([m1, m2]) == [15, 15]
    assert (m1.is_complete, m2.is_complete) == (True, True)


def test_crash_between_any_two_steps_of_a_large_rebalance_is_made_good_after_the_load() -> None:
    world, _ = big_group()
    shard = world.node.shard_of("g")
    appends = [effect for effect in world.effects if isinstance(effect, Append)]
    joined = next(index for index, append in enumerate(appends) if changes_of(append))
    assert len(appends) - joined > 5
    for append in appends[joined:]:
        again, members = big_group()
        again.synced[shard] = append.base_offset
        again.restart()
        members = [again.reconnect(member) for member in members]
        again.advance(SMALL.rebalance_window_ms)
        assert owned(members) == [5] * MEMBERS
        assert all(member.is_complete for member in members)


@pytest.mark.parametrize("has_changed", ["nothing", "partitions are paused", "the topic was made again"])
def test_a_load_decides_the_same_of_members_that_keep_everything_as_of_each_partition(
    has_changed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def decided_by_loads() -> list[list[tuple[bytes, ...]]]:
        """Return what is decided after a crash between any two of the records that the change made."""
        decided = []
        is_next = True
        while is_next:
            world, _ = big_group()
            shard = world.node.shard_of("g")
            kept = len(world.written[shard]) + len(decided)
            if has_changed == "partitions are paused":
                pause = ChangePause("g", (("t", 0), ("t", 12)), True, "ann", is_dry_run=False)
                world.connect().ask(pause, ChangePauseResponse)
            elif has_changed == "the topic was made again":
                world.kafka.ids["t"] = "id-again"
                world.poll_topics()
            is_next = kept < len(world.written[shard])
            world.synced[shard], begin = kept, len(world.effects)
            world.restart()
            world.advance(100)
            decided.append([effect.records for effect in world.effects[begin:] if isinstance(effect, Append)])
        return decided

    together = decided_by_loads()
    monkeypatch.setattr("coordinator.core.groups.reconciliation.reconciler._keeps_all", lambda *_: False)
    assert decided_by_loads() == together


def test_departures_at_the_same_moment_are_one_rebalance_and_those_after_it_another() -> None:
    world, members = big_group()
    world.settle()
    before = len(world.events("rebalance"))
    for member in members[:3]:
        member.close()
    assert len(world.events("rebalance")) == before
    world.advance(0)
    assert len(world.events("rebalance")) == before + 1
    for member in members[3:5]:
        member.close()
        world.advance(1)
    assert len(world.events("rebalance")) == before + 1
    world.advance(SMALL.rebalance_window_ms)
    assert len(world.events("rebalance")) == before + 2
    assert owned(members[5:]) == [PARTITIONS]


def test_members_that_wait_for_kafka_are_taken_in_some_at_a_time() -> None:
    world = NodeWorld({"t": 4}, limits=Limits(slice_members=2))
    world.kafka.is_away = True
    waiting = [world.joining(f"m{number}") for number in range(5)]
    for member in waiting:
        member.send(member.registration)
    world.kafka.is_away = False
    world.poll_topics()
    assert len(world.group().members) == 2
    world.advance(0)
    assert len(world.group().members) == 5


def test_members_whose_sessions_end_together_are_removed_some_at_a_time() -> None:
    world = NodeWorld({"t": 4}, limits=Limits(slice_members=2))
    members = [world.join(f"m{number}", session_timeout_ms=6_000) for number in range(5)]
    for member in members:
        member.ping()
    world.effects.clear()
    world.advance(6_200)
    steps = [effect for effect in world.effects if isinstance(effect, Append)]
    gone = [sum(isinstance(decode_record(data), MemberRemoved) for data in step.records) for step in steps]
    assert (max(gone), sum(gone)) == (2, 5)


def test_members_that_are_late_together_lose_partitions_some_at_a_time() -> None:
    world = NodeWorld({"t": PARTITIONS}, limits=SMALL)
    facts = {"is_settled": False, "session_timeout_ms": 60_000, "rebalance_timeout_ms": 10_000}
    members = [world.join(f"m{number}", **facts) for number in range(MEMBERS)]
    world.advance(SMALL.rebalance_window_ms)
    for member in members:
        claims = [member.claim(partition, 100, 110) for partition in member.owned]
        member.advance(claims=claims)
        member.confirm(*claims)
    others = [world.join(f"n{number}", **facts) for number in range(MEMBERS)]
    world.advance(9_000)
    before = len(world.effects)
    world.advance(3_000)
    steps = [
        [record for record in map(decode_record, effect.records) if isinstance(record, Taken)]
        for effect in world.effects[before:]
        if isinstance(effect, Append)
    ]
    assert max(map(len, steps)) == 2
    assert (sum(len(record.partitions) for step in steps for record in step), sum(owned(others))) == (12, 12)


def test_grants_to_many_members_are_one_event() -> None:
    world = NodeWorld({"t": 50}, limits=Limits(rebalance_window_ms=10))
    world.join("m0")
    before = len(world.events("granted"))
    for number in range(1, 26):
        world.join(f"m{number}", is_settled=False)
    world.advance(10)
    next(iter(world.members.values())).stop_all()
    (event,) = world.events("granted")[before:]
    assert (event.member_id, len(event.partitions), event.why) == ("", 48, "the target gives them to 25 members")


def group_ids(world: NodeWorld, shard: int, count: int) -> list[str]:
    """Return ids of groups that live in a shard."""
    return [name for name in (f"g{n}" for n in range(100)) if world.node.shard_of(name) == shard][:count]


def grown(slice_partitions: int, **groups: int) -> tuple[NodeWorld, list[str]]:
    """Have a topic grow that groups read, so many groups a shard, with a member each; return them before the change."""
    world = NodeWorld({"t": 2}, limits=Limits(slice_partitions=slice_partitions), shards=len(groups))
    names = [name for shard, count in enumerate(groups.values()) for name in group_ids(world, shard, count)]
    for name in names:
        world.join("m1", group_id=name)
    world.settle()
    world.kafka.topics["t"] = 4
    world.poll_topics()
    world.now_ms += world.limits.rebalance_window_ms
    return world, names


def rebalanced_by(effects: list[Effect]) -> list[str]:
    """Return the groups that one step gave new targets."""
    records = [decode_record(data) for effect in effects if isinstance(effect, Append) for data in effect.records]
    return [record.group_id for record in records if isinstance(record, TargetsAssigned)]


def steps_of_now(world: NodeWorld, most: int = 50) -> list[list[str]]:
    """Tick while the node asks for it at once; return which groups each step rebalanced."""
    steps: list[list[str]] = []
    while True:
        effects = world.node.step(Ticked(world.now_ms + WALL_OFFSET_MS), world.now_ms)
        steps.append(rebalanced_by(effects))
        if not any(isinstance(effect, WakeAt) and effect.now_ms <= world.now_ms for effect in effects):
            return steps
        assert len(steps) < most, "the node has something to do at once for ever"


@pytest.mark.parametrize("groups", [{"one_shard": 7}, {"first": 5, "second": 2}])
def test_groups_that_are_due_together_are_rebalanced_some_in_a_step_and_the_others_at_once_after_it(
    groups: dict[str, int],
) -> None:
    world, names = grown(slice_partitions=4, **groups)
    steps = [step for step in steps_of_now(world) if step]
    assert [len(step) for step in steps] == [2, 2, 2, 1], "a group of one member counts two of the four allowed"
    assert sorted(name for step in steps for name in step) == sorted(names)


def test_shards_take_turns_in_being_first_where_one_group_is_a_whole_step() -> None:
    world, names = grown(slice_partitions=1, busy=6, quiet=1)
    steps = [step for step in steps_of_now(world) if step]
    assert [len(step) for step in steps] == [1] * 7
    assert [names[-1]] in steps[:2]


def test_small_group_has_its_turn_between_the_slices_of_a_large_one() -> None:
    world = NodeWorld({"t": PARTITIONS, "u": 1}, limits=SMALL, shards=1)
    for number in range(MEMBERS):
        world.join(f"m{number}", group_id="large", is_settled=False)
    world.join("m1", group_id="small", topics=("u",))
    world.settle()
    world.kafka.topics |= {"t": 2 * PARTITIONS, "u": 2}
    world.poll_topics()
    world.now_ms += SMALL.rebalance_window_ms
    steps = steps_of_now(world)
    assert len(steps) > 5
    assert "small" in [*steps[0], *steps[1]]


def target_changes(world: NodeWorld, since: int) -> list[tuple[int, int, bool]]:
    """Return how many partitions each record of a target takes and gives since some effect, and whether more follow."""
    records = [
        decode_record(data) for effect in world.effects[since:] if isinstance(effect, Append) for data in effect.records
    ]
    return [
        (
            sum(len(each.partitions) for target in record.lost for each in target.topics),
            sum(len(each.partitions) for target in (*record.targets, *record.gained) for each in target.topics),
            record.is_stale,
        )
        for record in records
        if isinstance(record, TargetsAssigned)
    ]


def test_the_target_of_one_member_with_much_becomes_the_groups_in_parts() -> None:
    """It was one record, however much one member was to have."""
    world = NodeWorld({"t": 100}, limits=Limits(slice_partitions=5))
    since = len(world.effects)
    world.join("m1")
    world.advance(2_000)
    assert target_changes(world, since) == [(0, 20, True)] * 4 + [(0, 20, False)]
    assert set(world.owners().values()) == {"m1"}
    assert len(world.owners()) == 100


def test_a_target_says_what_changes_and_not_what_stays() -> None:
    world = NodeWorld({"t": 99})
    for name in ("m1", "m2"):
        world.join(name)
    since = len(world.effects)
    world.join("m3")
    assert target_changes(world, since) == [(33, 33, False)]
    assert {len(member.target) for member in world.group().members.values()} == {33}
    world.restart()
    assert {len(member.target) for member in world.group().members.values()} == {33}


def test_the_target_of_a_large_group_is_computed_in_steps_between_which_others_are_heard(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("coordinator.core.groups.assignment.assignors.assignor.PARTITIONS_A_TURN", 10)
    world, _ = big_group()
    world.kafka.topics["t"] = 2 * PARTITIONS
    world.poll_topics()
    world.now_ms += SMALL.rebalance_window_max_ms
    steps = steps_of_now(world)
    assert steps[:4] == [[], [], [], []], "the target is computed in several steps before it is the group's"
    assert any(steps)
    assert len(world.group().target_owners) == 2 * PARTITIONS


def test_a_member_that_comes_while_a_target_is_computed_is_in_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordinator.core.groups.assignment.assignors.assignor.PARTITIONS_A_TURN", 10)
    world, members = big_group()
    world.kafka.topics["t"] = 2 * PARTITIONS
    world.poll_topics()
    world.now_ms += SMALL.rebalance_window_max_ms
    world.node.step(Ticked(world.now_ms + WALL_OFFSET_MS), world.now_ms)
    members[0].leave()
    newcomer = world.join("m9", is_settled=False)
    world.advance(2 * SMALL.rebalance_window_max_ms)
    for member in (*members[1:], newcomer):
        member.stop_all()
    world.advance(2 * SMALL.rebalance_window_max_ms)
    assert sorted(owned([*members[1:], newcomer])) == [10] * MEMBERS
    assert not world.group().is_target_stale
