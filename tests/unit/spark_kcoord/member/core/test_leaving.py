"""What a member says when it leaves: all that it is done with, however much that is and whatever is on its way."""

from coordinator.protocol.columns import OffsetToCommit
from coordinator.protocol.ids import MAX_NAMED
from coordinator.protocol.messages import (
    FetcherStarted,
    FetcherStartedResponse,
    FetcherStopped,
    FetcherStoppedResponse,
    LeaveGroup,
    LeaveGroupResponse,
    Ping,
    PingResponse,
    Request,
)
from coordinator.protocol.parts import FinalOffset
from spark_kcoord.member.core.events import CallMade, LeaveCall, PositionsNoted, ReleaseAsked
from spark_kcoord.member.core.session.states import State
from tests.helpers.member_pair import MemberPair, settings, start_fetcher

MANY = 2 * MAX_NAMED + 500
LEAVE = 77


def final(partition: int) -> FinalOffset:
    return FinalOffset("t", partition, 10, 5)


def consuming(partitions: int, **changes: object) -> MemberPair:
    pair = MemberPair(member_settings=settings(lets_go_itself=False, **changes))
    pair.joined(start_fetcher(*range(partitions)))
    while pair.count(FetcherStarted):
        pair.answer(FetcherStarted, FetcherStartedResponse())
    return pair


def finals_said(pair: MemberPair) -> list[FinalOffset]:
    """Return the final offsets of all that waits to be answered; nothing may come behind the leave."""
    said: list[Request] = [waiting.request for waiting in pair.waiting]
    assert isinstance(said[-1], LeaveGroup)
    assert [each for each in said if each.named() > MAX_NAMED] == []
    return [part for each in said if isinstance(each, FetcherStopped | LeaveGroup) for part in each.partitions]


def test_what_was_let_go_of_is_said_before_the_leave_also_while_an_earlier_release_is_out() -> None:
    pair = consuming(3)
    for partition in (0, 1):
        pair.step(ReleaseAsked((final(partition),)))
    assert pair.count(FetcherStopped) == 1  # the second waits for the answer to the first
    pair.step(CallMade(LEAVE, LeaveCall((final(2),))))
    assert finals_said(pair) == [final(0), final(1), final(2)]


def test_a_leave_with_very_many_partitions_says_the_final_offset_of_each() -> None:
    pair = consuming(MANY)
    finals = tuple(map(final, range(MANY)))
    pair.step(CallMade(LEAVE, LeaveCall(finals)))
    assert finals_said(pair) == list(finals)


def test_a_leave_with_very_many_partitions_whose_connection_is_lost_says_all_of_them_again() -> None:
    pair = consuming(MANY)
    finals = tuple(map(final, range(MANY)))
    pair.step(CallMade(LEAVE, LeaveCall(finals)))
    pair.answer(FetcherStopped, FetcherStoppedResponse())
    assert pair.come_back().is_leaving
    assert finals_said(pair) == list(finals)
    pair.answer(LeaveGroup, LeaveGroupResponse())
    assert (pair.results, pair.member.state) == ({1: pair.results[1], LEAVE: None}, State.CLOSED)


def test_a_member_of_very_many_partitions_that_is_left_alone_leaves_with_what_is_done() -> None:
    pair = consuming(MANY, max_poll_interval_ms=5_000, auto_commit=True)
    done = tuple(OffsetToCommit("t", partition, 5, 10) for partition in range(MANY))
    pair.step(PositionsNoted(done))
    while not pair.count(LeaveGroup):
        pair.pass_ms(1_000)
        while pair.count(Ping):
            pair.answer(Ping, PingResponse(member_epoch=1))
    assert sorted(finals_said(pair), key=lambda part: part.partition) == list(map(final, range(MANY)))
