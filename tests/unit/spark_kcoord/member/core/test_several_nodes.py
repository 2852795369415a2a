"""A member that knows several nodes: it leaves one that is gone at once, follows its leader, and keeps what it has."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    ErrorResponse,
    FetcherStarted,
    FetcherStartedResponse,
    FetcherStopped,
    FetcherTaken,
    FindCoordinator,
    FindCoordinatorResponse,
    Ping,
    Push,
    RegisterConsumer,
    ReportOutOfRange,
)
from coordinator.protocol.parts import FinalOffset, LostPosition, NodeAddress, OwnedPartition
from spark_kcoord.member.core.effects import Connect
from spark_kcoord.member.core.events import ReleaseAsked
from spark_kcoord.member.core.session.states import State
from tests.helpers.member_pair import (
    ADDRESS,
    MemberPair,
    every_byte,
    found,
    registered,
    settings,
    start_fetcher,
    stop_fetcher,
    whole,
)

C2, C3 = ("c2", 7601), ("c3", 7602)
THREE = (ADDRESS, C2, C3)


def pair_of(*coordinators: tuple[str, int], cut: Callable[[bytes], list[bytes]] = whole) -> MemberPair:  # type: ignore[assignment]
    return MemberPair(cut, settings(coordinators=coordinators or THREE))


def hosts(pair: MemberPair) -> list[str]:
    return [connect.host for connect in pair.connects]


def enter(pair: MemberPair, leader_epoch: int, *pushes: Push, held: int | None = None) -> MemberPair:
    """Have the node that is being connected to be the coordinator in an epoch."""
    pair.accept()
    here = pair.connects[-1]
    others = [each for each in THREE if each != (here.host, here.port)]
    pair.answer(FindCoordinator, found((here.host, here.port), *others, leader_epoch=leader_epoch))
    pair.answer(RegisterConsumer, lambda request: registered(request, held=held))
    tell(pair, *pushes)
    return pair


def tell(pair: MemberPair, *pushes: Push) -> None:
    """Push, and answer what the member says of it."""
    pair.push(*pushes)
    while pair.count(FetcherStarted):
        pair.answer(FetcherStarted, FetcherStartedResponse())


def until_pinged(pair: MemberPair) -> None:
    for _ in range(1_000):
        if pair.count(Ping):
            return
        pair.pass_ms(10)
    raise AssertionError("no ping came")


def joined(leader_epoch: int = 4, *pushes: Push, cut: Callable[[bytes], list[bytes]] = whole) -> MemberPair:  # type: ignore[assignment]
    pair = pair_of(cut=cut)
    pair.join()
    return enter(pair, leader_epoch, *pushes)


def owned(pair: MemberPair) -> list[int]:
    return [part.partition for part in pair.member.assignment.partitions]


# ---- to leave a leader ----------------------------------------------------------------------------------------------


def test_first_question_names_no_epoch_and_later_ones_that_of_the_leader_that_was_lost() -> None:
    pair = pair_of()
    pair.join()
    pair.accept()
    assert pair.take(FindCoordinator) == FindCoordinator("g")
    pair.answer(FindCoordinator, found(*THREE, leader_epoch=4))
    pair.answer(RegisterConsumer, registered)
    pair.lose()
    pair.pass_ms(50)
    pair.accept()
    assert pair.take(FindCoordinator) == FindCoordinator("g", 4)


def test_member_whose_leader_is_lost_asks_another_node_within_50_ms() -> None:
    pair = joined()
    pair.lose()
    assert pair.wake_ms == pair.now_ms + 25, "the jitter of these tests is one half"
    pair.pass_ms(25)
    assert hosts(pair) == ["c1", "c2"]


def test_member_that_knows_one_node_goes_back_to_it_after_the_backoff_of_old() -> None:
    pair = MemberPair().joined(start_fetcher(0))
    pair.lose()
    assert pair.wake_ms == pair.now_ms + 37
    pair.pass_ms(37)
    assert hosts(pair) == ["c1", "c1"]


def test_backoff_goes_on_from_its_smallest_where_the_other_nodes_are_gone_too() -> None:
    pair = joined()
    waits = []
    for _ in range(5):
        pair.lose("Connection refused")
        assert pair.wake_ms is not None
        waits.append(pair.wake_ms - pair.now_ms)
        pair.pass_ms(waits[-1])
    assert waits == [25, 37, 75, 150, 300]
    assert hosts(pair) == ["c1", "c2", "c3", "c1", "c2", "c3"]


def test_member_keeps_what_it_has_while_its_coordinator_moves() -> None:
    pair = joined(4, start_fetcher(0, 1))
    pair.lose()
    pair.pass_ms(25)
    assert owned(pair) == [0, 1]
    enter(pair, 5, held=2)
    assert owned(pair) == [0, 1]
    pair.push(start_fetcher(0, 1))
    assert owned(pair) == [0, 1]
    assert pair.member.assignment.is_complete


# ---- silence --------------------------------------------------------------------------------------------------------


def test_node_that_owes_an_answer_for_a_fifth_of_the_session_is_left_for_another() -> None:
    pair = joined(4, start_fetcher(0))
    pair.pass_ms(3_333)
    assert pair.count(Ping) == 1, "a ping is out"
    asked_ms = pair.now_ms
    pair.pass_ms(2_100)
    assert pair.member.state is not State.JOINED
    assert hosts(pair) == ["c1", "c2"]
    assert pair.now_ms - asked_ms < 10_000 * 2 // 3
    assert owned(pair) == [0], "its lease goes on"


def test_short_session_leaves_a_node_at_least_a_second() -> None:
    pair = MemberPair(member_settings=settings(coordinators=THREE, session_timeout_ms=3_000))
    pair.join()
    pair.accept()
    pair.answer(FindCoordinator, found(*THREE, leader_epoch=4))

    def short(request: RegisterConsumer) -> object:
        return registered(request).__class__(
            member_id="m1", session_timeout_ms=3_000, ping_interval_ms=500, claims=registered(request).claims
        )

    pair.answer(RegisterConsumer, short)  # type: ignore[arg-type]
    until_pinged(pair)
    pair.pass_ms(950)
    assert pair.member.state is State.JOINED
    pair.pass_ms(60)
    assert pair.member.state is not State.JOINED


def test_the_only_node_that_is_known_has_two_thirds_of_the_session_as_before() -> None:
    pair = MemberPair().joined(start_fetcher(0))
    pair.pass_ms(6_600)
    assert pair.member.state is State.JOINED
    pair.pass_ms(100)
    assert pair.member.state is not State.JOINED


def test_report_that_kafka_is_asked_about_may_take_its_time() -> None:
    pair = joined(4, start_fetcher(0))
    pair.report(LostPosition("t", 0, 10, 99))
    assert pair.count(ReportOutOfRange) == 1
    pair.pass_ms(3_000)
    assert pair.member.state is State.JOINED


def test_whatever_a_node_says_shows_that_it_lives() -> None:
    pair = joined(4, start_fetcher(0))
    pair.pass_ms(3_333)
    for partition in (1, 2, 3):
        pair.pass_ms(1_500)
        pair.push(start_fetcher(partition))
        pair.waiting = [said for said in pair.waiting if isinstance(said.request, Ping)]
    assert pair.member.state is State.JOINED


def silence_ms(pair: MemberPair) -> int:
    """Return for how long a ping goes unanswered until the member gives its coordinator up."""
    until_pinged(pair)
    begin_ms = pair.now_ms
    while pair.member.state is State.JOINED:
        pair.pass_ms(10)
        assert pair.now_ms - begin_ms < 10_000
    return pair.now_ms - begin_ms


def test_slow_leader_that_is_found_again_has_more_time_and_another_leader_the_first() -> None:
    pair = joined(4, start_fetcher(0))
    first = silence_ms(pair)
    pair.pass_ms(60)
    enter(pair, 4, start_fetcher(0), held=1)
    again = silence_ms(pair)
    pair.pass_ms(60)
    enter(pair, 5, start_fetcher(0), held=1)
    assert 2_000 <= first <= 2_020
    assert 3_300 <= again <= 3_500, "two thirds of the session since it was heard last are over before four seconds"
    assert 2_000 <= silence_ms(pair) <= 2_020


# ---- who leads ------------------------------------------------------------------------------------------------------


def test_node_that_names_the_leader_of_an_earlier_epoch_is_passed_over() -> None:
    pair = joined(5, start_fetcher(0))
    pair.lose()
    pair.pass_ms(25)
    pair.accept()
    pair.answer(FindCoordinator, found(C2, ADDRESS, C3, leader_epoch=4))
    assert pair.count(RegisterConsumer) == 0
    pair.pass_ms(40)
    assert hosts(pair) == ["c1", "c2", "c3"]
    enter(pair, 6, start_fetcher(0), held=1)
    assert pair.member.state is State.JOINED


def test_epochs_that_begin_anew_are_believed_when_nobody_names_the_later_one_for_a_session() -> None:
    pair = joined(5, start_fetcher(0))
    pair.lose()
    refused = 0
    for _ in range(60):
        pair.pass_ms(1_000)
        if pair.connection_id is None or pair.session is not None:
            continue
        pair.accept()
        here = pair.connects[-1]
        pair.answer(FindCoordinator, found((here.host, here.port), leader_epoch=1))
        if pair.count(RegisterConsumer):
            break
        refused += 1
    assert pair.count(RegisterConsumer) == 1
    assert 5 <= refused <= 12
    pair.answer(RegisterConsumer, registered)
    pair.lose()
    pair.pass_ms(60)
    pair.accept()
    assert pair.take(FindCoordinator) == FindCoordinator("g", 1)


def test_the_only_node_is_believed_whatever_epoch_it_names() -> None:
    pair = MemberPair()
    pair.join()
    pair.accept()
    pair.answer(FindCoordinator, found(leader_epoch=7))
    pair.answer(RegisterConsumer, registered)
    pair.lose()
    pair.pass_ms(50)
    pair.accept()
    pair.answer(FindCoordinator, found(leader_epoch=1))
    assert pair.count(RegisterConsumer) == 1


def test_nodes_that_a_refusal_names_are_tried_too() -> None:
    pair = pair_of(ADDRESS)
    pair.join()
    pair.accept()
    nodes = tuple(NodeAddress(number, *address) for number, address in enumerate(THREE))
    refusal = FindCoordinatorResponse(ErrorCode.COORDINATOR_NOT_AVAILABLE, "no leader is known", nodes=nodes)
    pair.answer(FindCoordinator, refusal)
    pair.pass_ms(40)
    assert hosts(pair) == ["c1", "c2"]


@pytest.mark.parametrize(
    ("code", "following"),
    [
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "c1"),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, "c2"),
        (ErrorCode.NOT_COORDINATOR, "c2"),
    ],
)
def test_registration_that_may_pass_is_tried_again_with_the_epoch_of_who_refused(
    code: ErrorCode, following: str
) -> None:
    pair = pair_of()
    pair.join()
    pair.accept()
    pair.answer(FindCoordinator, found(*THREE, leader_epoch=4))
    pair.answer(RegisterConsumer, ErrorResponse(code, "later"))
    pair.pass_ms(50)
    assert hosts(pair) == ["c1", following]
    pair.accept()
    assert pair.take(FindCoordinator) == FindCoordinator("g", 4)


def test_leader_at_a_dead_address_is_asked_for_again_elsewhere() -> None:
    pair = pair_of()
    pair.join()
    pair.accept()
    pair.answer(FindCoordinator, found(("gone", 1), ADDRESS, C2, leader_epoch=4))
    assert pair.effects[-1] == Connect(2, "gone", 1, 3_000) or isinstance(pair.connects[-1], Connect)
    assert hosts(pair) == ["c1", "gone"]
    pair.lose("Connection refused")
    pair.pass_ms(50)
    pair.accept()
    assert pair.take(FindCoordinator) == FindCoordinator("g", 4)


# ---- what follows a registration ------------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", [whole, every_byte])
def test_what_is_not_among_what_follows_a_registration_is_owned_no_more(cut: Callable[[bytes], list[bytes]]) -> None:
    pair = joined(4, start_fetcher(0, 1, 2), cut=cut)
    pair.lose()
    pair.pass_ms(25)
    enter(pair, 5, held=2)
    pair.push(start_fetcher(0, complete=False))
    assert owned(pair) == [0, 1, 2]
    pair.push(start_fetcher(3))
    assert owned(pair) == [0, 3]


def test_coordinator_that_says_how_much_follows_is_believed_whatever_it_grants_or_takes_between() -> None:
    pair = joined(4, start_fetcher(0, 1, 2, 3))
    pair.lose()
    pair.pass_ms(25)
    enter(pair, 5, held=4)
    pair.push(replace(start_fetcher(0, complete=False), to_follow=3))
    pair.push(replace(start_fetcher(7, 8, 9, complete=False), to_follow=3))
    assert owned(pair) == [0, 1, 2, 3, 7, 8, 9]
    pair.push(FetcherTaken((OwnedPartition("t", 3, 10),), "late"))
    assert owned(pair) == [0, 1, 2, 7, 8, 9]
    pair.push(replace(start_fetcher(1), to_follow=0))
    assert owned(pair) == [0, 1, 7, 8, 9]


def test_member_that_has_nothing_any_more_owns_nothing_at_once() -> None:
    pair = joined(4, start_fetcher(0))
    pair.lose()
    pair.pass_ms(25)
    enter(pair, 5, held=0)
    assert owned(pair) == []


def test_coordinator_that_does_not_say_how_much_follows_ends_every_grant() -> None:
    pair = joined(4, start_fetcher(0))
    pair.lose()
    pair.pass_ms(25)
    enter(pair, 5)
    assert owned(pair) == []


def test_partition_that_follows_under_another_epoch_starts_afresh() -> None:
    pair = joined(4, start_fetcher(0, epoch=10))
    pair.lose()
    pair.pass_ms(25)
    enter(pair, 5, start_fetcher(0, epoch=30, offset=70), held=1)
    (part,) = pair.member.assignment.partitions
    assert (part.owner_epoch, part.position) == (30, 70)


def test_connection_lost_before_all_has_followed_leaves_what_was_told() -> None:
    pair = joined(4, start_fetcher(0, 1))
    pair.lose()
    pair.pass_ms(25)
    enter(pair, 5, start_fetcher(1, complete=False), held=2)
    pair.lose()
    assert owned(pair) == [1]


def test_stop_of_old_counts_only_when_it_is_asked_for_again() -> None:
    pair = joined(4, start_fetcher(0, 1), stop_fetcher())
    pair.advance((), ())
    pair.lose()
    pair.pass_ms(25)
    enter(pair, 5, held=2)
    assert pair.count(FetcherStopped) == 0
    pair.push(start_fetcher(0, 1), stop_fetcher(0))
    assert pair.take(FetcherStopped) == FetcherStopped((FinalOffset("t", 0, 10),))


def test_nothing_is_given_back_that_has_not_followed_yet() -> None:
    pair = MemberPair(member_settings=settings(coordinators=THREE, lets_go_itself=False))
    pair.join()
    enter(pair, 4, start_fetcher(0), stop_fetcher(0))
    pair.lose()
    pair.pass_ms(25)
    enter(pair, 5, held=1)
    pair.step(ReleaseAsked((FinalOffset("t", 0, 10, 5),)))
    assert pair.count(FetcherStopped) == 0, "it could not be told from a grant that is on its way"
    pair.push(start_fetcher(0), stop_fetcher(0))
    pair.step(ReleaseAsked((FinalOffset("t", 0, 10, 5),)))
    assert pair.take(FetcherStopped) == FetcherStopped((FinalOffset("t", 0, 10, 5),))
    assert owned(pair) == []


def test_member_that_each_node_lets_in_and_leaves_unanswered_waits_longer_each_time() -> None:
    """As where a call of it meets a bug, which costs the coordinator a load of the shard each time that it is made."""
    pair = joined()
    waits = []
    for _ in range(8):
        pair.lose()
        assert pair.wake_ms is not None
        waits.append(pair.wake_ms - pair.now_ms)
        pair.pass_ms(waits[-1])
        enter(pair, 4)
    assert waits == [25, 37, 75, 150, 300, 600, 750, 750]


def test_member_that_was_served_meanwhile_goes_elsewhere_at_once_again() -> None:
    pair = joined(4, start_fetcher(0))
    for _ in range(3):
        pair.lose()
        assert pair.wake_ms == pair.now_ms + 25
        pair.pass_ms(25)
        enter(pair, 4, start_fetcher(0))
