"""The pure parts of the group benchmarks: percentiles, the frames that are patched, and Kafka's requests by hand."""

import os
import struct

import pytest
from kafka.protocol.admin import IncrementalAlterConfigsRequest
from kafka.protocol.consumer import OffsetCommitRequest, OffsetCommitResponse
from kafka.protocol.metadata import FindCoordinatorRequest

from benchmarks import group_kafka_wire as wire
from benchmarks.group import missed_bars
from benchmarks.group_core import core_used_s, cpu_s, pids_of
from benchmarks.group_members import KcoordMember, RefusedError, Tally
from benchmarks.group_rounds import Round, pace, percentile, saturate
from benchmarks.group_sockets import Peer, Sockets
from coordinator.protocol.codec import decode_request, encode_message
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.framing import encode_envelope, encode_hello
from coordinator.protocol.messages import (
    CommitOffsets,
    CommitOffsetsResponse,
    FetcherStarted,
    FetcherStartedResponse,
    FetcherStopped,
    FetcherStoppedResponse,
    PingResponse,
    Push,
    RegisterConsumer,
    RegisterConsumerResponse,
    Request,
    Response,
    StartFetcher,
    StopFetcher,
)
from coordinator.protocol.parts import OwnedPartition, PartitionResult, StartPartition
from coordinator.protocol.session import SUPPORTED_VERSIONS


@pytest.mark.parametrize(
    ("percent", "value"), [(0, 1.0), (1, 1.0), (50, 50.0), (50.5, 51.0), (99, 99.0), (99.9, 100.0), (100, 100.0)]
)
def test_percentile_is_the_nearest_rank(percent: float, value: float) -> None:
    assert percentile([float(n) for n in range(1, 101)], percent) == value


def test_percentile_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing"):
        percentile([], 50)


def test_round_divides_by_its_seconds() -> None:
    measured = Round((1.0, 2.0, 3.0, 4.0), seconds=2.0, load_cpu_s=0.5)

    assert (measured.per_s, measured.load_share, measured.percentile_ms(50)) == (2.0, 0.25, 2.0)


def test_every_bar_that_is_missed_is_named() -> None:
    kept = {"stable_ms": 2000, "handover_ms": 100, "ping_p99_ms": 10, "reconnect_ms": 5000, "loop_max_ms": 50}
    missed = {name: value + 0.1 for name, value in kept.items()}
    kept["commits_per_s"], missed["commits_per_s"] = 15_000, 14_999

    assert missed_bars(kept, 1100) == []
    assert [sentence.split()[0] for sentence in missed_bars(missed, 1100)] == list(missed)
    assert len(missed_bars(kept, 1101)) == 1


# ---- kcoord's members -----------------------------------------------------------------------------------------------


