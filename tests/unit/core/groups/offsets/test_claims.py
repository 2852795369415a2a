"""Claims: what is finished, what is offered, what runs, and what closes a claim for ever."""

import pytest
from msgspec.structs import replace

from coordinator.protocol.claim_columns import each_status
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import RegisterConsumerResponse
from coordinator.protocol.parts import Claim, ClaimState, ClaimStatus, ClaimStatuses, FinalOffset, PartitionResult
from tests.helpers.node_member import Member
from tests.helpers.node_world import NodeWorld

T0, T1 = ("t", 0), ("t", 1)


def alone(partitions: int = 1) -> tuple[NodeWorld, Member]:
    world = NodeWorld({"t": partitions})
    return world, world.join("m1")


def listed(world: NodeWorld, *claims: Claim) -> tuple[ClaimStatus, ...]:
    """Return how claims stand that m1 lists when it registers."""
    m1 = world.joining("m1", claims=claims)
    return each_status(m1.register().claims, claims)


def refusals(results: tuple[PartitionResult, ...]) -> list[ErrorCode]:
    return [result.error for result in results]


def test_advance_commits_the_finished_batch_and_claims_the_next() -> None:
    world, m1 = alone()
    first = m1.run(T0, 100, 110)
    second = m1.claim(T0, 110, 130)
    response = m1.advance([first], [second])
    assert response.finished == (PartitionResult("t", 0, committed=110),)
    assert response.claims == (PartitionResult("t", 0, committed=110),)
    assert world.committed() == {T0: 110}
    described = world.describe().partitions[0]
    assert (described.claim, described.claim_state) == (second, ClaimState.OFFERED)


def test_advance_is_one_record() -> None:
    world, m1 = alone(2)
    first = m1.run(T0, 100, 110)
    shard = world.node.shard_of("g")
    before = len(world.written[shard])
    m1.advance([first], [m1.claim(T0, 110, 130), m1.claim(T1, 100, 105)])
    assert len(world.written[shard]) == before + 1


def test_advance_said_again_gives_the_same_answer_and_commits_nothing_twice() -> None:
    world, m1 = alone()
    first = m1.run(T0, 100, 110)
    again = [m1.advance([first], [m1.claim(T0, 110, 130)]) for _ in range(3)]
    assert again[0] == again[1] == again[2]
    assert world.committed() == {T0: 110}


def test_same_start_again_replaces_the_offered_claim() -> None:
    world, m1 = alone()
    m1.advance(claims=[m1.claim(T0, 100, 110)])
    m1.advance(claims=[m1.claim(T0, 100, 200)])
    claim = world.describe().partitions[0].claim
    assert claim is not None
    assert (claim.from_offset, claim.until_offset) == (100, 200)


def test_advance_without_claims_drops_what_was_offered_and_keeps_what_runs() -> None:
    world, m1 = alone(2)
    m1.run(T0, 100, 110)
    m1.advance(claims=[m1.claim(T1, 100, 110)])
    m1.advance()
    states = {part.partition: part.claim_state for part in world.describe().partitions}
    assert states == {0: ClaimState.RUNNING, 1: None}


def test_empty_range_is_finished_without_effect() -> None:
    world, m1 = alone()
    response = m1.advance([m1.claim(T0, 70, 70)])
    assert (refusals(response.finished), world.committed()) == ([ErrorCode.NONE], {T0: 100})


def test_claim_that_is_not_open_is_skipped_with_a_notice_and_the_rest_goes_on() -> None:
    world, m1 = alone(2)
    good = m1.run(T1, 100, 110)
    response = m1.advance([m1.claim(T0, 100, 110), good])
    assert refusals(response.finished) == [ErrorCode.CLAIM_CLOSED, ErrorCode.NONE]
    assert response.finished[0].committed == 100
    assert world.committed() == {T0: 100, T1: 110}
    assert [event.partitions for event in world.events("claim-skipped")] == [(T0,)]


def test_claim_must_begin_at_the_committed_offset() -> None:
    _, m1 = alone()
    response = m1.advance(claims=[m1.claim(T0, 105, 110)])
    assert refusals(response.claims) == [ErrorCode.INVALID_REQUEST]
    assert "does not begin at the committed offset 100" in response.claims[0].message


@pytest.mark.parametrize(("begin", "end"), [(100, 100), (100, 90)])
def test_claim_must_hold_an_offset(begin: int, end: int) -> None:
    _, m1 = alone()
    assert refusals(m1.advance(claims=[m1.claim(T0, begin, end)]).claims) == [ErrorCode.INVALID_REQUEST]


def test_claim_is_refused_while_another_of_the_partition_runs() -> None:
    _, m1 = alone()
    m1.run(T0, 100, 110)
    response = m1.advance(claims=[m1.claim(T0, 100, 120)])
    assert "[100, 110) is still running" in response.claims[0].message


