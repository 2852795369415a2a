"""Hand-over `hold`: a running claim outlives its owner, and what ends the wait."""

from collections.abc import Callable

import pytest

from coordinator.core.limits import Limits
from coordinator.protocol.claim_columns import claims_in_columns
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import FinishClaims, FinishClaimsResponse
from coordinator.protocol.messages.operators import (
    ReleaseClaims,
    ReleaseClaimsResponse,
    ResetOffsets,
    ResetOffsetsResponse,
)
from coordinator.protocol.parts import Claim, ClaimState, PartitionResult, ResetTarget
from tests.helpers.node_member import Member
from tests.helpers.node_world import NodeWorld

T0, T1 = ("t", 0), ("t", 1)


def join(world: NodeWorld, member_id: str, **facts: object) -> Member:
    return world.join(member_id, handover="hold", instance_id=f"i-{member_id}", **facts)


def world_with_a_dead_owner(**facts: object) -> tuple[NodeWorld, Member, Claim, Member]:
    """Return a world in which m2 read [100, 110) of its only partition when it died, and m1 lives on."""
    world = NodeWorld({"t": 2})
    m1 = join(world, "m1", **facts)
    m2 = join(world, "m2", **facts)
    m1.stop_all()
    claim = m2.run(T1, 100, 110)
    m2.close()
    world.advance(1_100)
    return world, m1, claim, m2


def test_running_claim_outlives_its_owner_and_nobody_else_gets_the_partition() -> None:
    world, m1, claim, _ = world_with_a_dead_owner()
    for _ in range(4):
        world.advance(5_000)
        m1.ping()
    assert world.owners() == {T0: "m1", T1: "m2"}
    assert (sorted(m1.owned), m1.is_complete, world.describe().state) == ([T0], True, "Stable")
    described = {part.partition: (part.member_id, part.claim) for part in world.describe().partitions}
    assert described[1] == ("m2", claim)
    held = world.events("claim-held")
    assert [(event.member_id, event.partitions) for event in held] == [("m2", (T1,))]
    assert held[0].why == "running claims wait for m2 (instance i-m2) or an operator"


def test_same_identity_resumes_under_the_same_owner_epoch_without_a_rebalance_of_the_partition() -> None:
    world, m1, claim, m2 = world_with_a_dead_owner()
    world.advance(1_000)
    again = join(world, "m2", incarnation="second", claims=[claim])
    assert (again.epoch(T1), again.is_complete) == (m2.epoch(T1), True)
    assert (m1.stopping, sorted(m1.owned)) == ({}, [T0])
    assert again.advance([claim]).finished == (PartitionResult("t", 1, committed=110),)


def test_reset_that_releases_a_held_claim_gives_its_partition_to_who_lives() -> None:
    world, m1, _, _ = world_with_a_dead_owner()
    world.settle()
    asked = ResetOffsets(
        "g", (ResetTarget(*T1, "offset", 20),), "ann@ops", "bad deploy", release_claims=True, is_dry_run=False
    )
    assert world.connect().ask(asked, ResetOffsetsResponse).error is ErrorCode.NONE
    world.settle()
    assert (world.owners(), m1.owned[T1].offset, m1.is_complete) == ({T0: "m1", T1: "m1"}, 20, True)


def reset_and_release(world: NodeWorld, _: Claim) -> None:
    target = ResetTarget(*T1, "offset", 20)
    asked = ResetOffsets("g", (target,), "ann@ops", "bad deploy", release_claims=True, is_dry_run=False)
    world.connect().ask(asked, ResetOffsetsResponse)


def release(world: NodeWorld, _: Claim) -> None:
    world.connect().ask(ReleaseClaims("g", (T1,), "ann@ops", "", is_dry_run=False), ReleaseClaimsResponse)


def say_finished(world: NodeWorld, claim: Claim) -> None:
    world.connect().ask(FinishClaims("g", "m2", claims_in_columns([claim])), FinishClaimsResponse)


def wait_for_claim_timeout(world: NodeWorld, _: Claim) -> None:
    while not world.events("claim-given-up"):
        world.advance(10)


def come_back_with_another_checkpoint(world: NodeWorld, _: Claim) -> None:
    join(world, "m2", incarnation="second", is_settled=False).leave()


@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize(
    "come_free",
    [reset_and_release, release, say_finished, wait_for_claim_timeout, come_back_with_another_checkpoint],
)
def test_partition_that_was_held_and_comes_free_is_given_to_who_lives(
    come_free: Callable[[NodeWorld, Claim], None], *, is_restarted: bool
) -> None:
    # It was in no target, so a new one has to be computed, also by a coordinator that dies in between.
    world, m1, claim, _ = world_with_a_dead_owner(claim_timeout_ms=5_000)
    come_free(world, claim)
    if is_restarted:
        world.restart()
        m1 = join(world, "m1")
    world.advance(2_000)
    assert (world.owners(), m1.is_complete) == ({T0: "m1", T1: "m1"}, True)


