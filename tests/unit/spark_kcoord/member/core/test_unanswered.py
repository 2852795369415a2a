"""A member whose coordinator hears and does not answer: what is out is bounded, and the member stays what it is."""

from msgspec.structs import replace

from coordinator.protocol.columns import OffsetToCommit
from coordinator.protocol.messages import (
    CommitOffsets,
    CommitOffsetsResponse,
    Ping,
    PingResponse,
    Probe,
    RegisterConsumer,
)
from spark_kcoord.member.core.events import CallMade, CommitCall
from spark_kcoord.member.core.session.conversation import MOST_UNANSWERED
from spark_kcoord.member.core.session.states import State
from tests.helpers.member_pair import ADDRESS, MemberPair, registered, settings, start_fetcher

INTERVAL_MS = 100


def often_pinging(**changes: object) -> MemberPair:
    """Return a member that pings a hundred times in a session, and has been answered until now."""
    pair = MemberPair(member_settings=settings(ping_interval_ms=INTERVAL_MS, **changes))
    pair.join()
    pair.find()
    pair.answer(RegisterConsumer, lambda request: replace(registered(request), ping_interval_ms=INTERVAL_MS))
    for _ in range(50):
        pair.pass_ms(INTERVAL_MS)
        answer_pings(pair)
    return pair


def answer_pings(pair: MemberPair) -> int:
    answered = 0
    while pair.count(Ping):
        pair.answer(Ping, PingResponse(member_epoch=1))
        answered += 1
    return answered


def test_pings_that_nobody_answers_are_bounded_and_go_on_with_an_answer() -> None:
    pair = often_pinging()
    pair.pass_ms(6_000)
    assert (pair.count(Ping), pair.member.state) == (MOST_UNANSWERED, State.JOINED)
    answer_pings(pair)
    pair.pass_ms(10 * INTERVAL_MS)
    assert 9 <= pair.count(Ping) <= 12


def test_a_coordinator_that_does_not_answer_pings_is_given_up_as_any_other() -> None:
    pair = often_pinging()
    pair.pass_ms(7_000)
    assert (pair.member.state, pair.member.fatal) == (State.CONNECTING, None)


def test_probes_of_a_coordinator_that_answers_nothing_are_answered_within_bounds() -> None:
    pair = often_pinging()
    pair.push(*[Probe()] * 200)
    assert (pair.count(Ping), pair.member.state) == (MOST_UNANSWERED, State.JOINED)


def test_calls_that_gave_up_count_until_they_are_answered_and_those_behind_them_wait() -> None:
    pair = often_pinging()
    for call_id in range(1_000, 1_100):
        offset = OffsetToCommit("t", 0, call_id, 10)
        pair.step(CallMade(call_id, CommitCall((offset,)), timeout_ms=20))
        pair.pass_ms(20)
    assert pair.count(CommitOffsets) + pair.count(Ping) == MOST_UNANSWERED
    assert pair.member.state is State.JOINED
    pair.step(CallMade(1_100, CommitCall((OffsetToCommit("t", 0, 2_000, 10),))))
    while pair.count(CommitOffsets):
        pair.answer(CommitOffsets, CommitOffsetsResponse(accepted=1))
    assert 1_100 in pair.results


def test_a_coordinator_whose_long_push_comes_slowly_is_not_silent() -> None:
    pair = MemberPair(member_settings=settings(coordinators=(ADDRESS, ("c2", 7601)))).joined()
    while not pair.count(Ping):
        pair.pass_ms(100)
    assert pair.session is not None
    data = pair.session.send_push(start_fetcher(*range(1_000)))
    for begin in range(0, len(data), len(data) // 5):
        pair.pass_ms(1_000)
        pair.say(data[begin : begin + len(data) // 5])
    assert (pair.member.state, len(pair.member.assignment.partitions)) == (State.JOINED, 1_000)
