"""The member machine of a plain consumer: commits, positions that go with pings, releases on request, reports."""

import pytest

from coordinator.protocol.columns import OffsetToCommit, one_by_one
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    CommitOffsets,
    CommitOffsetsResponse,
    ErrorResponse,
    FetcherStopped,
    FetcherStoppedResponse,
    LeaveGroup,
    LeaveGroupResponse,
    ListClaims,
    ListClaimsResponse,
    Ping,
    PingResponse,
    RegisterConsumer,
    RegisterConsumerResponse,
    ReportOutOfRange,
    ReportOutOfRangeResponse,
    StartFetcher,
)
from coordinator.protocol.parts import (
    FinalOffset,
    LostPosition,
    PartitionResult,
    StartHint,
    StartPartition,
    Subscription,
)
from spark_kcoord.errors import LeftAloneError
from spark_kcoord.member.core.events import (
    CallMade,
    CommitCall,
    LeaveCall,
    Polled,
    PositionsNoted,
    ReleaseAsked,
    Resubscribed,
)
from spark_kcoord.member.core.session.patience import Idleness
from spark_kcoord.member.core.session.states import State
from tests.helpers.member_pair import MemberPair, claim, registered, settings, start_fetcher, stop_fetcher
from tests.sim.listed import portions_of

DONE = OffsetToCommit("t", 0, 7, 10)
FINE = PartitionResult("t", 0, committed=7)


def consuming(**changes: object) -> MemberPair:
    return MemberPair(member_settings=settings(lets_go_itself=False, **changes)).joined(start_fetcher(0, 1))


def owned(pair: MemberPair) -> list[int]:
    return [part.partition for part in pair.member.assignment.partitions]


def positions(pair: MemberPair) -> list[int]:
    return [part.position for part in pair.member.assignment.partitions]


# ---- subscriptions --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "subscription"),
    [
        ({"exclusions": ("t-old",)}, Subscription(topics=("t",), exclusions=("t-old",))),
        (
            {"topics": (), "pattern": "t.*", "exclusions": ("t-old",)},
            Subscription(pattern="t.*", exclusions=("t-old",)),
        ),
        ({"topics": (), "partitions": (("t", 3),)}, Subscription(partitions=(("t", 3),))),
    ],
)
def test_what_it_wants_to_read_goes_with_its_registration(changes: dict[str, object], subscription: object) -> None:
    pair = MemberPair(member_settings=settings(**changes))
    pair.join()
    assert pair.find().subscription == subscription


@pytest.mark.parametrize("changes", [{"topics": ()}, {"pattern": "t"}, {"partitions": (("t", 0),)}])
def test_settings_name_exactly_one_kind_of_subscription(changes: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="exactly one of topics, pattern and partitions"):
        settings(**changes)


def test_wishes_go_with_its_registration() -> None:
    pair = MemberPair(member_settings=settings(ping_interval_ms=700, auto_commit=True, wants_streams=True, streams=4))
    pair.join()
    request = pair.find()
    assert (request.ping_interval_ms, request.auto_commit, request.wants_streams, request.streams) == (
        700,
        True,
        True,
        4,
    )


@pytest.mark.parametrize(
    ("changes", "code", "message", "option"),
    [
        (
            {"topics": (), "pattern": "t("},
            ErrorCode.INVALID_REQUEST,
            "the pattern 't(' is not allowed: missing ): t( at position 0",
            "subscribePattern",
        ),
        (
            {"topics": (), "partitions": (("t", 0),)},
            ErrorCode.PARTITION_OWNED,
            "partition t-0 is owned by member m9, which named it first; choose another, or stop that one",
            "assign",
        ),
        (
            {"topics": (), "partitions": (("t", 9),)},
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "topic t has 2 partitions and no partition 9; name one that it has",
            "assign",
        ),
        ({}, ErrorCode.UNSUPPORTED_ASSIGNOR, "none of the assignors x is common to all members", "kcoord.assignors"),
        ({}, ErrorCode.INVALID_REQUEST, "a claim time-out of 5 ms is not allowed", "kcoord.claim.timeout"),
    ],
)
def test_refusals_name_the_option_and_say_what_the_coordinator_said(
    changes: dict[str, object], code: ErrorCode, message: str, option: str | None
) -> None:
    pair = MemberPair(member_settings=settings(**changes))
    call = pair.join()
    pair.find()
    pair.answer(RegisterConsumer, RegisterConsumerResponse(code, message))
    about = f" (option '{option}')" if option else ""
    refused = f"The coordinator refused a member of group 'g'{about}: {message} ({code.name})"
    assert (pair.errors[call], pair.member.state) == (refused, State.FAILED)


