"""`spark_kcoord.attach`: what is finished is committed and let go without another trigger or another run."""

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import spark_kcoord
from coordinator.local.kafka.broker import LocalKafka
from coordinator.local.node import LocalCoordinator
from tests.helpers.group_view import GroupView
from tests.helpers.kafka_topics import produce_numbers
from tests.helpers.plain_member import a_member
from tests.helpers.stream_application import NumberedStream
from tests.helpers.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


@pytest.fixture
def attachment(spark: "SparkSession") -> Iterator[spark_kcoord.Attachment]:
    """Return an attachment to the session that ends with the test."""
    attached = spark_kcoord.attach(spark)
    yield attached
    attached.close()


def lag(view: GroupView, produced: int) -> int:
    return produced - view.committed()


def our_warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the warnings of kcoord; those of kafka-python and Spark say how busy the machine is."""
    return [
        record.getMessage()
        for record in caplog.records
        if record.levelno >= logging.WARNING and record.name.partition(".")[0] == "spark_kcoord"
    ]


@pytest.mark.parametrize("trigger", [{"once": True}, {"availableNow": True}])
def test_after_a_run_that_ends_by_itself_the_groups_lag_is_0_and_no_claim_is_open(
    spark: "SparkSession",
    kafka: LocalKafka,
    coordinator: LocalCoordinator,
    topic: Callable[..., str],
    tmp_path: Path,
    attachment: spark_kcoord.Attachment,
    trigger: dict[str, bool],
) -> None:
    name = topic(2)
    view = GroupView(coordinator.address, name)
    stream = NumberedStream(tmp_path, coordinator.address, name, name)
    for produced in (100, 130, 130):
        produce_numbers(kafka.bootstrap_servers, name, 2, view.committed(), produced - view.committed())
        query = stream.writer(spark).trigger(**trigger).start()
        assert query.awaitTermination(150)
        attachment.wait(query, 60)
        assert lag(view, produced) == 0
        assert [partition.claim for partition in view.describe().partitions] == [None, None]
    assert stream.rows().total() == 130
    assert view.events("claim-skipped", "taken-over") == []


def test_a_long_trigger_interval_keeps_neither_commit_nor_partitions_waiting(
    spark: "SparkSession",
    kafka: LocalKafka,
    coordinator: LocalCoordinator,
    topic: Callable[..., str],
    tmp_path: Path,
    attachment: spark_kcoord.Attachment,
    caplog: pytest.LogCaptureFixture,
) -> None:
    name = topic(2)
    view = GroupView(coordinator.address, name)
    produce_numbers(kafka.bootstrap_servers, name, 2, 0, 60)
    stream = NumberedStream(tmp_path, coordinator.address, name, name)
    query = stream.writer(spark).trigger(processingTime="1 hour").start()
    try:
        wait_until(lambda: view.committed() == 60, query=query)
        with a_member(coordinator, name, name) as other:
            wait_until(lambda: len(other.assignment().partitions) == 1, query=query)
            wait_until(lambda: view.state() == "Stable")
    finally:
        query.stop()
    assert view.events("claim-skipped", "taken-over") == []
    assert our_warnings(caplog) == []


def test_a_query_that_never_commits_goes_on_by_its_checkpoint_and_lets_go_at_once(
    spark: "SparkSession",
    kafka: LocalKafka,
    coordinator: LocalCoordinator,
    topic: Callable[..., str],
    tmp_path: Path,
    attachment: spark_kcoord.Attachment,
    caplog: pytest.LogCaptureFixture,
) -> None:
    name = topic(2)
    view = GroupView(coordinator.address, name)
    stream = NumberedStream(tmp_path, coordinator.address, name, name, ("kcoord.commit=false",))
    for start, count in ((0, 60), (60, 10)):
        produce_numbers(kafka.bootstrap_servers, name, 2, start, count)
        query = stream.writer(spark).trigger(once=True).start()
        assert query.awaitTermination(150)
        attachment.wait(query, 60)
    assert stream.rows() == Counter(range(70))
    produce_numbers(kafka.bootstrap_servers, name, 2, 70, 20)
    query = stream.writer(spark).trigger(processingTime="1 hour").start()
    try:
        wait_until(lambda: stream.rows() == Counter(range(90)), query=query)
        attachment.wait(query, 60)
        with a_member(coordinator, name, name) as other:
            wait_until(lambda: len(other.assignment().partitions) == 1, query=query)
            assert [partition.start for partition in other.assignment().partitions] == [0]
    finally:
        query.stop()
    assert view.committed() == 0
    assert not any(partition.claim for partition in view.describe().partitions)
    assert view.events("claim-skipped", "taken-over") == []
    assert our_warnings(caplog) == []


def test_without_it_the_last_micro_batch_is_committed_by_the_next_run(
    spark: "SparkSession", kafka: LocalKafka, coordinator: LocalCoordinator, topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic(1)
    view = GroupView(coordinator.address, name)
    produce_numbers(kafka.bootstrap_servers, name, 1, 0, 40)
    stream = NumberedStream(tmp_path, coordinator.address, name, name)
    for lag_after in (40, 0):
        query = stream.writer(spark).trigger(once=True).start()
        assert query.awaitTermination(150)
        assert lag(view, 40) == lag_after


def test_asynchronous_progress_tracking_is_left_alone_with_a_warning(
    spark: "SparkSession",
    kafka: LocalKafka,
    coordinator: LocalCoordinator,
    topic: Callable[..., str],
    tmp_path: Path,
    attachment: spark_kcoord.Attachment,
    caplog: pytest.LogCaptureFixture,
) -> None:
    name = topic(1)
    produce_numbers(kafka.bootstrap_servers, name, 1, 0, 10)
    frame = NumberedStream(tmp_path, coordinator.address, name, name).frame(spark)
    writer = frame.writeStream.format("console").option("asyncProgressTrackingEnabled", "true")
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        wait_until(lambda: query.lastProgress is not None, query=query)
        attachment.wait(query, 60)
    finally:
        query.stop()
    (warning,) = [record for record in caplog.records if "asynchronous progress tracking" in record.message]
    assert warning.levelno == logging.WARNING
