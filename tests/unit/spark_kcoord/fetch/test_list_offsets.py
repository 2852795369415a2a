"""Asking leaders for offsets: what moved is asked again, what is gone is left out."""

import time
from functools import partial
from typing import Any

import kafka.errors as kafka_errors
import pytest
from kafka.protocol.consumer import ListOffsetsResponse

from spark_kcoord.errors import UnknownTopicError
from spark_kcoord.fetch.connection import TopicMetadata
from spark_kcoord.fetch.offsets import list_offsets
from spark_kcoord.fetch.topic_range import TopicPartition
from spark_kcoord.options.kafka_settings import KafkaSettings
from spark_kcoord.options.offset_specs import EARLIEST_POSITION, LATEST_POSITION
from tests.helpers.fake_cluster import FakeCluster, FakeLog

SETTINGS = KafkaSettings(servers=("k:1",), retry_backoff_ms=1)
PATIENCE_S = 30.0


def cluster(partitions: int = 3) -> FakeCluster:
    kafka = FakeCluster(SETTINGS, {("t", number): FakeLog(leader=number % 2) for number in range(partitions)})
    for number in range(partitions):
        kafka.logs["t", number].append([b"x"] * (number + 1))
    return kafka


def ask(
    kafka: FakeCluster, positions: dict[TopicPartition, int], patience_s: float = PATIENCE_S
) -> dict[TopicPartition, int]:
    deadline = time.monotonic() + patience_s
    found: dict[TopicPartition, int] = kafka.run(partial(list_offsets, kafka, positions, deadline), 1)
    return found


def test_each_partition_is_answered_by_its_leader() -> None:
    positions = {("t", 0): LATEST_POSITION, ("t", 1): LATEST_POSITION, ("t", 2): EARLIEST_POSITION}

    assert ask(cluster(), positions) == {("t", 0): 1, ("t", 1): 2, ("t", 2): 0}


def test_partitions_of_a_topic_made_again_with_fewer_are_left_out() -> None:
    kafka = cluster()
    del kafka.logs["t", 1], kafka.logs["t", 2]

    assert ask(kafka, {("t", number): LATEST_POSITION for number in range(3)}) == {("t", 0): 1}


def test_nothing_is_left_of_a_topic_whose_wanted_partitions_are_all_gone() -> None:
    kafka = cluster()
    del kafka.logs["t", 2]

    assert ask(kafka, {("t", 2): LATEST_POSITION}) == {}


def test_partition_that_one_broker_has_not_heard_of_is_asked_for_again() -> None:
    kafka = cluster()
    hidden = kafka.logs.pop(("t", 2))
    tell, times = kafka.tell, 0

    def tell_late() -> None:
        nonlocal times
        times += 1
        if times == 2:
            kafka.logs["t", 2] = hidden
        tell()

    kafka.tell = tell_late  # type: ignore[method-assign]

    assert ask(kafka, {("t", 2): LATEST_POSITION}) == {("t", 2): 3}


def test_partition_that_an_answer_leaves_out_is_asked_for_again_and_not_taken_for_gone() -> None:
    kafka = cluster(1)
    short = iter([ListOffsetsResponse(topics=[]), ListOffsetsResponse(topics=[])])
    send = kafka.send

    async def answer(node_id: int, request: Any) -> Any:
        return next(short, None) or await send(node_id, request)

    kafka.send = answer  # type: ignore[method-assign]

    assert ask(kafka, {("t", 0): LATEST_POSITION}) == {("t", 0): 1}


def test_topic_that_one_broker_has_not_heard_of_is_asked_for_again() -> None:
    kafka = cluster(1)
    made = kafka.logs.pop(("t", 0))
    kafka.tell()
    tell, times = kafka.tell, 0

    def tell_late() -> None:
        nonlocal times
        times += 1
        if times == 2:
            kafka.logs["t", 0] = made
        tell()

    kafka.tell = tell_late  # type: ignore[method-assign]

    assert ask(kafka, {("t", 0): LATEST_POSITION}) == {("t", 0): 1}


def test_topic_that_is_gone_is_named() -> None:
    kafka = cluster()
    kafka.logs.clear()
    kafka.tell()

    with pytest.raises(UnknownTopicError, match="has no topic t"):
        ask(kafka, {("t", 0): LATEST_POSITION})


def test_topic_whose_name_kafka_does_not_allow_is_named_as_one_that_is_not_there() -> None:
    kafka = cluster()
    refused = TopicMetadata(None, {}, kafka_errors.InvalidTopicError, 0.0)
    kafka.tell = lambda: kafka.told.update(t=refused)  # type: ignore[method-assign]
    kafka.tell()

    with pytest.raises(UnknownTopicError, match="has no topic t"):
        ask(kafka, {("t", 0): LATEST_POSITION})


def test_partition_without_a_leader_is_waited_for_until_the_deadline() -> None:
    kafka = cluster()
    kafka.logs["t", 0].leader = -1
    kafka.tell()

    with pytest.raises(kafka_errors.LeaderNotAvailableError):
        ask(kafka, {("t", 0): LATEST_POSITION}, patience_s=0.05)
