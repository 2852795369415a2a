"""The plain consumer's promises, over a member and a Kafka that do as they are told."""

import gc
import math
import os
import threading
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from kafka import errors as kafka_errors

from coordinator.protocol.columns import OffsetToCommit
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.parts import FinalOffset, LostPosition, PartitionResult
from spark_kcoord.consumer import errors
from spark_kcoord.consumer.conduct.kafka import Lookup
from spark_kcoord.consumer.core.commits import AsyncCommits
from spark_kcoord.consumer.core.machine import ConsumerMachine, Owed, Told
from spark_kcoord.consumer.values import OffsetAndMetadata, TopicPartition
from spark_kcoord.errors import CoordinatorAwayError, KcoordError, MemberClosedError, RefusedError
from spark_kcoord.fetch.tailing.fetched import OutOfRange, Trouble, Truncated
from spark_kcoord.member.core.held.holdings import Assignment
from tests.helpers.fake_consuming import Rig, chunk, owned

pytestmark = pytest.mark.usefixtures("closes_rigs")

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


def final(partition: int, offset: int | None, epoch: int = 7, leader_epoch: int | None = 3) -> FinalOffset:
    return FinalOffset("t", partition, epoch, offset, leader_epoch if offset is not None else None)


def offset(partition: int, at: int, epoch: int | None = 7, metadata: str = "") -> OffsetToCommit:
    return OffsetToCommit("t", partition, at, epoch, 3 if not metadata else None, metadata)


# ---- records --------------------------------------------------------------------------------------------------------


def test_records_come_in_order_with_the_library_s_fields() -> None:
    rig = Rig()
    (records,) = rig.poll().values()
    assert [record.offset for record in records] == list(range(10))
    first = records[0]
    assert first._fields[:5] == ("topic", "partition", "leader_epoch", "offset", "timestamp")
    assert tuple(first) == ("t", 0, 3, 0, 0, 0, None, b"0", [], None, -1, 1, -1)


def test_a_poll_returns_no_more_records_than_allowed_and_loses_none() -> None:
    rig = Rig(max_poll_records=3)
    found = [rig.offsets() for _ in range(4)]
    assert [len(one) for one in found] == [3, 3, 3, 1]
    assert [at for one in found for _, at in one] == list(range(10))
    assert [len(rig.offsets(max_records=5)) for _ in range(1)] == [0]


def test_partitions_take_turns() -> None:
    rig = Rig({("t", 0): 8, ("t", 1): 8}, max_poll_records=4)
    rig.wait_for_assignment(0)
    rig.member.give(owned(0), owned(1))
    assert [rig.offsets()[0] for _ in range(4)] == [(0, 0), (1, 0), (0, 4), (1, 4)]


def test_poll_arrow_returns_batches_of_the_columns_each_of_one_partition() -> None:
    rig = Rig({("t", 0): 8}, columns=["topic", "partition", "offset", "value"])
    batches = rig.poll_arrow()
    assert [batch.num_rows for batch in batches] == [4, 4]
    assert batches[0].schema.names == ["value", "topic", "partition", "offset"]
    assert rig.position(P0) == 8


def test_poll_arrow_returns_about_as_many_bytes_as_asked_for_and_a_row_at_least() -> None:
    rig = Rig({("t", 0): 8})
    assert [batch.num_rows for batch in rig.poll_arrow(max_bytes=1)] == [1]
    assert rig.position(P0) == 1


def test_offsets_without_records_are_passed_over() -> None:
    rig = Rig({("t", 0): 0})
    rig.poll()
    token = rig.kafka.wanted["t", 0].token
    rig.kafka.news_now = [chunk(("t", 0), token, 0, 10, offsets=[0, 1]), chunk(("t", 0), token, 10, 12, offsets=[])]
    assert rig.offsets() == [(0, 0), (0, 1)]
    assert rig.offsets() == []
    assert rig.position(P0) == 12


def test_a_poll_without_records_ends_in_time() -> None:
    rig = Rig({("t", 0): 0})
    assert rig.poll(timeout_ms=100) == {}
    assert rig.now == pytest.approx(0.1)


def test_a_poll_waits_for_news_and_not_for_a_time() -> None:
    rig = Rig({("t", 0): 0})
    rig.while_waiting = [lambda: rig.kafka.ends.update({("t", 0): 1})]
    assert rig.offsets(5_000) == [(0, 0)]
    assert len(rig.waits) == 1


def test_a_poll_without_a_coordinator_ends_in_time_and_says_why_once_that_is_too_long() -> None:
    rig = Rig()
    rig.member.give()
    assert rig.poll(timeout_ms=100) == {}
    rig.member.failure = CoordinatorAwayError("Group 'g' could not be joined within 120 s: Connection refused.")
    with pytest.raises(errors.CoordinatorUnavailableError, match="Connection refused") as raised:
        rig.poll()
    assert raised.value.is_retriable
    assert isinstance(raised.value, kafka_errors.KafkaTimeoutError)
    began = rig.now
    with pytest.raises(errors.CoordinatorUnavailableError):
        rig.poll(timeout_ms=1_000)
    assert rig.now - began == pytest.approx(1.0), "it was told already: the next poll waits for its time"
    rig.while_waiting = [lambda: setattr(rig.member, "failure", None)]
    rig.member.give(owned(0))
    assert rig.offsets(1_000)[0] == (0, 0)


def test_a_refusal_is_raised_by_every_poll() -> None:
    rig = Rig()
    rig.member.failure = RefusedError("the reset policy differs", "INCONSISTENT_GROUP_PROTOCOL")
    for _ in range(2):
        with pytest.raises(errors.GroupRefusedError) as raised:
            rig.poll()
        assert raised.value.refusal == "INCONSISTENT_GROUP_PROTOCOL"


