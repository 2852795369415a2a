"""What a query finds when it comes back: killed at each point of a micro-batch, with another checkpoint or none."""

import json
import shutil
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.streaming.datasource import ReadMaxRows

from coordinator.client.request import ask
from coordinator.local.kafka.broker import LocalKafka
from coordinator.local.node import LocalCoordinator
from coordinator.protocol.messages import FetchOffsets, FetchOffsetsResponse
from coordinator.protocol.messages.operators import ResetOffsets, ResetOffsetsResponse
from coordinator.protocol.parts import ClaimState, ResetTarget
from coordinator.protocol.text.addresses import parse_addresses
from spark_kcoord.options.source_options import parse_options
from spark_kcoord.source.stream_reader import NO_LIMIT, KcoordStreamReader
from tests.helpers.group_view import GroupView
from tests.helpers.kafka_topics import produce_numbers
from tests.helpers.stream_application import NumberedStream
from tests.helpers.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


class Scene:
    """A topic of two partitions with 40 numbers that a query has read, and 20 that it has not."""

    def __init__(
        self, spark: "SparkSession", kafka: LocalKafka, coordinator: LocalCoordinator, name: str, folder: Path
    ) -> None:
        self.spark, self.kafka, self.coordinator, self.name = spark, kafka, coordinator, name
        self.view = GroupView(coordinator.address, name)
        self.stream = NumberedStream(folder, coordinator.address, name, name)
        self.produced = 0
        self.produce(40)
        self.run()
        self.produce(20)

    def produce(self, count: int) -> None:
        produce_numbers(self.kafka.bootstrap_servers, self.name, 2, self.produced, count)
        self.produced += count

    def run(self, stream: NumberedStream | None = None) -> None:
        """Let a query read what there is and end."""
        query = (stream or self.stream).start(self.spark, is_available_now=True)
        assert query.awaitTermination(150)

    def offset_log(self) -> list[Path]:
        return sorted((self.stream.folder / "checkpoint" / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))

    def reader(self) -> KcoordStreamReader:
        """Return the source as Spark has it beside its driver."""
        options = {
            "kcoord.bootstrap.servers": self.coordinator.address,
            "kcoord.group.id": self.name,
            "subscribe": self.name,
            "startingOffsets": "earliest",
        }
        return KcoordStreamReader(parse_options(options, "stream"))


@pytest.fixture
def scene(
    spark: "SparkSession", kafka: LocalKafka, coordinator: LocalCoordinator, topic: Callable[..., str], tmp_path: Path
) -> Scene:
    return Scene(spark, kafka, coordinator, topic(2), tmp_path / "query")


def die_before_the_offset_log(scene: Scene) -> None:
    """Claim the next micro-batch, as the source does, and be gone before Spark has written it down."""
    last = json.loads(scene.offset_log()[-1].read_text().splitlines()[-1])
    reader = scene.reader()
    assert reader.latestOffset(last, ReadMaxRows(NO_LIMIT)) != last
    reader.stop()


def die_after_the_offset_log(scene: Scene) -> None:
    """Have the next micro-batch written down and planned, and nothing of it read."""
    *rest, text = scene.offset_log()[-1].read_text().splitlines()
    last = json.loads(text)
    reader = scene.reader()
    following = reader.latestOffset(last, ReadMaxRows(NO_LIMIT))
    log = scene.offset_log()[-1]
    log.with_name(str(int(log.name) + 1)).write_text("\n".join([*rest, json.dumps(following)]))
    assert sum(len(task.ranges) for task in reader.partitions(last, following)) == 2
    reader.stop()
    states = [partition.claim_state for partition in scene.view.describe().partitions]
    assert states == [ClaimState.RUNNING] * 2


def die_before_the_sinks_commit(scene: Scene) -> None:
    _fail_in_sink(scene, is_written=False)


def die_after_the_sinks_commit(scene: Scene) -> None:
    _fail_in_sink(scene, is_written=True)