def test_claim_on_another_topic_id_is_refused() -> None:
    _, m1 = alone()
    claim = Claim("t", "id-of-another", 0, m1.epoch(T0), 100, 110)
    assert refusals(m1.advance(claims=[claim]).claims) == [ErrorCode.UNKNOWN_TOPIC_ID]


def test_claim_on_what_must_be_let_go_is_refused_and_what_runs_is_waited_for() -> None:
    world, m1 = alone(2)
    running = m1.run(T1, 100, 110)
    m2 = world.join("m2")
    world.advance(5_000)
    m1.ping()
    assert (sorted(m1.stopping), world.owners()[T1]) == ([T1], "m1")
    response = m1.advance([running], [m1.claim(T1, 110, 120)], [FinalOffset(*T1, m1.epoch(T1))])
    assert refusals(response.finished) == refusals(response.released) == [ErrorCode.NONE]
    assert refusals(response.claims) == [ErrorCode.FENCED_OWNER_EPOCH]
    assert (m2.owned[T1].offset, m2.is_complete) == (110, True)


def test_claim_on_a_stopping_partition_is_refused_as_a_rebalance() -> None:
    world, m1 = alone(2)
    world.join("m2")
    assert refusals(m1.advance(claims=[m1.claim(T1, 100, 110)]).claims) == [ErrorCode.REBALANCE_IN_PROGRESS]


def test_retry_of_an_advance_that_released_is_answered_as_done() -> None:
    world, m1 = alone(2)
    running = m1.run(T1, 100, 110)
    world.join("m2")
    final = FinalOffset(*T1, m1.epoch(T1))
    first = m1.advance([running], released=[final])
    again = m1.advance([running], released=[final])
    assert refusals(first.finished + first.released) == [ErrorCode.NONE, ErrorCode.NONE]
    assert refusals(again.finished + again.released) == [ErrorCode.NONE, ErrorCode.NONE]


def test_confirmed_claims_run_and_those_that_are_closed_say_why() -> None:
    world, m1 = alone(2)
    open_claim = m1.claim(T0, 100, 110)
    m1.advance(claims=[open_claim])
    closed = m1.claim(T1, 100, 110)
    first = m1.confirm(open_claim, closed).claims
    assert first[0] == ClaimStatus("t", 0, m1.epoch(T0), ClaimState.RUNNING, committed=100)
    assert (first[1].state, first[1].committed) == (ClaimState.CLOSED, 100)
    assert "is closed" in first[1].why
    assert m1.confirm(open_claim, closed).claims == first
    assert world.describe().partitions[0].claim_state is ClaimState.RUNNING


def test_claims_of_a_topic_that_was_made_again_are_not_told_the_offset_of_the_new_one_or_the_old() -> None:
    """The member would take it for its own end, and show it as a checkpoint's when the group is forgotten."""
    world, m1 = alone(2)
    old = m1.run(T0, 100, 110)
    assert m1.advance([old]).finished[0].committed == 110
    other = replace(old, topic_id="another", until_offset=120)
    results = m1.advance([other], [other])
    assert [result.committed for result in results.finished + results.claims] == [None, None]
    assert [status.committed for status in m1.confirm(other, old).claims] == [None, 110]
    assert [status.committed for status in listed(world, other, old)] == [None, 110]


def test_listed_claims_of_a_topic_that_was_made_again_are_not_told_an_offset_where_nobody_has_anything() -> None:
    world, m1 = alone()
    claim = m1.claim(T0, 100, 110)
    m1.leave()
    (status,) = listed(world, replace(claim, topic_id="another"))
    assert (status.state, status.committed) == (ClaimState.CLOSED, None)
    assert listed(world, claim)[0].committed == 100


def test_replayed_advance_skips_a_partition_that_went_away_and_came_back() -> None:
    """The stream offset names the owner epoch of the grant under which its range was claimed."""
    world, m1 = alone(2)
    old = m1.run(T1, 100, 110)
    m2 = world.join("m2")
    m1.stopped(T1)
    m2.commit(T1, 105)
    m2.leave()
    world.settle()
    assert (sorted(m1.owned), m1.epoch(T1) > old.owner_epoch) == ([T0, T1], True)
    assert [status.state for status in m1.confirm(old).claims] == [ClaimState.CLOSED]
    response = m1.advance([old], [m1.claim(T1, 105, 120)])
    assert refusals(response.finished) == [ErrorCode.FENCED_OWNER_EPOCH]
    assert (refusals(response.claims), world.committed()[T1]) == ([ErrorCode.NONE], 105)


def test_abandoned_claim_is_resumed_by_the_same_identity_under_the_same_owner_epoch() -> None:
    world, m1 = alone()
    claim = m1.run(T0, 100, 110)
    m1.close()
    world.advance(60_000)
    assert (world.owners(), world.describe().members) == ({T0: "m1"}, ())
    again = world.join("m1", incarnation="after-the-crash", claims=(claim,))
    (registered,) = [said for said in again.inbox if isinstance(said, RegisterConsumerResponse)]
    assert registered.claims == ClaimStatuses(running=1)
    assert (again.epoch(T0), again.is_complete) == (claim.owner_epoch, True)
    assert refusals(again.advance([claim]).finished) == [ErrorCode.NONE]
    assert world.committed() == {T0: 110}