class Wire(Sockets):
    """Keeps what is sent."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []

    def send(self, peer: object, data: bytes) -> None:
        self.sent.append(data)

    def requests(self) -> list[Request]:
        found = [decode_request(frame[8:]) for frame in self.sent]
        self.sent.clear()
        return found


def grant(number: int, owner_epoch: int = 70_000) -> StartPartition:
    return StartPartition("t", "id", number, owner_epoch + number, 0)


def hear(member: KcoordMember, message: Response | Push, correlation_id: int = 0) -> bool:
    return member.receive(encode_envelope(correlation_id, encode_message(message))[4:])


@pytest.fixture
def member() -> KcoordMember:
    member = KcoordMember(Wire(), Tally("g", "t"))
    member.receive(encode_hello(SUPPORTED_VERSIONS)[4:])
    return member


def wire_of(member: KcoordMember) -> Wire:
    assert isinstance(member._sockets, Wire)
    return member._sockets


def test_a_commit_moves_every_offset_by_one_and_nothing_else(member: KcoordMember) -> None:
    hear(member, StartFetcher(tuple(grant(n) for n in range(10)), True, 1, 1))
    member.prepare_commits()

    first, second = (decode_request(member.commit()[8:]) for _ in range(2))

    assert isinstance(first, CommitOffsets)
    assert isinstance(second, CommitOffsets)
    (columns,) = first.offsets
    assert (columns.partitions, columns.owner_epochs) == (tuple(range(10)), tuple(range(70_000, 70_010)))
    assert columns.offsets == (1_000_001,) * 10
    assert second.offsets[0].offsets == (1_000_002,) * 10


def test_a_member_whose_connection_ended_comes_back_as_who_it_was(member: KcoordMember) -> None:
    member.registration()
    hear(member, RegisterConsumerResponse(member_id="m"), 2)
    hear(member, StartFetcher((grant(0),), True, 1, 1))
    wire_of(member).requests()
    tally = member.tally

    member.forget()

    assert (tally.members, tally.registered, tally.complete, tally.owned, tally.unanswered) == (1, 0, 0, 0, 0)
    assert not wire_of(member).sent
    member.receive(encode_hello(SUPPORTED_VERSIONS)[4:])
    (asked,) = wire_of(member).requests()
    assert isinstance(asked, RegisterConsumer)
    assert (asked.member_id, asked.incarnation, asked.is_rejoining) == ("m", member.incarnation, True)
    hear(member, RegisterConsumerResponse(member_id="m"), 4)
    hear(member, StartFetcher((grant(0),), True, 1, 1))
    hear(member, FetcherStartedResponse(), 5)
    assert tally.is_stable(1)


def test_a_group_is_stable_once_all_was_started_and_that_was_answered(member: KcoordMember) -> None:
    member.registration()
    hear(member, RegisterConsumerResponse(member_id="m"), 2)
    hear(member, StartFetcher((grant(0), grant(1)), True, 1, 1))

    assert wire_of(member).requests() == [FetcherStarted(tuple(OwnedPartition("t", n, 70_000 + n) for n in range(2)))]
    assert not member.tally.is_stable(2)

    hear(member, FetcherStartedResponse(), 3)

    assert member.tally.is_stable(2)
    assert not member.tally.is_stable(3)


def test_a_registration_that_may_be_tried_again_is_tried_again(member: KcoordMember) -> None:
    member.registration()
    hear(member, RegisterConsumerResponse(error=ErrorCode.COORDINATOR_NOT_AVAILABLE, message="later"), 2)

    (said,) = wire_of(member).requests()
    assert isinstance(said, RegisterConsumer)
    assert (member.tally.registered, member.tally.unanswered) == (0, 1)


def test_a_stop_is_answered_and_takes_the_partition_out_of_the_tally(member: KcoordMember) -> None:
    hear(member, StartFetcher((grant(0), grant(1)), True, 1, 1))
    wire_of(member).requests()
    hear(member, StopFetcher((OwnedPartition("t", 1, 70_001),), 1000, "why"))

    (said,) = wire_of(member).requests()
    assert isinstance(said, FetcherStopped)
    assert [(final.partition, final.owner_epoch) for final in said.partitions] == [(1, 70_001)]
    assert (member.tally.owned, member.tally.complete) == (1, 0)

    hear(member, FetcherStoppedResponse((PartitionResult("t", 1),)), 4)
    hear(member, StartFetcher((), True, 2, 2))
    assert (member.tally.owned, member.tally.complete) == (1, 1)


@pytest.mark.parametrize(
    "answer",
    [
        PingResponse(error=ErrorCode.UNKNOWN_MEMBER_ID, message="who"),
        CommitOffsetsResponse(refused=(PartitionResult("t", 0, ErrorCode.FENCED_OWNER_EPOCH, "no"),), accepted=9),
        CommitOffsetsResponse(error=ErrorCode.GROUP_ID_NOT_FOUND),
    ],
)
def test_a_refused_request_is_never_counted(member: KcoordMember, answer: Response) -> None:
    with pytest.raises(RefusedError):
        hear(member, answer, 1)


@pytest.mark.parametrize("answer", [PingResponse(member_epoch=3), CommitOffsetsResponse(accepted=10)])
def test_an_accepted_request_is_counted(member: KcoordMember, answer: Response) -> None:
    assert hear(member, answer, 1)


# ---- Kafka's requests -----------------------------------------------------------------------------------------------


def test_commit_is_what_the_library_would_send() -> None:
    topic = OffsetCommitRequest.OffsetCommitRequestTopic
    partitions = [
        topic.OffsetCommitRequestPartition(
            partition_index=number, committed_offset=2**40, committed_leader_epoch=-1, committed_metadata=""
        )
        for number in (3, 200)
    ]
    theirs = OffsetCommitRequest(
        group_id="g",
        generation_id_or_member_epoch=7,
        member_id="m",
        group_instance_id=None,
        topics=[topic(name="t", partitions=partitions)],
        version=9,
    )
    theirs.with_header(correlation_id=5, client_id="load")

    assert wire.commit(5, "g", "m", 7, "t", [3, 200], 2**40) == theirs.encode(version=9, header=True, framed=True)


def test_accepted_commit_is_what_a_broker_answers() -> None:
    topic = OffsetCommitResponse.OffsetCommitResponseTopic
    partitions = [topic.OffsetCommitResponsePartition(partition_index=number, error_code=0) for number in (3, 200)]
    answer = OffsetCommitResponse(throttle_time_ms=0, topics=[topic(name="t", partitions=partitions)], version=9)

    header = struct.pack(">i", 5) + b"\0"
    assert wire.commit_accepted(5, "t", [3, 200]) == header + answer.encode(version=9)


def test_find_coordinator_is_what_the_library_would_send() -> None:
    theirs = FindCoordinatorRequest(key="group", key_type=0, version=3)
    theirs.with_header(correlation_id=1, client_id="load")

    assert wire.find_coordinator(1, "group") == theirs.encode(version=3, header=True, framed=True)


def test_alter_configs_is_what_the_library_would_send() -> None:
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource
    config = resource.AlterableConfig(name="a", config_operation=0, value="1")
    theirs = IncrementalAlterConfigsRequest(
        resources=[resource(resource_type=32, resource_name="g", configs=[config])], validate_only=False, version=1
    )
    theirs.with_header(correlation_id=1, client_id="load")

    assert wire.alter_configs(1, 32, "g", {"a": "1"}) == theirs.encode(version=1, header=True, framed=True)


def test_join_names_topics_and_an_empty_list_of_partitions() -> None:
    frame = wire.heartbeat(9, "g", "m", 0, topics=["t"], rebalance_timeout_ms=60_000, owned={})

    body = (
        b"\x02g" + b"\x02m" + b"\0\0\0\0" + b"\0" + b"\0"  # group, member, epoch, no instance, no rack
        b"\0\0\xea\x60" + b"\x02\x02t" + b"\0" + b"\0"  # rebalance time-out, one topic, no pattern, any assignor
        b"\x01" + b"\0"  # no partitions, which is not the same as null; no tags
    )
    header = struct.pack(">hhih", 68, 1, 9, 4) + b"load" + b"\0"
    assert frame == struct.pack(">i", len(header) + len(body)) + header + body


def test_heartbeat_answer_is_read_with_its_assignment() -> None:
    topic_id = bytes(range(16))
    front = struct.pack(">i", 9) + b"\0" + struct.pack(">ih", 0, 0) + b"\0" + b"\x02m" + struct.pack(">ii", 4, 5000)
    assigned = front + b"\x01" + b"\x02" + topic_id + b"\x03" + struct.pack(">ii", 1, 300) + b"\0" + b"\0" + b"\0"
    unchanged = front + b"\xff" + b"\0"

    assert wire.read_heartbeat(assigned) == wire.HeartbeatAnswer(0, "", 4, 5000, {topic_id: [1, 300]})
    assert wire.read_heartbeat(unchanged) == wire.HeartbeatAnswer(0, "", 4, 5000, None)


@pytest.mark.parametrize("number", [0, 1, 127, 128, 300, 2**31])
def test_numbers_of_variable_length_are_read_as_written(number: int) -> None:
    assert wire.Reader(wire.varint(number)).varint() == number


# ---- rounds ---------------------------------------------------------------------------------------------------------


class AnsweringSockets(Sockets):
    """Answers what is in flight at the next turn, and remembers the most that was."""

    def __init__(self) -> None:
        self.in_flight: list[Peer] = []
        self.most = 0

    def send(self, peer: Peer, data: bytes) -> None:
        assert peer not in self.in_flight, "one request a peer"
        self.in_flight.append(peer)
        self.most = max(self.most, len(self.in_flight))

    def turn(self, timeout_s: float) -> list[Peer]:
        answered, self.in_flight = self.in_flight, []
        return answered


def test_a_saturated_round_keeps_so_many_in_flight_and_no_more() -> None:
    sockets = AnsweringSockets()

    measured = saturate(sockets, [Peer() for _ in range(10)], lambda _: b"", 4, 0.5)

    assert sockets.most == 4
    assert not sockets.in_flight
    assert len(measured.latencies_ms) > 4


def test_a_paced_round_asks_as_often_as_it_was_told() -> None:
    measured = pace(AnsweringSockets(), [Peer() for _ in range(10)], lambda _: b"", 1000, 0.05)

    assert len(measured.latencies_ms) == 50


def test_processor_time_of_this_process_is_found() -> None:
    assert os.getpid() in pids_of(os.getpgrp())
    assert cpu_s([os.getpid()]) > 0
    assert core_used_s(0) > 0
