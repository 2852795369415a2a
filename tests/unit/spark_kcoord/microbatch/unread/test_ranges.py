"""A range that was let go before it was read: the checkpoint is made true by an offset with nothing to read."""

import json
import logging
from collections.abc import Sequence

import pytest

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.parts import Claim, ClaimStatus, PartitionResult, ResetPolicy
from spark_kcoord.member.client import AdvanceOutcome, Assignment
from spark_kcoord.microbatch.stream_offset import StreamOffset
from spark_kcoord.microbatch.unread.ranges import UnreadRanges
from tests.helpers.fake_member import FakeEnds, FakeMember, a_session, claim, owned
from tests.helpers.node_world import NodeWorld

START = StreamOffset("c", "g", "m-1", (claim(0, 5, 9), claim(1, 3, 4)))
CORRECTED = StreamOffset("c", "g", "m-1", (claim(0, 5, 5), claim(1, 4, 4)))


def let_go(*, committed: int = 5) -> FakeMember:
    """Return a member whose claim on t-0 was let go, which is another's now, and that still has t-1."""
    return FakeMember((owned(1, 3),), lost=frozenset({0}), closed_claims=frozenset({0}), committed=committed)


def test_a_range_that_was_let_go_before_it_was_read_is_corrected_once_in_the_checkpoint() -> None:
    session = a_session(let_go(), {1: 4})
    assert session.readable(START) == (claim(1, 3, 4),)

    latest = session.next_offset(START, None, is_single_run=False)

    assert latest == CORRECTED
    assert [hint.offset for hint in latest.hints(is_finished=True)] == [5, 4]
    assert session.readable(latest) == ()
    assert session.next_offset(latest, None, is_single_run=False) == latest


def test_a_run_that_ends_corrects_its_checkpoint_before_it_ends() -> None:
    session = a_session(let_go(), {1: 4})
    session.freeze_ends({("t", 1): 4})
    session.readable(START)
    assert session.next_offset(START, None, is_single_run=True) == CORRECTED
    assert session.next_offset(CORRECTED, None, is_single_run=True) == CORRECTED


def test_what_there_is_to_read_makes_the_next_micro_batch_and_no_correction() -> None:
    session = a_session(let_go(), {1: 7})
    session.readable(START)
    assert session.next_offset(START, None, is_single_run=False).ranges == (claim(1, 4, 7),)


def test_a_range_that_was_read_stays_in_the_checkpoint_though_it_was_not_committed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    member = FakeMember((owned(1, 3),), lost=frozenset({0}), committed=5)
    session = a_session(member, {1: 4})
    assert session.readable(START) == START.claims
    assert session.next_offset(START, None, is_single_run=False) == START
    assert "offsets [5, 9) of t-0 were read under owner epoch 7 and are not committed" in caplog.text


def test_a_restart_corrects_what_nobody_has_committed(caplog: pytest.LogCaptureFixture) -> None:
    session = a_session(let_go(), {1: 4})
    assert session.next_offset(START, None, is_single_run=False) == CORRECTED
    assert "offsets [5, 9) of t-0 were claimed under owner epoch 7 and are not committed" in caplog.text


def test_what_another_member_has_committed_needs_no_correction() -> None:
    session = a_session(let_go(committed=9), {1: 4})
    session.readable(START)
    assert session.next_offset(START, None, is_single_run=False) == START


def test_a_new_micro_batch_has_ranges_of_its_own() -> None:
    unread = UnreadRanges()
    unread.note_finished((claim(0, 5, 9),), (PartitionResult("t", 0, ErrorCode.CLAIM_CLOSED),))
    assert unread.corrected(START).ranges == CORRECTED.ranges
    unread.note_planned(())
    assert unread.corrected(START) is START


def test_an_idle_query_does_not_go_through_the_ranges_of_a_checkpoint_that_is_true() -> None:
    class Unseen(StreamOffset):
        @property
        def claims(self) -> tuple[Claim, ...]:
            raise AssertionError("every range was looked at")

    start = Unseen("c", "g", "m-1", START.ranges)
    assert UnreadRanges().corrected(start) is start


class OnWorld(FakeMember):
    """The member of a stream offset in a world with a real node, as it is after a restart from its checkpoint."""

    def __init__(self, world: NodeWorld, first: StreamOffset) -> None:
        super().__init__()
        self.in_world = world.join(
            first.member or "m-1",
            incarnation=f"process-{world.now_ms}",
            claims=first.claims,
            hints=first.hints(is_finished=True),
            reset_policy=ResetPolicy("earliest"),
        )
        world.settle()

    def assignment(self) -> Assignment:
        mine = self.in_world.owned.values()
        return Assignment(
            tuple(owned(one.partition, one.offset, one.owner_epoch, topic_id=one.topic_id) for one in mine)
        )

    def confirm_claims(self, claims: Sequence[Claim]) -> tuple[ClaimStatus, ...]:
        statuses: tuple[ClaimStatus, ...] = self.in_world.confirm(*claims).claims
        return statuses

    def advance(self, finished: Sequence[Claim], claims: Sequence[Claim]) -> AdvanceOutcome:
        said = self.in_world.advance(finished, claims)
        taken = tuple(one for one, result in zip(claims, said.claims, strict=True) if result.error is ErrorCode.NONE)
        return AdvanceOutcome(finished=said.finished, claims=said.claims, released=(), claimed=taken)


def test_a_group_that_is_lost_afterwards_passes_over_nothing() -> None:
    world, kafka = NodeWorld({"t": 1}), FakeEnds({0: 100})
    member = OnWorld(world, StreamOffset("", "g", ""))
    query = a_session(member, kafka)
    first = query.next_offset(query.identity, None, is_single_run=False)
    [offered] = first.claims
    # The driver stands still past its session; what was offered is another member's by then, which dies too.
    world.advance(10_500)
    other = world.join("m-2")
    world.settle()
    mine = member.in_world
    member.in_world = world.join(mine.member_id, incarnation=mine.registration.incarnation, is_rejoining=True)
    assert query.readable(first) == ()
    latest = query.next_offset(first, None, is_single_run=False)
    assert latest != first
    other.close()
    member.in_world.close()
    world.advance(15_000)
    world.restore(None)

    start = StreamOffset.from_json(json.loads(json.dumps(latest.to_json())))
    again = a_session(OnWorld(world, start), kafka).next_offset(start, None, is_single_run=False)
    assert [(one.from_offset, one.until_offset) for one in again.claims] == [(offered.from_offset, 100)]


@pytest.fixture(autouse=True)
def _warnings(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