# ---- commits --------------------------------------------------------------------------------------------------------


def test_commit_is_answered_with_a_result_for_each_offset_and_moves_the_position() -> None:
    pair = consuming()
    call = pair.commit(DONE, OffsetToCommit("t", 1, 3, 9))
    fenced = PartitionResult("t", 1, ErrorCode.FENCED_OWNER_EPOCH, "it is m2's")
    assert pair.take(CommitOffsets).group_id == "g"
    pair.answer(CommitOffsets, CommitOffsetsResponse(refused=(fenced,), accepted=1))
    assert pair.results[call] == (FINE, fenced)
    assert positions(pair) == [7, 0]


def test_commit_whose_answer_was_lost_is_asked_again() -> None:
    pair = consuming()
    call = pair.commit(DONE)
    pair.come_back(start_fetcher(0, 1))
    pair.answer(CommitOffsets, CommitOffsetsResponse(accepted=1))
    assert pair.results[call] == (FINE,)


def test_commit_that_is_not_answered_for_every_offset_is_asked_again() -> None:
    pair = consuming()
    call = pair.commit(DONE)
    pair.answer(CommitOffsets, CommitOffsetsResponse())
    assert (call in pair.results, pair.member.state) == (False, State.WAITING)


@pytest.mark.parametrize(
    ("refused", "accepted"),
    [([("t", 0)], 0), ([], 3), ([("t", 0), ("t", 0)], 0), ([("t", 0), ("z", 9)], 0)],
)
def test_commit_whose_answer_does_not_account_for_every_partition_is_asked_again(
    refused: list[tuple[str, int]], accepted: int
) -> None:
    pair = consuming()
    call = pair.commit(DONE, OffsetToCommit("t", 1, 3, 9))
    why_not = tuple(PartitionResult(*key, ErrorCode.FENCED_OWNER_EPOCH, "it is m2's") for key in refused)
    pair.answer(CommitOffsets, CommitOffsetsResponse(refused=why_not, accepted=accepted))
    assert (call in pair.results, pair.member.state) == (False, State.WAITING)


def test_refusal_without_a_reason_is_no_answer() -> None:
    pair = consuming()
    call = pair.commit(DONE)
    pair.answer(CommitOffsets, ErrorResponse(ErrorCode.NONE, ""))
    assert (call in pair.results, pair.member.state) == (False, State.WAITING)


# ---- auto commit ----------------------------------------------------------------------------------------------------


def pinged(pair: MemberPair) -> tuple[OffsetToCommit, ...]:
    pair.pass_ms(3_400)
    return tuple(one_by_one(pair.take(Ping).offsets))


def test_noted_positions_go_with_the_next_ping_until_they_are_accepted() -> None:
    pair = consuming(auto_commit=True)
    pair.step(PositionsNoted((DONE,)))
    assert pinged(pair) == (DONE,)
    pair.answer(Ping, PingResponse(member_epoch=1))
    assert pinged(pair) == (DONE,)
    pair.answer(Ping, PingResponse(member_epoch=1, accepted=1))
    assert pinged(pair) == ()


def test_what_went_with_a_ping_is_shown_by_the_assignment_once_it_is_accepted() -> None:
    pair = consuming(auto_commit=True)
    pair.step(PositionsNoted((DONE,)))
    assert (pinged(pair), positions(pair)) == ((DONE,), [0, 0])
    pair.answer(Ping, PingResponse(member_epoch=1, accepted=1))
    assert positions(pair) == [7, 0]


