"""The pace of a query: a small backlog waits for more, and for no longer than it was told to."""

import logging
import math
from collections.abc import Mapping

import pytest

from coordinator.protocol.ids import TopicPartition
from spark_kcoord.errors import KafkaAwayError
from spark_kcoord.microbatch.commands import ReadSizes
from spark_kcoord.microbatch.pace import Pace
from spark_kcoord.planning.rate_limit import BatchLimits

HERE: TopicPartition = ("t", 0)


class Query:
    """A pace with a clock that stands still, and brokers that tell sizes or fail."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.pace = Pace("g", lambda: self.now_s)
        self.sizes: Mapping[TopicPartition, float] | KafkaAwayError = {HERE: 10.0}
        self.asked: list[ReadSizes] = []

    def until(self, position: int, end: int, others: BatchLimits, limit: int | None = None) -> int:
        """Return how far the partition is read."""
        plan = self.pace.untils({HERE: position}, {HERE: end}, limit, others)
        try:
            command = next(plan)
            assert isinstance(command, ReadSizes)
            self.asked.append(command)
            if isinstance(self.sizes, KafkaAwayError):
                plan.throw(self.sizes)
            else:
                plan.send(self.sizes)
        except StopIteration as done:
            return int(done.value[HERE])
        raise AssertionError("it asks for sizes once")


def test_without_limits_all_is_read_and_nobody_is_asked() -> None:
    query = Query()
    assert query.until(5, 50, BatchLimits()) == 50
    assert (query.asked, query.pace.waits_until) == ([], math.inf)


def test_a_small_backlog_waits_from_the_last_micro_batch_on() -> None:
    query = Query()
    patient = BatchLimits(min_offsets=100, max_delay_s=30)
    assert query.until(5, 50, patient) == 50, "the first micro-batch never waits"
    query.pace.note_batch()
    query.now_s += 10
    assert query.until(50, 60, patient) == 50
    assert query.pace.waits_until == 130
    query.pace.look_again_at(120)
    assert query.pace.waits_until == 120
    query.now_s = 131
    assert query.until(50, 60, patient) == 60
    assert query.pace.waits_until == math.inf


def test_bytes_are_counted_in_the_last_known_sizes_while_kafka_is_away(caplog: pytest.LogCaptureFixture) -> None:
    query = Query()
    limits = BatchLimits(max_bytes=100)
    assert query.until(0, 50, limits) == 10
    query.sizes = KafkaAwayError("Kafka does not answer.")
    with caplog.at_level(logging.WARNING):
        assert query.until(10, 50, limits) == 20
    assert "The last known sizes of records count." in caplog.text
    assert [command.positions for command in query.asked] == [{HERE: 0}, {HERE: 10}]
