"""`kcoord top` of a real coordinator and a real Kafka: commits and ends that move between two looks."""

import json
import subprocess
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from coordinator.client.request import ask
from coordinator.protocol.messages import CommitOffsets, CommitOffsetsResponse
from coordinator.protocol.parts import TopicOffsets
from coordinator.protocol.text.addresses import parse_address
from tests.helpers.kafka_topics import produce_numbers

if TYPE_CHECKING:
    from coordinator.local.kafka.broker import LocalKafka
    from coordinator.local.node import LocalCoordinator

pytestmark = pytest.mark.kafka

MOST_LOOKS = 200


def test_lag_rates_and_the_way_of_a_group_are_those_of_what_is_committed_and_written(
    kafka: "LocalKafka", topic: Callable[..., str], coordinator: "LocalCoordinator"
) -> None:
    name = topic(2)
    group = f"group-of-{name}"

    def commit(offset: int) -> None:
        named = TopicOffsets(name, (0, 1), (offset, offset))
        answer = ask([parse_address(coordinator.address)], CommitOffsets(group, (named,)), 30)
        assert isinstance(answer, CommitOffsetsResponse)
        assert not answer.refused

    produce_numbers(kafka.bootstrap_servers, name, 2, 0, 200)
    commit(10)
    words = ["--match", group, "--every", "200ms", "--times", str(MOST_LOOKS), "-o", "jsonl"]
    program = [sys.executable, "-m", "coordinator", "top", "--coordinator", coordinator.address, *words]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as top:
        assert top.stdout is not None
        has_moved = False
        for line in top.stdout:
            look = json.loads(line)
            (row,) = look["rows"]
            if row["lag"] == 180 and not has_moved:
                commit(60)
                has_moved = True
            if (row["way"] or "").startswith("catches up in about "):
                break
        top.terminate()
    assert has_moved
    assert (row["lag"], row["arriving_per_s"], row["is_old"]) == (80, 0, False)
    assert row["committed_per_s"] > 0
    assert (row["partitions"], row["unknown"], look["cluster"]["nodes_up"], look["troubles"]) == (2, 0, 1, [])
