"""The member machine's promises, against a scripted coordinator in memory."""

from collections.abc import Callable
from itertools import pairwise

import pytest

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    Advance,
    AdvanceResponse,
    ClaimsFinished,
    ConfirmClaims,
    ConfirmClaimsResponse,
    ErrorResponse,
    Fenced,
    FetcherStarted,
    FetcherStartedResponse,
    FetcherStopped,
    FetcherStoppedResponse,
    FindCoordinator,
    FindCoordinatorResponse,
    LeaveGroup,
    LeaveGroupResponse,
    Ping,
    PingResponse,
    Probe,
    RegisterConsumer,
    RegisterConsumerResponse,
)
from coordinator.protocol.parts import (
    Claim,
    ClaimState,
    ClaimStatus,
    ClaimStatuses,
    FinalOffset,
    Outcomes,
    OwnedPartition,
    PartitionResult,
    StartHint,
)
from spark_kcoord.member.core.effects import AdvanceOutcome, Connect, Joined, NoticeKind
from spark_kcoord.member.core.events import (
    AdvanceCall,
    BytesReceived,
    CallMade,
    CloseAsked,
    ConfirmCall,
    Connected,
    ConnectionLost,
    Event,
    JoinCall,
    LeaveCall,
    Ticked,
)
from spark_kcoord.member.core.held.holdings import AssignedPartition, Assignment
from spark_kcoord.member.core.session.states import TRANSITIONS, State
from tests.helpers.member_pair import (
    ADDRESS,
    MemberPair,
    accepted,
    claim,
    every_byte,
    found,
    registered,
    settings,
    start_fetcher,
    stop_fetcher,
    whole,
)

REFUSED_CONNECTION = "Connection refused"


def owned(pair: MemberPair) -> list[int]:
    return [part.partition for part in pair.member.assignment.partitions]


def in_state(state: State) -> MemberPair:
    pair = MemberPair()
    if state is State.NEW:
        return pair
    pair.join()
    if state is State.CONNECTING:
        return pair
    if state is State.WAITING:
        pair.lose(REFUSED_CONNECTION)
        return pair
    if state is State.GREETING:
        pair.accept(greet=False)
        return pair
    if state is State.FINDING:
        pair.accept()
        return pair
    pair.find()
    if state is State.JOINED:
        pair.answer(RegisterConsumer, registered)
    elif state is State.CLOSED:
        pair.close()
    elif state is State.FAILED:
        pair.answer(RegisterConsumer, RegisterConsumerResponse(error=ErrorCode.INVALID_GROUP_ID, message="bad"))
    return pair


# ---- every state and every event ------------------------------------------------------------------------------------

EVENTS: dict[str, Callable[[MemberPair], Event]] = {
    "join": lambda pair: CallMade(90, JoinCall()),
    "advance": lambda pair: CallMade(91, AdvanceCall((), (claim(),))),
    "confirm": lambda pair: CallMade(92, ConfirmCall((claim(),))),
    "leave": lambda pair: CallMade(93, LeaveCall()),
    "close": lambda pair: CloseAsked(),
    "connected": lambda pair: Connected(pair.connects[-1].connection_id if pair.connects else 1),
    "garbage": lambda pair: BytesReceived(
        pair.connects[-1].connection_id if pair.connects else 1, b"HTTP/1.1 400 Bad Request\r\n"
    ),
    "lost": lambda pair: ConnectionLost(pair.connects[-1].connection_id if pair.connects else 1, "gone"),
    "stale": lambda pair: ConnectionLost(77, "an old connection"),
    "tick": lambda pair: Ticked(),
}

STAYS = {"stale"}
FOLLOWING: dict[State, dict[str, State]] = {
    State.NEW: {"join": State.CONNECTING, "leave": State.CLOSED, "close": State.CLOSED},
    State.CONNECTING: {
        "leave": State.CLOSED,
        "close": State.CLOSED,
        "connected": State.GREETING,
        "lost": State.WAITING,
        "tick": State.WAITING,
    },
    State.GREETING: {
        "leave": State.CLOSED,
        "close": State.CLOSED,
        "garbage": State.WAITING,
        "lost": State.WAITING,
        "tick": State.WAITING,
    },
    State.FINDING: {
        "leave": State.CLOSED,
        "close": State.CLOSED,
        "garbage": State.WAITING,
        "lost": State.WAITING,
    },
    State.REGISTERING: {
        "leave": State.CLOSED,
        "close": State.CLOSED,
        "garbage": State.WAITING,
        "lost": State.WAITING,
    },
    State.JOINED: {"close": State.CLOSED, "garbage": State.WAITING, "lost": State.WAITING},
    State.WAITING: {"leave": State.CLOSED, "close": State.CLOSED, "tick": State.CONNECTING},
    State.CLOSED: {},
    State.FAILED: {"close": State.CLOSED},
}


@pytest.mark.parametrize("state", list(State))
@pytest.mark.parametrize("event", list(EVENTS))
def test_every_event_leads_where_the_table_says(state: State, event: str) -> None:
    pair = in_state(state)
    assert pair.member.state is state

    pair.now_ms += 3_000 if event == "tick" else 0
    pair.step(EVENTS[event](pair))

    assert pair.member.state is FOLLOWING[state].get(event, state)