def test_abandoned_claim_survives_a_restart_of_the_coordinator() -> None:
    world, m1 = alone()
    claim = m1.run(T0, 100, 110)
    m1.close()
    world.advance(60_000)
    world.restart()
    again = world.join("m1", incarnation="after-the-crash", claims=(claim,))
    assert [status.state for status in again.confirm(claim).claims] == [ClaimState.RUNNING]


def test_takeover_closes_the_claim_for_ever() -> None:
    world, m1 = alone()
    claim = m1.run(T0, 100, 110)
    m2 = world.join("m2")
    m1.close()
    world.advance(1_000)
    world.settle()
    assert (sorted(m2.owned), m2.owned[T0].offset) == ([T0], 100)
    (taken,) = world.events("taken-over")
    assert (taken.member_id, taken.partitions, taken.duration_ms) == ("m2", (T0,), 1_000)
    m2.leave()
    again = world.join("m1", claims=(claim,))
    world.settle()
    assert sorted(again.owned) == [T0]
    assert [status.state for status in again.confirm(claim).claims] == [ClaimState.CLOSED]
    assert refusals(again.advance([claim]).finished) == [ErrorCode.FENCED_OWNER_EPOCH]
    assert world.committed() == {T0: 100}


def test_another_identity_that_joins_an_empty_group_takes_abandoned_claims_over() -> None:
    world, m1 = alone()
    m1.run(T0, 100, 110)
    m1.close()
    world.advance(1_000)
    m2 = world.join("m2", is_settled=False)
    assert (sorted(m2.owned), m2.is_complete) == ([T0], True)
    assert len(world.events("taken-over")) == 1


def test_offered_claim_is_dropped_when_its_member_is_gone() -> None:
    world, m1 = alone()
    m1.advance(claims=[m1.claim(T0, 100, 110)])
    m1.close()
    assert world.owners() == {}


def test_claims_that_a_returning_identity_does_not_list_are_dropped() -> None:
    world, m1 = alone(2)
    kept, dropped = m1.run(T0, 100, 110), m1.claim(T1, 100, 110)
    m1.advance(claims=[dropped])
    again = world.reconnect(m1, claims=(kept,))
    assert [status.state for status in again.confirm(kept, dropped).claims] == [ClaimState.RUNNING, ClaimState.CLOSED]


# ---- plain commits --------------------------------------------------------------------------------------------------


def test_commit_is_accepted_under_the_current_owner_epoch_only() -> None:
    world, m1 = alone()
    assert m1.commit(T0, 120).error is ErrorCode.NONE
    refused = m1.commit(T0, 130, m1.epoch(T0) + 1)
    assert (refused.error, refused.committed) == (ErrorCode.FENCED_OWNER_EPOCH, 120)
    assert world.committed() == {T0: 120}


def test_offset_of_a_claimed_partition_is_committed_by_its_claim_alone() -> None:
    world, m1 = alone()
    claim = m1.run(T0, 100, 110)
    refused = m1.commit(T0, 120)
    assert refused.error is ErrorCode.INVALID_REQUEST
    assert refused.message == "[100, 110) of t-0 is claimed; finish the claim, which commits it"
    m1.advance([claim])
    assert m1.commit(T0, 120).error is ErrorCode.NONE
    assert world.committed() == {T0: 120}


def test_member_that_lags_the_group_epoch_still_commits() -> None:
    world, m1 = alone(2)
    world.join("m2")
    assert m1.ping().member_epoch < m1.ping().group_epoch
    assert m1.commit(T1, 120).error is ErrorCode.NONE


def test_committed_offset_never_moves_back() -> None:
    _, m1 = alone()
    refused = m1.commit(T0, 99)
    assert refused.error is ErrorCode.INVALID_REQUEST
    assert refused.message == "offset 99 is before the committed offset 100; committed offsets never move back"
    assert m1.commit(T0, -1).error is ErrorCode.INVALID_REQUEST


def test_claims_that_are_skipped_for_one_reason_are_one_event() -> None:
    """Each was an event of its own: a micro-batch of thousands pushed everything else off the timeline."""
    world, m1 = alone(30)
    good = m1.run(T1, 100, 110)
    offered = m1.claim(T0, 100, 105)
    m1.advance(claims=[offered], keeps_offered=True)
    others = [m1.claim(("t", number), 100, 110) for number in range(2, 30)]
    m1.advance([offered, good, *others])
    told = {event.partition_count: event for event in world.events("claim-skipped")}
    assert set(told) == {1, 28}
    assert "nobody has planned to read it" in told[1].why
    assert told[28].why.endswith("never made; and 27 more likewise")
    assert told[28].partitions[:2] == (("t", 2), ("t", 3))
