"""The short form of `make fuzz-node`: no node stops, and nothing but declared error codes is said."""

from typing import TYPE_CHECKING

import pytest

from tests.fuzz_node.fuzz import fuzz

if TYPE_CHECKING:
    from coordinator.local.kafka.broker import LocalKafka
    from coordinator.local.node import LocalCoordinator

pytestmark = pytest.mark.kafka


def test_wild_messages_of_every_verb_stop_no_node(kafka: "LocalKafka", own_coordinator: "LocalCoordinator") -> None:
    verdict = fuzz(kafka, own_coordinator, seed=1, frames=4_000)
    assert verdict.is_fine, "\n".join([str(verdict), *verdict.said])
    assert verdict.frames >= 4_000
    assert verdict.refused > 400
