import json
from typing import Any

import pytest

from coordinator.protocol.parts import Claim, StartHint
from spark_kcoord.errors import KcoordError
from spark_kcoord.microbatch.stream_offset import StreamOffset


def a_range(partition: int, start: int, until: int, epoch: int = 7, topic: str = "flights") -> Claim:
    return Claim(topic, f"id-of-{topic}", partition, epoch, start, until)


def an_offset(*ranges: Claim) -> StreamOffset:
    return StreamOffset("cluster-1", "g", "m-1", tuple(ranges))


def test_what_is_written_to_the_checkpoint_is_read_back_through_json() -> None:
    offset = an_offset(a_range(2, 5, 9, topic="a"), a_range(10, 0, 0, topic="a"), a_range(0, 3, 4))
    assert StreamOffset.from_json(json.loads(json.dumps(offset.to_json()))) == offset


def test_the_form_is_the_one_older_checkpoints_have() -> None:
    assert an_offset(a_range(0, 3, 4)).to_json() == {
        "v": 1,
        "cluster": "cluster-1",
        "group": "g",
        "member": "m-1",
        "topics": {"flights": {"id": "id-of-flights", "parts": {"0": {"from": 3, "until": 4, "epoch": 7}}}},
    }


def test_claims_are_the_ranges_with_something_to_read() -> None:
    offset = an_offset(a_range(0, 3, 4), a_range(1, 8, 8))
    assert offset.claims == (a_range(0, 3, 4),)


def test_hints_are_ends_of_a_finished_batch_and_beginnings_of_an_unfinished_one() -> None:
    offset = an_offset(a_range(0, 3, 4))
    assert offset.hints(is_finished=True) == (StartHint("flights", "id-of-flights", 0, 4, True, 7),)
    assert offset.hints(is_finished=False) == (StartHint("flights", "id-of-flights", 0, 3, True, 7),)


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ({"flights": {"0": 12}}, "format('kafka')"),
        ({"v": 2, "topics": {}}, "version 2"),
        ({"v": 1, "cluster": "c", "group": "g", "topics": {}}, "member"),
        ({"v": 1, "cluster": "c", "group": "g", "member": 5, "topics": {}}, "not text"),
        (
            {"v": 1, "cluster": "c", "group": "g", "member": "m", "topics": {"t": {"id": "x", "parts": {"a": {}}}}},
            "'a'",
        ),
        (
            {
                "v": 1,
                "cluster": "c",
                "group": "g",
                "member": "m",
                "topics": {"t": {"id": "x", "parts": {"0": {"from": 4, "until": 3, "epoch": 1}}}},
            },
            "ends at 3",
        ),
        (
            {
                "v": 1,
                "cluster": "c",
                "group": "g",
                "member": "m",
                "topics": {"t": {"id": "x", "parts": {"0": {"from": -1, "until": 3, "epoch": 1}}}},
            },
            "from is -1",
        ),
    ],
)
def test_an_offset_that_cannot_be_used_says_why(document: dict[str, object], says: str) -> None:
    with pytest.raises(KcoordError, match="checkpoint") as caught:
        StreamOffset.from_json(document)
    assert says in str(caught.value)


@pytest.mark.parametrize("document", [17, None, "x", [1], True])
def test_an_offset_of_a_source_that_counts_in_numbers_is_said_to_be_another_sources(document: Any) -> None:
    with pytest.raises(KcoordError, match="not a kcoord stream offset"):
        StreamOffset.from_json(document)


def test_a_checkpoint_of_another_group_or_cluster_is_refused_naming_both() -> None:
    offset = an_offset()
    offset.must_belong_to(cluster="cluster-1", group="g")
    with pytest.raises(KcoordError, match=r"'g'.*'other'"):
        offset.must_belong_to(cluster=None, group="other")
    with pytest.raises(KcoordError, match=r"'cluster-1'.*'cluster-2'"):
        offset.must_belong_to(cluster="cluster-2", group="g")
