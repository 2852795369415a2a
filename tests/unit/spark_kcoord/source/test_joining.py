"""What a query's options become where it joins its group."""

from collections.abc import Sequence
from typing import Any, cast

import pytest

from coordinator.protocol.text.addresses import format_address
from spark_kcoord.errors import KafkaAwayError, KcoordError
from spark_kcoord.fetch.absences import ABSENCE_S
from spark_kcoord.member.client import MemberClient
from spark_kcoord.microbatch.stream_offset import StreamOffset
from spark_kcoord.options.source_options import SourceOptions, host_ports, parse_options
from spark_kcoord.source.joining import FrozenEnds, freeze_ends, join_group
from spark_kcoord.source.stream_reader import KcoordStreamReader
from tests.helpers.fake_member import FakeMember, owned
from tests.helpers.loopback_coordinator import unused_address

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

    def __init__(self, *_: Any, absence_s: float) -> None:
        assert absence_s == ABSENCE_S, "a running query believes no single broker that a topic is gone"
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


def test_ends_are_frozen_through_the_nodes_that_a_checkpoint_remembers_too(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[SourceOptions] = []

    def open_lookup(options: SourceOptions) -> None:
        asked.append(options)
        raise KcoordError("asked")

    monkeypatch.setattr("spark_kcoord.source.joining.open_lookup", open_lookup)
    with pytest.raises(KcoordError, match="asked"):
        freeze_ends(parse_options(GIVEN, "stream"), (("::1", 7), ("c", 1)))
    assert host_ports(asked[0].coordinators) == (("c", 1), ("::1", 7))


def test_a_node_that_a_checkpoint_remembers_is_not_said_to_be_the_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_kcoord.source.resolve.ONE_SHOT_TIMEOUT_S", 0.2)
    first, second = unused_address(), unused_address()
    options = parse_options({**GIVEN, "kcoord.bootstrap.servers": format_address(first)}, "stream")
    where = f"runs at {format_address(first)},{format_address(second)} and can be reached from this machine, or name"
    with pytest.raises(KcoordError, match=f"{where} another with option 'kcoord.bootstrap.servers'"):
        freeze_ends(options, (second,))


@pytest.mark.parametrize("first_call", ["latestOffset", "partitions"])
def test_a_run_that_ends_freezes_its_ends_when_the_checkpoint_is_seen(
    first_call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    frozen: list[tuple[tuple[str, int], ...]] = []

    def freeze(_: SourceOptions, nodes: tuple[tuple[str, int], ...]) -> FrozenEnds:
        frozen.append(nodes)
        raise KcoordError("frozen")

    monkeypatch.setattr("spark_kcoord.source.joining.freeze_ends", freeze)
    reader = KcoordStreamReader(parse_options(GIVEN, "stream"))
    reader.prepareForTriggerAvailableNow()
    assert frozen == []
    checkpoint = StreamOffset("c", "g", "m-1", nodes=(("n", 2),)).to_json()
    with pytest.raises(KcoordError, match="frozen"):
        reader.latestOffset(checkpoint, None) if first_call == "latestOffset" else reader.partitions({}, checkpoint)
    assert frozen == [(("n", 2),)]
