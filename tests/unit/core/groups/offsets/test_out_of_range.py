"""An owner finds that Kafka does not have its offset: the group's policy decides, or it is an error."""

from collections.abc import Callable

import pytest

from coordinator.core.groups.hard.journal import Journal
from coordinator.core.groups.hard.records import encode_record
from coordinator.core.groups.hard.snapshot import records_of
from coordinator.core.limits import Limits
from coordinator.protocol.columns import OffsetToCommit, in_columns
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    CommitOffsets,
    CommitOffsetsResponse,
    ReportOutOfRange,
    ReportOutOfRangeResponse,
    StartFetcher,
)
from coordinator.protocol.messages.operators import ChangePause, ChangePauseResponse
from coordinator.protocol.parts import LostPosition, PartitionResult, ResetPolicy, StartHint
from tests.helpers.loading import load
from tests.helpers.node_member import Member
from tests.helpers.node_world import NodeWorld

T0 = ("t", 0)
CHECKPOINT = StartHint("t", "id-t", 0, 50, from_checkpoint=True)


def owner(policy: str) -> tuple[NodeWorld, Member]:
    """Return an owner whose group has offset 50 for its partition, which Kafka has from 60 on."""
    world = NodeWorld({"t": 1})
    world.kafka.begins[T0] = 60
    world.connect().ask(CommitOffsets("g", in_columns((OffsetToCommit("t", 0, 50),))), CommitOffsetsResponse)
    return world, world.join("m1", reset_policy=ResetPolicy(policy), hints=(CHECKPOINT,))


def report(member: Member, owner_epoch: int | None = None, position: int | None = None) -> PartitionResult:
    epoch = member.epoch(T0) if owner_epoch is None else owner_epoch
    response = member.ask(ReportOutOfRange((LostPosition("t", 0, epoch, position),)), ReportOutOfRangeResponse)
    return response.results[0]


@pytest.mark.parametrize(("policy", "offset"), [("earliest", 60), ("latest", 100)])
def test_policy_decides_where_the_partition_starts_anew(policy: str, offset: int) -> None:
    world, m1 = owner(policy)
    before = m1.epoch(T0)
    assert m1.owned[T0].offset == 50
    claim = m1.run(T0, 50, 55)
    assert report(m1) == PartitionResult("t", 0)
    assert (m1.owned[T0].offset, m1.is_complete, world.committed()) == (offset, True, {T0: offset})
    assert m1.epoch(T0) > before
    assert m1.advance([claim]).finished[0].error is ErrorCode.FENCED_OWNER_EPOCH
    (event,) = world.events("out-of-range")
    assert (event.member_id, event.partitions) == ("m1", (T0,))
    assert event.why == "Kafka does not have offset 50 of t-0, whose log is [60, 100); it starts anew by the policy"


def test_without_a_policy_it_is_an_error_and_nothing_changes() -> None:
    world, m1 = owner("none")
    result = report(m1)
    assert (result.error, result.committed) == (ErrorCode.OFFSET_OUT_OF_RANGE, 50)
    assert "the group's policy is none" in result.message
    assert (world.committed(), world.owners()) == ({T0: 50}, {T0: "m1"})


def test_report_of_an_earlier_owner_changes_nothing() -> None:
    world, m1 = owner("earliest")
    assert report(m1, m1.epoch(T0) - 1).error is ErrorCode.FENCED_OWNER_EPOCH
    assert world.committed() == {T0: 50}


def test_partition_waits_for_its_start_and_a_restart_does_not_forget_why() -> None:
    world, m1 = owner("earliest")
    world.kafka.answers_left = 2
    assert report(m1) == PartitionResult("t", 0)
    assert (world.owners(), world.committed()) == ({}, {})
    shard = world.node.shard_of("g")
    journal = Journal(shard)
    load(journal, [encode_record(record) for record in records_of(world.state(shard))], 0, ())
    assert journal.state == world.state(shard)
    world.restart()
    again = world.reconnect(m1)
    world.kafka.answers_left = None
    world.poll_topics()
    world.advance(1_100)
    assert again.owned[T0].offset == 60