def test_a_deserializer_that_raises_is_told_after_the_records_before_and_seek_passes_it() -> None:
    def read(data: bytes) -> int:
        if data == b"2":
            raise ValueError("not a number")
        return int(data)

    rig = Rig({("t", 0): 4}, value_deserializer=read)
    assert [record.value for record in rig.poll()[P0]] == [0, 1]
    for _ in range(2):
        with pytest.raises(errors.RecordDeserializationError, match=r"offset 2 .*not a number") as raised:
            rig.poll()
        assert (raised.value.topic, raised.value.partition, raised.value.offset) == ("t", 0, 2)
    rig.seek(P0, 3)
    assert [record.value for record in rig.poll()[P0]] == [3]


def test_a_damaged_batch_is_told_after_the_records_before_and_seek_passes_it() -> None:
    rig = Rig({("t", 0): 4})
    rig.poll()
    token = rig.kafka.wanted["t", 0].token
    rig.kafka.news_now = [Trouble(("t", 0), token, 4, KcoordError("its checksum is wrong."), is_of_record=True)]
    with pytest.raises(errors.CorruptRecordError, match="Seek beyond offset 4") as raised:
        rig.poll()
    assert isinstance(raised.value, kafka_errors.CorruptRecordError)
    rig.kafka.ends["t", 0] = 6
    rig.seek(P0, 5)
    assert rig.offsets() == [(0, 5)]


def test_nothing_subscribed_to_is_an_error() -> None:
    with pytest.raises(errors.SubscriptionEmptyError):
        Rig(topics=()).poll()


def test_a_time_out_without_an_end_is_one_that_every_wait_takes() -> None:
    rig = Rig({P0: 4})
    rig.poll()
    rig.member.failure = CoordinatorAwayError("nobody is there")
    with pytest.raises(errors.CoordinatorUnavailableError):
        rig.poll()
    rig.kafka.ends[P0] = 5
    rig.while_waiting = [lambda: setattr(rig.member, "failure", None)]
    assert rig.offsets(timeout_ms=math.inf) == [(0, 4)]
    assert max(rig.waits) < threading.TIMEOUT_MAX
    rig.commit(timeout_ms=math.inf)
    assert rig.member.committed == [(offset(0, 5),)]
    rig.close(timeout_ms=math.inf)
    assert rig.member.left_with is not None


@pytest.mark.parametrize(("timeout_ms", "max_records"), [(-1, None), (0, 0), (0, -3)])
def test_a_poll_with_a_bad_argument_is_refused(timeout_ms: int, max_records: int | None) -> None:
    with pytest.raises(ValueError, match=r"negative|positive"):
        Rig().poll(timeout_ms, max_records)


def test_partitions_without_a_start_are_an_error_after_the_records_of_the_others() -> None:
    rig = Rig(max_poll_records=10)
    rig.member.given = replace(
        rig.member.given,
        withheld=(
            PartitionResult("t", 1, ErrorCode.OFFSET_OUT_OF_RANGE, "its policy is none"),
            PartitionResult("t", 2, ErrorCode.OFFSET_NOT_AVAILABLE, "Kafka is away"),
        ),
    )
    assert len(rig.offsets()) == 10
    with pytest.raises(errors.StartNotKnownError, match="no offset of t-1, and its policy is none") as raised:
        rig.poll()
    assert raised.value.partitions == (P1,)
    assert isinstance(raised.value, kafka_errors.NoOffsetForPartitionError)


def test_trouble_of_a_partition_is_told_though_others_always_have_records() -> None:
    rig = Rig({("t", 0): 4, ("t", 1): 10_000}, max_poll_records=4)
    rig.wait_for_assignment(0)
    rig.member.give(owned(0), owned(1))
    rig.poll()
    rig.kafka.news_now = [Trouble(P0, rig.kafka.wanted[P0].token, 4, KcoordError("its checksum is bad."), True)]
    rig.kafka.ends[P0] = 0
    found: list[tuple[int, int]] = []
    for _ in range(6):
        try:
            found += rig.offsets()
        except errors.CorruptRecordError as error:
            found.append((0, error.offset))
    assert [one for one in found if one[0] == 0] == [(0, 4)], "it is told once beside the records of others"
    assert [at for partition, at in found if partition == 1] == list(range(found[-1][1] - 19, found[-1][1] + 1))


def test_a_log_that_was_cut_back_goes_on_though_others_always_have_records() -> None:
    rig = Rig({("t", 0): 4, ("t", 1): 10_000}, max_poll_records=4)
    rig.wait_for_assignment(0)
    rig.member.give(owned(0), owned(1))
    while (0, 3) not in rig.offsets():
        pass
    rig.kafka.news_now = [Truncated(P0, rig.kafka.wanted[P0].token, 2)]
    found = [one for _ in range(4) for one in rig.offsets()]
    assert [one for one in found if one[0] == 0] == [(0, 2), (0, 3)]


# ---- what is done ---------------------------------------------------------------------------------------------------


def test_what_a_poll_returned_is_done_when_the_next_one_begins() -> None:
    rig = Rig(max_poll_records=4)
    rig.poll()
    assert rig.member.noted == []
    rig.poll()
    assert rig.member.noted == [(offset(0, 4),)]


def test_nothing_is_noted_without_auto_commit() -> None:
    rig = Rig(enable_auto_commit=False)
    rig.poll()
    rig.poll()
    assert rig.member.noted == []


