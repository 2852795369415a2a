"""Reading a range against a scripted broker: what is retried, what is skipped, what fails and how."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import kafka.errors as kafka_errors
import pytest
from kafka.protocol.consumer import FetchRequest

from spark_kcoord.errors import DataLossError, KafkaAwayError, KcoordError
from spark_kcoord.fetch.connection import TopicMetadata
from spark_kcoord.fetch.decoding.decode import COLUMNS
from spark_kcoord.fetch.pool import ClientPool
from spark_kcoord.fetch.progress import RangeProgress
from spark_kcoord.fetch.ranges import read_ranges
from spark_kcoord.fetch.requests import PartAnswer
from spark_kcoord.fetch.topic_range import TopicRange
from spark_kcoord.options.kafka_settings import KafkaSettings
from tests.helpers.decoders import decoder as decoder
from tests.helpers.scripted_kafka import (
    SETTINGS,
    TIMEOUT_S,
    TOPIC_ID,
    WANTED,
    Answer,
    ScriptedKafka,
    fetched,
    read,
    values,
)
from tests.helpers.waiting import wait_until


def test_next_request_is_on_its_way_while_rows_are_read() -> None:
    kafka = ScriptedKafka(fetched(values(0, 1)), fetched(values(2, 3)))

    assert read(kafka) == [0, 1, 2, 3]
    assert kafka.asked == [(1, 0), (1, 2)]


def test_range_ends_although_more_was_sent() -> None:
    kafka = ScriptedKafka(fetched(values(0, 1, 2, 3, 4, 5)))

    assert read(kafka) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "passing",
    [
        fetched(error=kafka_errors.NotLeaderForPartitionError.errno),
        fetched(error=kafka_errors.FencedLeaderEpochError.errno),
        fetched(error=kafka_errors.UnknownTopicOrPartitionError.errno),
        fetched(error=kafka_errors.KafkaStorageError.errno),
        fetched(error=kafka_errors.UnknownError.errno),
        kafka_errors.KafkaConnectionError("reset by peer"),
        kafka_errors.RequestTimedOutError(),
        kafka_errors.NodeNotReadyError(1),
    ],
    ids=str,
)
def test_what_may_pass_is_retried_with_fresh_metadata(passing: Answer) -> None:
    kafka = ScriptedKafka(passing, passing, fetched(values(0, 1, 2, 3)))

    assert read(kafka, timeout_s=60) == [0, 1, 2, 3]
    assert kafka.refreshed == 2


def test_fetching_ahead_that_fails_is_asked_again() -> None:
    kafka = ScriptedKafka(
        fetched(values(0, 1)), kafka_errors.KafkaConnectionError("reset by peer"), fetched(values(2, 3))
    )

    assert read(kafka) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (
            kafka_errors.KafkaConnectionError("no route"),
            "offset 0 cannot be read. Kafka at k:1 gave no answer in 0.2 s",
        ),
        (fetched(error=kafka_errors.TopicAuthorizationFailedError.errno), "refused: TopicAuthorizationFailedError"),
        (fetched(error=2), "refused: CorruptRecordError"),
    ],
)
def test_what_does_not_pass_is_a_clear_error(answer: Answer, said: str) -> None:
    kafka = ScriptedKafka(answer)

    with pytest.raises(KcoordError, match="topic 't' partition 0") as raised:
        read(kafka)
    assert said in str(raised.value)
    assert kafka.is_closed


def test_throttled_answers_do_not_end_a_range() -> None:
    kafka = ScriptedKafka(*[fetched(throttle=5)] * 10, fetched(values(0, 1, 2, 3)))

    assert read(kafka, timeout_s=60) == [0, 1, 2, 3]


def test_records_that_come_late_are_waited_for() -> None:
    kafka = ScriptedKafka(fetched(values(0, 1)), *[fetched(watermark=2)] * 5, fetched(values(2, 3)))

    assert read(kafka, timeout_s=60) == [0, 1, 2, 3]


def test_end_that_the_log_does_not_reach_is_data_loss() -> None:
    with pytest.raises(DataLossError, match="its log can be read up to offset 2 only, but records up to 4 are wanted"):
        read(ScriptedKafka(fetched(values(0, 1)), fetched(watermark=2)))
    assert read(ScriptedKafka(fetched(values(0, 1)), fetched(watermark=2)), fail_on_data_loss=False) == [0, 1]


def test_end_that_the_log_does_not_reach_is_told_from_a_broker_that_does_not_answer() -> None:
    def kafka() -> ScriptedKafka:
        broker = ScriptedKafka(fetched(values(0, 1)), fetched(watermark=2))
        broker.holds_empty_answers = True
        return broker

    with pytest.raises(DataLossError, match="its log can be read up to offset 2 only, but records up to 4 are wanted"):
        read(kafka())
    assert read(kafka(), fail_on_data_loss=False) == [0, 1]


def out_of_range(log: tuple[int, int], *answers: Answer) -> ScriptedKafka:
    kafka = ScriptedKafka(fetched(error=kafka_errors.OffsetOutOfRangeError.errno), *answers)
    kafka.log = log
    return kafka


def test_aged_out_offsets_are_data_loss_or_skipped() -> None:
    with pytest.raises(DataLossError, match=r"offset 0 of \[0, 4\) is gone; the log has \[2, 9\) now"):
        read(out_of_range((2, 9)))
    assert read(out_of_range((2, 9), fetched(values(2, 3))), fail_on_data_loss=False) == [2, 3]
    assert read(out_of_range((9, 9)), fail_on_data_loss=False) == []


def test_out_of_range_of_a_leader_that_does_have_the_offset_is_asked_again() -> None:
    assert read(out_of_range((0, 4), fetched(values(0, 1, 2, 3))), timeout_s=60) == [0, 1, 2, 3]


@pytest.mark.parametrize("fail_on_data_loss", [True, False])
def test_time_that_is_over_makes_no_loss_of_an_offset_that_the_log_has(fail_on_data_loss: bool) -> None:
    progress = RangeProgress(WANTED, SETTINGS, fail_on_data_loss=fail_on_data_loss, timeout_s=60)
    assert not progress.fail(kafka_errors.NotLeaderForPartitionError(), 0.0)

    assert progress.fail(kafka_errors.OffsetOutOfRangeError(), 60.0)
    with pytest.raises(KafkaAwayError, match=r"offset 0 of \[0, 4\).*its log has \[0, 9\).*Nothing was skipped"):
        progress.compare(0, 9, 60.0)
    assert progress.position == 0


def test_end_that_is_behind_the_range_is_lost_when_the_time_is_over() -> None:
    progress = RangeProgress(WANTED, SETTINGS, fail_on_data_loss=False, timeout_s=60)

    progress.compare(0, 0, 0.0)
    assert not progress.is_done
    progress.compare(0, 0, 60.0)
    assert progress.is_done


GONE = TopicMetadata(None, {}, kafka_errors.UnknownTopicOrPartitionError, 0.0)
MADE_AGAIN = TopicMetadata("00000000-0000-0000-0000-000000000002", {0: (1, 1)}, None, 0.0)
SMALLER = TopicMetadata(TOPIC_ID, {}, None, 0.0)


@pytest.mark.parametrize("errno", [3, 100, 103])
@pytest.mark.parametrize("metadata", [GONE, MADE_AGAIN, SMALLER])
def test_topic_that_metadata_says_is_gone_is_data_loss_in_bounded_time(errno: int, metadata: TopicMetadata) -> None:
    def kafka() -> ScriptedKafka:
        broker = ScriptedKafka(fetched(error=errno))
        broker.asked_again = metadata
        return broker

    with pytest.raises(DataLossError, match=r"the topic was deleted or made again; \[0, 4\) is gone"):
        read(kafka())
    assert read(kafka(), fail_on_data_loss=False) == []


@pytest.mark.parametrize("errno", [3, 100, 103])
@pytest.mark.parametrize("fail_on_data_loss", [True, False])
def test_leader_that_does_not_know_a_topic_which_metadata_names_is_no_proof_that_it_is_gone(
    errno: int, *, fail_on_data_loss: bool
) -> None:
    unaware = [fetched(error=errno)] * 9
    kafka = ScriptedKafka(*unaware, fetched(values(0, 1, 2, 3)))
    assert read(kafka, fail_on_data_loss=fail_on_data_loss, timeout_s=60) == [0, 1, 2, 3]

    said = r"offset 0 of \[0, 4\) cannot be read. Its leader says \w+, although metadata names.*Nothing was skipped"
    with pytest.raises(KafkaAwayError, match=said):
        read(ScriptedKafka(*unaware), fail_on_data_loss=fail_on_data_loss, timeout_s=0.03)


def a_range(*, fail_on_data_loss: bool) -> RangeProgress:
    return RangeProgress(WANTED, SETTINGS, fail_on_data_loss=fail_on_data_loss, timeout_s=60)


UNKNOWN = kafka_errors.UnknownTopicOrPartitionError()


def test_leader_that_stays_unaware_for_longer_than_a_deletion_takes_loses_nothing() -> None:
    progress = a_range(fail_on_data_loss=False)
    for second in range(60):
        assert not progress.fail(UNKNOWN, float(second))
    assert progress.position == 0
    with pytest.raises(KafkaAwayError, match="Nothing was skipped"):
        progress.fail(UNKNOWN, 60.0)


def test_topic_that_is_gone_fails_a_read_soon_and_is_passed_over_when_the_time_is_over() -> None:
    failing, passing = a_range(fail_on_data_loss=True), a_range(fail_on_data_loss=False)
    for second in range(60):
        passing.miss(UNKNOWN, float(second))
        assert not passing.is_done
    passing.miss(UNKNOWN, 60.0)
    assert passing.is_done
    for second in range(6):
        failing.miss(UNKNOWN, float(second))
    with pytest.raises(DataLossError, match="deleted or made again"):
        failing.miss(UNKNOWN, 6.0)


def test_metadata_that_names_the_topic_in_between_takes_back_that_it_is_gone() -> None:
    progress = a_range(fail_on_data_loss=True)
    for second in range(0, 50, 5):
        progress.miss(UNKNOWN, float(second))
        progress.miss(UNKNOWN, second + 4.0)
        assert not progress.fail(UNKNOWN, second + 4.5)


def test_answer_without_records_in_between_takes_back_that_a_topic_is_gone() -> None:
    failing, passing = a_range(fail_on_data_loss=True), a_range(fail_on_data_loss=False)
    for progress in (failing, passing):
        progress.miss(UNKNOWN, 0.0)
        progress.take(PartAnswer(None, readable_end=2, had_its_turn=True), 1.0)
    failing.miss(UNKNOWN, 59.0)
    passing.miss(UNKNOWN, 60.0)
    assert (failing.position, passing.position) == (0, 0)


def test_topic_that_is_missed_only_when_the_time_is_over_is_not_passed_over() -> None:
    progress = a_range(fail_on_data_loss=False)
    progress.fail(kafka_errors.KafkaConnectionError(), 0.0)
    progress.miss(UNKNOWN, 60.0)
    assert progress.position == 0
    assert progress.fail(kafka_errors.OffsetOutOfRangeError(), 63.0), "metadata has named the topic in between"
    with pytest.raises(KcoordError, match="cannot be read"):
        progress.miss(UNKNOWN, 63.0)
    assert progress.position == 0


def test_topic_of_which_metadata_was_asked_late_is_missed_for_seconds_all_the_same() -> None:
    failing, passing = a_range(fail_on_data_loss=True), a_range(fail_on_data_loss=False)
    for progress in (failing, passing):
        assert not progress.fail(UNKNOWN, 0.0)  # then others of the task are read for long
        for second in range(200, 206):
            progress.miss(UNKNOWN, float(second))
        assert progress.position == 0
    passing.miss(UNKNOWN, 206.0)
    assert passing.is_done
    with pytest.raises(DataLossError, match="deleted or made again"):
        failing.miss(UNKNOWN, 206.0)


def test_partition_that_is_gone_from_the_metadata_is_data_loss() -> None:
    with pytest.raises(DataLossError, match="the topic was deleted or made again"):
        read(ScriptedKafka(fetched(), leaders={}))


def test_topic_with_another_id_is_data_loss_before_anything_is_fetched() -> None:
    kafka = ScriptedKafka(fetched(values(0, 1, 2, 3)))
    wanted = TopicRange("t", "00000000-0000-0000-0000-000000000001", 0, 0, 4)

    with pytest.raises(DataLossError, match="made again"):
        read(kafka, wanted=wanted)
    assert kafka.asked == []


def test_leader_is_waited_for() -> None:
    with pytest.raises(KcoordError, match="LeaderNotAvailableError"):
        read(ScriptedKafka(fetched(), leaders={0: (-1, 7)}))


class ReticentKafka(ScriptedKafka):
    """A broker that leaves the topic out of its first answers to questions for it."""

    def __init__(self, *answers: Answer, omissions: int) -> None:
        super().__init__(*answers)
        self.omissions = omissions

    def topic(self, name: str) -> TopicMetadata | None:  # type: ignore[override]
        return super().topic(name) if self.refreshed > self.omissions else None

    async def refresh(self, topics: list[str]) -> dict[str, TopicMetadata]:
        self.refreshed += 1
        # Nobody waits when the time is over, and a process that stood still then asks once more in each of its loops.
        assert self.refreshed <= len(self.slept_s) + 5, "the broker is asked without a pause"
        return {}


def test_topic_that_is_left_out_of_an_answer_is_asked_for_again() -> None:
    assert read(ReticentKafka(fetched(values(0, 1, 2, 3)), omissions=3), timeout_s=60) == [0, 1, 2, 3]
    with pytest.raises(KcoordError, match="LeaderNotAvailableError: a broker says nothing of t"):
        read(ReticentKafka(fetched(values(0, 1, 2, 3)), omissions=1_000_000))


def test_preferred_replica_is_read_until_it_fails() -> None:
    kafka = ScriptedKafka(
        fetched(replica=2),
        fetched(values(0, 1)),
        fetched(error=kafka_errors.OffsetOutOfRangeError.errno),
        fetched(values(2, 3)),
    )

    assert read(kafka) == [0, 1, 2, 3]
    assert kafka.asked == [(1, 0), (2, 0), (2, 2), (1, 2)]


class FollowedKafka(ScriptedKafka):
    """A leader that has all and sends readers of another rack to broker 2, which says what is scripted, for ever."""

    async def send(self, node_id: int, request: Any) -> Any:
        if node_id != 1 or not isinstance(request, FetchRequest):
            return await super().send(node_id, request)
        self.asked.append((node_id, request.topics[0].partitions[0].fetch_offset))
        if request.rack_id:
            return fetched(replica=2)
        return fetched(values(*range(self.asked[-1][1], 4)))


@pytest.mark.parametrize("fail_on_data_loss", [True, False])
def test_replica_that_stays_behind_its_leader_is_no_loss(fail_on_data_loss: bool) -> None:
    kafka = FollowedKafka(fetched(values(0, 1)), fetched(watermark=2))
    kafka.settings = replace(SETTINGS, rack="east")

    assert read(kafka, fail_on_data_loss=fail_on_data_loss) == [0, 1, 2, 3]
    assert kafka.asked == [(1, 0), (2, 0), (2, 2), (1, 2)]


def test_replica_whose_log_is_cut_back_says_nothing_of_the_leaders() -> None:
    cut_back = fetched()
    partition = cut_back.responses[0].partitions[0]
    partition.diverging_epoch = type(partition).EpochEndOffset(epoch=7, end_offset=1)
    kafka = FollowedKafka(fetched(values(0, 1)), cut_back)
    kafka.settings = replace(SETTINGS, rack="east")

    assert read(kafka) == [0, 1, 2, 3]
    assert kafka.asked == [(1, 0), (2, 0), (2, 2), (1, 2)]


@pytest.mark.parametrize(
    "answer",
    [
        kafka_errors.KafkaConnectionError("no route"),
        fetched(error=kafka_errors.OffsetOutOfRangeError.errno),
        fetched(error=kafka_errors.KafkaStorageError.errno),
    ],
    ids=["no connection", "out of range", "storage"],
)
def test_replica_that_always_fails_sends_the_reader_to_the_leader_for_good(answer: Answer) -> None:
    kafka = FollowedKafka(answer)
    kafka.settings = replace(SETTINGS, rack="east")

    assert read(kafka) == [0, 1, 2, 3]
    assert kafka.asked == [(1, 0), (2, 0), (1, 0), (2, 0), (1, 0)]


def test_bytes_without_a_whole_batch_are_a_clear_error() -> None:
    with pytest.raises(KcoordError, match="without one whole record batch"):
        read(ScriptedKafka(fetched(values(0, 1)[:-1])))


def test_read_committed_waits_for_the_last_stable_offset() -> None:
    kafka = ScriptedKafka(fetched(stable=0))
    settings = KafkaSettings(servers=("k:1",), retry_backoff_ms=1, is_read_committed=True)
    kafka.settings = settings
    pool = ClientPool(connect=lambda _: kafka)  # type: ignore[arg-type,return-value]  # a scripted stand-in

    with pytest.raises(DataLossError, match="can be read up to offset 0 only"):
        list(
            read_ranges(
                settings, [WANTED], columns=COLUMNS[:-1], fail_on_data_loss=True, timeout_s=TIMEOUT_S, pool=pool
            )
        )


@pytest.fixture
def idle_pool() -> Iterator[tuple[ClientPool, list[ScriptedKafka]]]:
    made: list[ScriptedKafka] = []

    def connect(settings: KafkaSettings) -> Any:
        made.append(ScriptedKafka())
        made[-1].settings = settings
        return made[-1]

    pool = ClientPool(idle_s=3600, connect=connect)
    yield pool, made
    pool.close_idle()


def test_pool_closes_what_was_not_used_for_a_while_by_itself() -> None:
    made: list[ScriptedKafka] = []

    def connect(settings: KafkaSettings) -> Any:
        made.append(ScriptedKafka())
        return made[-1]

    pool = ClientPool(idle_s=0.05, connect=connect)
    for _ in range(2):
        with pool.lease(SETTINGS):
            pass

    wait_until(lambda: all(client.is_closed for client in made))
    assert len(pool) == 0


def test_pool_lends_each_client_to_one_at_a_time(idle_pool: tuple[ClientPool, list[ScriptedKafka]]) -> None:
    pool, made = idle_pool

    with pool.lease(SETTINGS) as first, pool.lease(SETTINGS) as second:
        assert first is not second
    with pool.lease(SETTINGS) as again, pool.lease(KafkaSettings(servers=("other:1",))) as other:
        assert again in made[:2]
        assert other is made[2]
    assert (len(pool), pool.close_idle(3600), pool.close_idle(), len(pool)) == (3, 0, 3, 0)
    assert all(client.is_closed for client in made)
