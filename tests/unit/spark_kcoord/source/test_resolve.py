"""Resolving a batch read: what Kafka is asked, what the coordinator is asked, and that it is asked late."""

import subprocess
import sys
from collections.abc import Collection, Iterable
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import pytest

from coordinator.protocol.parts import CommittedOffset
from spark_kcoord.errors import KcoordError, OptionError, UnknownTopicError
from spark_kcoord.fetch.offsets import KafkaLookup, TopicPartitions
from spark_kcoord.options.source_options import host_ports, parse_options
from spark_kcoord.options.subscription import Subscription
from spark_kcoord.planning.narrowing import Narrowing
from spark_kcoord.source.resolve import (
    ONE_SHOT_TIMEOUT_S,
    must_be_same_cluster,
    resolve_kafka,
    resolve_ranges,
    subscribed_topics,
)

COORDINATOR = {"subscribe": "t", "kcoord.bootstrap.servers": "c:1", "kcoord.group.id": "g"}


class FakeLookup:
    """Topics of three partitions with logs [2, 10), whose record at offset n has the time 100 n ms."""

    cluster_id = "ours"

    def topic_names(self) -> list[str]:
        return ["s", "t", "u"]

    def topics(self, names: tuple[str, ...]) -> dict[str, TopicPartitions]:
        return {name: TopicPartitions("id", (0, 1, 2)) for name in names}

    def earliest_offsets(self, keys: list[tuple[str, int]]) -> dict[tuple[str, int], int]:
        return dict.fromkeys(keys, 2)

    def end_offsets(self, keys: list[tuple[str, int]]) -> dict[tuple[str, int], int]:
        return dict.fromkeys(keys, 10)

    def high_watermarks(self, keys: list[tuple[str, int]]) -> dict[tuple[str, int], int]:
        return dict.fromkeys(keys, 12)

    def offsets_at(self, times: dict[tuple[str, int], int]) -> dict[tuple[str, int], int | None]:
        return {key: max(2, -(-time // 100)) if time <= 900 else None for key, time in times.items()}


@pytest.fixture
def coordinator(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Stand in for the member's client; returns what it was asked."""
    asked: list[Any] = []
    client = ModuleType("spark_kcoord.member.client")

    def find_coordinator(servers: tuple[tuple[str, int], ...], group: str, *, timeout_s: float) -> SimpleNamespace:
        asked.append(("find", servers, group, timeout_s))
        return SimpleNamespace(kafka_bootstrap=("k1:9092", "k2:9092"), kafka_cluster_id="ours")

    def fetch_committed(
        servers: tuple[tuple[str, int], ...], group: str, *, timeout_s: float
    ) -> tuple[CommittedOffset, ...]:
        asked.append(("offsets", servers, group, timeout_s))
        return (
            CommittedOffset("s", "id of one that was deleted", 0, 5, None, "", 1),
            CommittedOffset("t", "id", 0, 7, None, "", 1),
            CommittedOffset("t", "", 1, 10, None, "", 1),
        )

    client.__dict__.update(find_coordinator=find_coordinator, fetch_committed=fetch_committed)
    monkeypatch.setitem(sys.modules, "spark_kcoord.member.client", client)
    return asked


def topic_ranges(given: dict[str, str]) -> list[tuple[str, int, int, int]]:
    found = resolve_ranges(parse_options(given, "batch"), cast("KafkaLookup", FakeLookup()))
    return [(one.topic, one.partition, one.start, one.end) for one in found]


def ranges(**more: str) -> list[tuple[int, int, int]]:
    return [(partition, start, end) for _, partition, start, end in topic_ranges({**COORDINATOR, **more})]


def test_kafka_is_where_the_coordinator_says(coordinator: list[Any]) -> None:
    settings = resolve_kafka(parse_options({**COORDINATOR, "kafka.client.rack": "r"}, "batch"))

    assert (settings.servers, settings.rack) == (("k1:9092", "k2:9092"), "r")
    assert coordinator == [("find", (("c", 1),), "g", ONE_SHOT_TIMEOUT_S)]


def test_coordinator_is_not_asked_when_the_user_says_where_kafka_is(coordinator: list[Any]) -> None:
    options = parse_options({"subscribe": "t", "kafka.bootstrap.servers": "k:1"}, "batch")

    assert resolve_kafka(options) is options.kafka
    assert coordinator == []


def test_servers_become_host_and_port() -> None:
    assert host_ports(("c1:1", "[::1]:2")) == (("c1", 1), ("::1", 2))


def test_committed_starts_where_the_group_is_and_else_at_the_earliest(coordinator: list[Any]) -> None:
    assert ranges(startingOffsets="committed") == [(0, 7, 10), (2, 2, 10)]
    assert coordinator == [("offsets", (("c", 1),), "g", ONE_SHOT_TIMEOUT_S)]


def test_committed_offsets_of_a_topic_that_was_made_again_are_no_start_of_it(
    coordinator: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    given = {**COORDINATOR, "subscribe": "s,t", "startingOffsets": "committed"}
    assert topic_ranges(given) == [
        *(("s", partition, 2, 10) for partition in (0, 1, 2)),
        ("t", 0, 7, 10),
        ("t", 2, 2, 10),
    ]
    assert [asked[0] for asked in coordinator] == ["offsets"]
    assert "what is committed of s is of topics that were deleted and created again" in caplog.text


def test_committed_offsets_count_where_kafka_names_no_ids(
    coordinator: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def without_ids(_: FakeLookup, names: Collection[str]) -> dict[str, TopicPartitions]:
        return {name: TopicPartitions(None, (0, 1, 2)) for name in names}

    monkeypatch.setattr(FakeLookup, "topics", without_ids)
    assert ranges(startingOffsets="committed") == [(0, 7, 10), (2, 2, 10)]
    assert [asked[0] for asked in coordinator] == ["offsets"]


def test_committed_offsets_of_another_cluster_are_no_start(
    coordinator: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    where = {"startingOffsets": "committed", "kafka.bootstrap.servers": "k:1"}
    assert ranges(**where) == [(0, 7, 10), (2, 2, 10)]
    monkeypatch.setattr(FakeLookup, "cluster_id", "theirs")
    with pytest.raises(OptionError, match=r"k:1\) leads to Kafka cluster 'theirs'.*works for cluster 'ours'"):
        ranges(**where)
    assert [asked[0] for asked in coordinator] == ["find", "offsets", "find"]


def test_positions_are_resolved_and_empty_ranges_left_out() -> None:
    assert ranges() == [(0, 2, 10), (1, 2, 10), (2, 2, 10)]
    starting, ending = '{"t": {"0": -2, "1": 5, "2": 10}}', '{"t": {"0": 4, "1": -1, "2": -1}}'
    assert ranges(startingOffsets=starting, endingOffsets=ending) == [(0, 2, 4), (1, 5, 10)]


def test_executors_load_neither_the_coordinator_nor_msgspec() -> None:
    code = (
        "import sys, pyspark_kcoord, spark_kcoord.source.batch_reader, spark_kcoord.fetch.ranges; "
        "import spark_kcoord.planning.input_partition; "
        "print(sorted({'msgspec', 'coordinator', 'pydantic', 'structlog'} & set(sys.modules)))"
    )

    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


class OnlyA:
    """Kafka with the one topic `a`, of two partitions."""

    def topics(self, names: Collection[str]) -> dict[str, TopicPartitions]:
        missing = sorted(set(names) - {"a"})
        if missing:
            raise UnknownTopicError("no such topic", missing)
        return {name: TopicPartitions("id", (0, 1)) for name in names}

    def topic_names(self) -> list[str]:
        return ["a", "ab", "b"]


@pytest.mark.parametrize(("names", "found"), [(("a", "b"), {"a"}), (("b",), set()), (("a",), {"a"})])
def test_topics_that_may_be_absent_do_not_hide_those_that_exist(names: tuple[str, ...], found: set[str]) -> None:
    assert set(subscribed_topics(OnlyA(), Subscription(topics=names), may_be_absent=True)) == found


def test_topics_that_must_exist_are_named_when_absent() -> None:
    with pytest.raises(UnknownTopicError) as raised:
        subscribed_topics(OnlyA(), Subscription(topics=("a", "b")))
    assert raised.value.topics == ("b",)


def test_topic_deleted_while_a_pattern_is_matched_is_not_missed() -> None:
    assert set(subscribed_topics(OnlyA(), Subscription(pattern="a|b"))) == {"a"}


def test_pattern_that_matches_nothing_is_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    assert subscribed_topics(OnlyA(), Subscription(pattern="c.*")) == {}
    assert "'subscribePattern' ('c.*') matches no topic" in caplog.text


def test_subscriptions_stand_for_what_they_name_less_the_exclusions() -> None:
    kafka = {"kafka.bootstrap.servers": "k:1"}
    whole = [(partition, 2, 10) for partition in range(3)]

    assert topic_ranges({**kafka, "subscribe": "u,s", "kcoord.exclude": "u"}) == [("s", *one) for one in whole]
    assert topic_ranges({**kafka, "subscribePattern": "[st]"}) == [(name, *one) for name in "st" for one in whole]
    assert topic_ranges({**kafka, "subscribePattern": "[st]", "kcoord.exclude": "t"}) == [("s", *one) for one in whole]
    assert topic_ranges({**kafka, "assign": '{"t": [1], "u": [0, 2]}'}) == [
        ("t", 1, 2, 10),
        ("u", 0, 2, 10),
        ("u", 2, 2, 10),
    ]


def test_assigned_partition_that_does_not_exist_is_named() -> None:
    with pytest.raises(OptionError, match=r"'assign' names partition 3 of topic 't', whose partitions are 0, 1, 2"):
        topic_ranges({"kafka.bootstrap.servers": "k:1", "assign": '{"t": [3]}'})


@pytest.mark.parametrize(
    ("offsets", "said"),
    [
        ('{"t": {"1": 5, "2": 5}}', "names 2 of topic 't', of which partitions 1 are read"),
        ('{"t": {"1": 5}, "u": {"0": 5}}', "names topics that 'assign' does not: u"),
    ],
)
def test_offsets_must_be_of_the_assigned_partitions(offsets: str, said: str) -> None:
    given = {"kafka.bootstrap.servers": "k:1", "assign": '{"t": [1]}'}
    with pytest.raises(OptionError, match=f"'endingOffsets' {said}"):
        topic_ranges({**given, "endingOffsets": offsets})
    assert topic_ranges({**given, "endingOffsets": '{"t": {"1": 5}}'}) == [("t", 1, 2, 5)]


def test_offsets_of_topics_that_a_pattern_does_not_match_are_refused() -> None:
    given = {"kafka.bootstrap.servers": "k:1", "subscribePattern": "[st]"}
    with pytest.raises(OptionError, match=r"'startingOffsets' names topics that are not read: x"):
        topic_ranges({**given, "startingOffsets": '{"s": "earliest", "t": "earliest", "x": "earliest"}'})


def test_times_are_the_first_offsets_as_late() -> None:
    assert ranges(startingTimestamp="350", endingTimestamp="700") == [(part, 4, 7) for part in range(3)]
    assert ranges(endingTimestamp="99999") == [(part, 2, 10) for part in range(3)]
    by_partition = '{"t": {"0": 0, "1": 500, "2": 700}}'
    assert ranges(startingOffsetsByTimestamp=by_partition, endingOffsetsByTimestamp='{"t": 700}') == [
        (0, 2, 7),
        (1, 5, 7),
    ]


class Shrinking(FakeLookup):
    """A topic that is made again with one partition while it is asked about, after so many questions about offsets."""

    def __init__(self, answers: int) -> None:
        self._left = answers

    def _still(self, keys: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
        self._left -= 1
        return [key for key in keys if self._left >= 0 or key[1] == 0]

    def earliest_offsets(self, keys: list[tuple[str, int]]) -> dict[tuple[str, int], int]:
        return super().earliest_offsets(self._still(keys))

    def end_offsets(self, keys: list[tuple[str, int]]) -> dict[tuple[str, int], int]:
        return super().end_offsets(self._still(keys))

    def offsets_at(self, times: dict[tuple[str, int], int]) -> dict[tuple[str, int], int | None]:
        return super().offsets_at({key: times[key] for key in self._still(times)})


@pytest.mark.parametrize("answers", range(5))
@pytest.mark.parametrize("since", ["300", "901"])
def test_topic_that_is_made_again_with_fewer_partitions_meanwhile_is_read_as_far_as_it_is_there(
    answers: int, since: str
) -> None:
    given = COORDINATOR | {"startingTimestamp": since, "startingOffsetsByTimestampStrategy": "latest"}
    options = parse_options(given | {"endingTimestamp": "800"} if since == "300" else given, "batch")
    narrowing = Narrowing(since_ms=400)
    found = resolve_ranges(options, cast("KafkaLookup", Shrinking(answers)), narrowing)
    assert {one.partition for one in found} <= {0, 1, 2}
    assert [(one.start, one.end) for one in found if one.partition == 0] == ([(4, 8)] if since == "300" else [])


def test_start_after_the_last_record_fails_or_is_the_end_by_the_strategy() -> None:
    late = {"startingOffsetsByTimestamp": '{"t": {"0": 901, "1": 100, "2": 902}}'}
    with pytest.raises(
        KcoordError, match=r"'startingOffsetsByTimestamp' gives a time after the last record of t-0, t-2"
    ):
        ranges(**late)
    assert ranges(**late, startingOffsetsByTimestampStrategy="latest") == [(1, 2, 10)]


def test_a_time_that_filters_ask_for_narrows_and_leaves_out_what_is_earlier() -> None:
    options = parse_options({**COORDINATOR, "startingOffsets": '{"t": {"0": 3, "1": 8, "2": 10}}'}, "batch")

    def narrowed(since_ms: int) -> list[tuple[int, int, int]]:
        found = resolve_ranges(options, cast("KafkaLookup", FakeLookup()), Narrowing(since_ms=since_ms))
        return [(one.partition, one.start, one.end) for one in found]

    assert narrowed(600) == [(0, 6, 10), (1, 8, 10)]
    assert narrowed(901) == []


def test_start_after_the_end_names_both_options() -> None:
    with pytest.raises(KcoordError, match=r"start 8 lies after the end 5 .* Correct 'startingTimestamp' or 'endingOff"):
        ranges(startingTimestamp="800", endingOffsets='{"t": {"0": 5, "1": 9, "2": 9}}')


def test_kafka_of_another_cluster_than_the_coordinators_is_refused_naming_both() -> None:
    with pytest.raises(OptionError, match=r"'kafka.bootstrap.servers' \(k:1\).*'theirs'.*'ours'"):
        must_be_same_cluster("ours", "theirs", ("k:1",))
    for found in ("ours", None):
        must_be_same_cluster("ours", found, ("k:1",))


def test_start_behind_an_open_transaction_is_read_when_that_ends() -> None:
    # Logs are [2, 12) and can be read to 10: another member of the group has read what is not committed yet.
    assert ranges(startingOffsets='{"t": {"0": 11, "1": 12, "2": 9}}') == [(2, 9, 10)]
    with pytest.raises(KcoordError, match="start 13 lies after the end 10"):
        ranges(startingOffsets='{"t": {"0": 13, "1": 12, "2": 9}}')
    with pytest.raises(KcoordError, match="start 11 lies after the end 9"):
        ranges(startingOffsets='{"t": {"0": 11, "1": 2, "2": 2}}', endingOffsets='{"t": {"0": 9, "1": 9, "2": 9}}')