def test_what_is_fetched_and_not_returned_is_not_done() -> None:
    rig = Rig(max_poll_records=1)
    rig.poll()
    rig.close()
    assert rig.member.left_with == [final(0, None)]


@pytest.mark.parametrize(("autocommit", "done"), [(None, 4), (True, 8), (False, None)])
def test_a_close_commits_what_it_is_told_to(autocommit: bool | None, done: int | None) -> None:
    rig = Rig(max_poll_records=4)
    rig.poll()
    rig.poll()
    rig.close(autocommit)
    assert rig.member.left_with == [final(0, done, leader_epoch=3 if done == 8 else None)]


def test_an_iteration_counts_the_record_before_the_one_that_it_gives() -> None:
    rig = Rig()
    assert [next(rig).offset for _ in range(3)] == [0, 1, 2]
    assert rig.position(P0) == 3
    rig.commit()
    assert rig.member.committed == [(offset(0, 3),)]


def test_a_with_block_of_an_iteration_that_ends_well_commits_the_record_given_last() -> None:
    with Rig() as rig:
        for record in rig:
            if record.offset == 4:
                break
    assert rig.member.left_with == [final(0, 5)]


def test_a_with_block_that_ends_by_an_exception_does_not_count_the_record_given_last() -> None:
    rig = Rig()
    with suppress(RuntimeError), rig:
        next(rig)
        next(rig)
        raise RuntimeError
    assert rig.member.left_with == [final(0, None)]


def test_an_iteration_ends_when_nothing_comes_for_its_time_and_goes_on_later() -> None:
    rig = Rig({("t", 0): 2}, consumer_timeout_ms=1_000)
    assert [record.offset for record in rig] == [0, 1]
    assert rig.now == pytest.approx(1.0)
    rig.kafka.ends["t", 0] = 3
    assert [record.offset for record in rig] == [2]


def test_a_seek_and_a_pause_within_an_iteration_count_from_the_next_record_on() -> None:
    rig = Rig({("t", 0): 10, ("t", 1): 4})
    rig.wait_for_assignment(0)
    rig.member.give(owned(0), owned(1))
    assert [next(rig).offset for _ in range(2)] == [0, 1]
    rig.seek(P0, 7)
    assert [(one.partition, one.offset) for one in (next(rig), next(rig))] == [(1, 0), (1, 1)]
    rig.pause(P1)
    assert [(one.partition, one.offset) for one in (next(rig), next(rig))] == [(0, 7), (0, 8)]


def test_offsets_can_be_committed_by_a_listener_while_the_consumer_closes() -> None:
    rig = Rig(enable_auto_commit=False, max_poll_records=4)
    rig.poll()
    rig.listener.then["revoked"] = rig.commit
    rig.close()
    assert rig.member.committed == [(offset(0, 4),)]
    assert rig.listener.heard[-1] == ("revoked", [0])


def test_a_partition_by_hand_that_starts_nowhere_is_an_error_until_somebody_seeks() -> None:
    rig = Rig({("t", 0): 4}, (), group_id=None, coordinators=None, bootstrap_servers="k:1", auto_offset_reset="none")
    rig.assign([P0])
    for call in (rig.poll, lambda: rig.position(P0)):
        with pytest.raises(errors.StartNotKnownError, match="Nobody says where t-0 starts"):
            call()
    rig.seek(P0, 3)
    assert rig.offsets() == [(0, 3)]


def test_topics_without_a_group_start_nowhere_where_the_policy_is_none_until_somebody_seeks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Lookup, "topics_of", lambda *_: {P0: "id"})
    rig = Rig({("t", 0): 4}, (), group_id=None, coordinators=None, bootstrap_servers="k:1", auto_offset_reset="none")
    rig.subscribe(["t"])

    def read_on() -> None:
        while not rig.poll(timeout_ms=1_000):
            pass

    with pytest.raises(errors.StartNotKnownError, match="Nobody says where t-0 starts"):
        read_on()
    rig.seek(P0, 3)
    assert rig.offsets() == [(0, 3)]


def test_an_iteration_lets_go_of_a_partition_that_is_asked_back_before_the_next_record() -> None:
    rig = Rig({("t", 0): 4, ("t", 1): 4})
    rig.wait_for_assignment(0)
    assert next(rig).offset == 0
    assert next(rig).offset == 1
    rig.member.give(owned(0, is_stopping=True), owned(1))
    rig._bell.ring()
    assert (next(rig).partition, rig.listener.heard[-2:]) == (1, [("revoked", [0]), ("assigned", [1])])
    assert rig.member.released == [(final(0, 2),)]


# ---- what ends a call -----------------------------------------------------------------------------------------------


def test_whatever_ends_a_poll_its_records_are_returned_by_the_next() -> None:
    rig = Rig(max_poll_records=4)
    mark = rig._flows.machine.mark_returned

    def interrupted(pieces: Any) -> None:
        mark(pieces)
        raise KeyboardInterrupt

    rig._flows.machine.mark_returned = interrupted  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        rig.poll()
    rig._flows.machine.mark_returned = mark  # type: ignore[method-assign]
    assert rig.offsets() == [(0, at) for at in range(4)]
    assert rig.member.noted == []


def _signalled(rig: Rig, owner: Any, name: str, handler: Callable[[], Any] | None = None) -> None:
    """Have a signal come at the end of a function: its handler does what one of SIGTERM may, then ends the program."""
    before = getattr(owner, name)

    def then_a_signal(*given: Any) -> Any:
        found = before(*given)
        setattr(owner, name, before)
        (handler or rig.commit)()
        rig.assignment()
        raise SystemExit(found)

    setattr(owner, name, then_a_signal)