def test_positions_of_more_partitions_than_a_ping_names_all_have_their_turn() -> None:
    """Where all of them move on between two pings, each ping named the first ones again."""
    pair = consuming(auto_commit=True)
    pair.push(start_fetcher(*range(5_000)))
    committed: set[int] = set()
    sizes = []
    for offset in (7, 8, 9, 10):
        pair.step(PositionsNoted(tuple(OffsetToCommit("t", n, offset, 10) for n in range(5_000))))
        told = pinged(pair)
        pair.answer(Ping, PingResponse(member_epoch=1, accepted=len(told)))
        sizes.append(len(told))
        committed.update(each.partition for each in told)
    assert len(committed) == 5_000
    assert sizes == [2_000, 2_000, 2_000, 2_000]


def test_refused_position_is_not_sent_again() -> None:
    pair = consuming(auto_commit=True)
    pair.step(PositionsNoted((DONE,)))
    pinged(pair)
    back = PartitionResult("t", 0, ErrorCode.INVALID_REQUEST, "offset 7 is before the committed offset 9")
    pair.answer(Ping, PingResponse(member_epoch=1, refused=(back,)))
    assert pinged(pair) == ()


def test_positions_stay_with_the_member_without_auto_commit() -> None:
    pair = consuming()
    pair.step(PositionsNoted((DONE,)))
    assert pinged(pair) == ()


def test_positions_of_an_earlier_grant_are_not_committed() -> None:
    pair = consuming(auto_commit=True)
    pair.step(PositionsNoted((DONE,)))
    pair.come_back(start_fetcher(0, epoch=11))
    assert pinged(pair) == ()


# ---- letting go -----------------------------------------------------------------------------------------------------


def test_partition_asked_back_is_kept_until_its_user_lets_go_and_its_final_offset_is_said() -> None:
    pair = consuming()
    pair.push(stop_fetcher(0))
    assert [part.is_stopping for part in pair.member.assignment.partitions] == [True, False]
    assert pair.count(FetcherStopped) == 0
    final = FinalOffset("t", 0, 10, 7)
    pair.step(ReleaseAsked((final, FinalOffset("t", 1, 9, 3))))
    assert pair.take(FetcherStopped).partitions == (final,)
    assert owned(pair) == [1]


def test_final_offset_lost_with_the_connection_can_be_said_again() -> None:
    pair = consuming()
    pair.push(stop_fetcher(0))
    pair.step(ReleaseAsked((FinalOffset("t", 0, 10, 7),)))
    pair.come_back(start_fetcher(0, 1), stop_fetcher(0))
    assert owned(pair) == [0, 1]
    pair.step(ReleaseAsked((FinalOffset("t", 0, 10, 7),)))
    assert pair.take(FetcherStopped).partitions == (FinalOffset("t", 0, 10, 7),)


def test_release_while_the_coordinator_is_away_changes_nothing() -> None:
    pair = consuming()
    pair.lose()
    pair.step(ReleaseAsked((FinalOffset("t", 0, 10, 7),)))
    assert owned(pair) == [0, 1]


def test_thousands_of_releases_are_cut_into_requests() -> None:
    pair = consuming()
    pair.push(start_fetcher(*range(5_000)), stop_fetcher(*range(5_000)))
    pair.step(ReleaseAsked(tuple(FinalOffset("t", number, 10) for number in range(5_000))))
    sizes = []
    while pair.count(FetcherStopped):
        sizes.append(len(pair.answer(FetcherStopped, FetcherStoppedResponse()).partitions))
    assert sizes == [2_000, 2_000, 1_000]


def test_final_offsets_go_with_the_leave() -> None:
    pair = consuming()
    pair.step(CallMade(9, LeaveCall((FinalOffset("t", 0, 10, 7),))))
    assert pair.answer(LeaveGroup, LeaveGroupResponse()).partitions == (FinalOffset("t", 0, 10, 7),)
    assert pair.member.state is State.CLOSED


# ---- out of range ---------------------------------------------------------------------------------------------------