def test_topic_made_again_is_read_from_its_beginning_though_the_old_one_was_out_of_range() -> None:
    world = NodeWorld({"t": 1})
    member = world.join("m1")
    world.kafka.begins[T0] = world.kafka.ends[T0] = 200
    world.kafka.answers_left = 2
    report(member)
    world.kafka.answers_left = None
    world.kafka.begins.clear()
    world.kafka.ids["t"] = "id-new"
    world.poll_topics()
    world.advance(2_000)
    assert (member.owned[T0].topic_id, member.owned[T0].offset) == ("id-new", 10)


def test_member_is_told_that_it_is_complete_again_though_the_partition_is_paused() -> None:
    world = NodeWorld({"t": 2})
    member = world.join("m1")
    world.kafka.begins[T0] = world.kafka.ends[T0] = 200
    world.connect().ask(ChangePause("g", (T0,), True, "ann", is_dry_run=False), ChangePauseResponse)
    member.inbox.clear()
    report(member)
    told = [push for push in member.inbox if isinstance(push, StartFetcher)]
    assert [(push.partitions, push.is_complete) for push in told] == [((), True)]


# ---- what Kafka says counts -----------------------------------------------------------------------------------------


def unchanged(world: NodeWorld, member: Member, result: PartitionResult) -> str:
    """Check that a report changed nothing, and return what its member is told."""
    assert (result.error, result.committed) == (ErrorCode.OFFSET_NOT_AVAILABLE, 50)
    assert (world.committed(), world.owners(), member.is_complete) == ({T0: 50}, {T0: "m1"}, True)
    assert world.events("out-of-range") == []
    return result.message


@pytest.mark.parametrize("policy", ["earliest", "latest", "none"])
def test_a_report_is_not_believed_that_kafka_contradicts(policy: str) -> None:
    world, m1 = owner(policy)
    world.kafka.begins[T0] = 50
    said = unchanged(world, m1, report(m1))
    assert said == "Kafka has offset 50 of t-0, whose log is [50, 100); nothing was changed"


def test_an_offset_behind_an_open_transaction_is_there() -> None:
    world, m1 = owner("earliest")
    world.kafka.begins[T0], world.kafka.stable[T0], world.kafka.ends[T0] = 0, 6, 50
    unchanged(world, m1, report(m1))


def test_an_offset_behind_the_end_is_found_there_twice_before_it_is_believed() -> None:
    world, m1 = owner("earliest")
    world.kafka.begins[T0], world.kafka.ends[T0] = 0, 49
    assert "ends at offset 49 as Kafka says now, and 50 is behind it" in unchanged(world, m1, report(m1))
    world.advance(1_900)
    unchanged(world, m1, report(m1))
    world.advance(100)
    assert report(m1) == PartitionResult("t", 0)
    assert world.committed() == {T0: 0}


def test_an_end_that_was_old_is_forgotten() -> None:
    world, m1 = owner("earliest")
    world.kafka.begins[T0] = 0
    for _ in range(3):
        world.kafka.ends[T0] = 49
        unchanged(world, m1, report(m1))
        world.advance(2_000)
        world.kafka.ends[T0] = 50
        unchanged(world, m1, report(m1))


def test_kafka_that_cannot_say_leaves_everything_as_it_is() -> None:
    world, m1 = owner("earliest")
    world.kafka.cannot_resolve = True
    assert "Kafka could not say what t-0 holds: no leader" in unchanged(world, m1, report(m1))
    world.kafka.cannot_resolve = False
    world.kafka.answers_left = 1
    unchanged(world, m1, report(m1))
    world.kafka.answers_left = None
    assert report(m1) == PartitionResult("t", 0)


def test_position_of_the_owner_counts_as_well_as_the_offset_of_the_group() -> None:
    world, m1 = owner("earliest")
    unchanged(world, m1, report(m1, position=60))
    world.kafka.begins[T0], world.kafka.ends[T0] = 40, 55
    unchanged(world, m1, report(m1, position=60))
    world.advance(2_000)
    result = report(m1, position=60)
    assert (result.error, result.committed) == (ErrorCode.NONE, 50)
    assert "does not have offset 60 of t-0, whose log is [40, 55), and has the group's offset 50" in result.message
    assert (world.committed(), world.owners(), m1.is_complete) == ({T0: 50}, {T0: "m1"}, True)