@pytest.mark.parametrize("step", ["mark_returned", "leave"])
def test_a_signal_handler_commits_nothing_of_the_poll_that_it_ends(step: str) -> None:
    rig = Rig(max_poll_records=4, enable_auto_commit=False)
    _signalled(rig, rig._guard if step == "leave" else rig._flows.machine, step)
    with pytest.raises(SystemExit):
        rig.poll()
    assert rig.member.committed == []
    assert rig.offsets() == [(0, at) for at in range(4)]


@pytest.mark.parametrize("step", ["give", "at_once"])
def test_a_signal_handler_commits_nothing_of_the_record_that_an_iteration_is_about_to_give(step: str) -> None:
    rig = Rig(enable_auto_commit=False)
    given = [] if step == "give" else [next(rig).offset]
    _signalled(rig, rig._reading, step)
    with pytest.raises(SystemExit):
        next(rig)
    assert [one.offset for offsets in rig.member.committed for one in offsets] == []
    assert next(rig).offset == len(given)


@pytest.mark.parametrize("step", ["leave", "at_once"])
def test_a_signal_handler_that_closes_does_not_count_the_record_that_an_iteration_is_about_to_give(step: str) -> None:
    rig = Rig()
    if step == "at_once":
        next(rig)
    _signalled(rig, rig._guard if step == "leave" else rig._reading, step, rig.close)
    with pytest.raises(SystemExit):
        next(rig)
    assert rig.member.left_with == [final(0, None)]


def test_a_signal_handler_that_closes_and_commits_all_does_not_count_the_poll_that_it_ends() -> None:
    rig = Rig(max_poll_records=4)
    rig.poll()
    _signalled(rig, rig._guard, "leave", lambda: rig.close(autocommit=True))
    with pytest.raises(SystemExit):
        rig.poll()
    assert rig.member.left_with == [final(0, 4)]


def test_an_interrupt_while_it_waits_loses_nothing() -> None:
    rig = Rig({("t", 0): 0})
    rig.while_waiting = [rig.interrupt]
    with pytest.raises(errors.InterruptedPollError):
        rig.poll(timeout_ms=10_000)
    assert len(rig.waits) == 1
    rig.kafka.ends["t", 0] = 1
    assert rig.offsets() == [(0, 0)]


def test_an_interrupt_ends_the_next_call_once() -> None:
    rig = Rig()
    rig.interrupt()
    with pytest.raises(errors.InterruptedPollError):
        rig.poll()
    assert rig.offsets()[0] == (0, 0)


def test_two_threads_at_once_are_refused_and_both_named() -> None:
    rig = Rig({("t", 0): 0})
    said: list[str] = []

    def other() -> None:
        with pytest.raises(errors.WrongThreadError) as raised:
            rig.poll()
        said.append(str(raised.value))

    def meanwhile() -> None:
        thread = threading.Thread(target=other, name="the-other")
        thread.start()
        thread.join()

    rig.while_waiting = [meanwhile]
    rig.poll(timeout_ms=10)
    assert "'the-other'" in said[0]
    assert "'MainThread'" in said[0]


def test_a_forked_child_is_refused_and_its_close_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig()
    monkeypatch.setattr(os, "getpid", lambda: -5)
    with pytest.raises(errors.ConsumerClosedError, match="belongs to process"):
        rig.poll()
    rig.close()
    assert rig.member.left_with is None


def test_a_closed_consumer_says_so() -> None:
    rig = Rig()
    rig.close()
    rig.close()
    with pytest.raises(errors.ConsumerClosedError):
        rig.poll()
    assert rig.kafka.is_closed is False, "nothing was fetched, so that there was no fetcher"


def test_a_consumer_that_is_forgotten_warns_and_leaves() -> None:
    rig = Rig()
    rig.poll()
    member, kafka = rig.member, rig.kafka
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del rig
        gc.collect()
    # What other tests have left is collected here too.
    of_consumers = [one.category for one in caught if "was not closed" in str(one.message)]
    assert of_consumers == [ResourceWarning]
    assert (member.left_with, kafka.is_closed) == ([final(0, None)], True)


def test_a_consumer_that_was_left_alone_tells_what_it_lost_and_comes_back() -> None:
    rig = Rig(max_poll_records=4)
    rig.poll()
    rig.member.is_left_alone = True
    rig.member.failure = MemberClosedError("it was not polled for 300 s")
    assert rig.offsets() == []
    assert rig.listener.heard == [("assigned", [0]), ("lost", [0])]
    assert len(rig.members) == 2
    rig.member.give(owned(0, start=4, epoch=9))
    assert rig.offsets()[0] == (0, 4)


def test_a_listener_that_raises_when_it_hears_what_was_lost_does_not_keep_the_consumer_from_coming_back() -> None:
    rig = Rig()
    rig.poll()
    rig.listener.then["lost"] = lambda: 1 / 0
    rig.member.is_left_alone = True
    rig.member.failure = MemberClosedError("it was not polled for 300 s")
    with pytest.raises(ZeroDivisionError):
        rig.poll()
    rig.poll()
    assert len(rig.members) == 2
    assert rig.offsets() == []
    rig.kafka.ends[P0] = 11
    assert rig.offsets() == [(0, 10)]


# ---- commits --------------------------------------------------------------------------------------------------------


def test_commit_covers_all_that_was_returned_and_is_harmless_twice() -> None:
    rig = Rig(max_poll_records=4)
    rig.poll()
    rig.commit()
    rig.commit()
    assert rig.member.committed == [(offset(0, 4),)]