def test_reported_partition_is_owned_no_more_until_it_is_granted_anew() -> None:
    pair = consuming()
    call = pair.report(LostPosition("t", 0, 10, 0))
    pair.answer(ReportOutOfRange, ReportOutOfRangeResponse((PartitionResult("t", 0),)))
    assert pair.results[call] == (PartitionResult("t", 0),)
    assert (owned(pair), pair.member.assignment.is_complete) == ([1], False)
    pair.push(start_fetcher(0, epoch=11, offset=40))
    assert positions(pair) == [40, 0]


def test_position_out_of_range_is_not_shown_as_a_start_afterwards() -> None:
    pair = consuming()
    pair.report(LostPosition("t", 0, 10, 0))
    pair.answer(ReportOutOfRange, ReportOutOfRangeResponse((PartitionResult("t", 0),)))
    assert [hint.partition for hint in pair.come_back().hints] == [1]


def test_refused_report_leaves_the_partition_with_the_member() -> None:
    pair = consuming()
    refused = PartitionResult("t", 0, ErrorCode.OFFSET_OUT_OF_RANGE, "the group's policy is none")
    call = pair.report(LostPosition("t", 0, 10, 0))
    pair.answer(ReportOutOfRange, ReportOutOfRangeResponse((refused,)))
    assert (pair.results[call], owned(pair)) == ((refused,), [0, 1])


def test_a_report_that_changes_nothing_leaves_the_partition_with_the_member() -> None:
    for result in (
        PartitionResult("t", 0, ErrorCode.OFFSET_NOT_AVAILABLE, "Kafka has it", 5),
        PartitionResult("t", 0, message="Kafka has the group's offset", committed=3),
    ):
        pair = consuming()
        call = pair.report(LostPosition("t", 0, 10, 5))
        pair.answer(ReportOutOfRange, ReportOutOfRangeResponse((result,)))
        assert (pair.results[call], owned(pair)) == ((result,), [0, 1])
        assert 0 in [hint.partition for hint in pair.come_back().hints]


# ---- streams --------------------------------------------------------------------------------------------------------


def test_stream_of_a_partition_can_change_without_a_new_grant() -> None:
    pair = consuming(wants_streams=True, streams=2)

    def grant(stream: int) -> StartFetcher:
        return StartFetcher((StartPartition("t", "id", 0, 10, 0, stream=stream),), True, 1, 1)

    pair.push(grant(1))
    assert [part.stream for part in pair.member.assignment.partitions] == [1, None]
    pair.commit(DONE)
    pair.answer(CommitOffsets, CommitOffsetsResponse(accepted=1))
    pair.push(grant(0))
    assert [(part.stream, part.position) for part in pair.member.assignment.partitions] == [(0, 7), (None, 0)]


# ---- registrations that do not fit into a frame ---------------------------------------------------------------------


def test_claims_and_hints_of_ten_thousand_partitions_are_listed_before_the_registration() -> None:
    claims = tuple(claim(number) for number in range(10_000))
    hints = tuple(StartHint("t", "id", number, 5, from_checkpoint=True) for number in range(10_000))
    pair = MemberPair(claims=claims, checkpoint_hints=hints)
    call = pair.join()
    request = pair.find()
    listed = [pair.answer(ListClaims, ListClaimsResponse()) for _ in range(pair.count(ListClaims))]
    assert (request.claims, request.hints) == ((), ())
    assert tuple(one for part in listed for one in part.claims) == claims
    assert tuple(one for part in listed for one in part.hints) == hints
    assert max(len(part.claims) + len(part.hints) for part in listed) == 2_000
    whole = registered(RegisterConsumer("g", "m1", "i", Subscription(), "", 1, 1, 1, claims=claims))
    pair.answer(RegisterConsumer, whole)
    assert len(pair.results[call].claims) == 10_000


def test_refused_list_of_claims_is_a_refused_registration() -> None:
    pair = MemberPair(claims=tuple(claim(number) for number in range(3_000)))
    call = pair.join()
    pair.find()
    pair.answer(ListClaims, ListClaimsResponse(ErrorCode.INVALID_REQUEST, "more than 2 claims are listed"))
    assert "more than 2 claims are listed" in pair.errors[call]


