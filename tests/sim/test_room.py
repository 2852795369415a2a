"""What the watch of a full node says of small histories, in each of which one thing is wrong."""

from collections import Counter

import pytest

from coordinator.core.groups.hard.records import GroupEmptied, MemberFacts
from coordinator.core.groups.hard.state import GroupState, MemberState, ShardState, TopicState
from coordinator.core.limits import Limits
from coordinator.protocol.columns import OffsetToCommit, in_columns
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    CommitOffsets,
    CommitOffsetsResponse,
    RegisterConsumer,
    RegisterConsumerResponse,
    Request,
    Response,
)
from coordinator.protocol.parts import PartitionResult, Subscription
from tests.sim.log.state import ViolationError
from tests.sim.room import RoomWatch, check_nobody_is_half

LIMIT = 16_000
MEMBER = MemberState(MemberFacts("m", "i", None, "c", "h", 1, ("new",), 1, ("sticky",), 1_000, 1_000, 100))
COMMIT = CommitOffsets("g", in_columns([OffsetToCommit("t", 0, 5)]))


def registration(*topics: str) -> RegisterConsumer:
    return RegisterConsumer("g", "", "i", Subscription(topics), "c", 1, 1_000, 1_000, ("sticky",))


def why(more: int, used: int) -> str:
    used_by = f"all groups of this node take {used} already"
    return f"this would take {more} bytes of state more, {used_by}, and the limit is {LIMIT}; delete offsets"


def refused_member(more: int, used: int) -> RegisterConsumerResponse:
    return RegisterConsumerResponse(error=ErrorCode.STATE_LIMIT_REACHED, message=why(more, used))


def refused_offset(more: int, used: int) -> CommitOffsetsResponse:
    result = PartitionResult("t", 0, ErrorCode.STATE_LIMIT_REACHED, why(more, used))
    return CommitOffsetsResponse(refused=(result,))


class History:
    """A shard whose groups take so much, and what is asked of it."""

    def __init__(self, used: int) -> None:
        self.state = ShardState({"g": GroupState("g", topics={"t": TopicState("id", 1, 1)})}, bytes_of={"ann": used})
        self.coverage: Counter[str] = Counter()
        self.watch = RoomWatch(Limits(node_max_bytes=LIMIT), self.coverage)
        self.watch.stepped([self.state])

    def ask(self, request: Request, response: Response, *, is_operator: bool = False) -> None:
        """Have something asked and answered."""
        self.watch.asked(7, 1, request, self.state, is_operator=is_operator)
        self.watch.responded(7, 1, response, lambda _: self.state)

    def breaks(self, request: Request, response: Response, *, is_operator: bool = False) -> str:
        """Return the promise that an answer breaks."""
        with pytest.raises(ViolationError) as found:
            self.ask(request, response, is_operator=is_operator)
        return found.value.name


def test_refusals_that_are_so_break_nothing() -> None:
    history = History(LIMIT - 100)
    history.ask(registration("new"), refused_member(500, LIMIT - 100))
    history.ask(COMMIT, refused_offset(500, LIMIT - 100), is_operator=True)
    history = History(LIMIT + LIMIT // 16)
    history.ask(registration("t"), refused_member(1, LIMIT + LIMIT // 16))
    history.ask(registration("t"), RegisterConsumerResponse())
    assert history.coverage == {"room refused to a member": 1, "room kept for a member": 1}


def test_room_that_is_there_may_not_be_refused() -> None:
    history = History(LIMIT - 100)
    assert history.breaks(registration("new"), refused_member(100, LIMIT - 100)) == "wrong-room"
    assert history.breaks(COMMIT, refused_offset(100, LIMIT - 100), is_operator=True) == "wrong-room"


def test_what_is_said_to_be_in_use_has_been_since_it_was_asked() -> None:
    history = History(LIMIT)
    history.state.bytes_of["ann"] = LIMIT // 2
    history.watch.stepped([history.state])
    assert history.breaks(registration("new"), refused_member(500, LIMIT)) == "wrong-room"


def test_refusal_has_to_say_why() -> None:
    no_words = RegisterConsumerResponse(error=ErrorCode.STATE_LIMIT_REACHED, message="it is full")
    assert History(LIMIT).breaks(registration("new"), no_words) == "refused-without-reason"


def test_member_that_brings_nothing_new_is_refused_only_beyond_what_is_kept() -> None:
    assert History(LIMIT).breaks(registration("t"), refused_member(500, LIMIT)) == "none-kept"


def test_member_commits_what_it_has_on_a_full_node() -> None:
    assert History(LIMIT).breaks(COMMIT, refused_offset(500, LIMIT)) == "full-commit"


def test_refused_registration_leaves_no_member() -> None:
    history = History(LIMIT)
    history.watch.asked(7, 1, registration("new"), history.state, is_operator=False)
    history.state.groups["g"].members = {"m": MEMBER}
    with pytest.raises(ViolationError, match="half-registration"):
        history.watch.responded(7, 1, refused_member(500, LIMIT), lambda _: history.state)


def test_process_may_be_a_member_by_another_registration_than_the_refused_one() -> None:
    earlier = History(LIMIT)
    earlier.state.groups["g"].members = {"m": MEMBER}
    earlier.ask(registration("new"), refused_member(500, LIMIT))
    later = History(LIMIT)
    late = registration("new")
    later.watch.asked(7, 1, late, later.state, is_operator=False)
    later.watch.asked(8, 1, registration("new"), later.state, is_operator=False)
    later.state.groups["g"].members = {"m": MEMBER}
    later.watch.responded(7, 1, refused_member(500, LIMIT), lambda _: later.state)
    assert earlier.coverage == later.coverage == {"room refused to a member": 1}


def test_refused_registration_leaves_no_group_for_nobody() -> None:
    state = ShardState({"g": GroupState("g")})
    with pytest.raises(ViolationError, match="half-registration"):
        check_nobody_is_half(state)
    state.groups["g"].emptied = GroupEmptied("g", 0, 0)
    check_nobody_is_half(state)
