"""`spark_kcoord.batch`: a batch as a member, committed when its block ends well and let go when it does not."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

import spark_kcoord
from coordinator.local.kafka.broker import LocalKafka
from coordinator.local.node import LocalCoordinator
from coordinator.protocol.parts import ClaimState
from tests.helpers.group_view import GroupView
from tests.helpers.kafka_topics import produce, produce_numbers
from tests.helpers.plain_member import a_member
from tests.helpers.record_batches import Row
from tests.helpers.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

PUSH_DOWN = "spark.sql.python.filterPushdown.enabled"


def options(coordinator: LocalCoordinator, name: str, **others: str) -> dict[str, str]:
    return {
        "kcoord.bootstrap.servers": coordinator.address,
        "kcoord.group.id": name,
        "subscribe": name,
        **others,
    }


def numbers(rows: "DataFrame") -> Counter[int]:
    return Counter(int(bytes(row.value).decode()) for row in rows.select("value").collect())


def test_what_the_block_read_is_committed_when_it_ends_and_not_before(
    spark: "SparkSession", kafka: LocalKafka, coordinator: LocalCoordinator, topic: Callable[..., str]
) -> None:
    name = topic(3)
    view = GroupView(coordinator.address, name)
    produce_numbers(kafka.bootstrap_servers, name, 3, 0, 90)
    with spark_kcoord.batch(spark, options(coordinator, name)) as first:
        produce_numbers(kafka.bootstrap_servers, name, 3, 90, 30)
        assert (first.records, first.is_complete) == (90, True)
        assert numbers(first.rows) == Counter(range(90))
        assert first.rows.columns[:3] == ["key", "value", "topic"]
        states = [partition.claim_state for partition in view.describe().partitions]
        assert (view.committed(), states) == (0, [ClaimState.RUNNING] * 3)
    assert (view.committed(), view.describe().members) == (90, ())
    with spark_kcoord.batch(spark, options(coordinator, name, maxOffsetsPerTrigger="15")) as second:
        assert numbers(second.rows).total() == 15
    assert view.committed() == 105


def test_a_block_ends_where_its_options_say_and_commits_up_to_there(
    spark: "SparkSession", kafka: LocalKafka, coordinator: LocalCoordinator, topic: Callable[..., str]
) -> None:
    name = topic(2)
    view = GroupView(coordinator.address, name)
    rows = [(number % 2, Row(None, b"%d" % number, 1_790_000_000_000 + number)) for number in range(60)]
    produce(kafka.bootstrap_servers, name, rows)
    ends: list[tuple[dict[str, str], int]] = [
        ({"endingOffsets": json.dumps({name: {"0": 5, "1": 5}})}, 10),
        ({"endingOffsetsByTimestamp": json.dumps({name: 1_790_000_000_020})}, 20),
        ({"endingTimestamp": "1790000000030"}, 30),
        ({"endingOffsets": json.dumps({name: {"0": 3, "1": 99}})}, 30 + 15),
    ]
    read = 0
    for ending, committed in ends:
        with spark_kcoord.batch(spark, options(coordinator, name, **ending)) as block:
            assert (block.records, numbers(block.rows).total()) == (committed - read, committed - read)
        assert view.committed() == committed
        read = committed
    with (
        pytest.raises(spark_kcoord.OptionError, match=r"'endingOffsets' leaves out 1 of topic"),
        spark_kcoord.batch(spark, options(coordinator, name, endingOffsets=json.dumps({name: {"0": 5}}))),
    ):
        raise AssertionError("not all partitions have an end")


def test_a_block_takes_about_as_many_bytes_as_it_may(
    spark: "SparkSession", kafka: LocalKafka, coordinator: LocalCoordinator, topic: Callable[..., str]
) -> None:
    name = topic(1)
    rows = [(0, Row(None, b"%1000d" % number, 1_790_000_000_000)) for number in range(100)]
    produce(kafka.bootstrap_servers, name, rows)
    with spark_kcoord.batch(spark, options(coordinator, name, maxBytesPerTrigger="20k")) as block:
        assert 10 <= block.records <= 30
        assert numbers(block.rows) == Counter(range(block.records))


def test_a_block_that_fails_commits_nothing_and_lets_go(
    spark: "SparkSession", kafka: LocalKafka, coordinator: LocalCoordinator, topic: Callable[..., str]
) -> None:
    name = topic(2)
    view = GroupView(coordinator.address, name)
    produce_numbers(kafka.bootstrap_servers, name, 2, 0, 10)
    with pytest.raises(ZeroDivisionError), spark_kcoord.batch(spark, options(coordinator, name)) as rows:
        assert numbers(rows.rows).total() / 0
    described = view.describe()
    assert described.members == ()
    assert [(p.committed, p.claim, p.member_id) for p in described.partitions] == [(0, None, None)] * 2
    with spark_kcoord.batch(spark, options(coordinator, name)) as again:
        assert numbers(again.rows) == Counter(range(10))


def test_nothing_new_is_an_empty_frame(
    spark: "SparkSession", coordinator: LocalCoordinator, topic: Callable[..., str]
) -> None:
    name = topic(2)
    with spark_kcoord.batch(spark, options(coordinator, name)) as nothing:
        assert (nothing.records, nothing.ranges, numbers(nothing.rows)) == (0, (), Counter())


def test_two_blocks_share_a_group_and_read_everything_once(
    spark: "SparkSession", kafka: LocalKafka, coordinator: LocalCoordinator, topic: Callable[..., str]
) -> None:
    name = topic(4)
    view = GroupView(coordinator.address, name)
    produce_numbers(kafka.bootstrap_servers, name, 4, 0, 80)
    with a_member(coordinator, name, name) as other:
        wait_until(lambda: len(other.assignment().partitions) == 4)
        with spark_kcoord.batch(spark, options(coordinator, name)) as first:
            assert [one.end - one.start for one in first.ranges] == [20, 20]
            read = numbers(first.rows)
    with spark_kcoord.batch(spark, options(coordinator, name)) as second:
        read += numbers(second.rows)
    assert read == Counter(range(80))
    assert view.committed() == 80


def test_partitions_that_nobody_lets_go_of_are_waited_for_in_bounds(
    spark: "SparkSession", kafka: LocalKafka, coordinator: LocalCoordinator, topic: Callable[..., str]
) -> None:
    name = topic(2)
    view = GroupView(coordinator.address, name)
    produce_numbers(kafka.bootstrap_servers, name, 2, 0, 10)
    shared = options(coordinator, name, **{"kcoord.share.within.application": "true"})
    with spark_kcoord.batch(spark, shared) as first:
        assert numbers(first.rows) == Counter(range(10))
        waiting = spark_kcoord.batch(spark, shared, assignment_timeout_s=0.5)
        with pytest.raises(spark_kcoord.KcoordError, match=r"let go of no partition within 0\.5 s"), waiting:
            raise AssertionError("there is nothing to read")
        assert len(view.describe().members) == 1
    assert view.committed() == 10


def test_a_claim_that_was_lost_meanwhile_fails_the_block_at_its_end(
    spark: "SparkSession", kafka: LocalKafka, coordinator: LocalCoordinator, topic: Callable[..., str]
) -> None:
    name = topic(2)
    view = GroupView(coordinator.address, name)
    produce_numbers(kafka.bootstrap_servers, name, 2, 0, 20)
    impatient = options(coordinator, name, **{"kcoord.rebalance.timeout": "1s"})

    def outstay() -> None:
        with spark_kcoord.batch(spark, impatient) as rows:
            # Before anybody asks for partitions: Spark may plan for longer than the rebalance time-out.
            assert numbers(rows.rows) == Counter(range(20))
            with a_member(coordinator, name, name):
                wait_until(lambda: view.events("taken-late") != [])

    with pytest.raises(spark_kcoord.KcoordError, match=r"of 2 ranges .*kcoord\.rebalance\.timeout"):
        outstay()


@pytest.fixture(params=["false", "true"])
def pushes_filters(spark: "SparkSession", request: pytest.FixtureRequest) -> Iterator[bool]:
    spark.conf.set(PUSH_DOWN, request.param)
    yield request.param == "true"
    spark.conf.unset(PUSH_DOWN)


def test_a_block_in_which_no_action_read_its_rows_commits_nothing_and_says_so(
    spark: "SparkSession",
    kafka: LocalKafka,
    coordinator: LocalCoordinator,
    topic: Callable[..., str],
    pushes_filters: bool,
) -> None:
    name = topic(2)
    view = GroupView(coordinator.address, name)
    produce_numbers(kafka.bootstrap_servers, name, 2, 0, 30)

    def only_look() -> None:
        with spark_kcoord.batch(spark, options(coordinator, name)) as unread:
            some = unread.rows.where("offset > 3")
            some.explain()
            some.cache().unpersist()
            states = [partition.claim_state for partition in view.describe().partitions]
            assert states == [ClaimState.OFFERED] * 2

    with pytest.raises(spark_kcoord.UnreadBatchError, match=r"no action in the block read \[0, 15\) of "):
        only_look()
    assert (view.committed(), view.describe().members) == (0, ())
    with spark_kcoord.batch(spark, options(coordinator, name)) as again:
        assert numbers(again.rows) == Counter(range(30))
    assert view.committed() == 30


def test_rows_of_a_block_are_filtered_joined_with_themselves_and_united(
    spark: "SparkSession",
    kafka: LocalKafka,
    coordinator: LocalCoordinator,
    topic: Callable[..., str],
    pushes_filters: bool,
) -> None:
    name = topic(2)
    produce_numbers(kafka.bootstrap_servers, name, 2, 0, 30)
    with spark_kcoord.batch(spark, options(coordinator, name)) as new:
        early, late = new.rows.where("offset < 4"), new.rows.where("offset >= 12")
        assert (early.count(), late.count()) == (8, 6)
        assert numbers(early.union(late)) == numbers(early) + numbers(late)
        pairs = early.alias("early").join(late.alias("late"), "partition")
        assert pairs.count() == 2 * 4 * 3
        assert new.rows.join(new.rows, ["partition", "offset"]).count() == 30
        new.rows.createOrReplaceTempView(name.replace("-", "_"))
        last = "SELECT max(offset) FROM {0} AS theirs WHERE theirs.partition = ours.partition"
        query = f"SELECT * FROM {{0}} AS ours WHERE offset = ({last})"
        assert spark.sql(query.format(name.replace("-", "_"))).count() == 2
    assert GroupView(coordinator.address, name).committed() == 30


def test_a_block_whose_rows_spark_left_out_of_its_plan_says_so_and_how_to_have_them_committed(
    spark: "SparkSession", kafka: LocalKafka, coordinator: LocalCoordinator, topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic(1)
    view = GroupView(coordinator.address, name)
    produce_numbers(kafka.bootstrap_servers, name, 1, 0, 30)
    spark.createDataFrame([], "key binary").write.parquet(str(tmp_path / "empty"))
    empty = spark.read.schema("key binary").parquet(str(tmp_path / "empty"))

    def join_with_nothing() -> None:
        with spark_kcoord.batch(spark, options(coordinator, name)) as joined:
            assert joined.rows.join(empty, "key").collect() == []

    said = r"Spark left them out of its plan .*a join with an empty table, .* call rows\.head\(1\) in the block"
    with pytest.raises(spark_kcoord.UnreadBatchError, match=said):
        join_with_nothing()
    assert view.committed() == 0
    with spark_kcoord.batch(spark, options(coordinator, name)) as planned:
        assert planned.rows.join(empty, "key").collect() == []
        assert len(planned.rows.head(1)) == 1
    assert view.committed() == 30


def test_rows_of_a_block_that_is_over_are_refused_whether_they_were_planned_or_not(
    spark: "SparkSession", kafka: LocalKafka, coordinator: LocalCoordinator, topic: Callable[..., str]
) -> None:
    name = topic(2)
    produce_numbers(kafka.bootstrap_servers, name, 2, 0, 30)
    with spark_kcoord.batch(spark, options(coordinator, name)) as first:
        planned = first.rows
        as_rdd = first.rows.rdd
        assert numbers(planned) == Counter(range(30))
    produce_numbers(kafka.bootstrap_servers, name, 2, 30, 10)
    kept = []

    def fail() -> None:
        with spark_kcoord.batch(spark, options(coordinator, name)) as second:
            kept.append(second.rows)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    refusals = (spark_kcoord.KcoordError, PySparkException, Py4JJavaError)
    for read in (lambda: first.rows, planned.count, planned.collect, as_rdd.count, kept[0].collect):
        with pytest.raises(refusals, match=r"spark_kcoord\.batch.* is over"):
            read()
    with spark_kcoord.batch(spark, options(coordinator, name)) as third:
        assert numbers(third.rows) == Counter(range(30, 40))


def test_the_listener_reports_how_far_a_query_is_behind(
    spark: "SparkSession",
    kafka: LocalKafka,
    coordinator: LocalCoordinator,
    topic: Callable[..., str],
    tmp_path: Path,
) -> None:
    name = topic(2)
    produce_numbers(kafka.bootstrap_servers, name, 2, 0, 100)
    reports: list[spark_kcoord.LagReport] = []
    listener = spark_kcoord.LagListener(reports.append)
    spark.streams.addListener(listener)
    stream = spark.readStream.format("kcoord").options(
        **options(coordinator, name, startingOffsets="earliest", maxOffsetsPerTrigger="60")
    )
    query = stream.load().writeStream.queryName("lagging").format("noop")
    running = query.option("checkpointLocation", str(tmp_path)).start()
    try:
        wait_until(lambda: len(reports) >= 2, query=running)
    finally:
        running.stop()
        wait_until(lambda: listener.latest() == [])
        spark.streams.removeListener(listener)
    first, second = reports[:2]
    assert (first.query, first.group, first.batch_id, first.partitions) == ("lagging", name, 0, 2)
    assert (first.min_behind, first.max_behind, first.avg_behind, first.total_behind) == (20, 20, 20.0, 40)
    assert (first.commits, first.commit_ms) == (0, None)
    assert (second.total_behind, second.commits, second.rebalances) == (0, 1, 0)
    assert second.commit_ms is not None