@pytest.mark.parametrize("state", list(State))
def test_every_state_answers_or_keeps_every_call(state: State) -> None:
    pair = in_state(state)
    before = pair.member.unanswered_calls

    call = pair.advance((), (claim(),))

    if state in (State.NEW, State.CLOSED, State.FAILED):
        assert call in pair.errors
    else:
        assert pair.member.unanswered_calls == before + 1


def test_the_table_reaches_every_state() -> None:
    reached = {following for steps in TRANSITIONS.values() for following in steps.values()}
    assert reached == set(State) - {State.NEW}


# ---- joining --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", [whole, every_byte])
def test_member_joins_and_owns_what_it_is_granted(cut: Callable[[bytes], list[bytes]]) -> None:
    pair = MemberPair(cut)
    call = pair.join()
    pair.register(start_fetcher(0, 1, offset=7))

    assert pair.results == {call: Joined("m1", "cluster", ("k:9092",), ())}
    assert pair.member.assignment == Assignment(
        tuple(
            AssignedPartition("t", "id", partition, 10, 7, 7, is_stopping=False, has_claim=False)
            for partition in (0, 1)
        ),
        is_complete=True,
        member_epoch=1,
    )
    confirmed = pair.answer(FetcherStarted, FetcherStartedResponse())
    assert confirmed.partitions == (OwnedPartition("t", 0, 10), OwnedPartition("t", 1, 10))


def test_registration_carries_identity_claims_and_hints_of_the_checkpoint() -> None:
    hint = StartHint("t", "id", 0, 5, from_checkpoint=True)
    option = StartHint("t", "", 0, 3, from_checkpoint=False)
    pair = MemberPair(
        member_settings=settings(hints=(option,)), member_id="m7", claims=(claim(),), checkpoint_hints=(hint,)
    )
    call = pair.join()
    request = pair.register()

    assert (request.member_id, request.incarnation, request.claims, request.hints) == (
        "m7",
        "i1",
        (claim(),),
        (hint, option),
    )
    assert pair.results[call].claims == (ClaimStatus("t", 0, 10, ClaimState.RUNNING),)


def test_registration_carries_the_hand_over() -> None:
    pair = MemberPair(member_settings=settings(instance_id="i", handover="hold", claim_timeout_ms=60_000))
    pair.join()
    request = pair.register()

    assert (request.instance_id, request.handover, request.claim_timeout_ms) == ("i", "hold", 60_000)


def test_coordinator_that_lost_a_group_is_told_how_far_it_was_read_and_not_where_the_query_began() -> None:
    hint = StartHint("t", "id", 0, 5, from_checkpoint=True)
    other = StartHint("t", "id", 9, 3, from_checkpoint=True)
    pair = MemberPair(checkpoint_hints=(hint, other))
    pair.join()
    pair.register(start_fetcher(0, offset=5))
    pair.answer(FetcherStarted, FetcherStartedResponse())
    pair.advance((), (claim(start=5, until=8),))
    pair.answer(Advance, accepted)
    pair.advance((claim(start=5, until=8),), (claim(start=8, until=9),))
    pair.answer(Advance, accepted)

    request = pair.come_back()

    assert request.hints == (StartHint("t", "id", 0, 8, True, 10),)
    assert request.is_returning
    assert request.is_rejoining


def test_first_registration_of_a_process_is_no_return_of_that_process() -> None:
    pair = MemberPair(member_id="m1")
    pair.join()
    request = pair.register()
    assert request.is_returning
    assert (request.is_rejoining, request.age_ms) == (False, 0)


def test_registration_says_how_long_ago_its_process_began_to_ask_for_its_place() -> None:
    pair = MemberPair(member_id="m1")
    pair.join()
    pair.pass_ms(30)
    pair.find()
    pair.answer(RegisterConsumer, RegisterConsumerResponse(error=ErrorCode.MEMBER_ID_IN_USE, message="m1 runs at h2"))
    pair.pass_ms(200)
    assert pair.find().age_ms == 230


def test_member_goes_to_the_node_that_coordinates_its_group() -> None:
    pair = MemberPair()
    pair.join()
    pair.accept()
    pair.answer(FindCoordinator, found(("c2", 7601), ADDRESS))

    assert (pair.connects[-1].host, pair.connects[-1].port) == ("c2", 7601)
    pair.accept()
    pair.answer(FindCoordinator, found(("c2", 7601), ADDRESS))
    assert pair.member.state is State.REGISTERING


def test_member_that_is_sent_around_in_a_circle_backs_off() -> None:
    pair = MemberPair()
    pair.join()
    for turn in range(6):
        pair.accept()
        pair.answer(FindCoordinator, found(("c2", 7601) if turn % 2 == 0 else ADDRESS))
    assert pair.member.state is State.WAITING