@pytest.mark.parametrize("is_gone", [True, False])
def test_process_that_was_replaced_does_not_give_up_what_its_successor_wrote(is_gone: bool) -> None:
    # The source of a query whose driver was killed lives on for a while, and its connection is made anew.
    world = NodeWorld({"t": 2})
    first = join(world, "m2", incarnation="first")
    first.close()
    second = join(world, "m2", incarnation="second")
    claim = second.run(T1, 100, 110)
    second.close()
    if is_gone:
        world.advance(5_000)
    orphan = world.joining("m2", incarnation="first", handover="hold", instance_id="i-m2", is_rejoining=True)
    refused = orphan.register()
    assert refused.error is ErrorCode.MEMBER_ID_IN_USE
    assert (
        "left running claims on t-1, which only a process that begins with its checkpoint can finish" in refused.message
    )
    third = join(world, "m2", incarnation="third", claims=[claim])
    assert third.advance([claim]).finished == (PartitionResult("t", 1, committed=110),)


@pytest.mark.parametrize("waited_ms", [5_000, 200_000])
@pytest.mark.parametrize("is_restarted", [True, False])
def test_process_that_never_got_in_does_not_give_up_what_a_later_one_wrote(is_restarted: bool, waited_ms: int) -> None:
    # Its driver was killed while it waited for its place, and it goes on asking with the checkpoint that it began with.
    # However long ago that was: it does not come of age when it is said that the claim is old.
    world = NodeWorld({"t": 2}, limits=Limits(claim_age_notice_ms=60_000))
    second = join(world, "m2", incarnation="second")
    claim = second.run(T1, 100, 110)
    second.close()
    if is_restarted:
        world.restart()
    world.advance(waited_ms)
    age_ms = waited_ms + 2_000
    first = world.joining("m2", incarnation="first", handover="hold", instance_id="i-m2", age_ms=age_ms)
    refused = first.register()
    assert refused.error is ErrorCode.MEMBER_ID_IN_USE
    said = "has been member m2 since this one began, and has left running claims on t-1"
    if is_restarted:
        said = "running claims of member m2 on t-1 are not in the checkpoint of this process"
        assert "it has read the group's log since this process began" in refused.message
        assert "has been member" not in refused.message
    assert said in refused.message
    third = join(world, "m2", incarnation="third", claims=[claim])
    assert third.advance([claim]).finished == (PartitionResult("t", 1, committed=110),)


def test_process_that_began_after_a_claim_which_its_checkpoint_lacks_gives_it_up() -> None:
    world, _, claim, _ = world_with_a_dead_owner()
    world.advance(5_000)
    again = join(world, "m2", incarnation="second", age_ms=4_000)
    assert [status.state for status in again.confirm(claim).claims] == [ClaimState.CLOSED]


def test_process_that_comes_back_after_one_that_left_nothing_is_the_member_again() -> None:
    world = NodeWorld({"t": 2})
    first = join(world, "m2", incarnation="first")
    claim = first.run(T1, 100, 110)
    first.close()
    second = join(world, "m2", incarnation="second", claims=[claim])
    second.advance([claim])
    second.close()
    again = join(world, "m2", incarnation="first", claims=[claim], is_rejoining=True)
    assert sorted(again.owned) == [T0, T1]


def test_owner_that_comes_back_after_its_topic_was_made_again_finishes_its_claim_and_lets_go() -> None:
    world, m1, claim, _ = world_with_a_dead_owner()
    world.kafka.ids["t"] = "id-t-2"
    world.poll_topics()
    world.settle()
    m1.stop_all()
    again = join(world, "m2", incarnation="second", claims=[claim])
    assert again.stopping == {T1: "its topic was deleted and made again"}


def test_instance_id_alone_is_the_same_identity() -> None:
    world, _, claim, m2 = world_with_a_dead_owner()
    again = world.join("", handover="hold", instance_id="i-m2", claims=[claim])
    assert (again.member_id, again.epoch(T1)) == ("m2", m2.epoch(T1))


def test_identity_that_comes_back_without_its_claim_gives_it_up() -> None:
    world, _, claim, _ = world_with_a_dead_owner()
    again = join(world, "m2", incarnation="second")
    assert [status.state for status in again.confirm(claim).claims] == [ClaimState.CLOSED]
    assert again.owned[T1].offset == 100


def test_offered_claim_does_not_outlive_its_owner() -> None:
    world = NodeWorld({"t": 1})
    m1 = join(world, "m1")
    m1.advance(claims=[m1.claim(T0, 100, 110)])
    m1.close()
    world.advance(10_100)
    assert world.owners() == {}