def test_given_offsets_are_committed_with_metadata() -> None:
    rig = Rig()
    rig.poll()
    rig.commit({P0: OffsetAndMetadata(2, "by hand", -1)})
    assert rig.member.committed == [(offset(0, 2, metadata="by hand"),)]


def test_a_refused_commit_names_the_partition_and_why() -> None:
    rig = Rig()
    rig.poll()
    rig.member.refusals = {0: ErrorCode.FENCED_OWNER_EPOCH}
    with pytest.raises(
        errors.CommitRefusedError, match=r"t-0: it is m2's\. Whoever has a partition now that is not this"
    ) as raised:
        rig.commit()
    assert raised.value.partitions == (P0,)
    assert isinstance(raised.value, kafka_errors.CommitFailedError)


def test_offsets_of_partitions_of_others_are_not_committed() -> None:
    rig = Rig()
    rig.poll()
    with pytest.raises(errors.PartitionsNotOwnedError, match="Offsets of t-5 cannot be committed"):
        rig.commit({TopicPartition("t", 5): 2})
    assert rig.member.committed == []


def test_a_position_before_the_groups_offset_is_left_out_of_a_commit_and_refused_when_it_is_given() -> None:
    rig = Rig(max_poll_records=4)
    rig.poll()
    rig.commit()
    rig.seek(P0, 1)
    rig.commit()
    assert rig.member.committed == [(offset(0, 4),)]
    with pytest.raises(errors.CommitRefusedError, match=r"before the group's offset 4.*reset-offsets"):
        rig.commit({P0: 1})


@pytest.mark.parametrize(
    ("offsets", "error"),
    [
        ({("t", 0): 1}, TypeError),
        ({P0: -1}, ValueError),
        ({P0: 1.5}, ValueError),
        ({P0: OffsetAndMetadata(1, "x" * 4_097, -1)}, ValueError),
        ({P0: OffsetAndMetadata(1, "", 2**31)}, ValueError),
    ],
)
def test_a_commit_with_a_bad_argument_is_refused(offsets: Any, error: type[Exception]) -> None:
    rig = Rig()
    rig.poll()
    with pytest.raises(error):
        rig.commit(offsets)


def test_async_commits_merge_while_one_is_out_and_tell_in_a_later_call() -> None:
    rig = Rig(max_poll_records=2, enable_auto_commit=False)
    heard: list[tuple[Any, Any]] = []

    def callback(offsets: Any, error: Any) -> None:
        heard.append((offsets[P0].offset, error))

    rig.poll()
    rig.member.holds_answers = True
    for _ in range(3):
        rig.commit_async(callback=callback)
        rig.poll()
    assert [one[0].offset for one in rig.member.committed] == [2]
    rig.member.answer()
    assert heard == []
    rig.poll()
    assert (heard, [one[0].offset for one in rig.member.committed]) == ([(2, None)], [2, 6])
    rig.member.answer()
    rig.poll()
    assert heard == [(2, None), (4, None), (6, None)]


def test_async_commits_that_merge_send_the_largest_offset_so_that_what_is_told_is_done() -> None:
    rig = Rig(enable_auto_commit=False)
    heard: list[tuple[int, Any]] = []
    rig.poll()
    rig.member.holds_answers = True
    for at in (1, 5, 3):
        rig.commit_async({P0: at}, lambda offsets, error: heard.append((offsets[P0], error)))
    rig.member.holds_answers = False
    rig.member.answer()
    rig.poll()
    rig.poll()
    assert [one[0].offset for one in rig.member.committed] == [1, 5]
    assert heard == [(1, None), (5, None), (3, None)]


def test_an_async_commit_under_a_later_owner_epoch_counts_however_small_it_is() -> None:
    commits = AsyncCommits()
    for at, owner_epoch in ((5, 7), (2, 8)):
        commits.add([OffsetToCommit("t", 0, at, owner_epoch)], None, None)
    sent = commits.next_to_send()
    assert sent is not None
    assert [(one.offset, one.owner_epoch) for one in sent.offsets] == [(2, 8)]


def test_a_callback_that_raises_ends_its_call_and_the_others_are_told_by_the_next() -> None:
    rig = Rig(max_poll_records=2, enable_auto_commit=False)
    heard: list[int] = []
    rig.poll()
    rig.commit_async(callback=lambda *_: 1 / 0)
    rig.commit_async(callback=lambda *_: heard.append(2))
    with pytest.raises(ZeroDivisionError):
        rig.poll()
    assert rig.offsets() == [(0, 2), (0, 3)]
    assert heard == [2]


def test_an_async_commit_never_overtakes_a_later_one() -> None:
    rig = Rig(max_poll_records=2, enable_auto_commit=False)
    rig.poll()
    rig.member.holds_answers = True
    rig.commit_async()
    rig.poll()
    rig.commit_async()
    rig.poll()
    rig.member.holds_answers = False
    rig.commit()
    assert [one[0].offset for one in rig.member.committed] == [2, 4, 6]


# ---- partitions that come and go ------------------------------------------------------------------------------------


def test_a_partition_asked_back_is_given_back_by_the_next_poll_with_all_that_was_returned() -> None:
    rig = Rig({("t", 0): 4, ("t", 1): 1})
    rig.poll()
    rig.member.give(owned(0, is_stopping=True), owned(1))
    assert rig.offsets() == [(1, 0)]
    assert rig.member.released == [(final(0, 4),)]
    assert rig.listener.heard[1:] == [("revoked", [0]), ("assigned", [1])]
    assert rig.assignment() == {P1}


