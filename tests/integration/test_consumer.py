"""Plain consumers on a real coordinator and a real Kafka: they share a group, hand partitions over and lose nothing."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
from kafka.admin import KafkaAdminClient
from kafka.structs import TopicPartition

from coordinator.client.request import ask
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import FetchOffsets, FetchOffsetsResponse
from coordinator.protocol.parts import Claim, ClaimState, StartHint
from coordinator.protocol.text.addresses import parse_address, parse_addresses
from spark_kcoord.consumer import Consumer, ConsumerSettings
from spark_kcoord.errors import KcoordError
from spark_kcoord.member.client import MemberClient, MemberSettings
from tests.helpers.kafka_topics import produce_numbers
from tests.helpers.processes import eventually

if TYPE_CHECKING:
    from coordinator.local.kafka.broker import LocalKafka
    from coordinator.local.node import LocalCoordinator

pytestmark = pytest.mark.kafka


@pytest.fixture
def consumers(coordinator: "LocalCoordinator") -> Iterator[Callable[..., Consumer]]:
    """Return a maker of consumers of one group, which are closed at the end."""
    with ExitStack() as stack:

        def make(group: str, **changes: Any) -> Consumer:
            known: dict[str, Any] = {"start": "earliest", "ping_interval_ms": 200}
            settings = ConsumerSettings(coordinators=(coordinator.address,), group_id=group, **(known | changes))
            return stack.enter_context(Consumer(settings))

        yield make


def numbers(consumer: Consumer, timeout_s: float = 0.2) -> list[int]:
    return [int(row["value"]) for row in consumer.poll(timeout_s).to_pylist()]


def read_until(count: int, *polled: Consumer) -> list[int]:
    """Poll consumers in turn until they have returned this many rows."""
    found: list[int] = []

    def is_there() -> bool:
        for consumer in polled:
            found.extend(numbers(consumer, 0.05))
        return len(found) >= count

    eventually(is_there, 30)
    return found


def committed(coordinator: "LocalCoordinator", group: str) -> int:
    response = ask(parse_addresses(coordinator.address), FetchOffsets(group), 5)
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
    eventually(lambda: numbers(first) == numbers(second) == [] and len(first.assignment()) == 2, 20)
    assert len(second.assignment()) == 2
    assert sorted(before + after) == list(range(400))
    eventually(lambda: committed(coordinator, name) == 400, 10)
    first.close()
    produce_numbers(kafka.bootstrap_servers, name, 4, 400, 40)
    assert sorted(read_until(40, second)) == list(range(400, 440))
    assert len(second.assignment()) == 4


def test_what_was_not_committed_is_read_again_by_the_next(
    kafka: "LocalKafka", coordinator: "LocalCoordinator", topic: Callable[..., str], consumers: Callable[..., Consumer]
) -> None:
    name = topic(1)
    produce_numbers(kafka.bootstrap_servers, name, 1, 0, 20)
    first = consumers(name, topics=(name,), auto_commit=False, max_poll_records=5)
    assert read_until(10, first) == list(range(10))
    first.commit()
    assert (first.committed(), read_until(5, first)) == ({(name, 0): 10}, list(range(10, 15)))
    first.close()
    second = consumers(name, topics=(name,), auto_commit=False)
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
    consumer = consumers(prefix, pattern=rf"{prefix}\..*", exclusions=(f"{prefix}.skip",), start="latest")
    eventually(lambda: numbers(consumer) == [] and consumer.assignment() == ((f"{prefix}.a", 0),), 20)
    kafka.create_topic(f"{prefix}.b", 2)
    produce_numbers(kafka.bootstrap_servers, f"{prefix}.b", 2, 10, 4)
    assert sorted(read_until(4, consumer)) == [10, 11, 12, 13]


def test_an_explicit_partition_is_one_consumers_alone(
    kafka: "LocalKafka", topic: Callable[..., str], consumers: Callable[..., Consumer]
) -> None:
    name = topic(2)
    produce_numbers(kafka.bootstrap_servers, name, 2, 0, 10)
    owner = consumers(name, partitions=((name, 1),))
    assert sorted(read_until(5, owner)) == [1, 3, 5, 7, 9]
    with pytest.raises(KcoordError, match=r"option 'assign'.*owned by member .*PARTITION_OWNED"):
        consumers(name, partitions=((name, 1),)).poll()


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
