"""What a member lets go of by itself: claims that are only offered; and what is taken from it for being late."""

from coordinator.protocol.claim_columns import claims_in_columns
from coordinator.protocol.messages import Advance, ConfirmClaims, FetcherStopped, FetcherStoppedResponse, FetcherTaken
from coordinator.protocol.parts import Claim, ClaimState, FinalOffset, OwnedPartition
from spark_kcoord.member.core.effects import NoticeKind
from tests.helpers.member_pair import MemberPair, accepted, claim, confirmed, settings, start_fetcher, stop_fetcher


def taken(*partitions: int, epoch: int = 10) -> FetcherTaken:
    return FetcherTaken(tuple(OwnedPartition("t", partition, epoch) for partition in partitions), "not let go in time")


def offered(*claims: Claim) -> MemberPair:
    """Return a member to which these claims are offered; its micro-batch is not planned yet."""
    pair = MemberPair().joined(start_fetcher(*(each.partition for each in claims)))
    pair.advance((), claims)
    pair.answer(Advance, accepted)
    return pair


def reading(*claims: Claim) -> MemberPair:
    """Return a member that reads these claims."""
    pair = MemberPair().joined(start_fetcher(*(each.partition for each in claims)))
    pair.read(*claims)
    return pair


def owned(pair: MemberPair) -> list[int]:
    return [part.partition for part in pair.member.assignment.partitions]


def stopped(*partitions: int) -> FetcherStopped:
    return FetcherStopped(tuple(FinalOffset("t", partition, 10) for partition in partitions))


# ---- claims that are only offered -----------------------------------------------------------------------------------


def test_offered_claim_that_is_wanted_back_is_let_go_without_a_trigger() -> None:
    pair = offered(claim(0), claim(1))
    pair.push(stop_fetcher(1))
    assert pair.take(FetcherStopped) == stopped(1)
    assert owned(pair) == [0]
    assert pair.come_back(start_fetcher(0)).claims == (claim(0),)


def test_offered_claim_of_a_member_for_which_others_plan_is_not_let_go() -> None:
    pair = MemberPair(member_settings=settings(plans_itself=False)).joined(start_fetcher(0))
    pair.advance((), (claim(),))
    pair.answer(Advance, accepted)
    pair.push(stop_fetcher(0))
    assert pair.count(FetcherStopped) == 0


def test_claim_that_is_being_read_waits_for_the_trigger_that_finishes_it() -> None:
    pair = reading(claim(0), claim(1))
    pair.push(stop_fetcher(1))
    assert pair.count(FetcherStopped) == 0
    pair.advance((claim(0), claim(1)), ())
    assert pair.take(Advance).released == (FinalOffset("t", 1, 10),)


def test_offered_claim_whose_plan_is_on_its_way_waits_for_the_answer() -> None:
    pair = offered(claim())
    pair.confirm(claim())
    pair.push(stop_fetcher(0))
    assert pair.count(FetcherStopped) == 0
    pair.answer(ConfirmClaims, confirmed)
    assert pair.count(FetcherStopped) == 0
    assert owned(pair) == [0]


def test_offered_claim_that_was_found_closed_is_let_go_with_the_answer() -> None:
    pair = offered(claim())
    pair.confirm(claim())
    pair.push(stop_fetcher(0))
    pair.answer(ConfirmClaims, lambda request: confirmed(request, ClaimState.CLOSED))
    assert pair.take(FetcherStopped) == stopped(0)


def test_plan_of_a_claim_that_was_let_go_asks_after_the_release_is_said() -> None:
    pair = offered(claim(0), claim(1))
    pair.push(stop_fetcher(0), stop_fetcher(1))
    assert pair.count(FetcherStopped) == 1  # the second waits for the answer to the first
    pair.confirm(claim(0), claim(1))
    said = [waiting.request for waiting in pair.waiting][-3:]
    assert said == [stopped(0), stopped(1), ConfirmClaims(claims_in_columns((claim(0), claim(1))))]
    pair.answer(FetcherStopped, FetcherStoppedResponse())
    assert pair.count(FetcherStopped) == 1


# ---- what is taken --------------------------------------------------------------------------------------------------


def test_what_is_taken_is_owned_no_more_and_its_claim_is_forgotten() -> None:
    pair = reading(claim(0), claim(1))
    pair.push(stop_fetcher(1), taken(1))
    assert (owned(pair), pair.member.assignment.is_complete) == ([0], False)
    assert pair.count(FetcherStopped) == 0
    assert pair.notice_of(NoticeKind.TAKEN) == "t-1: not let go in time"
    pair.push(start_fetcher())
    assert pair.member.assignment.is_complete
    assert pair.come_back(start_fetcher(0)).claims == (claim(0),)


def test_what_was_granted_anew_is_not_taken_with_what_was_before() -> None:
    pair = MemberPair().joined(start_fetcher(0, epoch=12))
    pair.push(taken(0))
    assert owned(pair) == [0]


def test_finished_claim_of_what_was_taken_is_still_asked_about_and_refuses_nothing() -> None:
    pair = reading(claim(0), claim(1))
    pair.push(taken(1))
    pair.advance((claim(0), claim(1)), (claim(0, start=5, until=9),))
    assert pair.answer(Advance, accepted).finished == claims_in_columns((claim(0), claim(1)))
    assert [(part.partition, part.position) for part in pair.member.assignment.partitions] == [(0, 9)]