def test_every_node_it_learned_of_is_tried_when_the_coordinator_is_gone() -> None:
    pair = MemberPair()
    pair.join()
    pair.accept()
    pair.answer(FindCoordinator, found(ADDRESS, ("c2", 7601), ("c3", 7602)))
    pair.answer(RegisterConsumer, registered)
    pair.lose()
    pair.pass_ms(60)
    for _ in range(3):
        pair.lose(REFUSED_CONNECTION)
        pair.pass_ms(1_000)
    assert [connect.host for connect in pair.connects] == ["c1", "c2", "c3", "c1", "c2"]


def test_backoff_doubles_from_50_ms_to_1_s() -> None:
    pair = MemberPair(member_settings=settings(join_timeout_ms=60_000))
    pair.join()
    waits = []
    for _ in range(8):
        pair.lose(REFUSED_CONNECTION)
        assert pair.wake_ms is not None
        waits.append(pair.wake_ms - pair.now_ms)
        pair.pass_ms(waits[-1])
    # The jitter of these tests is always one half, so each wait is three quarters of its whole.
    assert waits == [37, 75, 150, 300, 600, 750, 750, 750]


def test_join_without_a_coordinator_fails_within_ten_seconds_naming_option_address_and_reason() -> None:
    pair = MemberPair()
    call = pair.join()
    while not pair.errors:
        if pair.member.state is State.CONNECTING:
            pair.lose(REFUSED_CONNECTION)
        pair.pass_ms(10)
    assert pair.now_ms <= 10_000
    for part in ("kcoord.bootstrap.servers", "c1:7600", REFUSED_CONNECTION, "'g'"):
        assert part in pair.errors[call]
    assert pair.member.state is State.FAILED


def test_join_that_is_never_answered_fails_in_time_saying_so() -> None:
    pair = MemberPair()
    call = pair.join()
    pair.find()
    pair.pass_ms(9_000)
    assert "could not be joined within 9 s" in pair.errors[call]


def test_refusal_that_may_pass_is_tried_again_and_named_when_time_is_over() -> None:
    pair = MemberPair()
    call = pair.join()
    while not pair.errors:
        if pair.member.state is State.CONNECTING:
            pair.find()
            pair.answer(
                RegisterConsumer,
                RegisterConsumerResponse(error=ErrorCode.COORDINATOR_NOT_AVAILABLE, message="Kafka at k:1 is away"),
            )
        pair.pass_ms(100)
    assert len(pair.connects) > 3
    assert "Kafka at k:1 is away (COORDINATOR_NOT_AVAILABLE)" in pair.errors[call]


def test_log_in_that_is_refused_fails_the_first_join_at_once_and_later_counts_as_a_coordinator_that_is_away() -> None:
    def refused(pair: MemberPair) -> ConnectionLost:
        return ConnectionLost(pair.connects[-1].connection_id, "refused the log-in: no", is_refused=True)

    pair = MemberPair()
    call = pair.join()
    pair.step(refused(pair))
    assert "member of group 'g' could not log in: the coordinator refused the log-in: no" in pair.errors[call]
    assert pair.member.state is State.FAILED
    pair = MemberPair().joined()
    pair.lose()
    pair.pass_ms(100)
    pair.step(refused(pair))
    assert pair.member.state is State.WAITING


def test_final_refusal_fails_the_join_and_every_later_call() -> None:
    pair = in_state(State.FAILED)
    late = pair.advance()
    assert "bad (INVALID_GROUP_ID)" in pair.errors[1]
    assert pair.errors[late] == pair.errors[1]
    assert str(pair.member.fatal) == pair.errors[1]


@pytest.mark.parametrize(
    ("code", "option"),
    [
        (ErrorCode.MEMBER_ID_IN_USE, "checkpointLocation"),
        (ErrorCode.FENCED_INSTANCE_ID, "kcoord.instance.id"),
        (ErrorCode.SECOND_MEMBER_OF_APPLICATION, "kcoord.share.within.application"),
    ],
)
def test_place_that_is_taken_is_tried_for_one_session_time_out_and_then_final(code: ErrorCode, option: str) -> None:
    pair = MemberPair()
    call = pair.join()
    while not pair.errors:
        if pair.member.state is State.CONNECTING:
            pair.find()
            pair.answer(
                RegisterConsumer,
                RegisterConsumerResponse(error=code, message="m1 runs at h2, pid 7"),
            )
        pair.pass_ms(50)
    assert 10_000 <= pair.now_ms <= 10_100
    assert "m1 runs at h2, pid 7" in pair.errors[call]
    assert f"(option '{option}')" in pair.errors[call]
    assert pair.member.state is State.FAILED


def test_id_that_becomes_free_in_time_is_taken() -> None:
    pair = MemberPair()
    call = pair.join()
    pair.find()
    pair.answer(RegisterConsumer, RegisterConsumerResponse(error=ErrorCode.MEMBER_ID_IN_USE, message="m1 at h2"))
    pair.pass_ms(1_000)
    pair.register()
    assert call in pair.results
    pair.pass_ms(3_200)
    pair.answer(Ping, PingResponse(member_epoch=1))
    assert pair.member.state is State.JOINED


