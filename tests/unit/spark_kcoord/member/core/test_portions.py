"""Portions fit into frames and lose nothing."""

from hypothesis import given
from hypothesis import strategies as st

from coordinator.protocol.claim_columns import advance_of
from coordinator.protocol.codec import encode_message
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.parts import Claim, PartitionResult
from coordinator.protocol.session import SessionLimits
from spark_kcoord.member.core.effects import AdvanceOutcome
from spark_kcoord.member.core.held.portions import MAX_ITEMS, advance_portions, bytes_of, join_outcomes, portions

HUGE = 2**62


def claims(count: int, topic: str = "t" * 249, start: int = HUGE) -> tuple[Claim, ...]:
    return tuple(Claim(topic, "i" * 36, number, HUGE, start, start + 1) for number in range(count))


def test_small_micro_batch_stays_whole_and_in_order() -> None:
    finished, wanted = claims(3), tuple(reversed(claims(3, start=5)))
    (portion,) = advance_portions(finished, wanted)
    assert (portion.finished, portion.claims) == (finished, wanted)


def test_micro_batch_of_nothing_is_one_portion() -> None:
    assert len(advance_portions((), ())) == 1


def test_every_portion_of_ten_thousand_partitions_fits_into_a_frame() -> None:
    cut = advance_portions(claims(10_000), claims(10_000, start=HUGE + 1))
    assert len(cut) > 5
    for portion in cut:
        assert len(encode_message(advance_of(portion.finished, portion.claims))) < SessionLimits().frame_bytes
        assert {claim.partition for claim in portion.finished} == {claim.partition for claim in portion.claims}


def test_outcomes_come_in_the_order_of_the_whole() -> None:
    finished, wanted = claims(5_000, topic="t"), tuple(reversed(claims(5_000, topic="t", start=5)))
    asked = advance_portions(finished, wanted)
    assert len(asked) > 1

    def result(claim: Claim) -> PartitionResult:
        error = ErrorCode.NONE if claim.partition % 7 else ErrorCode.CLAIM_CLOSED
        return PartitionResult(claim.topic, claim.partition, error, committed=claim.until_offset)

    outcomes = [
        AdvanceOutcome(
            tuple(claim for claim in portion.claims if claim.partition % 7),
            tuple(map(result, portion.finished)),
            tuple(map(result, portion.claims)),
            (),
        )
        for portion in asked
    ]
    joined = join_outcomes(asked, outcomes, finished, wanted)
    assert joined.finished == tuple(map(result, finished))
    assert joined.claims == tuple(map(result, wanted))
    assert joined.claimed == tuple(claim for claim in wanted if claim.partition % 7)


@given(st.lists(st.integers(0, 600 * 1024), max_size=40))
def test_portions_lose_nothing_and_are_bounded(sizes: list[int]) -> None:
    cut = list(portions(sizes, lambda size: size))
    assert [size for portion in cut for size in portion] == sizes
    assert all(len(portion) == 1 or sum(portion) <= 512 * 1024 for portion in cut)


def test_items_are_bounded_too() -> None:
    assert [len(portion) for portion in portions(claims(2 * MAX_ITEMS, topic="t"), bytes_of)] == [MAX_ITEMS, MAX_ITEMS]
