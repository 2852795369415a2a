"""Plain consumers on a real coordinator and a real Kafka: they share a group, hand partitions over and lose nothing."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from kafka.admin import KafkaAdminClient
from kafka.structs import TopicPartition

from coordinator.client.request import ask
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import FetchOffsets, FetchOffsetsResponse
from coordinator.protocol.parts import Claim, ClaimState, StartHint
from coordinator.protocol.text.addresses import parse_address, parse_addresses
from kcoord import Consumer, OffsetAndMetadata, errors
from kcoord import TopicPartition as Partition
from spark_kcoord.member.client import MemberClient, MemberSettings
from tests.helpers.fake_consuming import Heard
from tests.helpers.group_view import GroupView
from tests.helpers.kafka_topics import produce_numbers
from tests.helpers.polled import polled
from tests.helpers.processes import eventually

if TYPE_CHECKING:
    from coordinator.local.kafka.broker import LocalKafka
    from coordinator.local.node import LocalCoordinator

pytestmark = pytest.mark.kafka

LONG_MS = 60_000
"""The time that a call has which ends when something happens, on however slow a machine."""


@pytest.fixture
def consumers(coordinator: "LocalCoordinator") -> Iterator[Callable[..., Consumer]]:
    """Return a maker of consumers of one group, which are closed at the end."""
    with ExitStack() as stack:

        def make(group: str, **changes: Any) -> Consumer:
            known: dict[str, Any] = {"auto_offset_reset": "earliest", "heartbeat_interval_ms": 200}
            topics, listener = changes.pop("topics", ()), changes.pop("listener", None)
            also = {name: changes.pop(name) for name in ("pattern", "partitions", "exclude") if name in changes}
            consumer = Consumer(coordinators=coordinator.address, group_id=group, **(known | changes))
            stack.enter_context(consumer)
            if topics or also:
                consumer.subscribe(topics, listener=listener, **also)
            return consumer

        yield make


def numbers(consumer: Consumer, timeout_ms: float = 200) -> list[int]:
    return [int(record.value) for record in polled(consumer, timeout_ms)]


def read_until(count: int, *polled: Consumer) -> list[int]:
    """Poll consumers in turn until they have returned this many rows."""
    found: list[int] = []

    def is_there() -> bool:
        for consumer in polled:
            found.extend(numbers(consumer, 50))
        return len(found) >= count

    eventually(is_there)
    return found


def committed(coordinator: "LocalCoordinator", group: str) -> int:
    response = ask(parse_addresses(coordinator.address), FetchOffsets(group), 60)
    assert isinstance(response, FetchOffsetsResponse)
    return sum(found.offset for found in response.offsets)


def test_two_consumers_share_a_group_and_what_one_has_done_the_other_goes_on_from(
    kafka: "LocalKafka", coordinator: "LocalCoordinator", topic: Callable[..., str], consumers: Callable[..., Consumer]
) -> None:
    name = topic(4)
    produce_numbers(kafka.bootstrap_servers, name, 4, 0, 400)
    first = consumers(name, topics=(name,), max_poll_records=30)
    before = read_until(100, first)
    second = consumers(name, topics=(name,), max_poll_records=30)
    after = read_until(400 - len(before), first, second)
    assert eventually(
        lambda: numbers(first) == numbers(second) == [] and len(first.assignment()) == len(second.assignment()) == 2
    )
    assert sorted(before + after) == list(range(400))
    assert eventually(lambda: committed(coordinator, name) == 400)
    first.close()
    produce_numbers(kafka.bootstrap_servers, name, 4, 400, 40)
    assert sorted(read_until(40, second)) == list(range(400, 440))
    assert len(second.assignment()) == 4


def test_what_was_not_committed_is_read_again_by_the_next(
    kafka: "LocalKafka", coordinator: "LocalCoordinator", topic: Callable[..., str], consumers: Callable[..., Consumer]
) -> None:
    name = topic(1)
    produce_numbers(kafka.bootstrap_servers, name, 1, 0, 20)
    first = consumers(name, topics=(name,), enable_auto_commit=False, max_poll_records=5)
    assert read_until(10, first) == list(range(10))
    first.commit()
    assert (first.committed(Partition(name, 0)), read_until(5, first)) == (10, list(range(10, 15)))
    first.close()
    second = consumers(name, topics=(name,), enable_auto_commit=False)
    assert read_until(10, second) == list(range(10, 20))
    assert committed(coordinator, name) == 10


def test_topics_that_match_a_pattern_later_are_read_from_their_beginning(
    kafka: "LocalKafka",
    topic_name: Callable[[], str],
    consumers: Callable[..., Consumer],
) -> None:
    prefix = topic_name()
    kafka.create_topic(f"{prefix}.a", 1)
    kafka.create_topic(f"{prefix}.skip", 1)
    produce_numbers(kafka.bootstrap_servers, f"{prefix}.a", 1, 0, 3)
    produce_numbers(kafka.bootstrap_servers, f"{prefix}.skip", 1, 500, 3)
    consumer = consumers(prefix, pattern=rf"{prefix}\..*", exclude=(f"{prefix}.skip",), auto_offset_reset="latest")
    assert eventually(lambda: numbers(consumer) == [] and consumer.assignment() == {(f"{prefix}.a", 0)})
    kafka.create_topic(f"{prefix}.b", 2)
    produce_numbers(kafka.bootstrap_servers, f"{prefix}.b", 2, 10, 4)
    assert sorted(read_until(4, consumer)) == [10, 11, 12, 13]


def test_an_explicit_partition_is_one_consumers_alone(
    kafka: "LocalKafka", topic: Callable[..., str], consumers: Callable[..., Consumer]
) -> None:
    name = topic(2)
    produce_numbers(kafka.bootstrap_servers, name, 2, 0, 10)
    owner = consumers(name, partitions=[Partition(name, 1)])
    assert sorted(read_until(5, owner)) == [1, 3, 5, 7, 9]
    with pytest.raises(errors.GroupRefusedError, match=r"setting 'partitions'.*owned by member .*PARTITION_OWNED"):
        consumers(name, partitions=[Partition(name, 1)]).poll(LONG_MS)


def test_positions_that_were_deleted_are_started_anew_by_the_groups_policy(
    kafka: "LocalKafka", topic: Callable[..., str], consumers: Callable[..., Consumer]
) -> None:
    name = topic(1)
    produce_numbers(kafka.bootstrap_servers, name, 1, 0, 20)
    consumer = consumers(name, topics=(name,), max_poll_records=2)
    assert read_until(2, consumer) == [0, 1]
    consumer.close()
    admin = KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers)
    try:
        admin.delete_records({TopicPartition(name, 0): 15})
    finally:
        admin.close()
    again = consumers(name, topics=(name,))
    assert read_until(5, again) == list(range(15, 20))


def test_a_consumer_joins_reads_and_is_told_of_records_without_delay(
    kafka: "LocalKafka", topic: Callable[..., str], consumers: Callable[..., Consumer]
) -> None:
    name = topic(2)
    consumer = consumers(name, topics=(name,))
    assert consumer.wait_for_assignment(LONG_MS) == {Partition(name, 0), Partition(name, 1)}
    produce_numbers(kafka.bootstrap_servers, name, 2, 0, 4)
    assert sorted(read_until(4, consumer)) == [0, 1, 2, 3]
    assert [consumer.lag(Partition(name, number)) for number in (0, 1)] == [0, 0]
    assert consumer.owner_epoch(Partition(name, 0)) is not None


def test_offsets_with_metadata_are_committed_and_read_back(
    kafka: "LocalKafka", topic: Callable[..., str], consumers: Callable[..., Consumer]
) -> None:
    name = topic(1)
    produce_numbers(kafka.bootstrap_servers, name, 1, 0, 10)
    consumer, partition = consumers(name, topics=(name,), enable_auto_commit=False), Partition(name, 0)
    assert consumer.committed(partition) is None
    read_until(10, consumer)
    consumer.commit({partition: OffsetAndMetadata(4, "four", -1)})
    assert consumer.committed(partition, metadata=True) == OffsetAndMetadata(4, "four", -1)
    heard: list[Any] = []
    consumer.commit_async(callback=lambda *told: heard.append(told))
    assert eventually(lambda: numbers(consumer, 20) == [] and bool(heard))
    assert heard == [({partition: OffsetAndMetadata(10, "", 0)}, None)]
    consumer.seek_to_committed()
    assert consumer.position(partition) == 10
    with pytest.raises(errors.CommitRefusedError, match="before the group's offset 10"):
        consumer.commit({partition: 3})


def test_positions_are_sought_and_looked_up(
    kafka: "LocalKafka", topic: Callable[..., str], consumers: Callable[..., Consumer]
) -> None:
    name = topic(1)
    produce_numbers(kafka.bootstrap_servers, name, 1, 0, 10)
    consumer, partition = consumers(name, topics=(name,), max_poll_records=3), Partition(name, 0)
    read_until(3, consumer)
    consumer.seek(partition, 8)
    assert read_until(2, consumer) == [8, 9]
    consumer.seek_to_beginning(partition)
    assert consumer.position(partition, LONG_MS) == 0
    consumer.seek_to_end()
    assert consumer.position(partition, LONG_MS) == 10
    assert consumer.beginning_offsets([partition]) == {partition: 0}
    assert consumer.end_offsets([partition]) == {partition: 10}
    found = consumer.offsets_for_times({partition: 0})[partition]
    assert found is not None
    assert (found.offset, found.timestamp > 1_700_000_000_000) == (0, True)
    assert name in consumer.topics()
    assert (consumer.partitions_for_topic(name), consumer.partitions_for_topic(f"{name}-no")) == ({0}, set())
    with pytest.raises(errors.TopicUnknownError):
        consumer.end_offsets([Partition(f"{name}-no", 0)], timeout_ms=LONG_MS)


def test_a_subscription_that_changes_keeps_what_belongs_to_both(
    kafka: "LocalKafka", topic: Callable[..., str], consumers: Callable[..., Consumer]
) -> None:
    one, other = topic(1), topic(1)
    listener = Heard()
    consumer = consumers(one, topics=(one,), max_poll_records=2, listener=listener)
    produce_numbers(kafka.bootstrap_servers, one, 1, 0, 6)
    produce_numbers(kafka.bootstrap_servers, other, 1, 100, 2)
    assert read_until(2, consumer) == [0, 1]
    consumer.subscribe([other], add=True)
    assert sorted(read_until(6, consumer)) == [2, 3, 4, 5, 100, 101]
    assert [what for what, _ in listener.heard] == ["assigned", "assigned"]
    consumer.subscribe([other], listener=listener)  # type: ignore[arg-type]
    assert eventually(lambda: numbers(consumer, 20) == [] and consumer.assignment() == {Partition(other, 0)})
    # Said with the release, which may be under way.
    assert eventually(lambda: consumer.committed(Partition(one, 0)) == 6)


def test_partitions_by_hand_need_no_coordinator(kafka: "LocalKafka", topic: Callable[..., str]) -> None:
    name = topic(2)
    produce_numbers(kafka.bootstrap_servers, name, 2, 0, 10)
    with Consumer(bootstrap_servers=kafka.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign({Partition(name, 0): 2})
        assert read_until(3, consumer) == [4, 6, 8]
        consumer.assign([Partition(name, 1)], add=True)
        assert read_until(5, consumer) == [1, 3, 5, 7, 9]
    with Consumer(name, bootstrap_servers=kafka.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        assert sorted(read_until(10, consumer)) == list(range(10))


def test_partitions_by_hand_read_and_commit_the_offsets_of_a_group_that_nobody_is_in(
    kafka: "LocalKafka", coordinator: "LocalCoordinator", topic: Callable[..., str], consumers: Callable[..., Consumer]
) -> None:
    name = topic(1)
    produce_numbers(kafka.bootstrap_servers, name, 1, 0, 10)
    for first in (0, 5):
        consumer = consumers(name, max_poll_records=5, bootstrap_servers=kafka.bootstrap_servers)
        consumer.assign([Partition(name, 0)])
        assert read_until(5, consumer) == list(range(first, first + 5))
        consumer.commit()
    assert committed(coordinator, name) == 10


NOBODY_THERE = """
import time
from kcoord import Consumer, TopicPartition, errors