def test_registration_that_does_not_answer_every_claim_is_tried_again() -> None:
    pair = MemberPair(claims=(claim(),))
    pair.join()
    pair.find()
    pair.answer(RegisterConsumer, RegisterConsumerResponse(member_id="m1"))
    assert pair.member.state is State.WAITING


def test_checkpoint_too_large_for_a_registration_is_a_clear_error() -> None:
    pair = MemberPair(claims=(Claim("t", "i" * 2_000_000, 0, 10, 0, 5),))
    call = pair.join()
    pair.accept()
    pair.answer(FindCoordinator, found())
    assert "spread the partitions over more members" in pair.errors[call]
    assert pair.member.state is State.FAILED


def test_join_of_a_member_that_has_joined_is_answered_at_once_and_waits_while_it_is_away() -> None:
    pair = MemberPair(member_settings=settings(coordinator_timeout_ms=2_000)).joined()
    assert pair.join() in pair.results
    pair.lose()
    late = pair.join()
    while not pair.errors:
        if pair.member.state is State.CONNECTING:
            pair.lose(REFUSED_CONNECTION)
        pair.pass_ms(10)
    assert "kcoord.coordinator.timeout" in pair.errors[late]
    assert pair.member.state is not State.FAILED


def out_of_reach(pair: MemberPair, ms: int) -> None:
    """Let time pass while every connection is refused."""
    end_ms = pair.now_ms + ms
    while pair.now_ms < end_ms:
        if pair.member.state is State.CONNECTING:
            pair.lose(REFUSED_CONNECTION)
        pair.pass_ms(10)


def test_coordinator_away_for_too_long_is_told_though_nobody_asks_for_anything() -> None:
    pair = MemberPair(member_settings=settings(coordinator_timeout_ms=2_000)).joined(start_fetcher(0))
    pair.pass_ms(5_000)
    pair.lose()
    out_of_reach(pair, 1_990)
    assert pair.member.failure is None
    out_of_reach(pair, 10)
    assert "kcoord.coordinator.timeout" in str(pair.member.failure)
    assert f"c1:7600: {REFUSED_CONNECTION}" in str(pair.member.failure)
    assert pair.member.failure is pair.member.failure
    assert pair.member.fatal is None
    assert pair.member.state is not State.FAILED


def test_silent_coordinator_counts_as_away_from_when_the_session_is_lost() -> None:
    pair = MemberPair(member_settings=settings(coordinator_timeout_ms=2_000)).joined(start_fetcher(0))
    pair.pass_ms(6_666 + 1_990)
    assert pair.member.failure is None
    pair.pass_ms(20)
    assert pair.member.failure is not None


def test_coordinator_that_is_back_in_time_ends_the_count_and_one_that_is_back_later_ends_the_failure() -> None:
    pair = MemberPair(member_settings=settings(coordinator_timeout_ms=2_000)).joined(start_fetcher(0))
    pair.lose()
    out_of_reach(pair, 1_500)
    while pair.member.state is not State.CONNECTING:
        pair.pass_ms(10)
    pair.register(start_fetcher(0))
    pair.pass_ms(3_000)
    assert pair.member.failure is None
    pair.lose()
    out_of_reach(pair, 2_500)
    assert pair.member.failure is not None
    while pair.member.state is not State.CONNECTING:
        pair.pass_ms(10)
    pair.register(start_fetcher(0))
    assert pair.member.failure is None
    assert owned(pair) == [0]


def test_call_while_the_coordinator_is_away_waits_no_longer_than_it_may_be_away() -> None:
    pair = MemberPair(member_settings=settings(coordinator_timeout_ms=2_000)).joined(start_fetcher(0))
    pair.lose()
    out_of_reach(pair, 1_500)
    call = pair.confirm(claim())
    out_of_reach(pair, 490)
    assert call not in pair.errors
    out_of_reach(pair, 10)
    assert "kcoord.coordinator.timeout" in pair.errors[call]
    late = pair.advance((), (claim(),))
    pair.pass_ms(1)
    assert late in pair.errors


# ---- staying --------------------------------------------------------------------------------------------------------


def test_member_pings_a_little_more_often_than_the_coordinator_asked() -> None:
    pair = MemberPair().joined()
    pings = []
    while pair.now_ms < 20_000:
        if pair.count(Ping):
            pings.append(pair.now_ms)
            pair.answer(Ping, PingResponse(member_epoch=3))
        pair.pass_ms(1)
    assert {later - earlier for earlier, later in pairwise(pings)} == {3_166}
    assert pair.member.assignment.member_epoch == 3


def test_probe_is_answered_by_a_ping_at_once() -> None:
    pair = MemberPair().joined()
    pair.push(Probe())
    assert pair.count(Ping) == 1


def test_coordinator_silent_for_two_thirds_of_the_session_time_out_is_left() -> None:
    pair = MemberPair().joined(start_fetcher(0))
    pair.pass_ms(6_665)
    assert pair.member.state is State.JOINED
    pair.pass_ms(2)
    assert pair.member.state is State.WAITING
    assert owned(pair) == [0]