def test_claim_outlives_a_session_time_out_and_a_restart_of_the_coordinator() -> None:
    world = NodeWorld({"t": 1})
    m1 = join(world, "m1")
    claim = m1.run(T0, 100, 110)
    world.advance(10_100)
    world.restart()
    m2 = join(world, "m2")
    world.advance(5_000)
    assert (m2.owned, world.owners()) == ({}, {T0: "m1"})
    again = world.join("", handover="hold", instance_id="i-m1", claims=[claim])
    assert again.advance([claim]).finished[0].error is ErrorCode.NONE


def test_claim_time_out_gives_the_partition_to_the_next_owner_at_the_committed_offset() -> None:
    world, m1, claim, _ = world_with_a_dead_owner(claim_timeout_ms=5_000)
    world.advance(4_000)
    m1.ping()
    assert T1 not in m1.owned
    world.advance(1_200)
    assert (m1.owned[T1].offset, m1.is_complete) == (100, True)
    given_up = world.events("claim-given-up")
    assert [(event.member_id, event.partitions, event.duration_ms) for event in given_up] == [("m2", (T1,), 5_000)]
    assert world.events("taken-over") == []
    again = join(world, "m2", claims=[claim])
    assert [status.state for status in again.confirm(claim).claims] == [ClaimState.CLOSED]


def test_claim_time_out_counts_anew_after_a_restart() -> None:
    world, _, _, _ = world_with_a_dead_owner(claim_timeout_ms=5_000)
    world.advance(3_000)
    world.restart()
    world.advance(4_900)
    assert world.owners()[T1] == "m2"
    world.advance(300)
    assert world.owners()[T1] == "m1"


def test_claim_time_out_that_a_later_member_names_counts_from_then_on() -> None:
    world, m1, _, _ = world_with_a_dead_owner()
    world.advance(8_000)
    m1.ping()
    join(world, "m3", claim_timeout_ms=5_000)
    world.advance(4_900)
    assert world.owners()[T1] == "m2"
    world.advance(200)
    assert world.owners()[T1] in {"m1", "m3"}
    limited = "running claims wait for m2 (instance i-m2) or an operator, for 5000 ms at most"
    assert [event.why for event in world.events("claim-held")][-1] == limited


def test_claim_that_was_left_under_takeover_is_waited_for_within_the_claim_time_out() -> None:
    world = NodeWorld({"t": 2})
    former = world.join("m1")
    former.run(T1, 100, 110)
    former.close()
    world.advance(1_100)
    m2 = join(world, "m2", claim_timeout_ms=5_000)
    assert world.owners() == {T0: "m2", T1: "m1"}
    assert [(event.member_id, event.partitions) for event in world.events("claim-held")] == [("m1", (T1,))]
    world.advance(5_100)
    assert (world.owners(), m2.owned[T1].offset) == ({T0: "m2", T1: "m2"}, 100)


def test_operator_gives_a_held_partition_to_the_next_owner() -> None:
    world, m1, claim, _ = world_with_a_dead_owner()
    released = ReleaseClaims("g", (T1,), "op@host", "the machine is gone", is_dry_run=False)
    response = world.connect().ask(released, ReleaseClaimsResponse)
    assert [result.error for result in response.results] == [ErrorCode.NONE]
    world.settle()
    assert (m1.owned[T1].offset, m1.is_complete) == (100, True)
    again = join(world, "m2", claims=[claim])
    assert [status.state for status in again.confirm(claim).claims] == [ClaimState.CLOSED]


def owner_that_reads_on(**facts: object) -> tuple[NodeWorld, Member, Claim, Member]:
    """Return a world in which m2 wants a partition that m1 reads for longer than its rebalance time-out."""
    world = NodeWorld({"t": 2})
    m1 = join(world, "m1", rebalance_timeout_ms=2_000, **facts)
    claim = m1.run(T1, 100, 110)
    m2 = join(world, "m2", **facts)
    assert sorted(m1.stopping) == [T1]
    return world, m1, claim, m2


def test_running_claim_outlives_the_rebalance_time_out() -> None:
    world, m1, claim, m2 = owner_that_reads_on()
    for _ in range(4):
        world.advance(2_000)
        m1.ping()
        m2.ping()
    assert (m1.fenced, m2.owned) == (None, {})
    assert [event.partitions for event in world.events("claim-held")] == [(T1,)]
    assert m1.advance([claim]).finished[0].committed == 110
    m1.stopped(T1)
    assert m2.owned[T1].offset == 110


def test_claim_time_out_ends_the_overtime_of_a_living_owner() -> None:
    world, m1, claim, m2 = owner_that_reads_on(claim_timeout_ms=5_000)
    world.advance(4_900)
    assert m1.taken == []
    world.advance(200)
    assert m1.taken == [T1]
    assert m2.owned[T1].offset == 100
    assert m1.advance([claim]).finished[0].error is ErrorCode.FENCED_OWNER_EPOCH


