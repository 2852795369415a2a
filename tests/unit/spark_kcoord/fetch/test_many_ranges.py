"""Many ranges in one task: few round trips, bounded answers, every row once, whatever happens to the leaders."""

import itertools
import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any

import kafka.errors as kafka_errors
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_kcoord.errors import DataLossError
from spark_kcoord.fetch.decoding.decode import COLUMNS
from spark_kcoord.fetch.merging import merge_small
from spark_kcoord.fetch.pool import ClientPool
from spark_kcoord.fetch.ranges import read_ranges
from spark_kcoord.fetch.topic_range import TopicRange
from spark_kcoord.options.kafka_settings import KafkaSettings
from tests.helpers.fake_cluster import FakeCluster, FakeLog

Rows = dict[tuple[str, int], list[int]]
TIMEOUT_S = 30.0


def settings_of(most_bytes: int = 1 << 20) -> KafkaSettings:
    return KafkaSettings(servers=("k:1",), retry_backoff_ms=1, max_partition_fetch_bytes=most_bytes)


def cluster(
    partitions: int, *, brokers: int = 1, batches: Sequence[int] = (1,), size: int = 1, most_bytes: int = 1 << 20
) -> FakeCluster:
    """Return partitions with batches of so many records each, dealt to the brokers."""
    logs = {("t", number): FakeLog(leader=number % brokers) for number in range(partitions)}
    for log in logs.values():
        for count in batches:
            log.append(b"x" * size for _ in range(count))
    return FakeCluster(settings_of(most_bytes), logs)


def whole(kafka: FakeCluster) -> list[TopicRange]:
    return [TopicRange(topic, None, number, 0, log.end) for (topic, number), log in kafka.logs.items()]


def read(kafka: FakeCluster, ranges: Sequence[TopicRange], *, fail_on_data_loss: bool = True) -> Rows:
    pool = ClientPool(connect=lambda _: kafka)  # type: ignore[arg-type,return-value]  # a stand-in
    seen: Rows = {}
    for batch in read_ranges(
        kafka.settings,
        ranges,
        columns=COLUMNS[:-1],
        fail_on_data_loss=fail_on_data_loss,
        timeout_s=TIMEOUT_S,
        pool=pool,
    ):
        rows: list[dict[str, Any]] = batch.select(["topic", "partition", "offset"]).to_pylist()
        for row in rows:
            seen.setdefault((row["topic"], row["partition"]), []).append(row["offset"])
    return seen


def expected(ranges: Sequence[TopicRange]) -> Rows:
    found: Rows = {}
    for one in ranges:
        found.setdefault((one.topic, one.partition), []).extend(range(one.start, one.end))
    return found


def test_hundred_ranges_of_a_record_are_one_request() -> None:
    kafka = cluster(100)

    assert read(kafka, whole(kafka)) == expected(whole(kafka))
    assert len(kafka.asked) == 1


def test_small_batches_are_merged_and_large_ones_pass_as_they_are() -> None:
    sizes = [10, 20, 1_001, 5, 600, 600] + [900] * 12
    schema = pa.schema([("topic", pa.string()), ("offset", pa.int64())])
    batches = [pa.record_batch([["t"] * size, range(size)], schema=schema) for size in sizes]

    merged = list(merge_small(batches))

    assert [batch.num_rows for batch in merged] == [30, 1_001, 10_205, 1_800]
    assert merged[1] is batches[2]
    assert pa.Table.from_batches(merged).equals(pa.Table.from_batches(batches))
    assert list(merge_small([])) == []


def test_each_leader_is_asked_once() -> None:
    kafka = cluster(100, brokers=3)

    assert read(kafka, whole(kafka)) == expected(whole(kafka))
    assert [broker for broker, _ in kafka.asked] == [0, 1, 2]


def test_ten_thousand_partitions_are_asked_for_in_bounded_requests() -> None:
    kafka = cluster(10_000)

    assert read(kafka, whole(kafka)) == expected(whole(kafka))
    assert [len(parts) for _, parts in kafka.asked] == [1_000] * 10


def test_answers_are_bounded_as_a_whole() -> None:
    kafka = cluster(20, batches=[10] * 20, size=100, most_bytes=10_000)

    assert read(kafka, whole(kafka)) == expected(whole(kafka))
    assert max(kafka.sent_bytes) <= 10_000