def test_member_unanswered_for_a_session_time_out_owns_nothing() -> None:
    pair = MemberPair().joined(start_fetcher(0))
    pair.pass_ms(9_999)
    assert owned(pair) == [0]
    pair.pass_ms(1)
    assert pair.member.assignment == Assignment((), is_complete=False, member_epoch=1)
    assert "10000 ms" in pair.notice_of(NoticeKind.SESSION_LOST)


def test_ownership_counts_from_when_the_answered_request_was_sent() -> None:
    pair = MemberPair().joined(start_fetcher(0))
    while not pair.count(Ping):
        pair.pass_ms(1)
    sent_ms = pair.now_ms
    pair.pass_ms(2_000)
    pair.answer(Ping, PingResponse(member_epoch=1))
    pair.lose()
    pair.now_ms = sent_ms + 9_999
    pair.step(Ticked())
    assert owned(pair) == [0]
    pair.now_ms = sent_ms + 10_000
    pair.step(Ticked())
    assert owned(pair) == []


def test_reconnected_member_owns_only_what_is_granted_again() -> None:
    pair = MemberPair().joined(start_fetcher(0, 1))
    request = pair.come_back()
    assert (request.member_id, request.incarnation) == ("m1", "i1")
    assert owned(pair) == []
    pair.push(start_fetcher(1))
    assert owned(pair) == [1]


def test_partition_granted_again_under_the_same_epoch_keeps_its_claim_and_position() -> None:
    pair = MemberPair().joined(start_fetcher(0))
    pair.advance((), (claim(),))
    pair.answer(Advance, accepted)
    request = pair.come_back(start_fetcher(0), state=ClaimState.OFFERED)
    assert request.claims == (claim(),)
    (part,) = pair.member.assignment.partitions
    assert (part.has_claim, part.position) == (True, 5)


def test_partition_granted_under_a_new_epoch_starts_afresh() -> None:
    pair = MemberPair().joined(start_fetcher(0))
    pair.advance((), (claim(),))
    pair.answer(Advance, accepted)
    pair.come_back(start_fetcher(0, epoch=20, offset=3), state=ClaimState.OFFERED)
    (part,) = pair.member.assignment.partitions
    assert (part.owner_epoch, part.has_claim, part.start, part.position) == (20, False, 3, 3)


@pytest.mark.parametrize("how", ["push", "ping", "call"])
def test_fenced_member_forgets_everything_and_registers_again_as_itself(how: str) -> None:
    pair = MemberPair().joined(start_fetcher(0))
    pair.advance((), (claim(),))
    pair.answer(Advance, accepted)
    if how == "push":
        pair.push(Fenced(ErrorCode.FENCED_MEMBER_EPOCH, "it did not stop in time"))
    elif how == "ping":
        pair.pass_ms(3_333)
        pair.answer(Ping, PingResponse(error=ErrorCode.UNKNOWN_MEMBER_ID, message="who?"))
    else:
        pair.advance()
        pair.answer(Advance, ErrorResponse(error=ErrorCode.UNKNOWN_MEMBER_ID, message="who?"))
    assert owned(pair) == []
    assert pair.notice_of(NoticeKind.FENCED)
    pair.pass_ms(50)
    request = pair.register()
    assert (request.member_id, request.owned, request.claims) == ("m1", (), (claim(),))


def test_push_before_the_registration_is_answered_ends_the_connection() -> None:
    pair = in_state(State.REGISTERING)
    pair.push(start_fetcher(0))
    assert pair.member.state is State.WAITING


def test_what_an_abandoned_connection_brings_is_dropped() -> None:
    pair = MemberPair().joined(start_fetcher(0))
    old = pair.connects[-1].connection_id
    pair.come_back(start_fetcher(0))
    pair.step(BytesReceived(old, b"garbage that would end a conversation"))
    pair.step(ConnectionLost(old, "late"))
    assert pair.member.state is State.JOINED


# ---- letting go -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", [whole, every_byte])
def test_partition_without_a_claim_is_released_at_once(cut: Callable[[bytes], list[bytes]]) -> None:
    pair = MemberPair(cut).joined(start_fetcher(0, 1))
    pair.push(stop_fetcher(1))
    assert pair.take(FetcherStopped).partitions == (FinalOffset("t", 1, 10),)
    assert owned(pair) == [0]
    assert not pair.member.assignment.is_complete


def test_partition_with_a_claim_is_released_by_the_advance_that_finishes_it() -> None:
    pair = MemberPair().joined(start_fetcher(0, 1))
    pair.read(claim(0), claim(1))
    pair.push(stop_fetcher(1))
    assert pair.count(FetcherStopped) == 0
    assert [part.is_stopping for part in pair.member.assignment.partitions] == [False, True]

    call = pair.advance((claim(0), claim(1)), (claim(0, start=5, until=9),))
    request = pair.answer(Advance, accepted)

    assert request.released == (FinalOffset("t", 1, 10),)
    assert owned(pair) == [0]
    assert pair.count(FetcherStopped) == 0
    assert pair.results[call].released == (PartitionResult("t", 1),)