def test_what_is_not_being_read_does_not_outlive_the_rebalance_time_out() -> None:
    world = NodeWorld({"t": 4})
    m1 = join(world, "m1", rebalance_timeout_ms=2_000)
    kept = m1.run(("t", 3), 100, 110)
    join(world, "m2")
    assert sorted(m1.stopping) == [("t", 2), ("t", 3)]
    world.advance(2_100)
    assert m1.taken == [("t", 2)]
    assert world.owners() == {T0: "m1", T1: "m1", ("t", 2): "m2", ("t", 3): "m1"}
    assert m1.advance([kept]).finished[0].error is ErrorCode.NONE


def test_owner_that_leaves_gives_its_claims_up() -> None:
    world = NodeWorld({"t": 1})
    m1 = join(world, "m1")
    m1.run(T0, 100, 110)
    m2 = join(world, "m2")
    m1.leave()
    world.settle()
    assert m2.owned[T0].offset == 100


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"handover": "takeover"}, "the hand-over takeover differs from hold, which its other members use"),
        ({"claim_timeout_ms": 6_000}, "the claim time-out of 6000 ms differs from 5000 ms"),
    ],
)
def test_hand_over_is_the_groups(facts: dict[str, object], words: str) -> None:
    world = NodeWorld({"t": 2})
    join(world, "m1", claim_timeout_ms=5_000)
    given: dict[str, object] = {"handover": "hold", "instance_id": "i-m2"}
    other = world.joining("m2", **{**given, **facts})  # type: ignore[arg-type]
    response = other.register()
    assert response.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert words in response.message


def test_held_claim_keeps_the_hand_over_of_a_group_without_members() -> None:
    world = NodeWorld({"t": 1})
    m1 = join(world, "m1")
    m1.run(T0, 100, 110)
    m1.close()
    world.advance(1_000)
    response = world.joining("m2").register()
    assert response.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert "m1 (instance i-m1) left a running claim under" in response.message


def test_first_member_of_an_empty_group_chooses_the_hand_over_anew() -> None:
    world = NodeWorld({"t": 1})
    join(world, "m1", claim_timeout_ms=5_000).leave()
    world.join("m2")
    assert (world.describe().handover, world.group().claim_timeout_ms) == ("takeover", None)


@pytest.mark.parametrize("handover", ["takeover", "hold"])
def test_claim_that_runs_for_long_is_said_once(handover: str) -> None:
    world = NodeWorld({"t": 2}, limits=Limits(claim_age_notice_ms=60_000))
    m1 = world.join("m1", handover=handover, instance_id="i", session_timeout_ms=1_800_000)
    first = m1.run(T0, 100, 110)
    world.advance(30_000)
    hangs = m1.claim(T1, 100, 120)
    m1.advance([first], [hangs])
    m1.confirm(hangs)
    world.advance(50_000)
    assert world.events("claim-old") == []
    world.advance(10_100)
    world.advance(120_000)
    old = world.events("claim-old")
    assert [(event.member_id, event.partitions, event.duration_ms) for event in old] == [("m1", (T1,), 60_000)]


def test_instance_that_comes_back_under_another_member_id_ends_the_wait_for_the_former() -> None:
    world, m1, claim, m2 = world_with_a_dead_owner()
    original = world.join("m7", handover="hold", instance_id="i-m2")
    m1.stop_all()
    assert world.owners()[T1] == "m7" or world.owners()[T0] == "m7"
    why = "instance i-m2 is back as m7, whose checkpoint does not show the claims of m2"
    given_up = [(event.member_id, event.partitions, event.why) for event in world.events("claim-given-up")]
    assert given_up == [("m2", (T1,), why)]
    assert original.is_complete
    world.advance(1_000)
    late = world.joining("m2", incarnation="late", handover="hold", instance_id="i-m2", claims=[claim]).register()
    assert late.error is ErrorCode.FENCED_INSTANCE_ID
    assert m2.member_id == "m2"


def test_instance_that_lives_under_another_member_id_is_not_replaced() -> None:
    world = NodeWorld({"t": 1})
    owner = join(world, "m2")
    claim = owner.run(T0, 100, 110)
    other = world.joining("m7", handover="hold", instance_id="i-m2").register()
    assert (other.error, other.message) == (
        ErrorCode.FENCED_INSTANCE_ID,
        "instance id i-m2 is that of member m2, process 42 on 10.0.0.1 (client-m2), and this one is member m7; stop "
        "that one, or give this one an instance id of its own",
    )
    assert owner.advance([claim]).finished == (PartitionResult("t", 0, committed=110),)
