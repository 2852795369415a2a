"""A snapshot holds the whole state: everything a group can be amid of, rebuilt from nothing."""

from coordinator.core.groups.replay import replay
from coordinator.core.groups.snapshot import records_of
from coordinator.core.groups.state import ShardState
from coordinator.protocol.parts import ResetPolicy
from tests.helpers.node_world import NodeWorld

T0, T1, T2, T3 = [("t", number) for number in range(4)]


def rebuilt(state: ShardState) -> ShardState:
    empty = ShardState()
    for record in records_of(state):
        replay(empty, record, None)
    return empty


def test_snapshot_holds_stops_claims_abandoned_grants_and_a_stale_target() -> None:
    world = NodeWorld({"t": 4, "u": 1}, shards=1)
    m1 = world.join("m1", reset_policy=ResetPolicy("earliest"), instance_id="i1")
    m1.run(T3, 10, 20)
    claims = [m1.claim(T0, 10, 15), m1.claim(T3, 10, 20)]
    m1.advance(claims=claims)
    world.join("m2", topics=("t", "u"))
    lone = world.join("lone", group_id="other", topics=("u",))
    lone.run(("u", 0), 100, 110)
    lone.close()
    world.advance(1_000)
    m1.ping()
    world.join("m3", is_settled=False)
    group = world.group()
    claims_now = {partition: grant.claim for partition, grant in group.grants.items() if grant.claim is not None}
    assert [claim.is_running for _, claim in sorted(claims_now.items())] == [False, True]
    assert (set(group.stopping), group.is_target_stale) == ({"m1"}, True)
    assert world.owners("other") == {("u", 0): "lone"}
    assert world.group("other").members == {}
    assert rebuilt(world.state(0)) == world.state(0)