def ends_in_time(call, error):
    began = time.monotonic()
    try:
        assert call() == {}
    except error as raised:
        print(raised)
    assert time.monotonic() - began < 30  # by default a call has a minute

with Consumer("t", coordinators="127.0.0.1:1", group_id="g") as consumer:
    ends_in_time(lambda: consumer.poll(100), ())
    ends_in_time(
        lambda: consumer.committed(TopicPartition("t", 0), timeout_ms=300), errors.CoordinatorUnavailableError
    )
with Consumer(bootstrap_servers="127.0.0.1:1") as consumer:
    consumer.assign({TopicPartition("t", 0): 0})
    ends_in_time(lambda: consumer.poll(100), ())
    ends_in_time(
        lambda: consumer.end_offsets([TopicPartition("t", 0)], timeout_ms=300), errors.KafkaUnavailableError
    )
"""


def test_a_call_outlasts_its_time_out_neither_without_a_coordinator_nor_without_kafka() -> None:
    run = subprocess.run([sys.executable, "-c", NOBODY_THERE], capture_output=True, text=True, timeout=180, check=False)
    assert run.returncode == 0, run.stderr
    assert "Check that one runs at 127.0.0.1:1" in run.stdout
    assert "name another with setting 'coordinators'" in run.stdout
    assert "setting 'bootstrap_servers'" in run.stdout


def test_a_group_whose_policy_is_none_says_which_partitions_have_no_start(
    kafka: "LocalKafka", topic: Callable[..., str], consumers: Callable[..., Consumer]
) -> None:
    name = topic(1)
    consumer = consumers(name, topics=(name,), auto_offset_reset="none")
    with pytest.raises(errors.StartNotKnownError, match=f"no offset of {name}-0"):
        consumer.poll(LONG_MS)


def test_a_consumer_joins_a_group_that_holds_and_leaves_it_so(
    kafka: "LocalKafka", topic: Callable[..., str], consumers: Callable[..., Consumer]
) -> None:
    name = topic(1)
    held = consumers(name, topics=(name,), handover="hold", group_instance_id="one")
    assert held.wait_for_assignment(LONG_MS)
    other = consumers(name, topics=(name,))
    other.wait_for_assignment(2_000)
    assert other.poll(500) == {}


def epochs_of(consumer: Consumer) -> dict[Partition, int | None]:
    return {partition: consumer.owner_epoch(partition) for partition in consumer.assignment()}


def test_static_consumer_that_is_started_again_goes_on_and_its_neighbour_notices_nothing(
    kafka: "LocalKafka", topic: Callable[..., str], consumers: Callable[..., Consumer]
) -> None:
    name = topic(2)
    first = consumers(name, topics=(name,), group_instance_id="one")
    neighbour = consumers(name, topics=(name,))
    assert eventually(lambda: [len(polled(one, 50)) + len(one.assignment()) for one in (first, neighbour)] == [1, 1])
    produce_numbers(kafka.bootstrap_servers, name, 2, 0, 10)
    had, told = first.assignment(), epochs_of(neighbour)
    seen = read_until(10, first, neighbour)
    first.close(autocommit=True)
    again = consumers(name, topics=(name,), group_instance_id="one")
    produce_numbers(kafka.bootstrap_servers, name, 2, 10, 10)
    seen += read_until(10, again, neighbour)
    assert sorted(seen) == list(range(20))
    assert (again.assignment(), epochs_of(neighbour)) == (had, told)


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Have SIGINT raise KeyboardInterrupt also where the tests were begun in the background, where it is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_and_interrupt_end_a_waiting_poll_and_lose_nothing(
    kafka: "LocalKafka", topic: Callable[..., str], consumers: Callable[..., Consumer], ctrl_c: None
) -> None:
    name = topic(1)
    consumer = consumers(name, topics=(name,))
    consumer.wait_for_assignment(LONG_MS)

    def poll_until(end: Callable[[], object]) -> None:
        threading.Timer(0.3, end).start()  # it may come before the poll has begun
        consumer.poll(2 * LONG_MS)

    for end, error in ((partial(os.kill, os.getpid(), signal.SIGINT), KeyboardInterrupt), (consumer.interrupt, None)):
        began = time.monotonic()
        with pytest.raises(error or errors.InterruptedPollError):
            poll_until(end)
        assert time.monotonic() - began < LONG_MS / 1000
    produce_numbers(kafka.bootstrap_servers, name, 1, 0, 3)
    assert read_until(3, consumer) == [0, 1, 2]


def test_a_consumer_that_is_not_polled_leaves_and_comes_back(
    kafka: "LocalKafka", coordinator: "LocalCoordinator", topic: Callable[..., str], consumers: Callable[..., Consumer]
) -> None:
    name = topic(1)
    listener = Heard()
    produce_numbers(kafka.bootstrap_servers, name, 1, 0, 4)
    consumer = consumers(name, topics=(name,), max_poll_interval_ms=3_000, max_poll_records=2, listener=listener)
    assert read_until(2, consumer) == [0, 1]
    view = GroupView(coordinator.address, name)
    assert eventually(lambda: not view.describe().members)
    assert read_until(4, consumer) == [0, 1, 2, 3]
    assert [what for what, _ in listener.heard] == ["assigned", "lost", "assigned"]


def test_how_long_a_program_has_not_polled_is_shown_while_it_is_a_member(
    kafka: "LocalKafka", coordinator: "LocalCoordinator", topic: Callable[..., str], consumers: Callable[..., Consumer]
) -> None:
    name = topic(1)
    produce_numbers(kafka.bootstrap_servers, name, 1, 0, 2)
    consumer = consumers(name, topics=(name,))
    assert read_until(2, consumer) == [0, 1]
    view = GroupView(coordinator.address, name)

    def unpolled_ms() -> int:
        (member,) = view.describe().members
        return -1 if member.unpolled_ms is None else member.unpolled_ms

    def is_polled() -> bool:
        numbers(consumer, 50)
        return 0 <= unpolled_ms() < 1_000

    assert eventually(lambda: unpolled_ms() > 1_500)
    assert eventually(is_polled)


def test_a_checkpoint_of_ten_thousand_partitions_registers_and_advances(
    own_coordinator: "LocalCoordinator", topic: Callable[..., str]
) -> None:
    """The claims are of an earlier topic, so that Kafka need not have ten thousand partitions."""
    name, former = topic(3), "a-topic-id-of-about-thirty-six-letters"
    settings = MemberSettings(
        coordinators=(parse_address(own_coordinator.address),), group_id="g", topics=(name,), client_id="test"
    )
    claims = tuple(Claim(name, former, number, 10**9, 100, 200) for number in range(10_000))
    hints = tuple(StartHint(name, former, number, 200, from_checkpoint=True) for number in range(10_000))
    client = MemberClient(settings, member_id="m1", claims=claims, checkpoint_hints=hints)
    try:
        answered = [status.state for status in client.join().claims]
        assert answered == [ClaimState.CLOSED] * 10_000
        results = client.advance(claims, ()).finished
        assert [result.error for result in results] == [ErrorCode.FENCED_OWNER_EPOCH] * 10_000
        assert [status.partition for status in client.confirm_claims(claims)] == list(range(10_000))
    finally:
        client.close()
