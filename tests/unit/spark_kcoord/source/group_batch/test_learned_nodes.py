"""A block asks about its claims where its member is, also when the nodes that its options name are gone."""

from typing import Any

import pytest

from coordinator.protocol.claim_columns import count_of
from coordinator.protocol.messages import (
    Advance,
    BeginClaims,
    BeginClaimsResponse,
    FindCoordinator,
    FindCoordinatorResponse,
    RegisterConsumer,
)
from coordinator.protocol.parts import ClaimStatuses, NodeAddress
from coordinator.protocol.text.addresses import format_address
from spark_kcoord.options.source_options import parse_options
from spark_kcoord.source.group_batch import batch as rooms
from spark_kcoord.source.group_batch.batch import GroupBatch
from spark_kcoord.source.joining import FrozenEnds
from tests.helpers.fake_member import FakeEnds
from tests.helpers.loopback_coordinator import LoopbackCoordinator
from tests.helpers.member_pair import registered, start_fetcher


class FakeSpark:
    """A session whose reader remembers the options that it is given; everything else of it is itself."""

    def __init__(self) -> None:
        self.given: dict[str, str] = {}

    def __getattr__(self, _: str) -> "FakeSpark":
        return self

    def __call__(self, *_: object, **options: str) -> "FakeSpark":
        self.given.update(options)
        return self


def test_block_commits_at_a_node_that_its_member_has_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rooms, "freeze_ends", lambda _: FrozenEnds({("t", 0): 50}, None))
    monkeypatch.setattr("spark_kcoord.source.joining.KafkaLookup", lambda *_, **__: None)
    monkeypatch.setattr("spark_kcoord.source.joining.RecentEnds", lambda *_: FakeEnds({0: 50}))
    for name in ("application_of", "name_of", "note_ended"):
        monkeypatch.setattr(rooms, name, lambda *_: None)
    monkeypatch.setattr(rooms, "_without_pushed_filters", lambda rows, _: rows)
    with LoopbackCoordinator() as first, LoopbackCoordinator() as second:
        nodes, leader = (first, second), [0]

        def found(_: FindCoordinator) -> FindCoordinatorResponse:
            named = tuple(NodeAddress(number, *node.address) for number, node in enumerate(nodes))
            return FindCoordinatorResponse(coordinator=named[leader[0]], leader_epoch=4 + leader[0], nodes=named)

        for node in nodes:
            node.grants = [start_fetcher(0)]
            node.script[FindCoordinator] = found
            node.script[RegisterConsumer] = lambda request: registered(request, held=1)
            node.script[BeginClaims] = lambda asked: BeginClaimsResponse(claims=ClaimStatuses(count_of(asked.claims)))
        named = {"kcoord.bootstrap.servers": format_address(first.address), "kcoord.coordinator.timeout": "30s"}
        given = {**named, "kcoord.group.id": "g", "subscribe": "t", "startingOffsets": "earliest"}
        spark: Any = FakeSpark()
        with GroupBatch(spark, given, parse_options(given, "group batch"), 30.0) as block:
            assert [one.end for one in block.ranges] == [50]
            leader[0] = 1
            first.kill()
        assert len(second.received(BeginClaims)) == 1
        assert [count_of(request.finished) for request in second.received(Advance)] == [1]
        planned_at = spark.given["kcoord.bootstrap.servers"].split(",")
        assert set(planned_at) == {format_address(node.address) for node in nodes}