def test_partition_asked_back_while_an_advance_claims_it_waits_for_the_answer() -> None:
    pair = MemberPair().joined(start_fetcher(0))
    call = pair.advance((), (claim(),))
    pair.push(stop_fetcher(0))
    assert pair.count(FetcherStopped) == 0

    pair.answer(Advance, accepted)

    assert pair.results[call].claimed == (claim(),)
    assert pair.take(FetcherStopped).partitions == (FinalOffset("t", 0, 10),)
    assert owned(pair) == []


def test_claim_refused_because_the_partition_is_asked_back_leads_to_its_release() -> None:
    pair = MemberPair().joined(start_fetcher(0))
    call = pair.advance((), (claim(),))
    pair.push(stop_fetcher(0))
    refused = PartitionResult("t", 0, ErrorCode.REBALANCE_IN_PROGRESS, "it is being stopped")
    pair.answer(Advance, AdvanceResponse(claims=Outcomes(0, (refused,), (0,))))

    assert pair.results[call] == AdvanceOutcome((), (), (refused,), ())
    assert pair.take(FetcherStopped).partitions == (FinalOffset("t", 0, 10),)
    assert owned(pair) == []


def test_partition_asked_back_while_its_last_claim_is_being_finished_is_released_after_the_answer() -> None:
    pair = MemberPair().joined(start_fetcher(0))
    pair.read(claim())
    pair.advance((claim(),), ())
    pair.push(stop_fetcher(0))
    assert pair.count(FetcherStopped) == 0
    pair.answer(Advance, accepted)
    assert pair.take(FetcherStopped).partitions == (FinalOffset("t", 0, 10),)


def test_stop_of_a_partition_that_is_not_held_is_answered_too() -> None:
    pair = MemberPair().joined(start_fetcher(0))
    pair.push(stop_fetcher(3, epoch=4))
    assert pair.take(FetcherStopped).partitions == (FinalOffset("t", 3, 4),)
    assert owned(pair) == [0]


def test_release_that_was_lost_is_said_again_when_the_stop_comes_again() -> None:
    pair = MemberPair().joined(start_fetcher(0))
    pair.push(stop_fetcher(0))
    pair.come_back(start_fetcher(0, complete=False), stop_fetcher(0))
    assert pair.take(FetcherStopped).partitions == (FinalOffset("t", 0, 10),)
    assert owned(pair) == []


def test_releases_are_said_one_request_at_a_time() -> None:
    pair = MemberPair().joined(start_fetcher(0, 1, 2))
    pair.push(stop_fetcher(0), stop_fetcher(1), stop_fetcher(2))
    assert pair.count(FetcherStopped) == 1
    pair.answer(FetcherStopped, FetcherStoppedResponse())
    assert pair.take(FetcherStopped).partitions == (FinalOffset("t", 1, 10), FinalOffset("t", 2, 10))


# ---- claims ---------------------------------------------------------------------------------------------------------


def test_advance_moves_the_position_to_the_end_of_the_claim() -> None:
    pair = MemberPair().joined(start_fetcher(0))
    call = pair.advance((), (claim(),))
    pair.answer(Advance, accepted)
    (part,) = pair.member.assignment.partitions
    assert (part.start, part.position, part.has_claim) == (0, 5, True)
    assert pair.results[call].claimed == (claim(),)


def test_offered_claim_that_is_not_renewed_is_given_up_with_its_position() -> None:
    pair = MemberPair().joined(start_fetcher(0))
    pair.advance((), (claim(),))
    pair.answer(Advance, accepted)
    pair.advance()
    pair.answer(Advance, accepted)
    (part,) = pair.member.assignment.partitions
    assert (part.position, part.has_claim) == (0, False)


def test_running_claim_survives_an_advance_that_does_not_name_it() -> None:
    pair = MemberPair().joined(start_fetcher(0))
    pair.advance((), (claim(),))
    pair.answer(Advance, accepted)
    call = pair.confirm(claim())
    running = ClaimStatus("t", 0, 10, ClaimState.RUNNING)
    pair.answer(ConfirmClaims, ConfirmClaimsResponse(claims=ClaimStatuses(0, (running,), (0,))))
    pair.advance()
    pair.answer(Advance, accepted)
    (part,) = pair.member.assignment.partitions
    assert pair.results[call] == (running,)
    assert (part.position, part.has_claim) == (5, True)


def test_claim_that_turns_out_closed_is_reported_with_both_numbers() -> None:
    pair = MemberPair().joined(start_fetcher(0))
    pair.advance((), (claim(),))
    pair.answer(Advance, accepted)
    pair.advance((claim(),), ())
    skipped = PartitionResult("t", 0, ErrorCode.CLAIM_CLOSED, "taken over by m2", committed=3)
    pair.answer(Advance, AdvanceResponse(finished=Outcomes(0, (skipped,), (0,))))
    assert pair.results[3].skipped == (skipped,)
    assert pair.notice_of(NoticeKind.CLAIM_SKIPPED) == (
        "t-0 offsets [0, 5): taken over by m2 (CLAIM_CLOSED); the group's offset is 3"
    )
    assert not pair.member.assignment.partitions[0].has_claim


