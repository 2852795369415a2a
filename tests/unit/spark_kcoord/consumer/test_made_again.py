"""A topic that is deleted and made again under a consumer that reads it by hand: all records of the new one come."""

from typing import Any

import pytest

from kcoord import TopicPartition
from tests.helpers.fake_consuming import Rig

P0 = TopicPartition("t", 0)
ALONE: dict[str, Any] = {"group_id": None, "coordinators": None, "bootstrap_servers": "k:1"}


def all_offsets(rig: Rig) -> list[int]:
    return [at for _ in range(4) for _, at in rig.offsets()]


def make_again(rig: Rig, end: int) -> None:
    rig.kafka.topic_id, rig.kafka.ends = "new", {P0: end}


@pytest.mark.parametrize("policy", ["earliest", "latest"])
def test_a_partition_that_was_paused_meanwhile_begins_at_the_beginning_of_the_new_topic(policy: str) -> None:
    with Rig({P0: 4}, (), auto_offset_reset=policy, **ALONE) as rig:
        rig.kafka.topic_id = "old"
        rig.assign({P0: 2})
        assert all_offsets(rig) == [2, 3]
        rig.pause(P0)
        rig.poll()
        make_again(rig, 6)
        rig.resume(P0)
        assert all_offsets(rig) == [0, 1, 2, 3, 4, 5]


def test_a_partition_goes_on_in_the_new_topic_where_the_program_sought_it_while_it_was_paused() -> None:
    with Rig({P0: 4}, (), **ALONE) as rig:
        rig.kafka.topic_id = "old"
        rig.assign({P0: 2})
        assert all_offsets(rig) == [2, 3]
        rig.pause(P0)
        rig.poll()
        make_again(rig, 6)
        rig.seek(P0, 3)
        rig.resume(P0)
        assert all_offsets(rig) == [3, 4, 5]