def test_offsets_can_be_committed_while_partitions_are_revoked() -> None:
    rig = Rig(enable_auto_commit=False, max_poll_records=4)
    rig.listener.then["revoked"] = rig.commit
    rig.poll()
    rig.member.give(owned(0, is_stopping=True))
    rig.poll()
    assert rig.member.committed == [(offset(0, 4),)]
    assert rig.member.released == [(final(0, None),)]


def test_a_listener_can_seek_and_pause_what_came_before_anything_of_it_is_fetched() -> None:
    rig = Rig()
    seen: list[object] = []

    def seek() -> None:
        seen.append(dict(rig.kafka.wanted))
        rig.seek(P0, 7)

    rig.listener.then["assigned"] = seek
    assert rig.offsets()[0] == (0, 7)
    assert seen == [{}]


@pytest.mark.parametrize("news", ["lost", "revoked", "assigned"])
@pytest.mark.parametrize("error", [KcoordError("it cannot be done"), KeyboardInterrupt()])
def test_partitions_change_hands_whatever_a_listener_raises(news: str, error: BaseException) -> None:
    rig = Rig({("t", number): 4 for number in range(3)})
    rig.wait_for_assignment(0)
    rig.member.give(owned(0), owned(1))
    rig.poll()

    def fail() -> None:
        raise error

    rig.listener.then[news] = fail
    rig.member.give(owned(1, is_stopping=True), owned(2))
    with pytest.raises(type(error)):
        rig.poll()
    assert rig.assignment() == {TopicPartition("t", 2)}
    assert [one.partition for released in rig.member.released for one in released] == [1]
    assert rig.offsets() == [(2, at) for at in range(4)]


def test_a_partition_whose_telling_ctrl_c_ended_is_told_with_the_next_assignment() -> None:
    machine = ConsumerMachine(auto_commit=True, starts_over=True)
    machine.adopt(Assignment((owned(0),)))
    owed = machine.next_owed()
    assert owed is not None
    machine.begin_telling(owed)
    machine.adopt(Assignment((owned(0), owned(1))))
    owed = machine.next_owed()
    assert owed == Owed(Told.ASSIGNED, (P0, P1))
    machine.begin_telling(owed)
    machine.end_telling(owed)
    assert set(machine.wanted() or ()) == {P0, P1}


def test_a_listener_may_not_poll() -> None:
    rig = Rig()
    rig.listener.then["assigned"] = rig.poll
    with pytest.raises(errors.WrongThreadError, match="listener"):
        rig.poll()


def test_a_listener_of_kafka_python_hears_what_is_lost_as_revoked() -> None:
    from kafka import ConsumerRebalanceListener

    heard = []

    class Theirs(ConsumerRebalanceListener):  # type: ignore[misc]
        def on_partitions_revoked(self, revoked: Any) -> None:
            heard.append(revoked)

        def on_partitions_assigned(self, assigned: Any) -> None:
            heard.append(assigned)

    rig = Rig(topics=())
    rig.subscribe(["t"], listener=Theirs())
    rig.poll()
    rig.member.give()
    rig.poll()
    assert heard == [{P0}, {P0}]


def test_a_partition_asked_back_again_after_a_lost_connection_is_given_back_with_the_same_offset() -> None:
    rig = Rig(max_poll_records=4)
    rig.poll()
    for _ in range(2):
        rig.member.give(owned(0, is_stopping=True))
        rig.poll()
    assert rig.member.released == [(final(0, 4),), (final(0, 4),)]


def test_a_partition_that_is_stopping_when_it_comes_is_given_back_without_an_offset() -> None:
    rig = Rig()
    rig.member.give(owned(0, is_stopping=True))
    assert rig.offsets() == []
    assert (rig.member.released, rig.listener.heard) == ([(final(0, None),)], [])


def test_rows_of_a_partition_that_was_lost_are_not_returned_and_its_new_grant_starts_where_it_says() -> None:
    rig = Rig(max_poll_records=1)
    assert rig.offsets() == [(0, 0)]
    rig.member.give(owned(0, start=6, epoch=8))
    assert rig.offsets() == [(0, 6)]
    assert rig.listener.heard[1:] == [("lost", [0]), ("assigned", [0])]


def test_a_reconnect_under_the_same_owner_epoch_voids_nothing_and_tells_nobody() -> None:
    rig = Rig(max_poll_records=2)
    rig.poll()
    rig.member.give(owned(0), is_complete=False)
    assert rig.offsets() == [(0, 2), (0, 3)]
    rig.member.give(owned(0))
    assert rig.offsets() == [(0, 4), (0, 5)]
    assert rig.listener.heard == [("assigned", [0])]


def test_what_a_reconnect_does_not_bring_back_is_lost() -> None:
    rig = Rig(max_poll_records=2)
    rig.poll()
    rig.member.give(owned(0), is_complete=False)
    rig.poll()
    rig.member.give()
    rig.poll()
    assert rig.listener.heard == [("assigned", [0]), ("lost", [0])]


# ---- subscriptions --------------------------------------------------------------------------------------------------


def test_a_subscription_that_changes_goes_to_the_same_member() -> None:
    rig = Rig()
    rig.poll()
    rig.subscribe(["u"], add=True, listener=None)
    assert rig.subscription() == {"t", "u"}
    assert [one.topics for one in rig.member.resubscribed] == [("t", "u")]
    assert (len(rig.members), rig._flows.listener) == (1, rig.listener)