def test_calls_are_sent_one_at_a_time_in_order() -> None:
    pair = MemberPair().joined(start_fetcher(0))
    pair.advance((), (claim(),))
    second = pair.confirm(claim())
    assert pair.count(ConfirmClaims) == 0
    pair.answer(Advance, accepted)
    pair.answer(ConfirmClaims, ConfirmClaimsResponse(claims=ClaimStatuses(1)))
    assert second in pair.results


@pytest.mark.parametrize("was_applied", [False, True])
def test_advance_whose_answer_was_lost_is_asked_again_unchanged(was_applied: bool) -> None:
    pair = MemberPair().joined(start_fetcher(0))
    pair.advance((), (claim(),))
    pair.answer(Advance, accepted)
    call = pair.advance((claim(),), (claim(start=5, until=9),))
    first = pair.take(Advance)

    request = pair.come_back(
        start_fetcher(0, offset=5 if was_applied else 0), state=ClaimState.CLOSED if was_applied else ClaimState.RUNNING
    )
    again = pair.answer(Advance, accepted)

    assert request.claims == (claim(),)
    assert again == first
    assert pair.results[call].claimed == (claim(start=5, until=9),)
    assert pair.member.assignment.partitions[0].position == 9


def test_stop_pushed_again_while_the_repeated_advance_is_out_waits_for_it() -> None:
    pair = MemberPair().joined(start_fetcher(0))
    pair.read(claim())
    pair.push(stop_fetcher(0))
    call = pair.advance((claim(),), ())
    assert pair.take(Advance).released == (FinalOffset("t", 0, 10),)

    pair.come_back(start_fetcher(0, complete=False), stop_fetcher(0))
    assert pair.count(FetcherStopped) == 0
    pair.answer(Advance, accepted)

    assert call in pair.results
    assert owned(pair) == []
    assert pair.count(FetcherStopped) == 0


def test_call_without_a_coordinator_fails_at_its_deadline_naming_the_option() -> None:
    pair = MemberPair(member_settings=settings(coordinator_timeout_ms=30_000)).joined(start_fetcher(0))
    call = pair.advance((), (claim(),))
    pair.lose()
    asked_ms = pair.now_ms
    while not pair.errors:
        if pair.member.state is State.CONNECTING:
            pair.lose(REFUSED_CONNECTION)
        pair.pass_ms(10)
    assert 30_000 <= pair.now_ms - asked_ms <= 30_020
    assert "kcoord.coordinator.timeout" in pair.errors[call]
    assert REFUSED_CONNECTION in pair.errors[call]
    assert pair.member.state is not State.FAILED


def test_answer_after_the_deadline_still_counts_for_what_is_held() -> None:
    pair = MemberPair(member_settings=settings(coordinator_timeout_ms=1_000)).joined(start_fetcher(0))
    call = pair.advance((), (claim(),))
    pair.pass_ms(1_000)
    assert call in pair.errors
    pair.answer(Advance, accepted)
    assert pair.member.assignment.partitions[0].has_claim


def test_answer_that_leaves_out_a_partition_ends_the_connection_and_the_call_goes_on() -> None:
    pair = MemberPair().joined(start_fetcher(0))
    call = pair.advance((), (claim(),))
    pair.answer(Advance, AdvanceResponse())
    assert pair.member.state is State.WAITING
    pair.pass_ms(50)
    pair.register(start_fetcher(0))
    pair.answer(Advance, accepted)
    assert call in pair.results


def test_final_refusal_of_a_call_fails_that_call_alone() -> None:
    pair = MemberPair().joined(start_fetcher(0))
    call = pair.advance((), (claim(),))
    pair.answer(Advance, AdvanceResponse(error=ErrorCode.INVALID_REQUEST, message="no"))
    assert "no (INVALID_REQUEST)" in pair.errors[call]
    assert pair.member.state is State.JOINED


def test_micro_batch_too_large_for_a_request_fails_that_call_alone() -> None:
    pair = MemberPair().joined(start_fetcher(0))
    call = pair.advance((), tuple(claim(partition) for partition in range(200_001)))
    assert "spread the partitions over more members" in pair.errors[call]
    assert pair.member.state is State.JOINED


# ---- the end --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID])
def test_leave_is_answered_and_closes(error: ErrorCode) -> None:
    pair = MemberPair().joined(start_fetcher(0))
    call = pair.leave()
    pair.answer(LeaveGroup, LeaveGroupResponse(error=error))
    assert pair.results[call] is None
    assert pair.member.state is State.CLOSED
    assert owned(pair) == []


