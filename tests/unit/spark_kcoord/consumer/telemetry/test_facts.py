"""The attributes and links of a consumer's spans, made of records and rows without OpenTelemetry."""

from typing import Any

import pytest

from spark_kcoord.consumer import errors
from spark_kcoord.consumer.core.chunk_rows import Piece
from spark_kcoord.consumer.rows import records_of
from spark_kcoord.consumer.telemetry import facts
from spark_kcoord.consumer.telemetry.facts import COMMIT, MOST_LINKS, POLL, Delivery, Source
from spark_kcoord.consumer.values import TopicPartition
from tests.helpers.fake_consuming import Headers, chunk

PARENT = ("traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")


def piece(partition: int, offsets: list[int], headers: dict[int, Headers] | None = None) -> Piece:
    made = chunk(("t", partition), 0, 0, offsets[-1] + 1, offsets=offsets, headers=headers)
    return Piece(made.key, made.rows, made.next_offset, made)


def records(*pieces: Piece) -> list[Any]:
    return [record for one in pieces for record in records_of(one, None, None)[0]]


def test_records_and_rows_say_the_same_of_a_delivery() -> None:
    pieces = [piece(0, [3, 5], {5: [PARENT]}), piece(1, [7], {7: [("other", None)]}), piece(0, [6])]
    known = Delivery(
        {("t", 0): 3, ("t", 1): 1}, (Source("t", 0, 5, [PARENT]), Source("t", 1, 7, [("other", None)])), None
    )
    assert facts.delivery_of_rows(pieces) == facts.delivery_of_records(records(*pieces)) == known
    assert known.attributes() == {"messaging.batch.message_count": 4}


def test_the_offset_is_said_of_an_only_record() -> None:
    one = piece(1, [7])
    assert facts.delivery_of_rows([one]) == facts.delivery_of_records(records(one)) == Delivery({("t", 1): 1}, (), 7)
    assert Delivery({("t", 1): 1}, (), 7).attributes() == {
        "messaging.batch.message_count": 1,
        "messaging.kafka.offset": 7,
    }


def test_nothing_is_no_delivery() -> None:
    assert facts.delivery_of_rows([]) == facts.delivery_of_records([]) == Delivery({})


def test_no_more_records_are_looked_at_for_links_than_a_span_may_have() -> None:
    count = MOST_LINKS + 5
    whole = [piece(0, list(range(count)), {offset: [PARENT] for offset in range(count)}), piece(1, [1], {1: [PARENT]})]
    for delivery in (facts.delivery_of_rows(whole), facts.delivery_of_records(records(*whole))):
        assert [source.offset for source in delivery.sources] == list(range(MOST_LINKS))
        assert delivery.counts == {("t", 0): count, ("t", 1): 1}


def test_a_link_says_which_record_it_is_of() -> None:
    assert Source("t", 3, 9, [PARENT]).attributes() == {
        "messaging.destination.name": "t",
        "messaging.destination.partition.id": "3",
        "messaging.kafka.offset": 9,
    }


@pytest.mark.parametrize(
    ("keys", "name", "attributes"),
    [
        ([], "poll", {}),
        ([("t", 2)], "poll t", {"messaging.destination.name": "t", "messaging.destination.partition.id": "2"}),
        ([("t", 1), ("t", 2)], "poll t", {"messaging.destination.name": "t"}),
        ([("t", 1), ("u", 1)], "poll", {}),
    ],
)
def test_topic_and_partition_are_said_where_they_are_one(
    keys: list[tuple[str, int]], name: str, attributes: dict[str, str]
) -> None:
    assert facts.span_name(POLL, keys) == name
    assert facts.destination(keys) == attributes


def test_every_span_says_whose_it_is() -> None:
    assert facts.client_attributes(COMMIT, "g", "me") == {
        "messaging.system": "kafka",
        "messaging.operation.name": "commit",
        "messaging.operation.type": "settle",
        "messaging.consumer.group.name": "g",
        "messaging.client.id": "me",
    }
    assert "messaging.consumer.group.name" not in facts.client_attributes(POLL, None, "me")


def test_the_last_header_of_a_name_counts_unless_it_is_none_or_too_long() -> None:
    headers: Headers = [("a", b"1"), ("a", b"2"), ("b", None), ("c", b"\xff"), ("d", b"x" * 513), ("e", b"x" * 512)]
    found = [facts.header_text(headers, name) for name in "abcdef"]
    assert found == ["2", None, "\ufffd", None, "x" * 512, None]


def test_partitions_are_read_of_what_may_be_offsets() -> None:
    assert facts.named_in({TopicPartition("t", 1): 5, ("u", 2): 6}) == [("t", 1), ("u", 2)]
    assert facts.named_in({"t": 5}) == facts.named_in([1]) == facts.named_in("offsets") == []


def test_the_error_is_said_by_its_code_and_what_the_program_ended_is_none() -> None:
    assert facts.error_type(errors.CommitRefusedError("no")) == "COMMIT_FAILED"
    assert facts.error_type(RuntimeError("a bug")) == "_OTHER"
    assert facts.error_type(errors.InterruptedPollError("stop")) is None
    assert facts.error_type(errors.ConsumerClosedError("closed")) is None
