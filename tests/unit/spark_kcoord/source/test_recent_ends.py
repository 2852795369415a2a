"""Ends that are remembered for a moment are one object until they change; topics that are refused count as there."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest

from coordinator.protocol.parts import Claim
from spark_kcoord.errors import KafkaAwayError, KcoordError, UnknownTopicError
from spark_kcoord.fetch.offsets import KafkaLookup, TopicPartitions
from spark_kcoord.microbatch.stream_offset import StreamOffset
from spark_kcoord.source import recent_ends
from spark_kcoord.source.recent_ends import RecentEnds
from tests.helpers.fake_member import FakeEnds, FakeMember, a_session, claim, owned


class Lookup:
    cluster_id = None
    is_read_committed = False

    def __init__(self) -> None:
        self.end = 5
        self.asked = 0

    def end_offsets(
        self, partitions: Sequence[tuple[str, int]], *, timeout_s: float | None = None
    ) -> dict[tuple[str, int], int]:
        del timeout_s
        self.asked += 1
        return dict.fromkeys(partitions, self.end)


def test_ends_that_do_not_change_are_the_same_object(monkeypatch: Any) -> None:
    now = [0.0]
    monkeypatch.setattr(recent_ends.time, "monotonic", lambda: now[0])
    lookup = Lookup()
    ends = RecentEnds(cast(KafkaLookup, lookup), None, ())
    partitions = (("t", 0), ("t", 1))
    first = ends.end_offsets(partitions)
    assert ends.end_offsets(partitions) is first
    assert lookup.asked == 1
    now[0] += 1
    assert ends.end_offsets(partitions) is first
    assert lookup.asked == 2
    lookup.end = 6
    assert ends.end_offsets(partitions) is first
    now[0] += 1
    assert ends.end_offsets(partitions) == dict.fromkeys(partitions, 6)
    assert ends.end_offsets((("t", 2),)) == {("t", 2): 6}
    assert lookup.asked == 4


class Topics(Lookup):
    """A Kafka that has the topics of `ids`, and describes to nobody those that it forbids."""

    def __init__(self, ids: dict[str, str], forbidden: set[str]) -> None:
        super().__init__()
        self.ids, self.forbidden = ids, forbidden
        self.asked_for: list[list[str]] = []

    def topics(self, names: Sequence[str]) -> dict[str, TopicPartitions]:
        self.asked_for.append(list(names))
        if self.forbidden.intersection(names):
            raise KcoordError(f"Kafka refused: {sorted(self.forbidden)}.")
        unknown = tuple(name for name in names if name not in self.ids)
        if unknown:
            raise UnknownTopicError("unknown", topics=unknown)
        return {name: TopicPartitions(self.ids[name], (0,)) for name in names}


def test_a_topic_that_may_not_be_described_counts_as_there_and_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    lookup = Topics({"t": "id"}, {"x"})
    ends = RecentEnds(cast(KafkaLookup, lookup), None, ())
    for _ in range(2):
        assert ends.topic_ids(("gone", "t", "x")) == {"t": "id", "x": ""}
    assert lookup.asked_for[:6] == [["gone", "t", "x"], [], ["gone"], ["t"], ["x"], []]
    [said] = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert said.startswith("Whether topic 'x' was deleted cannot be known, and the query goes on: Kafka refused")


def test_a_kafka_that_is_away_is_no_refusal() -> None:
    class Away(Lookup):
        def topics(self, _: Sequence[str]) -> None:
            raise KafkaAwayError("Kafka gave no answer.")

    with pytest.raises(KafkaAwayError):
        RecentEnds(cast(KafkaLookup, Away()), None, ()).topic_ids(("t", "x"))


def test_a_kafka_that_refuses_the_log_in_is_told_and_not_asked_about_each_topic(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Refusing(Topics):
        def topics(self, names: Sequence[str]) -> dict[str, TopicPartitions]:
            self.asked_for.append(list(names))
            raise KcoordError("Kafka refused: SaslAuthenticationFailedError.")

    lookup = Refusing({}, set())
    with pytest.raises(KcoordError, match="SaslAuthenticationFailed"):
        RecentEnds(cast(KafkaLookup, lookup), None, ()).topic_ids(("a", "b", "c"))
    assert lookup.asked_for == [["a", "b", "c"], []]
    assert not caplog.records


def test_a_query_goes_on_without_a_topic_that_it_may_not_describe_any_more() -> None:
    class Ends(FakeEnds):
        def topic_ids(self, topics: Sequence[str]) -> Mapping[str, str]:
            return RecentEnds(cast(KafkaLookup, Topics({"t": "id"}, {"x"})), None, ()).topic_ids(topics)

    checkpoint = StreamOffset("c", "g", "m-1", (claim(0, 0, 40), Claim("x", "id of x", 0, 8, 0, 40)))
    session = a_session(FakeMember((owned(0, 40, epoch=9),)), Ends({0: 200}))
    assert session.next_offset(checkpoint, None, is_single_run=False).claims == (claim(0, 40, 200, epoch=9),)