def test_that_a_position_is_behind_the_end_says_nothing_about_the_offset_of_the_group() -> None:
    world, m1 = owner("earliest")
    world.kafka.begins[T0], world.kafka.ends[T0] = 0, 55
    unchanged(world, m1, report(m1, position=60))
    world.advance(2_000)
    world.kafka.ends[T0] = 49  # as a broker knows it that has just lost its leadership
    unchanged(world, m1, report(m1, position=60))
    world.advance(2_000)
    world.kafka.ends[T0] = 55
    unchanged(world, m1, report(m1, position=60))
    world.advance(2_000)
    assert report(m1, position=60).committed == 50
    assert (world.committed(), world.owners()) == ({T0: 50}, {T0: "m1"})


def late_answers(world: NodeWorld, member: Member, meanwhile: Callable[[], None]) -> PartitionResult | None:
    """Report, let something happen before Kafka's two answers come, and return the result if there is one."""
    world.kafka.is_late = True
    correlation_id = member.send(ReportOutOfRange((LostPosition("t", 0, member.epoch(T0), 50),)))
    assert member.answer(correlation_id) is None
    meanwhile()
    world.kafka.is_late = False
    world.answer_late()
    response = member.answer(correlation_id)
    assert response is None or isinstance(response, ReportOutOfRangeResponse)
    return response.results[0] if response is not None else None


def test_an_answer_does_not_count_for_an_offset_that_was_committed_meanwhile() -> None:
    world, m1 = owner("earliest")
    result = late_answers(world, m1, lambda: m1.commit(T0, 70))
    assert result is not None
    assert (result.error, result.committed) == (ErrorCode.OFFSET_NOT_AVAILABLE, 70)
    assert "the group's offset of t-0 changed while Kafka was asked" in result.message
    assert world.committed() == {T0: 70}


def test_an_answer_does_not_count_for_a_grant_that_is_over() -> None:
    world, m1 = owner("earliest")

    def move() -> None:
        world.join("m2", is_settled=False)
        world.connect().ask(ChangePause("g", (T0,), True, "ann", is_dry_run=False), ChangePauseResponse)
        m1.stopped(T0)

    result = late_answers(world, m1, move)
    assert result is not None
    assert result.error is ErrorCode.FENCED_OWNER_EPOCH
    assert world.committed() == {T0: 50}


def test_a_member_that_is_gone_is_not_answered_and_changes_nothing() -> None:
    for end in (Member.close, Member.leave):
        world, m1 = owner("earliest")
        assert late_answers(world, m1, lambda m1=m1, end=end: end(m1)) is None
        assert world.committed() == {T0: 50}


def test_a_report_that_is_made_again_meanwhile_starts_the_partition_anew_once() -> None:
    world, m1 = owner("earliest")
    epoch = m1.epoch(T0)
    again: list[int] = []
    result = late_answers(
        world, m1, lambda: again.append(m1.send(ReportOutOfRange((LostPosition("t", 0, epoch, 50),))))
    )
    assert result == PartitionResult("t", 0)
    second = m1.answer(again[0])
    assert isinstance(second, ReportOutOfRangeResponse)
    assert second.results[0].error is ErrorCode.FENCED_OWNER_EPOCH
    assert (world.committed(), m1.owned[T0].offset) == ({T0: 60}, 60)
    assert len(world.events("out-of-range")) == 1


def test_a_partition_named_twice_starts_anew_once_with_a_result_for_each() -> None:
    world, m1 = owner("earliest")
    lost = LostPosition("t", 0, m1.epoch(T0), 50)
    response = m1.ask(ReportOutOfRange((lost, lost)), ReportOutOfRangeResponse)
    assert response.results == (PartitionResult("t", 0),) * 2
    assert (world.committed(), len(world.events("out-of-range"))) == ({T0: 60}, 1)


def test_questions_of_reports_are_bounded() -> None:
    world = NodeWorld({"t": 1}, limits=Limits(reset_lookups_max=2))
    m1 = world.join("m1")
    world.kafka.is_late = True
    lost = LostPosition("t", 0, m1.epoch(T0), 100)
    m1.send(ReportOutOfRange((lost,)))
    (result,) = m1.ask(ReportOutOfRange((lost,)), ReportOutOfRangeResponse).results
    assert result.error is ErrorCode.OFFSET_NOT_AVAILABLE
    assert "2 questions about offsets wait for Kafka already" in result.message
