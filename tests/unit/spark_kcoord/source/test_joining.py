"""What a query's options become where it joins its group."""

from collections.abc import Sequence
from typing import Any, cast

import pytest

from spark_kcoord.errors import KafkaAwayError
from spark_kcoord.member.client import MemberClient
from spark_kcoord.microbatch.stream_offset import StreamOffset
from spark_kcoord.options.source_options import parse_options
from spark_kcoord.source.joining import join_group
from tests.helpers.fake_member import FakeMember, owned

GIVEN = {"subscribe": "t", "kcoord.bootstrap.servers": "c:1", "kcoord.group.id": "g"}
START = StreamOffset("c", "g", "m-1")


class Client(FakeMember):
    """A member's client that joins at once."""

    def start(self) -> None:
        pass


class SilentKafka:
    """A Kafka that gives no answer; `patience` is for how long it was asked."""

    cluster_id = None
    is_read_committed = False
    patience: list[float | None]

    def __init__(self, *_: Any) -> None:
        type(self).patience = []

    def end_offsets(self, partitions: Sequence[tuple[str, int]], *, timeout_s: float | None) -> dict[Any, int]:
        self.patience.append(timeout_s)
        raise KafkaAwayError("Kafka gave no answer.")


@pytest.mark.parametrize(
    ("options", "patience"),
    [
        ({}, [None]),
        ({"fetchOffset.numRetries": "0"}, [None]),
        ({"fetchOffset.numRetries": "2", "fetchOffset.retryIntervalMs": "500"}, [None, 11.0]),
    ],
)
def test_a_query_asks_kafka_as_often_as_its_options_say_before_it_fails_at_its_start(
    options: dict[str, str], patience: list[float | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_kcoord.source.joining.KafkaLookup", SilentKafka)
    client = cast("MemberClient", Client((owned(0, 5),)))
    session, _ = join_group(parse_options(GIVEN | options, "stream"), client, START, None)
    with pytest.raises(KafkaAwayError):
        session.next_offset(START, None, is_single_run=False)
    assert SilentKafka.patience == patience
