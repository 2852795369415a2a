"""Ends that are remembered for a moment are one object until they change."""

from collections.abc import Sequence
from typing import Any, cast

from spark_kcoord.fetch.offsets import KafkaLookup
from spark_kcoord.source import recent_ends
from spark_kcoord.source.recent_ends import RecentEnds


class Lookup:
    cluster_id = None
    is_read_committed = False

    def __init__(self) -> None:
        self.end = 5
        self.asked = 0

    def end_offsets(
        self, partitions: Sequence[tuple[str, int]], *, timeout_s: float | None = None
    ) -> dict[tuple[str, int], int]:
        del timeout_s
        self.asked += 1
        return dict.fromkeys(partitions, self.end)


def test_ends_that_do_not_change_are_the_same_object(monkeypatch: Any) -> None:
    now = [0.0]
    monkeypatch.setattr(recent_ends.time, "monotonic", lambda: now[0])
    lookup = Lookup()
    ends = RecentEnds(cast(KafkaLookup, lookup), None, ())
    partitions = (("t", 0), ("t", 1))
    first = ends.end_offsets(partitions)
    assert ends.end_offsets(partitions) is first
    assert lookup.asked == 1
    now[0] += 1
    assert ends.end_offsets(partitions) is first
    assert lookup.asked == 2
    lookup.end = 6
    assert ends.end_offsets(partitions) is first
    now[0] += 1
    assert ends.end_offsets(partitions) == dict.fromkeys(partitions, 6)
    assert ends.end_offsets((("t", 2),)) == {("t", 2): 6}
    assert lookup.asked == 4
