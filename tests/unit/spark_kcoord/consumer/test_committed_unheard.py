"""Offsets are committed without a call that hears of it: a position before them is left out of commits, or refused."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import CommitOffsetsResponse
from coordinator.protocol.parts import PartitionResult
from spark_kcoord.consumer import errors
from spark_kcoord.consumer.conduct import asking
from spark_kcoord.consumer.values import TopicPartition
from tests.helpers.fake_consuming import AsyncRig, FakeMember, Rig, owned

P0 = TopicPartition("t", 0)


def go_with_a_ping(member: FakeMember, offset: int) -> None:
    """Have the member know that the coordinator has taken what is done."""
    member.give(replace(owned(0), position=offset))


@pytest.mark.parametrize("polls", [True, False])
def test_a_commit_behind_what_went_with_the_pings_is_left_out_and_refused_when_it_is_given(polls: bool) -> None:
    rig = Rig()
    rig.poll()
    go_with_a_ping(rig.member, 8)
    rig.seek(P0, 3)
    if polls:
        rig.poll(max_records=1)
    rig.commit()
    with pytest.raises(errors.CommitRefusedError, match="before the group's offset 8"):
        rig.commit({P0: 5})
    assert rig.member.committed == []
    rig.commit({P0: 9})
    rig.close()


def test_what_another_grant_has_committed_does_not_count() -> None:
    rig = Rig()
    rig.poll()
    rig.member.given = replace(rig.member.given, partitions=(replace(owned(0, epoch=8), position=8),))
    rig.commit({P0: 5})
    assert len(rig.member.committed) == 1
    rig.close()


@pytest.mark.parametrize("error", [ErrorCode.NONE, ErrorCode.FENCED_OWNER_EPOCH])
def test_the_answer_of_a_commit_that_was_cancelled_counts(error: ErrorCode) -> None:
    async def main() -> None:
        async with AsyncRig(enable_auto_commit=False) as rig:
            await rig.getmany()
            rig.member.holds_answers = True
            rig.member.refusals = {0: error}
            committing = asyncio.create_task(rig.commit())
            await asyncio.sleep(0.001)
            committing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await committing
            rig.member.answer()
            rig.member.holds_answers, rig.member.refusals = False, {}
            rig.seek(P0, 3)
            await rig.commit()
            sent = [[one.offset for one in offsets] for offsets in rig.member.committed]
            assert sent == ([[10]] if error is ErrorCode.NONE else [[10], [3]])

    asyncio.run(main())


def test_the_answer_of_a_commit_that_nobody_waits_for_counts_before_a_poll_takes_it() -> None:
    rig = Rig(enable_auto_commit=False)
    rig.poll()
    rig.commit_async()
    rig.seek(P0, 3)
    rig.commit()
    with pytest.raises(errors.CommitRefusedError, match="before the group's offset 10"):
        rig.commit({P0: 5})
    assert [[one.offset for one in offsets] for offsets in rig.member.committed] == [[10]]
    rig.close()


def test_a_commit_that_was_cancelled_and_fails_counts_for_nothing() -> None:
    async def main() -> None:
        async with AsyncRig(enable_auto_commit=False) as rig:
            await rig.getmany()
            rig.member.holds_answers = True
            committing = asyncio.create_task(rig.commit())
            await asyncio.sleep(0.001)
            committing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await committing
            ((answer, _),) = rig.member.held_answers
            answer.set_exception(errors.CoordinatorUnavailableError("nobody is there"))
            rig.member.held_answers.clear()
            rig.member.holds_answers = False
            await rig.commit()
            assert len(rig.member.committed) == 2

    asyncio.run(main())


def commit_refused(monkeypatch: pytest.MonkeyPatch, refused: PartitionResult) -> str:
    """Return what a commit by hand says that a coordinator refuses."""

    def answer(*_: Any) -> Any:
        return CommitOffsetsResponse(refused=(refused,))

    monkeypatch.setattr(asking, "ask_coordinators", answer)
    rig = Rig(topics=(), bootstrap_servers="k:1")
    rig.assign({P0: 0})
    with pytest.raises(errors.CommitRefusedError) as raised:
        rig.commit({P0: 5})
    rig.close()
    return str(raised.value)


def test_a_refusal_says_what_follows_from_it(monkeypatch: pytest.MonkeyPatch) -> None:
    behind = PartitionResult("t", 0, ErrorCode.INVALID_REQUEST, "offset 5 is before the committed offset 8", 8)
    told = commit_refused(monkeypatch, behind)
    assert "kcoord group reset-offsets" in told
    assert "reads it again" not in told
    owned_by_another = PartitionResult("t", 0, ErrorCode.PARTITION_OWNED, "t-0 is owned by m2", 8)
    told = commit_refused(monkeypatch, owned_by_another)
    assert "kcoord group reset-offsets" not in told
    assert "reads it again" not in told
