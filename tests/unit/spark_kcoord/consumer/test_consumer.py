"""The plain consumer's promises, over a member and a Kafka that do as they are told."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pytest

from coordinator.protocol.columns import OffsetToCommit
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.parts import FinalOffset, LostPosition, PartitionResult
from spark_kcoord.consumer import Consumer, ConsumerSettings
from spark_kcoord.errors import DataLossError, KafkaAwayError, KcoordError, UnknownTopicError
from spark_kcoord.fetch.decoding.columns import arrow_schema
from spark_kcoord.fetch.topic_range import TopicRange
from spark_kcoord.member.client import AssignedPartition, Assignment, Joined

COLUMNS = ("value", "topic", "partition", "offset")
SCHEMA = arrow_schema(COLUMNS)
Key = tuple[str, int]


def owned(partition: int, start: int = 0, epoch: int = 7, *, is_stopping: bool = False) -> AssignedPartition:
    return AssignedPartition("t", "id", partition, epoch, start, start, is_stopping, has_claim=False)


@dataclass
class FakeMember:
    """A member whose coordinator is the test."""

    given: Assignment = field(default_factory=lambda: Assignment((owned(0),), is_complete=True))
    joined: int = 0
    noted: list[tuple[OffsetToCommit, ...]] = field(default_factory=list)
    committed: list[tuple[OffsetToCommit, ...]] = field(default_factory=list)
    released: list[tuple[FinalOffset, ...]] = field(default_factory=list)
    reported: list[LostPosition] = field(default_factory=list)
    left_with: list[FinalOffset] | None = None
    is_closed: bool = False
    refusals: dict[int, ErrorCode] = field(default_factory=dict)
    granted_anew: tuple[AssignedPartition, ...] = ()
    waits: list[float] = field(default_factory=list)
    while_waiting: list[Assignment] = field(default_factory=list)
    now: list[float] = field(default_factory=lambda: [0.0])

    def give(self, *partitions: AssignedPartition) -> None:
        self.given = Assignment(partitions, is_complete=True)

    def join(self) -> Joined:
        self.joined += 1
        return Joined("m1", "cluster", ("kafka:9092",), ())

    def assignment(self) -> Assignment:
        return self.given

    def wait_for_change(self, known: Assignment, *, timeout_s: float) -> Assignment:
        self.waits.append(timeout_s)
        self.now[0] += timeout_s
        if self.while_waiting:
            self.given = self.while_waiting.pop(0)
        return self.given

    def note_positions(self, offsets: Sequence[OffsetToCommit]) -> None:
        self.noted.append(tuple(offsets))

    def commit(self, offsets: Sequence[OffsetToCommit]) -> tuple[PartitionResult, ...]:
        self.committed.append(tuple(offsets))
        return tuple(
            PartitionResult("t", asked.partition, self.refusals.get(asked.partition, ErrorCode.NONE), "it is m2's")
            for asked in offsets
        )

    def release(self, finals: Sequence[FinalOffset]) -> None:
        self.released.append(tuple(finals))

    def report_out_of_range(self, partitions: Sequence[LostPosition]) -> tuple[PartitionResult, ...]:
        self.reported += partitions
        if not self.refusals:
            self.give(*self.granted_anew)
        return tuple(
            PartitionResult(
                "t", part.partition, self.refusals.get(part.partition, ErrorCode.NONE), "the policy is none"
            )
            for part in partitions
        )

    def leave(self, finals: Sequence[FinalOffset] = ()) -> None:
        self.left_with = list(finals)

    def close(self) -> None:
        self.is_closed = True


@dataclass
class FakeKafka:
    """Partitions [begin, end) of records that hold their offset; `gaps` are offsets without a record."""

    ends: dict[Key, int] = field(default_factory=dict)
    begins: dict[Key, int] = field(default_factory=dict)
    marks: dict[Key, int] = field(default_factory=dict)
    gaps: frozenset[int] = frozenset()
    rows_of_batch: int = 4
    looks: int = 0
    asked_marks: int = 0
    failures: list[KcoordError] = field(default_factory=list)
    reads: list[TopicRange] = field(default_factory=list)
    is_closed: bool = False

    def end_offsets(self, partitions: Collection[Key]) -> Mapping[Key, int]:
        self.looks += 1
        if self.failures:
            raise self.failures.pop(0)
        return {key: self.ends[key] for key in partitions if key in self.ends}

    def high_watermarks(self, partitions: Collection[Key]) -> Mapping[Key, int]:
        self.asked_marks += 1
        known = self.ends | self.marks
        return {key: known[key] for key in partitions if key in known}

    def earliest_offsets(self, partitions: Collection[Key]) -> Mapping[Key, int]:
        return {key: self.begins.get(key, 0) for key in partitions}

    def read(self, wanted: TopicRange) -> Iterator[pa.RecordBatch]:
        self.reads.append(wanted)
        key = (wanted.topic, wanted.partition)
        if wanted.start < self.begins.get(key, 0):
            raise DataLossError(f"offset {wanted.start} is gone")
        offsets = [offset for offset in range(wanted.start, wanted.end) if offset not in self.gaps]
        for first in range(0, len(offsets), self.rows_of_batch):
            rows = [
                {"value": b"%d" % offset, "topic": key[0], "partition": key[1], "offset": offset}
                for offset in offsets[first : first + self.rows_of_batch]
            ]
            yield pa.RecordBatch.from_pylist(rows, schema=SCHEMA)

    def close(self) -> None:
        self.is_closed = True


class Rig:
    """A consumer with its fakes; what its listeners heard is in `heard`."""

    def __init__(self, kafka: FakeKafka | None = None, **changes: object) -> None:
        self.member = FakeMember()
        self.kafka = kafka or FakeKafka({("t", 0): 10})
        self.heard: list[tuple[str, list[Key]]] = []
        settings = ConsumerSettings(coordinators=("c:1",), group_id="g", topics=("t",), columns=COLUMNS)
        self.consumer = Consumer(
            replace(settings, **changes),  # type: ignore[arg-type]
            on_assigned=lambda keys: self.heard.append(("assigned", list(keys))),
            on_revoked=lambda keys: self.heard.append(("revoked", list(keys))),
            on_lost=lambda keys: self.heard.append(("lost", list(keys))),
            member=self.member,
            records=self.kafka,
            clock=lambda: self.member.now[0],
        )

    def poll(self, timeout_s: float = 1.0) -> list[tuple[int, int]]:
        batch = self.consumer.poll(timeout_s)
        assert batch.schema == SCHEMA
        return [(row["partition"], row["offset"]) for row in batch.to_pylist()]


def final(partition: int, offset: int | None, epoch: int = 7) -> FinalOffset:
    return FinalOffset("t", partition, epoch, offset)


# ---- records --------------------------------------------------------------------------------------------------------


def test_rows_come_in_order_and_the_first_poll_joins() -> None:
    rig = Rig()
    assert rig.member.joined == 0
    assert [rig.poll() for _ in range(3)] == [
        [(0, 0), (0, 1), (0, 2), (0, 3)],
        [(0, 4), (0, 5), (0, 6), (0, 7)],
        [(0, 8), (0, 9)],
    ]
    assert (rig.member.joined, rig.consumer.position("t", 0), rig.heard) == (1, 10, [("assigned", [("t", 0)])])


def test_a_poll_returns_no_more_rows_than_allowed_and_loses_none() -> None:
    rig = Rig(max_poll_records=3)
    polled = [rig.poll() for _ in range(4)]
    assert [len(rows) for rows in polled] == [3, 1, 3, 1]
    assert [offset for rows in polled for _, offset in rows] == list(range(8))


def test_partitions_take_turns() -> None:
    rig = Rig(FakeKafka({("t", 0): 4, ("t", 1): 4}))
    rig.member.give(owned(0), owned(1))
    assert [rows[0][0] for rows in (rig.poll(), rig.poll())] == [0, 1]
    rig.kafka.ends = {("t", 0): 8, ("t", 1): 8}
    assert sorted(rows[0] for rows in (rig.poll(), rig.poll())) == [(0, 4), (1, 4)]


def test_a_poll_without_records_ends_in_time_and_asks_brokers_now_and_then() -> None:
    rig = Rig(FakeKafka({("t", 0): 0}))
    assert rig.poll(timeout_s=1.0) == []
    assert rig.member.now[0] == pytest.approx(1.0)
    assert 15 <= rig.kafka.looks <= 21


def test_a_poll_without_partitions_waits_for_them_and_asks_no_broker() -> None:
    rig = Rig()
    rig.member.give()
    rig.member.while_waiting = [Assignment((owned(0),), is_complete=True)]
    assert rig.poll()[0] == (0, 0)
    assert rig.member.waits == [1.0]


def test_offsets_without_records_are_passed_over() -> None:
    rig = Rig(FakeKafka({("t", 0): 10}, gaps=frozenset(range(2, 10))))
    assert rig.poll() == [(0, 0), (0, 1)]
    assert rig.poll(timeout_s=0.1) == []
    assert rig.consumer.position("t", 0) == 10


def test_a_kafka_that_is_away_makes_polls_empty_until_it_is_back(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig()
    rig.kafka.failures = [KafkaAwayError("Kafka gives no answer") for _ in range(3)]
    assert rig.poll(timeout_s=0.1) == []
    assert rig.poll()[0] == (0, 0)
    assert caplog.text.count("Kafka gives no answer") == 1


def test_a_deleted_topic_does_not_keep_the_others_from_being_read() -> None:
    rig = Rig()
    rig.member.give(owned(0), replace(owned(0), topic="gone"))
    rig.kafka.failures = [UnknownTopicError("Kafka has no topic gone", ["gone"])]
    assert rig.poll()[0] == (0, 0)


# ---- offsets --------------------------------------------------------------------------------------------------------


def test_what_a_poll_returned_is_done_when_the_next_one_begins() -> None:
    rig = Rig()
    rig.poll()
    assert rig.member.noted == []
    rig.poll()
    assert rig.member.noted == [(OffsetToCommit("t", 0, 4, 7),)]


def test_nothing_is_noted_without_auto_commit() -> None:
    rig = Rig(auto_commit=False)
    rig.poll()
    rig.poll()
    assert rig.member.noted == []


def test_commit_covers_all_rows_that_were_returned() -> None:
    rig = Rig(auto_commit=False)
    rig.poll()
    rig.consumer.commit()
    assert rig.member.committed == [(OffsetToCommit("t", 0, 4, 7),)]


def test_given_offsets_are_committed_as_they_are() -> None:
    rig = Rig()
    rig.poll()
    rig.consumer.commit({("t", 0): 2})
    assert rig.member.committed == [(OffsetToCommit("t", 0, 2, 7),)]


def test_refused_commit_names_the_partition_and_why() -> None:
    rig = Rig()
    rig.poll()
    rig.member.refusals = {0: ErrorCode.FENCED_OWNER_EPOCH}
    with pytest.raises(KcoordError, match=r"t-0: it is m2's\. Whoever has those partitions now"):
        rig.consumer.commit()


def test_offsets_of_partitions_of_others_are_not_committed() -> None:
    rig = Rig()
    rig.poll()
    with pytest.raises(KcoordError, match="Offsets of t-5 cannot be committed"):
        rig.consumer.commit({("t", 5): 2})
    assert rig.member.committed == []


# ---- partitions that come and go ------------------------------------------------------------------------------------


def test_a_partition_asked_back_is_given_back_by_the_next_poll_with_all_that_was_returned() -> None:
    rig = Rig()
    rig.poll()
    rig.member.give(owned(0, is_stopping=True), owned(1))
    rig.kafka.ends["t", 1] = 1
    assert rig.poll() == [(1, 0)]
    assert rig.member.released == [(final(0, 4),)]
    assert rig.heard[1:] == [("revoked", [("t", 0)]), ("assigned", [("t", 1)])]
    assert rig.consumer.assignment() == (("t", 1),)


def test_final_offsets_are_the_users_business_without_auto_commit() -> None:
    rig = Rig(auto_commit=False)
    rig.poll()
    rig.member.give(owned(0, is_stopping=True))
    rig.poll(timeout_s=0)
    assert rig.member.released == [(final(0, None),)]


def test_offsets_can_be_committed_while_partitions_are_revoked() -> None:
    rig = Rig(auto_commit=False)
    rig.consumer._on_revoked = lambda _: rig.consumer.commit()
    rig.poll()
    rig.member.give(owned(0, is_stopping=True))
    rig.poll(timeout_s=0)
    assert rig.member.committed == [(OffsetToCommit("t", 0, 4, 7),)]


@pytest.mark.parametrize("listener", ["_on_lost", "_on_revoked", "_on_assigned"])
def test_partitions_change_hands_whatever_a_listener_raises(listener: str) -> None:
    rig = Rig(FakeKafka({("t", number): 4 for number in range(3)}))
    rig.member.give(owned(0), owned(1))
    rig.poll()

    def fail(_: Sequence[Key]) -> None:
        raise KcoordError("it cannot be committed")

    setattr(rig.consumer, listener, fail)
    rig.member.give(owned(1, is_stopping=True), owned(2))
    with pytest.raises(KcoordError, match="it cannot be committed"):
        rig.poll()
    assert rig.consumer.assignment() == (("t", 2),)
    assert [one.partition for released in rig.member.released for one in released] == [1]
    assert rig.poll() == [(2, offset) for offset in range(4)]


def test_a_partition_asked_back_again_after_a_lost_connection_is_given_back_with_the_same_offset() -> None:
    rig = Rig()
    rig.poll()
    for _ in range(2):
        rig.member.give(owned(0, is_stopping=True))
        rig.poll(timeout_s=0)
    assert rig.member.released == [(final(0, 4),), (final(0, 4),)]


def test_a_partition_that_is_stopping_when_it_comes_is_given_back_without_an_offset() -> None:
    rig = Rig()
    rig.member.give(owned(0, is_stopping=True))
    assert rig.poll(timeout_s=0) == []
    assert (rig.member.released, rig.heard) == ([(final(0, None),)], [])


def test_partitions_are_given_back_in_the_order_of_the_assignment() -> None:
    rig = Rig()
    rig.poll()
    rig.member.give(*(owned(partition, is_stopping=True) for partition in range(8)))
    rig.poll(timeout_s=0)
    assert rig.member.released == [(final(0, 4), *(final(partition, None) for partition in range(1, 8)))]


def test_rows_of_a_partition_that_was_lost_are_not_returned_and_its_new_grant_starts_where_it_says() -> None:
    rig = Rig(max_poll_records=1)
    assert rig.poll() == [(0, 0)]
    rig.member.give(owned(0, start=6, epoch=8))
    assert rig.poll() == [(0, 6)]
    assert rig.heard[1:] == [("lost", [("t", 0)]), ("assigned", [("t", 0)])]


# ---- out of range ---------------------------------------------------------------------------------------------------


def test_a_log_that_was_cut_back_below_the_position_is_started_anew(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig(FakeKafka({("t", 0): 3}))
    rig.member.give(owned(0, 7))
    rig.member.granted_anew = (owned(0, start=1, epoch=8),)
    assert rig.poll(timeout_s=2.9) == []
    assert rig.member.reported == [], "an end that a broker tells can be old"
    assert rig.poll(timeout_s=1.0) == [(0, 1), (0, 2)]
    assert rig.member.reported == [LostPosition("t", 0, 7, 7)]
    assert "t-0 ends at offset 3, before offset 7" in caplog.text
    assert "Going on by the group's policy" in caplog.text


def test_a_log_that_was_cut_back_fails_a_consumer_whose_policy_is_none() -> None:
    rig = Rig(FakeKafka({("t", 0): 3}))
    rig.member.give(owned(0, 7))
    rig.member.refusals = {0: ErrorCode.OFFSET_OUT_OF_RANGE}
    with pytest.raises(DataLossError, match=r"before offset 7\. A partition was truncated.* the policy is none"):
        rig.poll(timeout_s=4.0)


def test_a_position_behind_an_open_transaction_is_not_reported_and_the_high_watermark_asked_now_and_then() -> None:
    rig = Rig(FakeKafka({("t", 0): 3}, marks={("t", 0): 7}))
    rig.member.give(owned(0, 7))
    assert rig.poll(timeout_s=10.0) == []
    assert rig.member.reported == []
    assert rig.kafka.asked_marks == 3


def test_what_the_coordinator_still_finds_in_a_log_that_was_cut_back_is_reported_again_later() -> None:
    rig = Rig(FakeKafka({("t", 0): 3}))
    rig.member.give(owned(0, 7))
    rig.member.refusals = {0: ErrorCode.OFFSET_NOT_AVAILABLE}
    assert rig.poll(timeout_s=6.0) == []
    assert len(rig.member.reported) == 3


def test_rows_of_other_partitions_come_while_one_was_cut_back() -> None:
    rig = Rig(FakeKafka({("t", 0): 3, ("t", 1): 4}))
    rig.member.give(owned(0, 7), owned(1))
    assert rig.poll() == [(1, 0), (1, 1), (1, 2), (1, 3)]
    rig.member.now[0] += 5.0
    rig.kafka.ends["t", 1] = 8
    rig.member.granted_anew = (owned(0, 2, epoch=8), owned(1, 4))
    assert rig.poll() == [(1, 4), (1, 5), (1, 6), (1, 7)]
    rig.member.now[0] += 3.0
    assert rig.poll() == [(0, 2)]


def test_a_partition_granted_anew_is_not_read_up_to_where_it_ended_before() -> None:
    rig = Rig()
    rig.poll()
    rig.kafka.ends["t", 0] = 3
    rig.member.give(owned(0, 0, epoch=9))
    rig.member.now[0] += 1.0
    assert rig.poll() == [(0, 0), (0, 1), (0, 2)]
    assert rig.kafka.reads[-1].end == 3


def test_a_position_that_is_gone_is_started_anew_by_the_groups_policy(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig(FakeKafka({("t", 0): 10}, begins={("t", 0): 5}))
    rig.member.granted_anew = (owned(0, start=5, epoch=8),)
    assert rig.poll()[0] == (0, 5)
    assert rig.member.reported == [LostPosition("t", 0, 7, 0)]
    assert "offset 0 is gone Going on by the group's policy" in caplog.text


def test_the_policy_none_makes_a_position_that_is_gone_an_error() -> None:
    rig = Rig(FakeKafka({("t", 0): 10}, begins={("t", 0): 5}))
    rig.member.refusals = {0: ErrorCode.OFFSET_OUT_OF_RANGE}
    with pytest.raises(DataLossError, match=r"offset 0 is gone the policy is none"):
        rig.poll()


def test_a_loss_within_what_the_brokers_have_is_an_error() -> None:
    class Strange(FakeKafka):
        def read(self, wanted: TopicRange) -> Iterator[pa.RecordBatch]:
            raise DataLossError("the topic was made again")

    rig = Rig(Strange({("t", 0): 10}))
    with pytest.raises(DataLossError, match="made again"):
        rig.poll()
    assert rig.member.reported == []


# ---- the end --------------------------------------------------------------------------------------------------------


def test_close_leaves_with_what_was_done_before_the_last_poll() -> None:
    rig = Rig()
    with rig.consumer:
        rig.poll()
        rig.poll()
    assert (rig.member.left_with, rig.kafka.is_closed) == ([final(0, 4)], True)


def test_commit_before_close_adds_what_the_last_poll_returned() -> None:
    rig = Rig()
    rig.poll()
    rig.consumer.commit()
    rig.consumer.close()
    rig.consumer.close()
    assert rig.member.left_with == [final(0, 4)]


def test_a_static_consumer_commits_and_stays_a_member_for_its_session() -> None:
    rig = Rig(instance_id="one")
    rig.poll()
    rig.poll()
    rig.consumer.close()
    assert rig.member.committed == [(OffsetToCommit("t", 0, 4, 7),)]
    assert (rig.member.left_with, rig.member.is_closed) == (None, True)


def test_a_static_consumer_that_cannot_commit_is_closed_all_the_same() -> None:
    rig = Rig(instance_id="one")
    rig.poll()
    rig.poll()

    def fail(_: Sequence[OffsetToCommit]) -> tuple[PartitionResult, ...]:
        raise KcoordError("the coordinator has not answered for 120 s")

    rig.member.commit = fail  # type: ignore[method-assign]
    with pytest.raises(KcoordError, match="has not answered"):
        rig.consumer.close()
    assert (rig.member.is_closed, rig.kafka.is_closed) == (True, True)


def test_a_consumer_that_never_polled_is_closed_without_joining() -> None:
    rig = Rig()
    rig.consumer.close()
    assert (rig.member.joined, rig.member.left_with, rig.member.is_closed) == (0, None, True)
    with pytest.raises(KcoordError, match="The consumer is closed"):
        rig.consumer.poll()


# ---- settings -------------------------------------------------------------------------------------------------------


def test_settings_become_the_members() -> None:
    settings = ConsumerSettings(
        coordinators=("c:1", "[::1]:2"), group_id="g", pattern="t.*", exclusions=("t-old",), start="earliest", streams=3
    ).member_settings()
    assert (settings.coordinators, settings.pattern, settings.exclusions) == (
        (("c", 1), ("::1", 2)),
        "t.*",
        ("t-old",),
    )
    assert settings.reset_policy is not None
    assert (settings.reset_policy.kind, settings.streams, settings.auto_commit, settings.lets_go_itself) == (
        "earliest",
        3,
        True,
        False,
    )


def test_kafka_is_where_the_coordinator_says_unless_options_say() -> None:
    settings = ConsumerSettings(coordinators=("c:1",), group_id="g", topics=("t",))
    assert settings.kafka_settings(("told:1",)).servers == ("told:1",)
    own = replace(settings, kafka={"kafka.bootstrap.servers": "own:1", "kafka.isolation.level": "read_committed"})
    assert (own.kafka_settings(("told:1",)).servers, own.kafka_settings(()).is_read_committed) == (("own:1",), True)


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"columns": ("value",)}, "columns must hold topic, partition, offset"), ({"max_poll_records": 0}, "positive")],
)
def test_settings_nothing_could_be_read_with_are_refused(changes: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        ConsumerSettings(coordinators=("c:1",), group_id="g", topics=("t",), **changes)  # type: ignore[arg-type]


def test_a_partition_that_is_left_alone_is_waited_for_and_not_turned_over() -> None:
    rig = Rig(FakeKafka({("t", 0): 10}, begins={("t", 0): 5}))
    rig.member.refusals = {0: ErrorCode.OFFSET_NOT_AVAILABLE}
    assert rig.poll(timeout_s=10.0) == []
    assert len(rig.member.reported) == 11
    assert rig.member.waits == [pytest.approx(1.0)] * 10