def test_batch_larger_than_the_bound_comes_alone() -> None:
    kafka = cluster(4, batches=[1, 1], size=50_000, most_bytes=10_000)

    assert read(kafka, whole(kafka)) == expected(whole(kafka))
    assert max(kafka.sent_bytes) < 51_000


def test_partition_whose_batches_exceed_its_share_gets_a_larger_one() -> None:
    kafka = cluster(2, batches=[1] * 8, size=300_000, most_bytes=4 << 20)

    assert read(kafka, whole(kafka)) == expected(whole(kafka))
    assert len(kafka.asked) <= 6


def test_short_range_of_a_long_partition_brings_little_besides() -> None:
    kafka = cluster(10, batches=[10] * 100, size=1_000, most_bytes=4 << 20)
    ranges = [TopicRange("t", None, number, 500, 501) for number in range(10)]

    assert read(kafka, ranges) == expected(ranges)
    assert len(kafka.asked) == 1
    assert sum(kafka.sent_bytes) < 10 * (64 << 10) + 1


def test_two_ranges_of_one_partition_are_both_read() -> None:
    kafka = cluster(2, batches=[10])
    ranges = [TopicRange("t", None, 0, 0, 4), TopicRange("t", None, 1, 2, 3), TopicRange("t", None, 0, 4, 9)]

    assert read(kafka, ranges) == expected(ranges)


def test_ranges_are_finished_in_the_order_given() -> None:
    kafka = cluster(3, batches=[10] * 30, size=100, most_bytes=4_000)
    finished: list[int] = []
    pool = ClientPool(connect=lambda _: kafka)  # type: ignore[arg-type,return-value]  # a stand-in

    for batch in read_ranges(
        kafka.settings, whole(kafka), columns=("partition",), fail_on_data_loss=True, timeout_s=TIMEOUT_S, pool=pool
    ):
        number = batch.column("partition")[0].as_py()
        if number not in finished[-1:]:
            finished.append(number)

    assert finished == [0, 1, 2]


@pytest.mark.parametrize(
    ("partitions", "batches", "size", "bound"), [(4, 16, 1_000_000, 40 << 20), (2_000, 1, 100, 4 << 20)]
)
def test_memory_is_bounded(partitions: int, batches: int, size: int, bound: int) -> None:
    """Two answers, one batch of rows and its buffers while they grow; and what is known of each range."""
    kafka = cluster(partitions, batches=[1] * batches, size=size, most_bytes=4 << 20)
    ranges = whole(kafka)
    pool = ClientPool(connect=lambda _: kafka)  # type: ignore[arg-type,return-value]  # a stand-in
    arrow = pa.default_memory_pool()
    arrow_before, arrow_most, rows = arrow.bytes_allocated(), 0, 0

    tracemalloc.start()
    for batch in read_ranges(
        kafka.settings, ranges, columns=COLUMNS, fail_on_data_loss=True, timeout_s=TIMEOUT_S, pool=pool
    ):
        rows += batch.num_rows
        arrow_most = max(arrow_most, arrow.bytes_allocated() - arrow_before)
    _, python_most = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert rows == partitions * batches
    assert python_most + arrow_most < bound


def test_next_answer_is_on_its_way_before_rows_are_given_out() -> None:
    kafka = cluster(1, batches=[10] * 4, size=1_000, most_bytes=12_000)
    pool = ClientPool(connect=lambda _: kafka)  # type: ignore[arg-type,return-value]  # a stand-in
    batches = read_ranges(
        kafka.settings, whole(kafka), columns=("offset",), fail_on_data_loss=True, timeout_s=TIMEOUT_S, pool=pool
    )

    for number in range(4):
        assert next(batches).num_rows == 10
        assert len(kafka.asked) == min(number + 2, 4)


