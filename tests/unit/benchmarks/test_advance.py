"""The members of `make bench-advance`: what they say, what they take for an answer, and which bars are missed."""

import pytest

from benchmarks.advance import AT_LEAST, AT_MOST, missed_bars
from benchmarks.advance_members import SparkMember
from benchmarks.advance_start import History
from benchmarks.group_members import RefusedError, Tally
from benchmarks.group_sockets import Sockets
from coordinator.protocol.codec import decode_request, encode_message
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.framing import encode_envelope, encode_hello
from coordinator.protocol.messages import (
    Advance,
    AdvanceResponse,
    ConfirmClaims,
    ConfirmClaimsResponse,
    ErrorResponse,
    LeaveGroup,
    LeaveGroupResponse,
    Push,
    Request,
    Response,
    StartFetcher,
)
from coordinator.protocol.parts import ClaimState, ClaimStatus, ClaimStatuses, Outcomes, PartitionResult, StartPartition
from coordinator.protocol.session import SUPPORTED_VERSIONS


class Wire(Sockets):
    """Keeps what is sent."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []

    def send(self, peer: object, data: bytes) -> None:
        self.sent.append(data)

    def last(self) -> Request:
        return decode_request(self.sent.pop()[8:])


def hear(member: SparkMember, message: Response | Push, correlation_id: int = 1) -> bool:
    return member.receive(encode_envelope(correlation_id, encode_message(message))[4:])


@pytest.fixture
def wire() -> Wire:
    return Wire()


@pytest.fixture
def member(wire: Wire) -> SparkMember:
    """Return a member that was granted three partitions, in any order."""
    member = SparkMember(wire, Tally("g", "t"))
    member.receive(encode_hello(SUPPORTED_VERSIONS)[4:])
    granted = tuple(StartPartition("t", "id", number, 70 + number, 5) for number in (2, 0, 1))
    hear(member, StartFetcher(granted, True, 1, 1), 0)
    member.prepare()
    wire.sent.clear()
    return member


def advance(member: SparkMember) -> Advance:
    request = decode_request(member.next_batch()[8:])
    assert isinstance(request, Advance)
    return request


def test_each_micro_batch_finishes_what_the_one_before_it_claimed(member: SparkMember) -> None:
    first, second, third = advance(member), advance(member), advance(member)

    assert first.finished == ()
    assert second.finished == first.claims
    assert third.finished == second.claims
    (claims,) = second.claims
    assert (claims.topic_id, claims.partitions, claims.owner_epochs) == ("id", (0, 1, 2), (70, 71, 72))
    assert first.claims[0].from_offsets == (5, 5, 5)
    assert claims.from_offsets == first.claims[0].until_offsets
    steps = [until - begin for begin, until in zip(claims.from_offsets, claims.until_offsets, strict=True)]
    assert len(set(steps)) == 3
    assert min(steps) > 0


def test_claims_are_confirmed_once_they_are_made_and_then_the_micro_batch_is_answered(
    member: SparkMember, wire: Wire
) -> None:
    claims = advance(member).claims

    assert not hear(member, AdvanceResponse(claims=Outcomes(3), log_end=4))
    assert wire.last() == ConfirmClaims(claims)
    assert hear(member, ConfirmClaimsResponse(claims=ClaimStatuses(3)))
    advance(member)
    assert not hear(member, AdvanceResponse(finished=Outcomes(3), claims=Outcomes(3)))
    assert len(member.advances_ms) == 2


@pytest.mark.parametrize(
    "answer",
    [
        AdvanceResponse(claims=Outcomes(3)),
        AdvanceResponse(finished=Outcomes(3), claims=Outcomes(2)),
        AdvanceResponse(finished=Outcomes(2, (PartitionResult("t", 0),), (0,)), claims=Outcomes(3)),
        AdvanceResponse(ErrorCode.INVALID_REQUEST, "no", Outcomes(3), Outcomes(3)),
        ConfirmClaimsResponse(claims=ClaimStatuses(2, (ClaimStatus("t", 0, 70, ClaimState.OFFERED),), (0,))),
        ConfirmClaimsResponse(ErrorCode.INVALID_REQUEST, "no", ClaimStatuses(3)),
        ErrorResponse(ErrorCode.UNKNOWN_MEMBER_ID, "gone"),
    ],
    ids=lambda answer: type(answer).__name__,
)
def test_anything_but_all_of_it_as_it_was_asked_is_refused(member: SparkMember, answer: Response) -> None:
    advance(member), advance(member)

    with pytest.raises(RefusedError):
        hear(member, answer)


def test_a_member_leaves_without_a_commit(member: SparkMember) -> None:
    assert decode_request(member.leave()[8:]) == LeaveGroup(())
    assert hear(member, LeaveGroupResponse())


def test_every_bar_that_is_missed_is_named() -> None:
    kept, small = AT_LEAST | AT_MOST, History(1.0, 1.0, 10.0, 10.0)
    missed = {name: least - 1 for name, least in AT_LEAST.items()} | {name: most + 1 for name, most in AT_MOST.items()}

    assert missed_bars(kept, small) == []
    assert [sentence.split()[0] for sentence in missed_bars(missed, small)] == list(missed)
    assert len(missed_bars(kept, History(1.0, 1.0, 11.0, 10.0))) == 1
