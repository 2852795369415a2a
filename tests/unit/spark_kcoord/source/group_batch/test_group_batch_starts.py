"""A batch that is a member says where it starts without an offset of its group: that may have been forgotten."""

import logging

import pytest

from coordinator.protocol.messages import StartFetcher
from coordinator.protocol.parts import StartPartition
from spark_kcoord.member.core.effects import Notice, NoticeKind
from spark_kcoord.source.group_batch.batch import _say_starts
from tests.helpers.member_pair import MemberPair

NOTE = "the group has no offset of t-0: earliest, by the group's policy"


def test_batch_says_that_it_starts_over(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        _say_starts("nightly", (NOTE,))
    (said,) = caplog.messages
    assert said.startswith(f"group nightly: {NOTE}. ")
    assert "starts over" in said


@pytest.mark.parametrize(("member_id", "kind"), [("", NoticeKind.BEGUN), ("m7", NoticeKind.BEGUN_ANEW)])
def test_start_without_an_offset_is_said_loudly_to_who_was_a_member_before(member_id: str, kind: NoticeKind) -> None:
    pair = MemberPair(member_id=member_id)
    pair.join()
    pair.register(StartFetcher((StartPartition("t", "id", 0, 4, 10),), True, 1, 1, (NOTE,)))
    assert Notice(kind, NOTE) in pair.effects
    assert pair.member.assignment.notes == (NOTE,)
