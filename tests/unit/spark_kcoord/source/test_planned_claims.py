"""The questions about a batch's claims from outside of its member: planning marks them, the end of the block asks."""

from collections.abc import Callable

import pytest

from coordinator.protocol.claim_columns import claims_in_columns, claims_of, count_of, statuses_of
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import BeginClaims, BeginClaimsResponse, Request
from coordinator.protocol.parts import Claim, ClaimState, ClaimStatus, ClaimStatuses
from spark_kcoord.errors import KcoordError
from spark_kcoord.member.core.held.portions import MAX_ITEMS
from spark_kcoord.options.source_options import SourceOptions, parse_options
from spark_kcoord.source.group_batch.planned_claims import begin_to_read, not_planned
from tests.helpers.fake_member import claim

OPTIONS = parse_options(
    {"kcoord.bootstrap.servers": "c1:7600", "kcoord.group.id": "g", "subscribe": "t"}, "group batch"
)
Answer = Callable[[SourceOptions, Request], BeginClaimsResponse]


def answering(states: dict[int, ClaimState], asked: list[BeginClaims] | None = None) -> Answer:
    def answer(options: SourceOptions, request: Request) -> BeginClaimsResponse:
        assert isinstance(request, BeginClaims)
        if asked is not None:
            asked.append(request)
        named = tuple(claims_of(request.claims))
        statuses = [
            ClaimStatus(c.topic, c.partition, c.owner_epoch, states[c.partition], "it was committed", 9) for c in named
        ]
        return BeginClaimsResponse(claims=statuses_of(statuses, named))

    return answer


def test_planning_marks_the_claims_of_the_member() -> None:
    asked: list[BeginClaims] = []
    claims = [claim(0, 0, 5), claim(1, 2, 9)]
    begin_to_read(OPTIONS, "m-1", claims, ask=answering(dict.fromkeys(range(2), ClaimState.RUNNING), asked))
    assert asked == [BeginClaims("g", "m-1", claims_in_columns(claims))]


def test_planning_of_a_batch_whose_block_is_over_is_refused_with_what_to_do() -> None:
    answer = answering({0: ClaimState.RUNNING, 1: ClaimState.CLOSED})
    with pytest.raises(KcoordError, match=r"1 of 2 ranges .*t-1 \[2, 9\) \(it was committed; .* is 9\)") as refused:
        begin_to_read(OPTIONS, "m-1", [claim(0, 0, 5), claim(1, 2, 9)], ask=answer)
    assert "read the rows inside of it" in str(refused.value)


def test_end_of_the_block_asks_and_marks_nothing() -> None:
    asked: list[BeginClaims] = []
    claims = [claim(0, 0, 5), claim(1, 2, 9), claim(2, 0, 1)]
    states = {0: ClaimState.RUNNING, 1: ClaimState.OFFERED, 2: ClaimState.CLOSED}
    assert not_planned(OPTIONS, "m-1", claims, ask=answering(states, asked)) == (claims[1],)
    assert [request.is_question for request in asked] == [True]


def test_many_claims_are_asked_about_in_several_questions() -> None:
    asked: list[BeginClaims] = []
    claims: list[Claim] = [claim(number, 0, 1) for number in range(MAX_ITEMS + 1)]
    states = dict.fromkeys(range(MAX_ITEMS), ClaimState.RUNNING) | {MAX_ITEMS: ClaimState.OFFERED}
    assert not_planned(OPTIONS, "m-1", claims, ask=answering(states, asked)) == (claims[-1],)
    assert [count_of(request.claims) for request in asked] == [MAX_ITEMS, 1]


def test_refusal_of_the_whole_question_is_told() -> None:
    def refusing(options: SourceOptions, request: Request) -> BeginClaimsResponse:
        return BeginClaimsResponse(error=ErrorCode.GROUP_ID_NOT_FOUND, message="there is no group 'g'")

    with pytest.raises(KcoordError, match="GROUP_ID_NOT_FOUND"):
        begin_to_read(OPTIONS, "m-1", [claim(0, 0, 5)], ask=refusing)


@pytest.mark.parametrize("claims", [ClaimStatuses(), ClaimStatuses(running=1), ClaimStatuses(running=3)])
@pytest.mark.parametrize("ask_about", [begin_to_read, not_planned])
def test_answer_that_does_not_account_for_every_range_is_not_believed(
    claims: ClaimStatuses, ask_about: Callable[..., object]
) -> None:
    with pytest.raises(KcoordError, match="did not say of each of 2 ranges") as refused:
        ask_about(
            OPTIONS,
            "m-1",
            [claim(0, 0, 5), claim(1, 2, 9)],
            ask=lambda options, request: BeginClaimsResponse(claims=claims),
        )
    assert "kcoord --version" in str(refused.value)