def test_leave_that_is_decided_and_not_answered_yet_is_waited_for_though_all_else_is_refused() -> None:
    pair = MemberPair().joined(start_fetcher(0))
    pair.answer(FetcherStarted, FetcherStartedResponse())
    pair.lose()
    call = pair.leave()
    pair.pass_ms(50)
    pair.register(start_fetcher(0))
    pair.take(LeaveGroup)
    pair.answer(FetcherStarted, ErrorResponse(ErrorCode.UNKNOWN_MEMBER_ID, "it has left"))
    pair.push(Fenced(ErrorCode.UNKNOWN_MEMBER_ID, "it has left"))
    assert pair.member.state is State.JOINED, "it does not join anew what it is leaving"
    pair.answer(LeaveGroup, LeaveGroupResponse())
    assert (pair.results[call], pair.member.state) == (None, State.CLOSED)


def test_member_whose_leave_was_decided_and_never_answered_does_not_join_again_to_leave() -> None:
    pair = MemberPair().joined(start_fetcher(0))
    call = pair.leave()
    assert not pair.take(LeaveGroup).partitions
    pair.lose()
    pair.pass_ms(50)
    assert pair.find().is_leaving
    pair.answer(RegisterConsumer, RegisterConsumerResponse(error=ErrorCode.UNKNOWN_MEMBER_ID, message="it has left"))
    assert (pair.results[call], pair.member.state) == (None, State.CLOSED)


def test_member_that_is_no_member_any_more_when_it_wants_to_leave_tells_what_waits_before_that() -> None:
    pair = MemberPair().joined(start_fetcher(0))
    pair.lose()
    advance, leave = pair.advance((), (claim(),)), pair.leave()
    pair.pass_ms(50)
    assert pair.find().is_leaving
    pair.answer(RegisterConsumer, RegisterConsumerResponse(error=ErrorCode.UNKNOWN_MEMBER_ID, message="it expired"))
    assert "is closed" in pair.errors[advance]
    assert (pair.results[leave], pair.member.state) == (None, State.CLOSED)


def test_member_that_is_not_leaving_registers_as_one_that_stays() -> None:
    pair = MemberPair().joined(start_fetcher(0))
    pair.advance((), (claim(),))
    pair.lose()
    pair.pass_ms(50)
    assert not pair.find().is_leaving


def test_leave_without_a_coordinator_ends_with_the_session() -> None:
    pair = MemberPair().joined()
    pair.lose()
    call = pair.leave()
    for _ in range(1_001):
        if pair.member.state is State.CONNECTING:
            pair.lose(REFUSED_CONNECTION)
        pair.pass_ms(10)
    assert pair.results[call] is None
    assert pair.member.state is State.CLOSED


def test_close_fails_waiting_calls_and_wants_nothing_more() -> None:
    pair = MemberPair().joined(start_fetcher(0))
    call = pair.advance((), (claim(),))
    pair.close()
    assert "is closed" in pair.errors[call]
    assert pair.wake_ms is None
    assert pair.connection_id is None


def test_coordinator_that_moved_is_looked_for_again() -> None:
    pair = MemberPair().joined(start_fetcher(0))
    pair.pass_ms(3_333)
    pair.answer(Ping, PingResponse(error=ErrorCode.NOT_COORDINATOR, message="shard 3 has moved"))
    pair.pass_ms(50)
    pair.accept()
    assert pair.take(FindCoordinator) == FindCoordinator("g", leader_epoch=0)
    assert owned(pair) == [0]


def test_same_events_give_the_same_effects() -> None:
    def run() -> list[object]:
        pair = MemberPair().joined(start_fetcher(0, 1))
        pair.advance((), (claim(0), claim(1)))
        pair.answer(Advance, accepted)
        pair.push(stop_fetcher(1))
        pair.come_back(start_fetcher(0, 1))
        pair.pass_ms(20_000)
        return [repr(effect) for effect in pair.effects]

    assert run() == run()


def test_refusal_of_a_request_that_is_no_call_ends_the_connection() -> None:
    pair = MemberPair().joined(start_fetcher(0))
    pair.answer(FetcherStarted, ErrorResponse(error=ErrorCode.INVALID_REQUEST, message="no"))
    assert pair.member.state is State.WAITING
    assert owned(pair) == [0]


def test_node_without_a_coordinator_to_name_is_left() -> None:
    pair = in_state(State.FINDING)
    pair.answer(FindCoordinator, FindCoordinatorResponse())
    assert pair.member.state is State.WAITING
    assert len([effect for effect in pair.effects if isinstance(effect, Connect)]) == 1


def test_claim_that_was_finished_for_the_member_is_closed_and_its_partition_let_go_when_wanted_back() -> None:
    pair = MemberPair().joined(start_fetcher(0, 1))
    mine = claim(0), claim(1)
    pair.read(*mine)
    pair.push(stop_fetcher(0))
    assert pair.count(FetcherStopped) == 0
    pair.push(ClaimsFinished(mine))
    assert pair.take(FetcherStopped).partitions == (FinalOffset("t", 0, 10),)
    assignment = pair.member.assignment
    assert assignment.finished == mine
    assert [(p.partition, p.position, p.has_claim) for p in assignment.partitions] == [(1, 5, False)]
    pair.advance((), (claim(1, start=5, until=9),))
    pair.answer(FetcherStopped, FetcherStoppedResponse())
    pair.answer(Advance, accepted)
    assert pair.member.assignment.finished == ()