def test_an_unsubscribed_consumer_has_given_back_all_and_can_subscribe_again() -> None:
    rig = Rig(max_poll_records=4)
    rig.poll()
    rig.poll()
    first = rig.member
    rig.unsubscribe()
    assert (first.left_with, rig.assignment(), rig.subscription()) == ([final(0, 4, leader_epoch=None)], set(), None)
    assert rig.listener.heard == [("assigned", [0]), ("revoked", [0])]
    rig.subscribe(["t"])
    assert rig.offsets()[0] == (0, 0)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "nothing was given"),
        ({"topics": ["a"], "pattern": "b"}, "more than one kind"),
        ({"topics": ["a b"]}, "no name of a topic"),
        ({"pattern": "a(?=b)"}, "lookaround"),
    ],
)
def test_a_subscription_that_cannot_be_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(errors.SubscriptionNotValidError, match=said):
        Rig(topics=()).subscribe(**given)


def test_partitions_by_hand_and_a_subscription_do_not_go_together() -> None:
    rig = Rig()
    with pytest.raises(errors.SubscriptionNotValidError):
        rig.assign([P0])
    other = Rig(topics=(), group_id=None, coordinators=None, bootstrap_servers="k:1")
    other.assign([P0])
    with pytest.raises(errors.SubscriptionNotValidError):
        other.subscribe(["t"])


def test_partitions_by_hand_start_where_they_are_told_or_by_the_policy() -> None:
    rig = Rig({("t", 0): 4, ("t", 1): 4}, (), group_id=None, coordinators=None, bootstrap_servers="k:1")
    rig.assign({P0: 2})
    rig.assign([P1], add=True)
    assert rig.offsets() == [(0, 2), (0, 3)]
    assert rig.position(P1) == 4
    rig.seek_to_beginning(P1)
    assert rig.offsets() == [(1, at) for at in range(4)]
    assert rig.members == []
    rig.unassign()
    assert rig.assignment() == set()


def test_partitions_by_hand_of_a_topic_that_was_made_again_start_at_its_beginning() -> None:
    rig = Rig({("t", 0): 4}, (), group_id=None, coordinators=None, bootstrap_servers="k:1")
    rig.assign({P0: 2})
    rig.poll()
    rig.kafka.news_now = [OutOfRange(P0, rig.kafka.wanted[P0].token, 4, is_new_topic=True)]
    found = [one for _ in range(3) for one in rig.offsets()]
    assert found == [(0, at) for at in range(4)]


def test_a_partition_by_hand_that_kafka_does_not_have_keeps_nothing_from_the_others() -> None:
    by_hand: dict[str, Any] = {"group_id": None, "coordinators": None, "bootstrap_servers": "k:1"}
    rig = Rig({P0: 0, P1: 10_000}, (), auto_offset_reset="none", max_poll_records=4, **by_hand)
    rig.assign({P0: 4, P1: 0})
    rig.poll()
    rig.kafka.news_now = [OutOfRange(P0, rig.kafka.wanted[P0].token, 4)]
    found, told = rig.offsets(), 0
    for _ in range(6):
        try:
            found += rig.offsets()
        except errors.OffsetOutOfRangeError as error:
            told += error.partitions == (P0,)
    assert (found, told) == ([(1, at) for at in range(4, 28)], 1)
    rig.pause(P1)
    for _ in range(2):
        with pytest.raises(errors.OffsetOutOfRangeError, match="the positions of t-0, and 'auto_offset_reset' is none"):
            rig.poll()
    rig.kafka.ends[P0] = 6
    rig.seek(P0, 5)
    assert rig.offsets() == [(0, 5)]


# ---- positions ------------------------------------------------------------------------------------------------------


def test_a_seek_goes_on_there_and_counts_all_before_as_done() -> None:
    rig = Rig(max_poll_records=2)
    rig.poll()
    rig.seek(P0, 8)
    assert rig.offsets() == [(0, 8), (0, 9)]
    assert rig.member.noted == [(OffsetToCommit("t", 0, 8, 7),)]


def test_a_position_that_was_sought_is_not_done_before_kafka_is_known_to_have_it() -> None:
    rig = Rig(max_poll_records=2)
    rig.poll()
    rig.seek(P0, 1_000_000)
    for _ in range(2):
        assert rig.offsets() == []
    assert rig.member.noted == []
    rig.member.give(owned(0, is_stopping=True))
    rig.poll()
    assert [final.offset for finals in rig.member.released for final in finals] == [None]


def test_a_position_behind_the_end_that_was_known_is_done_once_kafka_answers_for_it() -> None:
    rig = Rig(max_poll_records=2)
    rig.poll()
    rig.kafka.ends["t", 0] = 21
    rig.seek(P0, 20)
    assert rig.offsets() == [(0, 20)]
    rig.poll()
    assert rig.member.noted[-1] == (offset(0, 21),)


def test_what_is_held_of_a_paused_partition_is_told_to_the_fetcher_also_where_nothing_is_freed() -> None:
    """It fetches nothing for others while its memory is full of what is to be returned soon."""
    rig = Rig(max_poll_records=2)
    rig.poll()
    rig.pause(P0)
    assert (rig.offsets(), rig.kafka.parked_bytes) == ([], rig.kafka.held_bytes)
    assert rig.kafka.parked_bytes > 0
    rig.resume(P0)
    rig.poll()
    assert rig.kafka.parked_bytes == 0


def test_a_paused_partition_keeps_what_was_fetched_and_goes_on_when_it_is_resumed() -> None:
    rig = Rig(max_poll_records=2)
    rig.poll()
    rig.pause(P0)
    assert (rig.offsets(), rig.paused(), rig.kafka.wanted) == ([], {P0}, {})
    rig.resume(P0)
    assert rig.offsets() == [(0, 2), (0, 3)]


