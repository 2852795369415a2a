"""A topic that is deleted and made again under a consumer that reads it by hand: all records of the new one come."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import CommitOffsets, CommitOffsetsResponse, FetchOffsets, FetchOffsetsResponse
from coordinator.protocol.parts import CommittedOffset, PartitionResult
from kcoord import TopicPartition, errors
from spark_kcoord.consumer.conduct import asking
from spark_kcoord.fetch.tailing.fetched import OutOfRange
from tests.helpers.fake_consuming import AsyncRig, Rig
from tests.helpers.held_calls import HeldCall
from tests.helpers.scripted_coordinator import ScriptedCoordinator

P0 = TopicPartition("t", 0)
ALONE: dict[str, Any] = {"group_id": None, "coordinators": None, "bootstrap_servers": "k:1"}


def all_offsets(rig: Rig) -> list[int]:
    return [at for _ in range(4) for _, at in rig.offsets()]


def make_again(rig: Rig, end: int) -> None:
    rig.kafka.topic_id, rig.kafka.ends = "new", {P0: end}


@pytest.mark.parametrize("policy", ["earliest", "latest"])
def test_a_partition_that_was_paused_meanwhile_begins_at_the_beginning_of_the_new_topic(policy: str) -> None:
    with Rig({P0: 4}, (), auto_offset_reset=policy, **ALONE) as rig:
        rig.kafka.topic_id = "old"
        rig.assign({P0: 2})
        assert all_offsets(rig) == [2, 3]
        rig.pause(P0)
        rig.poll()
        make_again(rig, 6)
        rig.resume(P0)
        assert all_offsets(rig) == [0, 1, 2, 3, 4, 5]


def test_a_partition_goes_on_in_the_new_topic_where_the_program_sought_it_while_it_was_paused() -> None:
    with Rig({P0: 4}, (), **ALONE) as rig:
        rig.kafka.topic_id = "old"
        rig.assign({P0: 2})
        assert all_offsets(rig) == [2, 3]
        rig.pause(P0)
        rig.poll()
        make_again(rig, 6)
        rig.seek(P0, 3)
        rig.resume(P0)
        assert all_offsets(rig) == [3, 4, 5]


def answers(topic_id: str, offset: int) -> dict[Any, Any]:
    """Return what a coordinator answers whose group has an offset of a topic."""
    committed = CommittedOffset("t", topic_id, 0, offset, 3, "", 0)
    return {
        FetchOffsets: FetchOffsetsResponse(offsets=(committed,)),
        CommitOffsets: CommitOffsetsResponse(accepted=1),
    }


@contextmanager
def in_a_group(offset: int, end: int, **settings: Any) -> Iterator[tuple[Rig, ScriptedCoordinator]]:
    """Make a consumer whose group has an offset of the old topic, and Kafka the old topic, up to `end`."""
    with ScriptedCoordinator(answers("old", offset)) as coordinator:
        known: dict[str, Any] = {"coordinators": f"127.0.0.1:{coordinator.address[1]}", "bootstrap_servers": "k:1"}
        with Rig({P0: end}, (), **(known | settings)) as rig:
            rig.kafka.topic_id = "old"
            yield rig, coordinator


def commits(coordinator: ScriptedCoordinator) -> list[int]:
    return [
        offset
        for request in coordinator.asked
        if isinstance(request, CommitOffsets)
        for of_topic in request.offsets
        for offset in of_topic.offsets
    ]


@pytest.mark.parametrize("policy", ["earliest", "latest"])
def test_a_partition_that_has_a_position_and_was_not_read_begins_at_the_beginning_of_the_new_topic(policy: str) -> None:
    with Rig({P0: 0}, (), auto_offset_reset=policy, **ALONE) as rig:
        rig.kafka.topic_id, rig.kafka.begins = "old", {P0: 4}
        rig.kafka.ends = {P0: 4}
        rig.assign([P0])
        rig.poll()
        assert rig.position(P0) == 4
        rig.pause(P0)
        rig.poll()
        rig.kafka.begins = {}
        make_again(rig, 6)
        rig.resume(P0)
        assert all_offsets(rig) == [0, 1, 2, 3, 4, 5]


def test_the_end_of_the_old_topic_is_no_end_of_the_new_one() -> None:
    with Rig({P0: 4}, (), **ALONE) as rig:
        rig.kafka.topic_id = "old"
        rig.assign({P0: 2})
        assert all_offsets(rig) == [2, 3]
        assert (rig.lag(P0), rig.highwater(P0)) == (0, 4)
        rig.pause(P0)
        rig.poll()
        make_again(rig, 0)
        rig.resume(P0)
        assert all_offsets(rig) == []
        assert rig.position(P0) == 0
        assert (rig.lag(P0), rig.highwater(P0)) == (None, None)


def test_the_offset_of_the_old_topic_is_no_bound_of_commits_where_the_program_sought_in_the_new_one() -> None:
    with in_a_group(8, 8) as (rig, coordinator):
        rig.assign([P0])
        rig.poll()
        rig.pause(P0)
        rig.poll()
        make_again(rig, 6)
        rig.seek(P0, 2)
        rig.resume(P0)
        assert all_offsets(rig) == [2, 3, 4, 5]
        rig.commit()
        assert commits(coordinator) == [6]


def test_an_offset_of_the_old_topic_that_was_sought_where_the_group_is_is_not_committed_for_the_new_one() -> None:
    with in_a_group(4, 6) as (rig, coordinator):
        rig.assign({P0: 0})
        make_again(rig, 6)
        rig.pause(P0)
        rig.seek_to_committed(P0)
        rig.commit()
        assert commits(coordinator) == []


def test_the_end_of_another_topic_is_none_of_that_in_which_the_group_is_sought() -> None:
    with in_a_group(4, 6) as (rig, _):
        make_again(rig, 9)
        rig.assign({P0: 0})
        assert len(all_offsets(rig)) == 9
        assert rig.highwater(P0) == 9
        rig.pause(P0)
        rig.poll()
        rig.seek_to_committed(P0)
        assert rig.highwater(P0) is None


@pytest.mark.parametrize("policy", ["earliest", "latest"])
def test_a_committed_offset_of_the_old_topic_is_no_start_in_the_new_one(policy: str) -> None:
    with in_a_group(4, 4, auto_offset_reset=policy) as (rig, _):
        make_again(rig, 6)
        rig.assign([P0])
        assert all_offsets(rig) == [0, 1, 2, 3, 4, 5]


def test_a_committed_offset_of_the_topic_that_is_there_is_where_a_partition_starts() -> None:
    with in_a_group(4, 6) as (rig, _):
        rig.assign([P0])
        assert all_offsets(rig) == [4, 5]


def test_what_was_read_of_the_new_topic_is_committed_though_the_group_was_further_in_the_old_one() -> None:
    with in_a_group(4, 6) as (rig, coordinator):
        rig.assign([P0])
        assert all_offsets(rig) == [4, 5]
        rig.commit()
        rig.kafka.news_now = [OutOfRange(P0, rig.kafka.wanted[P0].token, 6, is_new_topic=True)]
        make_again(rig, 3)
        assert all_offsets(rig) == [0, 1, 2]
        rig.commit({P0: 2})
        rig.commit()
        assert commits(coordinator) == [6, 2, 3]


def test_a_commit_of_the_old_topic_whose_answer_comes_late_is_no_bound_of_commits_in_the_new_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    accept, sent = HeldCall(CommitOffsetsResponse(accepted=1)), []

    def answer(_: Any, request: Any, __: float) -> Any:
        if isinstance(request, FetchOffsets):
            return FetchOffsetsResponse(offsets=())
        sent.append(request.offsets[0].offsets)
        return accept()

    monkeypatch.setattr(asking, "ask_coordinators", answer)

    async def main() -> None:
        async with AsyncRig({P0: 6}, (), bootstrap_servers="k:1") as rig:
            rig.kafka.topic_id = "old"
            await rig.assign({P0: 4})
            assert await rig.offsets() == [(0, 4), (0, 5)]
            committing = asyncio.create_task(rig.commit())
            await accept.begun()
            rig.kafka.news_now = [OutOfRange(P0, rig.kafka.wanted[P0].token, 6, is_new_topic=True)]
            rig.kafka.topic_id, rig.kafka.ends = "new", {P0: 3}
            assert [at for _ in range(4) for _, at in await rig.offsets()] == [0, 1, 2]
            accept.end()
            await committing
            await rig.commit({P0: 2})
            await rig.commit()
            assert sent == [(6,), (2,), (3,)]

    asyncio.run(main())


def test_a_position_in_the_old_topic_is_not_committed_for_the_new_one() -> None:
    with in_a_group(4, 6, auto_offset_reset="none") as (rig, coordinator):
        rig.assign([P0])
        assert all_offsets(rig) == [4, 5]
        rig.kafka.news_now = [OutOfRange(P0, rig.kafka.wanted[P0].token, 6, is_new_topic=True)]
        make_again(rig, 3)
        with pytest.raises(errors.OffsetOutOfRangeError):
            rig.poll()
        rig.commit()
        assert commits(coordinator) == []
        rig.seek(P0, 1)
        assert all_offsets(rig) == [1, 2]
        rig.commit()
        assert commits(coordinator) == [3]


def test_a_committed_offset_of_the_old_topic_is_sought_in_vain_in_the_new_one() -> None:
    with in_a_group(4, 6) as (rig, _):
        rig.assign({P0: 0})
        make_again(rig, 6)
        assert all_offsets(rig) == [0, 1, 2, 3, 4, 5]
        rig.seek_to_committed(P0)
        assert all_offsets(rig) == [0, 1, 2, 3, 4, 5]


def test_a_member_does_not_seek_to_a_committed_offset_of_the_old_topic() -> None:
    with in_a_group(4, 6) as (rig, _):
        rig.subscribe(["t"])
        rig.poll()
        assert rig.assignment() == {P0}
        with pytest.raises(errors.OffsetUnknownError):
            rig.seek_to_committed(P0)


def test_a_commit_says_of_which_topic_it_is_and_waits_for_a_coordinator_that_is_told_late() -> None:
    with in_a_group(4, 6) as (rig, coordinator):
        rig.assign([P0])
        assert all_offsets(rig) == [4, 5]
        late = PartitionResult("t", 0, ErrorCode.UNKNOWN_TOPIC_ID, "it was made again")
        coordinator.answers[CommitOffsets] = [CommitOffsetsResponse(refused=(late,)), CommitOffsetsResponse(accepted=1)]
        rig.commit()
        asked = [request.offsets[0] for request in coordinator.asked if isinstance(request, CommitOffsets)]
        assert [(one.offsets, one.topic_id) for one in asked] == [((6,), "old")] * 2


def test_a_commit_that_goes_on_being_of_another_topic_is_refused_in_time() -> None:
    with in_a_group(4, 6) as (rig, coordinator):
        rig.assign([P0])
        assert all_offsets(rig) == [4, 5]
        late = PartitionResult("t", 0, ErrorCode.UNKNOWN_TOPIC_ID, "it was made again")
        coordinator.answers[CommitOffsets] = [CommitOffsetsResponse(refused=(late,))]
        with pytest.raises(errors.CommitRefusedError, match="it was made again"):
            rig.commit(timeout_ms=300)
        assert commits(coordinator)
