"""Where a stream starts: what becomes the group's policy, what a hint, and when Kafka is asked at all."""

from collections.abc import Collection, Mapping
from typing import cast

import pytest

from coordinator.protocol.messages import FetchOffsetsResponse
from coordinator.protocol.parts import CommittedOffset, ResetPolicy
from spark_kcoord.errors import KcoordError, OptionError, UnknownTopicError
from spark_kcoord.fetch.offsets import KafkaLookup, TopicPartitions
from spark_kcoord.options.source_options import SourceOptions, parse_options
from spark_kcoord.source.starting_offsets import StreamStarts, stream_starts

REQUIRED = {"subscribe": "a,b", "kcoord.bootstrap.servers": "c:1", "kcoord.group.id": "g"}


class Kafka:
    """Topics `a` and `b` of two partitions; no record is later than 900 ms, and offsets are times by 100."""

    def __init__(self, *, absent: Collection[str] = ()) -> None:
        self.absent = absent
        self.is_closed = False

    def topics(self, names: Collection[str]) -> dict[str, TopicPartitions]:
        missing = [name for name in names if name in self.absent]
        if missing:
            raise UnknownTopicError("no such topic", missing)
        return {name: TopicPartitions("id", (0, 1)) for name in names}

    def offsets_at(self, times: Mapping[tuple[str, int], int]) -> dict[tuple[str, int], int | None]:
        return {key: time // 100 if time <= 900 else None for key, time in times.items()}

    def close(self) -> None:
        self.is_closed = True


def starts(
    given: dict[str, str],
    *,
    is_new: bool = True,
    kafka: Kafka | None = None,
    committed: Mapping[tuple[str, int], int] | None = None,
) -> StreamStarts:
    def lookup(_: SourceOptions) -> KafkaLookup:
        assert kafka is not None, "Kafka is not needed for this"
        return cast("KafkaLookup", kafka)

    def ask_committed(_: SourceOptions) -> Mapping[tuple[str, int], int]:
        assert committed is not None, "the coordinator is not needed for this"
        return committed

    found = stream_starts(
        parse_options({**REQUIRED, **given}, "stream"), is_new=is_new, lookup=lookup, committed=ask_committed
    )
    assert kafka is None or kafka.is_closed
    return found


def hints(given: dict[str, str], **more: object) -> dict[tuple[str, int], int]:
    found = starts(given, **more)  # type: ignore[arg-type]
    assert found.policy is None
    assert not any(hint.from_checkpoint or hint.topic_id for hint in found.hints)
    return {(hint.topic, hint.partition): hint.offset for hint in found.hints}


@pytest.mark.parametrize(
    ("given", "policy"),
    [
        ({}, None),
        ({"startingOffsets": "committed"}, None),
        ({"startingOffsets": "latest"}, ResetPolicy("latest")),
        ({"startingOffsets": "earliest"}, ResetPolicy("earliest")),
        (
            {"startingTimestamp": "5", "startingOffsetsByTimestampStrategy": "latest"},
            ResetPolicy("timestamp", 5),
        ),
    ],
)
def test_what_is_said_of_all_partitions_is_the_policy_and_asks_nobody(
    given: dict[str, str], policy: ResetPolicy | None
) -> None:
    assert starts(given) == starts(given, is_new=False) == StreamStarts(policy)


def test_time_after_the_last_record_fails_a_new_query_where_the_group_has_no_offset() -> None:
    late = {"startingTimestamp": "901"}
    some = {("a", 0): 1, ("b", 1): 1}

    with pytest.raises(KcoordError, match=r"'startingTimestamp' gives a time after the last record of a-1, b-0\."):
        starts(late, kafka=Kafka(), committed=some)
    policy = StreamStarts(ResetPolicy("timestamp", 901))
    assert starts(late, kafka=Kafka(), committed=some | {("a", 1): 1, ("b", 0): 1}) == policy
    assert starts(late, is_new=False) == policy


def test_offset_of_a_topic_that_was_made_again_is_none_of_the_topic_that_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ids = {"a": "id", "b": "id of one that was deleted"}
    committed = tuple(
        CommittedOffset(name, topic_id, number, 1, None, "", 1) for name, topic_id in ids.items() for number in (0, 1)
    )
    answer = FetchOffsetsResponse(offsets=committed)
    monkeypatch.setattr("spark_kcoord.source.starting_offsets.request_once", lambda *_, **__: answer)
    options = parse_options({**REQUIRED, "startingTimestamp": "901"}, "stream")
    with pytest.raises(KcoordError, match=r"a time after the last record of b-0, b-1\."):
        stream_starts(options, is_new=True, lookup=lambda _: cast("KafkaLookup", Kafka()))


def test_offsets_become_hints_with_whole_topics_spelt_out() -> None:
    given = {"startingOffsets": '{"a": {"0": 7, "1": -1}, "b": "earliest"}'}
    named = {("a", 0): 7, ("a", 1): -1}
    spelt_out = {("b", 0): -2, ("b", 1): -2}

    assert hints(given, kafka=Kafka()) == hints(given, kafka=Kafka(), is_new=False) == named | spelt_out


def test_a_query_with_a_checkpoint_looks_nothing_up_for_single_partitions() -> None:
    assert hints({"startingOffsets": '{"a": {"0": 7}}'}, is_new=False) == {("a", 0): 7}


def test_a_new_query_names_every_partition_of_the_topics_that_exist() -> None:
    some = {"startingOffsets": '{"a": {"0": 7, "1": 8}}'}

    with pytest.raises(OptionError, match="'startingOffsets' leaves out 0, 1 of topic 'b'"):
        starts(some, kafka=Kafka())
    waiting = {"kcoord.wait.for.topics": "true", "startingOffsets": '{"a": {"0": 7, "1": 8}, "b": {"5": 9}}'}
    assert hints(waiting, kafka=Kafka(absent=["b"])) == {("a", 0): 7, ("a", 1): 8, ("b", 5): 9}


def test_times_become_the_hints_of_their_offsets() -> None:
    given = {"startingOffsetsByTimestamp": '{"a": 300, "b": {"0": 500, "1": 901}}'}
    offsets = {("a", 0): 3, ("a", 1): 3, ("b", 0): 5}

    with pytest.raises(KcoordError, match=r"'startingOffsetsByTimestamp' gives a time after the last record of b-1\."):
        starts(given, kafka=Kafka(), committed={("b", 0): 1})
    assert hints(given, kafka=Kafka(), committed={("b", 1): 1}) == offsets | {("b", 1): -1}
    assert hints(given | {"startingOffsetsByTimestampStrategy": "latest"}, kafka=Kafka()) == offsets | {("b", 1): -1}