def test_leader_that_moves_holds_up_only_its_partition() -> None:
    kafka = cluster(3, brokers=2, batches=[5] * 4)

    def move() -> None:
        kafka.logs["t", 0].leader, kafka.logs["t", 0].epoch = 1, 4

    kafka.faults.append(move)

    assert read(kafka, whole(kafka)) == expected(whole(kafka))
    assert kafka.asked[0] == (0, [("t", 0, 0, -1), ("t", 2, 0, -1)])
    assert sorted(part for broker, parts in kafka.asked[1:] for part in parts) == [("t", 0, 0, -1), ("t", 1, 0, -1)]
    assert {broker for broker, _ in kafka.asked[1:]} == {1}


def test_broker_that_throttles_is_left_alone_meanwhile() -> None:
    kafka = cluster(1)
    kafka.faults.append(50)

    assert read(kafka, whole(kafka)) == expected(whole(kafka))
    assert kafka.slept_s >= 0.04


def test_leader_epoch_of_what_was_read_goes_with_the_next_request() -> None:
    kafka = cluster(1, batches=[1], size=5_000, most_bytes=6_000)
    kafka.logs["t", 0].epoch = 3
    kafka.logs["t", 0].append([b"y" * 5_000])

    assert read(kafka, whole(kafka)) == {("t", 0): [0, 1]}
    epochs = [parts[0][3] for _, parts in kafka.asked if parts[0][2] == 1]
    assert epochs[-1] == 0


def truncating() -> FakeCluster:
    """Return a log that loses its second and third record to others when the third is asked for."""
    kafka = cluster(1, batches=[1] * 4, size=5_000, most_bytes=6_000)
    log = kafka.logs["t", 0]
    log.epoch = 1
    kafka.tell()

    def truncate() -> None:
        del log.batches[1:]
        for _ in range(3):
            log.append([b"other" * 1_000])

    kafka.faults.extend([None, None, truncate])
    return kafka


def test_log_that_was_cut_back_and_written_anew_is_data_loss() -> None:
    kafka = truncating()

    with pytest.raises(
        DataLossError, match=r"the log was cut back to offset 1 .* read from there up to offset 2 is in"
    ):
        read(kafka, [TopicRange("t", None, 0, 0, 4)])


def test_log_that_was_cut_back_is_read_on_where_losses_are_allowed(caplog: pytest.LogCaptureFixture) -> None:
    assert read(truncating(), [TopicRange("t", None, 0, 0, 4)], fail_on_data_loss=False) == {("t", 0): [0, 1, 2, 3]}
    assert "data loss: the log was cut back to offset 1" in caplog.text


@st.composite
def situations(draw: st.DrawFn) -> tuple[FakeCluster, list[TopicRange]]:
    """Some partitions on some brokers, ranges of them, and faults to come."""
    brokers = draw(st.integers(1, 3))
    kafka = FakeCluster(settings_of(draw(st.integers(100, 5_000))), {})
    ranges = []
    for topic in draw(st.sampled_from(["t", "tu"])):
        for number in range(draw(st.integers(1, 4))):
            log = kafka.logs[topic, number] = FakeLog(leader=draw(st.integers(0, brokers - 1)))
            for count in draw(st.lists(st.integers(1, 5), min_size=1, max_size=5)):
                size = draw(st.sampled_from([1, 50, 2_000]))
                log.append(b"x" * size for _ in range(count))
            cut = sorted(draw(st.sets(st.integers(0, log.end), min_size=2, max_size=4)))
            ranges += [TopicRange(topic, None, number, *one) for one in itertools.pairwise(cut)]
    kafka.tell()

    def move(key: tuple[str, int]) -> Callable[[], None]:
        def happen() -> None:
            kafka.logs[key].leader = (kafka.logs[key].leader + 1) % brokers
            kafka.logs[key].epoch += 1

        return happen

    passing = [None, 1, kafka_errors.KafkaConnectionError("reset"), kafka_errors.RequestTimedOutError()]
    kafka.faults.extend(draw(st.lists(st.sampled_from([*passing, *map(move, kafka.logs)]), max_size=8)))
    return kafka, ranges


@settings(deadline=None, max_examples=60)
@given(situations())
def test_every_row_of_every_range_comes_once(situation: tuple[FakeCluster, list[TopicRange]]) -> None:
    kafka, ranges = situation

    seen = read(kafka, ranges)

    wanted = {key: sorted(offsets) for key, offsets in expected(ranges).items()}
    assert {key: sorted(offsets) for key, offsets in seen.items()} == wanted
