"""A member that commits nothing leaves no trace in the group: no offset, no start, no policy, no first look."""

from collections.abc import Callable

import pytest

from coordinator.core.groups.hard.journal import Journal
from coordinator.core.groups.hard.records import encode_record
from coordinator.core.groups.hard.snapshot import records_of
from coordinator.protocol.claim_columns import advance_of
from coordinator.protocol.columns import OffsetToCommit, in_columns
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    AdvanceResponse,
    CommitOffsets,
    CommitOffsetsResponse,
    FetcherStopped,
    FetcherStoppedResponse,
    Ping,
    PingResponse,
    ReportOutOfRange,
    ReportOutOfRangeResponse,
)
from coordinator.protocol.parts import FinalOffset, LostPosition, ResetPolicy, StartHint
from tests.helpers.loading import load
from tests.helpers.node_member import Member
from tests.helpers.node_world import NodeWorld

T0, T1 = ("t", 0), ("t", 1)
EARLIEST, LATEST = ResetPolicy("earliest"), ResetPolicy("latest")


def alone(policy: ResetPolicy = EARLIEST, **facts: object) -> tuple[NodeWorld, Member]:
    world = NodeWorld({"t": 2})
    return world, world.join("reader", commits=False, reset_policy=policy, **facts)


def test_reader_starts_by_its_policy_and_no_offset_is_written() -> None:
    world, reader = alone()
    assert {partition: start.offset for partition, start in reader.owned.items()} == {T0: 10, T1: 10}
    assert world.committed() == {}
    assert world.describe().members[0].commits is False


def test_reader_is_told_the_same_start_again_after_a_lost_connection_and_a_restart() -> None:
    world, reader = alone()
    world.kafka.begins[T0] = 50
    assert world.reconnect(reader).owned == reader.owned
    world.restart()
    world.poll_topics()
    assert world.reconnect(reader).owned == reader.owned
    assert world.committed() == {}


def test_snapshot_keeps_where_a_reader_starts() -> None:
    world, _ = alone()
    state = world.state(world.node.shard_of("g"))
    journal = Journal(0)
    load(journal, [encode_record(record) for record in records_of(state)], 99, [])
    assert journal.state == state
    assert {grant.start for _, grant in journal.state.groups["g"].grants.items()} == {10}


def test_reader_starts_at_the_groups_offset_where_there_is_one() -> None:
    world = NodeWorld({"t": 2})
    world.connect().ask(CommitOffsets("g", in_columns((OffsetToCommit("t", 0, 42),))), CommitOffsetsResponse)
    reader = world.join("reader", commits=False, reset_policy=EARLIEST)
    assert {partition: start.offset for partition, start in reader.owned.items()} == {T0: 42, T1: 10}
    assert world.committed() == {T0: 42}


def test_next_owner_starts_by_its_own_policy_and_not_where_the_reader_did() -> None:
    world, reader = alone()
    owner = world.join("owner", reset_policy=LATEST)
    reader.stop_all()
    (taken,) = owner.owned
    assert owner.owned[taken].offset == 100
    assert world.committed() == {taken: 100}
    reader.close()
    world.settle()
    assert world.committed() == {T0: 100, T1: 100}


def test_policy_of_a_reader_is_not_the_groups_and_may_be_another() -> None:
    world, _ = alone()
    assert world.group().reset_policy is None
    world.join("owner", reset_policy=LATEST)
    assert world.group().reset_policy == LATEST
    world.join("another reader", commits=False, reset_policy=ResetPolicy("none"))
    assert world.group().reset_policy == LATEST


def test_handover_of_a_reader_is_not_the_groups() -> None:
    world, _ = alone()
    world.join("owner", handover="hold", instance_id="i1")
    assert world.group().handover == "hold"
    world.join("another reader", commits=False)


def test_hints_of_a_reader_count_for_itself_alone() -> None:
    hint = StartHint("t", "id-t", 0, 77, from_checkpoint=True)
    world, reader = alone(hints=(hint,))
    assert reader.owned[T0].offset == 77
    reader.leave()
    owner = world.join("owner", reset_policy=LATEST)
    assert owner.owned[T0].offset == 100


