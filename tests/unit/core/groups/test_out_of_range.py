"""An owner finds that Kafka does not have its offset: the group's policy decides, or it is an error."""

import pytest

from coordinator.core.groups.journal import Journal
from coordinator.core.groups.records import encode_record
from coordinator.core.groups.snapshot import records_of
from coordinator.protocol.columns import OffsetToCommit, in_columns
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    CommitOffsets,
    CommitOffsetsResponse,
    ReportOutOfRange,
    ReportOutOfRangeResponse,
    StartFetcher,
)
from coordinator.protocol.operator_messages import ChangePause, ChangePauseResponse
from coordinator.protocol.parts import OwnedPartition, PartitionResult, ResetPolicy, StartHint
from tests.helpers.node_world import Member, NodeWorld

T0 = ("t", 0)
CHECKPOINT = StartHint("t", "id-t", 0, 50, from_checkpoint=True)


def owner(policy: str) -> tuple[NodeWorld, Member]:
    """Return an owner whose group has offset 50 for its partition, which Kafka has from 60 on."""
    world = NodeWorld({"t": 1})
    world.kafka.begins[T0] = 60
    world.connect().ask(CommitOffsets("g", in_columns((OffsetToCommit("t", 0, 50),))), CommitOffsetsResponse)
    return world, world.join("m1", reset_policy=ResetPolicy(policy), hints=(CHECKPOINT,))


def report(member: Member, owner_epoch: int | None = None) -> PartitionResult:
    epoch = member.epoch(T0) if owner_epoch is None else owner_epoch
    response = member.ask(ReportOutOfRange((OwnedPartition("t", 0, epoch),)), ReportOutOfRangeResponse)
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
    assert event.why == "Kafka does not have offset 50; it starts anew by the policy"


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


def test_partition_waits_for_kafka_and_a_restart_does_not_forget_why() -> None:
    world, m1 = owner("earliest")
    world.kafka.is_away = True
    report(m1)
    assert (world.owners(), world.committed()) == ({}, {})
    shard = world.node.shard_of("g")
    journal = Journal(shard)
    journal.load([encode_record(record) for record in records_of(world.state(shard))], 0, ())
    assert journal.state == world.state(shard)
    world.restart()
    again = world.reconnect(m1)
    world.kafka.is_away = False
    world.poll_topics()
    world.advance(1_100)
    assert again.owned[T0].offset == 60


def test_topic_made_again_is_read_from_its_beginning_though_the_old_one_was_out_of_range() -> None:
    world = NodeWorld({"t": 1})
    member = world.join("m1")
    world.kafka.is_away = True
    report(member)
    world.kafka.is_away = False
    world.kafka.ids["t"] = "id-new"
    world.poll_topics()
    world.advance(2_000)
    assert (member.owned[T0].topic_id, member.owned[T0].offset) == ("id-new", 10)


def test_member_is_told_that_it_is_complete_again_though_the_partition_is_paused() -> None:
    world = NodeWorld({"t": 2})
    member = world.join("m1")
    world.connect().ask(ChangePause("g", (T0,), True, "ann", is_dry_run=False), ChangePauseResponse)
    member.inbox.clear()
    report(member)
    told = [push for push in member.inbox if isinstance(push, StartFetcher)]
    assert [(push.partitions, push.is_complete) for push in told] == [((), True)]
