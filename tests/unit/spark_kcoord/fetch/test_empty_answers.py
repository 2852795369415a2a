"""Empty answers to fetches below the readable end: what ends a range, what never does, and how that fails."""

from dataclasses import replace
from itertools import pairwise

import kafka.errors as kafka_errors
import pytest

from spark_kcoord.errors import DataLossError, KafkaAwayError
from spark_kcoord.fetch.connection import TopicMetadata
from spark_kcoord.fetch.progress import RangeProgress
from spark_kcoord.fetch.requests import PartAnswer
from tests.helpers.decoders import decoder as decoder
from tests.helpers.scripted_kafka import SETTINGS, WANTED, ScriptedKafka, fetched, read, values


def slow_tier(*later: object) -> ScriptedKafka:
    """Return a broker whose own disk begins at offset 3, and which gives nothing from its remote tier so far."""
    kafka = ScriptedKafka(*[fetched()] * 6, *later)  # type: ignore[arg-type]
    kafka.local_starts = [3]
    return kafka


def test_remote_tier_that_answers_late_loses_nothing() -> None:
    kafka = slow_tier(fetched(values(0, 1, 2, 3)))

    assert read(kafka, timeout_s=60) == [0, 1, 2, 3]
    assert kafka.asked == [(1, 0)] * 7


@pytest.mark.parametrize("fail_on_data_loss", [True, False])
def test_remote_tier_that_never_answers_fails_with_all_offsets(fail_on_data_loss: bool) -> None:
    kafka = ScriptedKafka(fetched(values(1)), fetched(start=1, watermark=9))
    kafka.local_starts = [3]

    with pytest.raises(KafkaAwayError) as raised:
        read(kafka, wanted=replace(WANTED, start=1), fail_on_data_loss=fail_on_data_loss)
    for part in (
        "topic 't' partition 0: Kafka gave no records and no error for 0.2 s at offset 2 of [1, 4), although its log "
        "[1, 9) can be read",
        "The leader's own disk has offsets from 3 on only: older ones are in the remote tier",
        "Nothing was skipped.",
        "'kafkaConsumer.pollTimeoutMs'",
    ):
        assert part in str(raised.value)


def test_last_answer_that_does_not_come_in_time_changes_nothing_in_the_error() -> None:
    kafka = ScriptedKafka(*[fetched()] * 3, kafka_errors.KafkaTimeoutError("Timed out after 50 ms"))
    kafka.local_starts = [3]

    with pytest.raises(
        KafkaAwayError, match=r"at offset 0 of \[0, 4\), although its log \[0, 4\) can be read.*remote tier"
    ):
        read(kafka)


def test_waits_between_empty_answers_grow() -> None:
    progress = RangeProgress(WANTED, SETTINGS, fail_on_data_loss=True, timeout_s=60)
    waits = []
    for _ in range(12):
        assert progress.take(PartAnswer(None, readable_end=4, had_its_turn=True), 0.0) is None
        progress.settle(3, 0.0)
        waits.append(progress.ready_at)
    assert waits[0] < 0.002
    assert all(later > earlier * 1.2 for earlier, later in pairwise(waits[:10]))
    assert 0.8 <= waits[-1] <= 1.2


def test_cleaned_tail_on_the_leaders_disk_ends_the_range_by_a_question() -> None:
    kafka = ScriptedKafka(fetched(values(0, 1)), fetched())
    kafka.local_starts = [2]

    assert read(kafka) == [0, 1]
    assert kafka.asked == [(1, 0), (1, 2), (1, 2)]


def test_topic_made_again_before_the_question_is_not_taken_for_a_cleaned_tail() -> None:
    kafka = ScriptedKafka(fetched(), fetched(error=kafka_errors.UnknownTopicIdError.errno))
    kafka.asked_again = TopicMetadata("00000000-0000-0000-0000-000000000002", {0: (1, 1)}, None, 0.0)

    with pytest.raises(DataLossError, match="the topic was deleted or made again"):
        read(kafka)


def test_records_that_come_after_the_question_are_read() -> None:
    assert read(ScriptedKafka(fetched(), fetched(values(0, 1, 2, 3)))) == [0, 1, 2, 3]


def test_answer_to_the_question_is_good_for_one_offset_only() -> None:
    kafka = ScriptedKafka(fetched(), fetched(values(0, 1)), *[fetched()] * 6, fetched(values(2, 3)))
    kafka.local_starts = [0, 4]

    assert read(kafka, timeout_s=60) == [0, 1, 2, 3]


def test_question_that_fails_proves_nothing_and_is_asked_again() -> None:
    kafka = ScriptedKafka(*[fetched()] * 6, fetched(values(0, 1, 2, 3)))
    kafka.local_starts = [
        kafka_errors.KafkaConnectionError("reset by peer"),
        kafka_errors.RequestTimedOutError(),
        -1,
        4,
    ]

    assert read(kafka, timeout_s=60) == [0, 1, 2, 3]
    kafka = ScriptedKafka(fetched())
    kafka.local_starts = [kafka_errors.RequestTimedOutError()]
    with pytest.raises(KafkaAwayError, match="Nobody answered where the log on the leader's own disk begins"):
        read(kafka)


def test_broker_that_does_not_know_the_question_proves_nothing() -> None:
    old = [kafka_errors.IncompatibleBrokerVersion("ListOffsets")]
    kafka = ScriptedKafka(*[fetched()] * 6, fetched(values(0, 1, 2, 3)))
    kafka.local_starts = [*old]
    assert read(kafka, timeout_s=60) == [0, 1, 2, 3]

    kafka = ScriptedKafka(fetched(values(0, 1)), fetched())
    kafka.local_starts = [*old]
    with pytest.raises(DataLossError, match=r"at offset 2 of \[0, 4\).*its version of Kafka cannot say"):
        read(kafka)
    kafka.answers = [fetched(values(0, 1)), fetched()]
    kafka.is_closed = False
    assert read(kafka, fail_on_data_loss=False) == [0, 1]


def test_replica_that_gives_nothing_sends_the_reader_to_the_leader_for_good() -> None:
    kafka = ScriptedKafka(
        fetched(replica=2), fetched(), fetched(values(0, 1)), fetched(), fetched(), fetched(values(2, 3))
    )
    kafka.settings = replace(SETTINGS, rack="east")
    kafka.local_starts = [3]

    assert read(kafka, timeout_s=60) == [0, 1, 2, 3]
    assert kafka.asked == [(1, 0), (2, 0), (1, 0), (1, 2), (1, 2), (1, 2)]
    assert kafka.racks == ["east", "east", "", "", "", ""]


def test_answers_without_a_turn_tell_nothing_and_are_no_time_without_progress() -> None:
    progress = RangeProgress(WANTED, SETTINGS, fail_on_data_loss=True, timeout_s=10)

    for now in range(100):
        assert progress.take(PartAnswer(None, readable_end=4, had_its_turn=now % 9 == 0), float(now)) is None
        assert progress.is_in_doubt == (now % 9 == 0)
        if progress.is_in_doubt:
            progress.settle(3, float(now))
    assert not progress.is_done


def test_throttled_answer_without_partitions_says_nothing_about_the_topic() -> None:
    throttled = fetched(throttle=1)
    throttled.responses = []
    kafka = ScriptedKafka(*[throttled] * 20, fetched(values(0, 1, 2, 3)))

    assert read(kafka) == [0, 1, 2, 3]
    assert kafka.refreshed == 0