def test_hints_of_the_members_that_commit_count_for_a_reader() -> None:
    world = NodeWorld({"t": 1, "u": 1})
    world.join("owner", topics=("u",), hints=(StartHint("t", "id-t", 0, 77, from_checkpoint=True),))
    reader = world.join("reader", commits=False, reset_policy=EARLIEST)
    assert reader.owned[T0].offset == 77


def test_first_look_of_a_reader_is_not_the_groups() -> None:
    world, _ = alone()
    world.kafka.topics["t"] = 3
    world.poll_topics()
    world.settle()
    owner = world.join("owner", reset_policy=LATEST, streams=8)
    for member in list(world.members.values()):
        if member.member_id == "reader":
            member.leave()
    world.settle()
    assert {start.offset for start in owner.owned.values()} == {100}
    assert len(owner.owned) == 3


def test_topic_that_the_group_knew_stays_known_when_a_reader_comes() -> None:
    world = NodeWorld({"t": 1})
    world.join("owner", reset_policy=LATEST)
    world.join("reader", commits=False)
    world.kafka.topics["t"] = 2
    world.poll_topics()
    world.settle()
    assert not world.group().topics["t"].by_readers
    assert world.group().topics["t"].first_partitions == 1


def _commits(reader: Member) -> ErrorCode:
    return reader.commit(T0, 20).error


def _pings(reader: Member) -> ErrorCode:
    offsets = in_columns((OffsetToCommit("t", 0, 20, reader.epoch(T0)),))
    return reader.ask(Ping(1, offsets), PingResponse).refused[0].error


def _claims(reader: Member) -> ErrorCode:
    return reader.ask(advance_of((), (reader.claim(T0, 10, 20),)), AdvanceResponse).error


def _lets_go(reader: Member) -> ErrorCode:
    final = FinalOffset("t", 0, reader.epoch(T0), 20)
    return reader.ask(FetcherStopped((final,)), FetcherStoppedResponse).results[0].error


@pytest.mark.parametrize("write", [_commits, _pings, _claims, _lets_go])
def test_commits_claims_and_final_offsets_of_a_reader_are_refused(write: Callable[[Member], ErrorCode]) -> None:
    world, reader = alone()
    assert write(reader) is ErrorCode.INVALID_REQUEST
    assert world.committed() == {}
    assert not list(world.group().claims.items())


def test_reader_may_not_ask_for_auto_commit() -> None:
    world = NodeWorld()
    member = world.joining("reader", commits=False)
    assert member.registration is not None
    member.registration = type(member.registration)(
        **{name: getattr(member.registration, name) for name in member.registration.__struct_fields__}
        | {"auto_commit": True}
    )
    response = member.register()
    assert (response.error, "commits nothing" in response.message) == (ErrorCode.INVALID_REQUEST, True)


@pytest.mark.parametrize("committed", [None, 42])
def test_position_out_of_range_starts_anew_for_the_reader_and_the_groups_offset_stays(committed: int | None) -> None:
    world = NodeWorld({"t": 1})
    if committed is not None:
        world.connect().ask(CommitOffsets("g", in_columns((OffsetToCommit("t", 0, committed),))), CommitOffsetsResponse)
    reader = world.join("reader", commits=False, reset_policy=EARLIEST)
    before = reader.epoch(T0)
    world.kafka.begins[T0] = 60
    asked = ReportOutOfRange((LostPosition("t", 0, before, reader.owned[T0].offset),))
    assert reader.ask(asked, ReportOutOfRangeResponse).results[0].error is ErrorCode.NONE
    assert reader.owned[T0].offset == 60
    assert reader.epoch(T0) > before
    assert reader.is_complete
    assert world.committed() == ({} if committed is None else {T0: committed})
    assert world.group().by_policy == set()
    reader.leave()
    owner = world.join("owner", reset_policy=LATEST)
    assert owner.owned[T0].offset == (100 if committed is None else committed)


def test_position_out_of_range_of_a_reader_without_a_policy_is_an_error() -> None:
    world = NodeWorld({"t": 1})
    world.connect().ask(CommitOffsets("g", in_columns((OffsetToCommit("t", 0, 42),))), CommitOffsetsResponse)
    reader = world.join("reader", commits=False, reset_policy=ResetPolicy("none"))
    world.kafka.begins[T0] = 60
    asked = ReportOutOfRange((LostPosition("t", 0, reader.epoch(T0), 42),))
    result = reader.ask(asked, ReportOutOfRangeResponse).results[0]
    assert (result.error, result.committed) == (ErrorCode.OFFSET_OUT_OF_RANGE, 42)
    assert world.owners() == {T0: "reader"}