def _fail_in_sink(scene: Scene, *, is_written: bool) -> None:
    def write(batch: Any, batch_id: int) -> None:
        if is_written:
            scene.stream.write(batch, batch_id)
        raise RuntimeError("killed")

    writer = scene.stream.frame(scene.spark).writeStream.foreachBatch(write).trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(scene.stream.folder / "checkpoint")).start()
    with pytest.raises(PySparkException, match="killed"):
        query.awaitTermination(150)


def die_before_the_coordinators_commit(scene: Scene) -> None:
    """Finish a micro-batch, commit log and all, and never ask for the next one."""
    committed = scene.view.committed()
    query = scene.stream.writer(scene.spark).trigger(once=True).start()
    assert query.awaitTermination(150)
    assert scene.view.committed() == committed == scene.produced - 20


def die_after_the_coordinators_commit(scene: Scene) -> None:
    scene.run()
    assert scene.view.committed() == scene.produced


DEATHS = (
    die_before_the_offset_log,
    die_after_the_offset_log,
    die_before_the_sinks_commit,
    die_after_the_sinks_commit,
    die_before_the_coordinators_commit,
    die_after_the_coordinators_commit,
)


@pytest.mark.timeout(600)
def test_a_query_that_died_at_any_point_has_every_row_once_after_its_restart(scene: Scene) -> None:
    for die in DEATHS:  # one after the other: where it has come back, it has read all and stands where it began
        die(scene)
        scene.produce(5)
        scene.run()
        assert scene.stream.rows() == Counter(range(scene.produced)), die.__name__
        assert scene.view.committed() == scene.produced, die.__name__
        assert scene.view.events("taken-over", "claim-skipped") == [], die.__name__
        scene.produce(20)


def test_without_its_checkpoint_a_query_goes_on_where_the_group_is(scene: Scene, tmp_path: Path) -> None:
    new = NumberedStream(tmp_path / "new", scene.coordinator.address, scene.name, scene.name)
    scene.run(new)
    assert new.rows() == Counter(range(40, 60))


def test_with_an_older_checkpoint_the_group_wins_and_nothing_is_read_again(scene: Scene, tmp_path: Path) -> None:
    older = tmp_path / "older"
    shutil.copytree(scene.stream.folder / "checkpoint", older)
    scene.run()
    shutil.rmtree(scene.stream.folder / "checkpoint")
    shutil.move(older, scene.stream.folder / "checkpoint")
    scene.produce(7)
    with_older = NumberedStream(tmp_path / "again", scene.coordinator.address, scene.name, scene.name)
    with_older.folder.mkdir()
    shutil.move(scene.stream.folder / "checkpoint", with_older.folder / "checkpoint")
    scene.run(with_older)
    assert with_older.rows() == Counter(range(60, 67))
    assert scene.view.committed() == 67


def test_with_a_checkpoint_newer_than_the_group_the_group_wins_too(scene: Scene, tmp_path: Path) -> None:
    scene.run()
    targets = tuple(ResetTarget(scene.name, partition, "offset", 25) for partition in range(2))
    reset = ResetOffsets(scene.name, targets, who="test", why="back", is_dry_run=False)
    response = ask(parse_addresses(scene.coordinator.address), reset, 5)
    assert isinstance(response, ResetOffsetsResponse)
    wait_until(lambda: _committed(scene) == [25, 25])
    (scene.stream.folder / "batch-1.json").unlink()
    scene.run()
    assert scene.stream.rows() == Counter(range(40)) + Counter(range(50, 60))


def _committed(scene: Scene) -> list[int]:
    response = ask(parse_addresses(scene.coordinator.address), FetchOffsets(scene.name), 5)
    assert isinstance(response, FetchOffsetsResponse)
    return [one.offset for one in response.offsets]