def test_what_is_held_is_freed_when_it_was_returned() -> None:
    rig = Rig(max_poll_records=4)
    while rig.poll():
        pass
    rig.poll()
    assert rig.kafka.held_bytes == 0


def test_seek_to_the_end_is_resolved_by_the_position() -> None:
    rig = Rig()
    rig.wait_for_assignment(0)
    rig.seek_to_end()
    assert rig.position(P0) == 10
    assert rig.lag(P0) == 0


@pytest.mark.parametrize("call", [lambda rig: rig.position(P1), lambda rig: rig.seek(P1, 1), lambda rig: rig.pause(P1)])
def test_a_partition_that_is_not_assigned_is_refused(call: Callable[[Rig], object]) -> None:
    rig = Rig()
    rig.poll()
    with pytest.raises(errors.PartitionNotAssignedError) as raised:
        call(rig)
    assert isinstance(raised.value, ValueError)
    assert isinstance(raised.value, kafka_errors.IllegalStateError)


def test_the_fencing_token_of_a_partition_is_its_owner_epoch() -> None:
    rig = Rig()
    rig.poll()
    assert rig.owner_epoch(P0) == 7


# ---- out of range ---------------------------------------------------------------------------------------------------


def gone(rig: Rig, position: int) -> None:
    rig.poll()
    rig.kafka.news_now.append(OutOfRange(("t", 0), rig.kafka.wanted["t", 0].token, position))


def test_a_position_that_kafka_does_not_have_is_reported_and_goes_on_at_the_groups_offset() -> None:
    rig = Rig({("t", 0): 4})
    rig.member.report_answers = [PartitionResult("t", 0, committed=2)]
    gone(rig, 4)
    rig.poll()
    assert rig.member.reported == [LostPosition("t", 0, 7, 4)]
    rig.poll()
    assert rig.offsets() == [(0, 2), (0, 3)]


def test_a_position_that_kafka_does_not_have_fails_a_consumer_whose_policy_is_none() -> None:
    rig = Rig({("t", 0): 4})
    rig.member.report_answers = [PartitionResult("t", 0, ErrorCode.OFFSET_OUT_OF_RANGE, "the policy is none")]
    gone(rig, 4)
    rig.poll()
    with pytest.raises(errors.OffsetOutOfRangeError, match="does not have offset 4, the policy is none") as raised:
        rig.poll()
    assert raised.value.partitions == (P0,)


@pytest.mark.parametrize(
    "answer",
    [
        PartitionResult("t", 0, committed=1),
        PartitionResult("t", 0, ErrorCode.OFFSET_OUT_OF_RANGE, "the policy is none"),
        PartitionResult("t", 0, ErrorCode.OFFSET_NOT_AVAILABLE, "Kafka is away"),
    ],
)
def test_a_seek_counts_more_than_the_answer_to_a_report_of_the_position_before_it(answer: PartitionResult) -> None:
    rig = Rig({("t", 0): 4})
    rig.member.report_answers = [answer]
    gone(rig, 4)
    rig.member.holds_answers = True
    rig.poll()
    rig.seek(P0, 3)
    token = rig.kafka.wanted["t", 0].token
    rig.member.answer()
    assert rig.offsets() == [(0, 3)]
    assert rig.kafka.wanted["t", 0].token == token, "what was fetched since is not fetched again"


def test_a_log_that_was_cut_back_goes_on_there_or_fails_by_the_policy() -> None:
    rig = Rig({("t", 0): 4})
    rig.poll()
    rig.kafka.news_now = [Truncated(("t", 0), rig.kafka.wanted["t", 0].token, 2)]
    rig.poll()
    assert rig.offsets() == [(0, 2), (0, 3)]
    other = Rig({("t", 0): 4}, auto_offset_reset="none")
    other.poll()
    other.kafka.news_now = [Truncated(("t", 0), other.kafka.wanted["t", 0].token, 2)]
    with pytest.raises(errors.LogTruncatedError) as raised:
        other.poll()
    assert raised.value.divergent_offsets == {P0: 2}


@pytest.mark.parametrize(
    ("careless", "kind"),
    [
        (lambda rig: rig.seek(P0, 2**63), ValueError),
        (lambda rig: rig.commit({P0: 2**63}), ValueError),
        (lambda rig: rig.commit([P0]), TypeError),
        (lambda rig: rig.commit({P0: OffsetAndMetadata(1, 7, -1)}), TypeError),  # type: ignore[arg-type]
        (lambda rig: rig.commit_async(callback=5), TypeError),
        (lambda rig: rig.offsets_for_times({P0: "5"}), TypeError),
        (lambda rig: rig.offsets_for_times({P0: 2**63}), ValueError),
        (lambda rig: rig.partitions_for_topic(5), TypeError),
        (lambda rig: rig.poll_arrow(max_bytes="many"), TypeError),
        (lambda rig: rig.poll_arrow(max_bytes=0), ValueError),
        (lambda rig: rig.poll_arrow(max_bytes=-1), ValueError),
        (lambda rig: rig.close(timeout_ms="soon"), TypeError),
        (lambda rig: rig.close(timeout_ms=-1), ValueError),
    ],
    ids=lambda value: "" if callable(value) else value.__name__,
)
def test_a_careless_argument_is_refused_before_anything_is_asked(
    careless: Callable[[Any], Any], kind: type[Exception]
) -> None:
    rig = Rig()
    rig.poll()
    with pytest.raises(kind) as raised:
        careless(rig)
    assert str(raised.value) not in ("", "int too large to convert")
    assert "object has no attribute" not in str(raised.value)
    assert (rig.member.committed, rig.kafka.wanted[P0].position) == ([], 0)
    assert rig.offsets() == []