def test_offset_that_kafka_does_not_have_stays_out_of_range_while_a_reader_reads() -> None:
    world = NodeWorld({"t": 1})
    hint = StartHint("t", "id-t", 0, 50, from_checkpoint=True)
    owner = world.join("owner", reset_policy=EARLIEST, hints=(hint,))
    world.kafka.begins[T0] = 60
    world.kafka.answers_left = 2
    owner.ask(ReportOutOfRange((LostPosition("t", 0, owner.epoch(T0), 50),)), ReportOutOfRangeResponse)
    owner.leave()
    world.kafka.answers_left = None
    world.join("reader", commits=False).leave()
    again = world.join("owner", hints=(hint,))
    assert again.owned[T0].offset == 60


def test_a_report_of_a_reader_is_not_believed_that_kafka_contradicts() -> None:
    world, reader = alone()
    world.kafka.stable[T0] = 11
    for position in (10, 11, 12, 100):
        asked = ReportOutOfRange((LostPosition("t", 0, reader.epoch(T0), position),))
        (result,) = reader.ask(asked, ReportOutOfRangeResponse).results
        assert result.error is ErrorCode.OFFSET_NOT_AVAILABLE
    assert (reader.owned[T0].offset, reader.is_complete) == (10, True)


def test_reader_that_commits_from_now_on_starts_anew() -> None:
    world, reader = alone()
    again = world.reconnect(reader, commits=True, reset_policy=LATEST, incarnation=reader.registration.incarnation)  # type: ignore[union-attr]
    world.settle()
    assert {start.offset for start in again.owned.values()} == {100}
    assert world.committed() == {T0: 100, T1: 100}
    claim = again.run(T0, 100, 110)
    assert again.advance([claim]).finished[0].error is ErrorCode.NONE


def test_reader_does_not_keep_what_it_left_behind_when_it_still_committed() -> None:
    world = NodeWorld({"t": 2})
    member = world.join("m1")
    member.run(T0, 100, 110)
    world.restart()
    world.advance(11_000)
    assert (world.owners(), world.group().members) == ({T0: "m1"}, {})
    world.poll_topics()
    reader = world.join("m1", commits=False, reset_policy=EARLIEST)
    assert reader.epoch(T0) > member.epoch(T0)
    assert world.committed() == {T0: 100, T1: 100}


def test_what_a_reader_starts_anew_is_forgotten_when_somebody_sets_the_offset() -> None:
    """Kafka lacked the position of then; at the offset that an operator set meanwhile everybody starts."""
    world = NodeWorld({"t": 1})
    world.connect().ask(CommitOffsets("g", in_columns((OffsetToCommit("t", 0, 20),))), CommitOffsetsResponse)
    reader = world.join("reader", commits=False, reset_policy=LATEST)
    world.kafka.begins[T0] = 60
    world.kafka.answers_left = 2
    report = ReportOutOfRange((LostPosition("t", 0, reader.epoch(T0), 20),))
    assert reader.ask(report, ReportOutOfRangeResponse).results[0].error is ErrorCode.NONE
    assert world.owners() == {}
    world.kafka.answers_left = None
    world.connect().ask(CommitOffsets("g", in_columns((OffsetToCommit("t", 0, 70),))), CommitOffsetsResponse)
    world.advance(5_000)
    assert reader.owned[T0].offset == 70


def test_what_one_reader_starts_anew_another_one_does_not() -> None:
    world = NodeWorld({"t": 1})
    world.connect().ask(CommitOffsets("g", in_columns((OffsetToCommit("t", 0, 50),))), CommitOffsetsResponse)
    reader = world.join("reader", commits=False, reset_policy=LATEST)
    world.kafka.answers_left = 2
    report = ReportOutOfRange((LostPosition("t", 0, reader.epoch(T0), 5),))
    assert reader.ask(report, ReportOutOfRangeResponse).results[0].error is ErrorCode.NONE
    assert world.owners() == {}
    reader.leave()
    world.kafka.answers_left = None
    assert world.join("other", commits=False, reset_policy=LATEST).owned[T0].offset == 50