# ---- who waits, and for how long ------------------------------------------------------------------------------------


def test_a_member_that_keeps_trying_says_why_and_joins_when_its_coordinator_comes() -> None:
    pair = MemberPair(member_settings=settings(keeps_trying=True, join_timeout_ms=1_000))
    call = pair.join()
    while pair.now_ms < 1_500:
        if pair.connection_id is not None:
            pair.lose("Connection refused")
        pair.pass_ms(100)
    assert "could not be joined within 1 s" in pair.errors[call]
    assert (pair.member.fatal, "Connection refused" in str(pair.member.failure)) == (None, True)
    pair.pass_ms(2_000)
    pair.register(start_fetcher(0))
    assert (pair.member.failure, owned(pair)) == (None, [0])


def test_a_call_has_its_own_time() -> None:
    pair = consuming()
    pair.step(CallMade(7, CommitCall((DONE,)), timeout_ms=300))
    pair.pass_ms(299)
    assert 7 not in pair.errors
    pair.pass_ms(1)
    assert "has not answered for 0.3 s" in pair.errors[7]


def test_a_member_whose_user_does_not_come_back_leaves_with_what_is_done() -> None:
    pair = consuming(max_poll_interval_ms=60_000, auto_commit=True)
    pair.step(PositionsNoted((DONE,)))
    answered = 0
    while pair.now_ms < 60_100 and not pair.count(LeaveGroup):
        pair.pass_ms(1_000)
        while pair.count(Ping):
            pair.answer(Ping, lambda ping: PingResponse(member_epoch=1, accepted=0 if not ping.offsets else 1))
            answered += 1
    assert pair.now_ms == 60_000
    left = pair.answer(LeaveGroup, LeaveGroupResponse())
    assert left.partitions == (FinalOffset("t", 0, 10, 7), FinalOffset("t", 1, 10))
    assert pair.member.is_left_alone
    assert isinstance(pair.member.failure, LeftAloneError)
    assert "max_poll_interval_ms" in str(pair.member.failure)


def test_a_member_whose_user_comes_back_in_time_stays() -> None:
    pair = consuming(max_poll_interval_ms=60_000)
    for _ in range(10):
        pair.step(Polled())
        pair.pass_ms(7_000)
        while pair.count(Ping):
            pair.answer(Ping, PingResponse(member_epoch=1))
    assert (pair.now_ms, pair.count(LeaveGroup)) == (70_000, 0)


def test_pings_say_for_how_long_the_user_has_asked_for_nothing() -> None:
    pair = consuming()
    pair.step(Polled())
    polled_ms = pair.now_ms
    said = []
    for _ in range(12):
        pair.pass_ms(1_000)
        while pair.count(Ping):
            said.append(pair.answer(Ping, PingResponse(member_epoch=1)).unpolled_ms)
    assert said == sorted(said)
    assert 5_000 <= said[-1] <= pair.now_ms - polled_ms
    assert Idleness(None).lasts_ms(9) is None, "a query is never polled"


def test_another_subscription_is_registered_and_what_belongs_to_both_is_held_meanwhile() -> None:
    pair = consuming()
    pair.step(Resubscribed(settings(lets_go_itself=False, topics=("t", "u"))))
    assert owned(pair) == [0, 1]
    asked = pair.answer(RegisterConsumer, lambda request: registered(request, held=2))
    assert (asked.subscription, asked.member_id, asked.is_rejoining) == (Subscription(topics=("t", "u")), "m1", True)
    assert (owned(pair), len(pair.connects)) == ([0, 1], 1)
    pair.push(start_fetcher(0, 2))
    assert owned(pair) == [0, 2]


def test_another_subscription_of_a_member_that_shows_much_is_registered_on_another_connection() -> None:
    pair = consuming()
    with portions_of(1):
        pair.step(Resubscribed(settings(lets_go_itself=False, topics=("t", "u"))))
        assert (pair.count(ListClaims), pair.count(RegisterConsumer)) == (0, 0)
        assert owned(pair) == [0, 1]
        pair.pass_ms(1_000)
        assert len(pair.connects) == 2
