"""What the lag listener makes of Spark's progress reports."""

import json

from coordinator.protocol.parts import Claim
from spark_kcoord.microbatch.source_report import SourceReport
from spark_kcoord.microbatch.stream_offset import StreamOffset
from spark_kcoord.source.listeners.lag_listener import LagReport, lag_report

OFFSET = StreamOffset("c", "g", "m1", (Claim("t", "id", 0, 7, 0, 10), Claim("t", "id", 1, 8, 5, 5)))
REPORT = SourceReport("g", "m1", {("t", 0): 14, ("t", 1): 5, ("t", 2): 99}, commits=3, commit_ms=4, rebalances=1)


def report(end: StreamOffset = OFFSET, latest: SourceReport | None = REPORT) -> LagReport | None:
    latest_text = None if latest is None else json.dumps(latest.to_json())
    return lag_report("q", "run", 5, 0, json.dumps(end.to_json()), latest_text)


def test_offsets_behind_count_the_members_own_partitions() -> None:
    assert report() == LagReport("q", "run", 5, 0, "g", "m1", 2, 0, 4, 2.0, 4, 4, 3, 1)
    assert str(report()) == (
        "query q, batch 5, group g: 4 offsets behind (min 0, max 4, average 2.0 a partition), 2 partitions, "
        "commit 4 ms, 1 rebalances"
    )


def test_what_is_not_known_is_absent() -> None:
    unknown = report(latest=None)
    assert unknown is not None
    assert (unknown.min_behind, unknown.max_behind, unknown.avg_behind, unknown.total_behind) == (None,) * 4
    assert (unknown.commit_ms, unknown.rebalances) == (None, None)
    assert "unknown number" in str(unknown)


def test_a_partition_that_is_ahead_of_the_last_look_is_not_behind() -> None:
    ahead = report(latest=SourceReport("g", "m1", {("t", 0): 8}, 0, None, 0))
    assert ahead is not None
    assert (ahead.total_behind, ahead.commit_ms) == (0, None)


def test_other_sources_are_passed_over() -> None:
    assert lag_report("q", "run", 0, 0, '{"t":{"0":5}}', '{"t":{"0":9}}') is None
    assert lag_report("q", "run", 0, 0, None, None) is None
    assert lag_report("q", "run", 0, 0, "12", None) is None


def test_a_report_comes_back_from_json() -> None:
    assert SourceReport.from_progress(json.dumps(REPORT.to_json())) == REPORT