def test_a_copied_checkpoint_is_refused_while_the_first_query_lives(scene: Scene, tmp_path: Path) -> None:
    copy = NumberedStream(
        tmp_path / "copy", scene.coordinator.address, scene.name, scene.name, ("kcoord.session.timeout=1s",)
    )
    copy.folder.mkdir()
    shutil.copytree(scene.stream.folder / "checkpoint", copy.folder / "checkpoint")
    # Spark knows a query by the id in this file, and in one session it would stop the first one itself.
    (copy.folder / "checkpoint" / ".metadata.crc").unlink()
    (copy.folder / "checkpoint" / "metadata").write_text(json.dumps({"id": str(uuid.uuid4())}))
    first = scene.stream.start(scene.spark)
    try:
        wait_until(lambda: scene.view.committed() == 60, query=first)
        second = copy.start(scene.spark)
        try:
            with pytest.raises(PySparkException, match="MEMBER_ID_IN_USE"):
                second.awaitTermination(150)
        finally:
            second.stop()
        scene.produce(4)
        wait_until(lambda: scene.view.committed() == 64, query=first)
    finally:
        first.stop()
    assert scene.stream.rows() == Counter(range(64))
    assert copy.rows() == Counter()


def test_two_sources_of_one_query_are_members_of_their_own(
    spark: "SparkSession", kafka: LocalKafka, coordinator: LocalCoordinator, topic: Callable[..., str], tmp_path: Path
) -> None:
    names = topic(1), topic(2)
    streams = [NumberedStream(tmp_path, coordinator.address, name, name) for name in names]
    for first, name in ((0, names[0]), (100, names[1])):
        produce_numbers(kafka.bootstrap_servers, name, 2 if first else 1, first, 30)
    rows = streams[0].frame(spark).unionByName(streams[1].frame(spark))
    for total in (30, 42):
        writer = rows.writeStream.foreachBatch(streams[0].write).trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        assert query.awaitTermination(150)
        assert [GroupView(coordinator.address, name).committed() for name in names] == [total, 30]
        if total == 30:
            produce_numbers(kafka.bootstrap_servers, names[0], 1, 30, 12)
    assert streams[0].rows() == Counter(range(42)) + Counter(range(100, 130))


def test_a_coordinator_that_is_away_longer_than_a_batch_is_waited_for_in_bounds(
    spark: "SparkSession",
    kafka: LocalKafka,
    own_coordinator: LocalCoordinator,
    topic: Callable[..., str],
    tmp_path: Path,
) -> None:
    name = topic(2)
    view = GroupView(own_coordinator.address, name)
    stream = NumberedStream(tmp_path / "query", own_coordinator.address, name, name)
    hasty = replace(stream, options=("kcoord.coordinator.timeout=1s",))
    produce_numbers(kafka.bootstrap_servers, name, 2, 0, 20)
    patient = _start_held(stream, spark, "holding-0")
    try:
        own_coordinator.kill()
        (stream.folder / "hold").unlink()
        wait_until(lambda: stream.rows().total() == 20, query=patient)
        own_coordinator.start()
        wait_until(lambda: view.committed() == 20, query=patient)
    finally:
        patient.stop()

    produce_numbers(kafka.bootstrap_servers, name, 2, 20, 10)
    query = _start_held(hasty, spark, "holding-1")
    own_coordinator.kill()
    (stream.folder / "hold").unlink()
    with pytest.raises(PySparkException, match=r"kcoord\.coordinator\.timeout"):
        query.awaitTermination(150)
    assert stream.rows() == Counter(range(30))
    own_coordinator.start()
    again = stream.start(spark, is_available_now=True)
    assert again.awaitTermination(150)
    assert stream.rows() == Counter(range(30))
    assert view.committed() == 30


def _start_held(stream: NumberedStream, spark: "SparkSession", said: str) -> "StreamingQuery":
    stream.folder.mkdir(exist_ok=True)
    (stream.folder / "hold").touch()
    query = stream.start(spark)
    wait_until(lambda: (stream.folder / said).exists(), query=query)
    return query
