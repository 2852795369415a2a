"""The page of metrics: read back by Prometheus' own parser, and held against the table of the manual."""

import re
from collections.abc import Sequence
from http.client import HTTPConnection
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from coordinator.admin.http import HttpLimits, HttpServer
from coordinator.admin.metrics import FAMILIES, Metrics
from coordinator.admin.shard_metrics import shard_families
from coordinator.core.requests.survey import ClusterSeen, GroupSeen, PartitionsSeen, Seen, ShardSeen
from coordinator.runtime.figures.family import Family
from coordinator.runtime.figures.limits import LimitsSeen
from coordinator.runtime.figures.lines import LineFigures
from coordinator.runtime.figures.node import NodeFigures
from coordinator.runtime.figures.process import process_families

ROOT = Path(__file__).parents[3]
WILD = 'a"b\\c\nd{e="f"} é\u202e\x1b[31m\ud800'
NODE = {"kcoord_connections": 3, "kcoord_unwritten_bytes": 0, "kcoord_kafka_reachable": 1}

CLUSTER = ClusterSeen(is_controller=True, hears_zookeeper=True, is_registered=True, nodes=3, offline_shards=1)
SHARD = ShardSeen(1, 4, 90, 100, in_sync=2, replicas=3, min_in_sync=2)


def group(group_id: str = "g") -> GroupSeen:
    return GroupSeen(group_id, "Stable", 4, 2, 1000)


def partitions(
    *rows: tuple[int, int, int | None],
    group_id: str = "g",
    topic: str = "t",
    commit_ms: int = 900,
    topic_id: str = "",
) -> PartitionsSeen:
    """Return partitions by number, committed offset and end."""
    numbers, committed, ends = zip(*rows, strict=True)
    return PartitionsSeen(group_id, topic, numbers, committed, (commit_ms,) * len(rows), ends, topic_id)


def metrics(*surveys: Sequence[Seen], max_groups: int = 100, max_partitions: int = 100) -> Metrics:
    """Return metrics that took in surveys, one every ten seconds."""
    made = Metrics("9.9", max_groups=max_groups, max_partitions=max_partitions)
    for number, seen in enumerate(surveys):
        for _ in made.take(seen, NODE, 10_000 * (number + 1)):
            pass
    return made


def values(made: Metrics) -> dict[str, dict[tuple[str, ...], float]]:
    """Return the page by family and the values of its labels, as Prometheus reads it."""
    text = b"".join(made.page().body).decode()
    return {
        family.name: {tuple(sample.labels.values()): sample.value for sample in family.samples}
        for family in text_string_to_metric_families(text)
    }


def test_ends_of_a_topic_before_it_was_made_again_tell_no_lag_in_time() -> None:
    before = [group(), partitions((0, 100, 100), topic_id="a")]
    made_again = [group(), partitions((0, 150, 200), topic_id="b")]
    not_known = [group(), partitions((0, 150, 200))]
    assert "kcoord_group_lag_seconds" not in values(metrics(before, made_again))
    same = values(metrics(before, not_known))
    assert same["kcoord_group_lag_seconds"] == {("g", "t", "0"): 5}


def test_a_survey_that_comes_while_another_is_taken_in_is_passed_over() -> None:
    one = [group(), partitions((0, 100, 100)), partitions((1, 100, 100))]
    made = metrics(one)
    slow = made.take([group(), partitions((0, 100, 200)), partitions((1, 100, 200))], NODE, 20_000)
    next(slow)
    assert list(made.take(one, NODE, 30_000)) == []
    assert len(list(slow)) > 0
    seen = values(made)
    assert seen["kcoord_survey_timestamp_seconds"] == {(): 20}
    assert seen["kcoord_group_lag_seconds"] == {("g", "t", "0"): 10, ("g", "t", "1"): 10}
    assert len(list(made.take(one, NODE, 40_000))) > 0, "the next one is taken in"


def test_before_anything_was_looked_at_the_page_says_which_node_it_is() -> None:
    assert values(metrics()) == {"kcoord_build_info": {("9.9",): 1}}


def test_lag_is_told_in_records_and_in_time() -> None:
    first = [group(), partitions((0, 100, 100), (1, 90, 100))]
    second = [group(), partitions((0, 150, 200), (1, 200, 200), commit_ms=15_000)]
    seen = values(metrics(first, second))
    assert seen["kcoord_group_lag"] == {("g", "t", "0"): 50, ("g", "t", "1"): 0}
    assert seen["kcoord_group_lag_seconds"] == {("g", "t", "0"): 5, ("g", "t", "1"): 0}
    assert seen["kcoord_group_committed_offset"] == {("g", "t", "0"): 150, ("g", "t", "1"): 200}
    assert (seen["kcoord_group_sum_lag"], seen["kcoord_group_max_lag"]) == ({("g",): 50}, {("g",): 50})
    assert seen["kcoord_group_max_lag_seconds"] == {("g",): 5}
    assert seen["kcoord_group_status"] == {("g", "OK"): 1}
    assert seen["kcoord_group_state"] == {("g", "Stable"): 1}
    assert (seen["kcoord_group_members"], seen["kcoord_group_epoch"]) == ({("g",): 2}, {("g",): 4})


def test_what_is_not_known_has_no_line() -> None:
    seen = values(metrics([group(), partitions((0, 100, None))]))
    assert seen["kcoord_group_committed_offset"] == {("g", "t", "0"): 100}
    for name in ("lag", "lag_seconds", "sum_lag", "max_lag", "max_lag_seconds", "status"):
        assert f"kcoord_group_{name}" not in seen


def test_an_offset_beyond_the_end_that_was_read_last_is_no_negative_lag() -> None:
    assert values(metrics([group(), partitions((0, 120, 100))]))["kcoord_group_lag"] == {("g", "t", "0"): 0}


def test_what_is_more_than_allowed_is_counted_and_still_part_of_its_group() -> None:
    seen = values(
        metrics(
            [
                group("a"),
                partitions((0, 1, 3), (1, 1, 4), group_id="a"),
                group("b"),
                partitions((0, 1, 9), group_id="b"),
            ],
            max_groups=1,
            max_partitions=1,
        )
    )
    assert seen["kcoord_series_left_out"] == {("groups",): 1, ("partitions",): 2}
    assert seen["kcoord_group_lag"] == {("a", "t", "0"): 2}
    assert seen["kcoord_group_sum_lag"] == {("a",): 5}


def test_names_are_escaped_so_that_no_line_can_be_made_up() -> None:
    seen = values(metrics([group(WILD), partitions((0, 1, 3), group_id=WILD, topic=WILD)]))
    shown = WILD.replace("\ud800", "\\ud800")
    assert seen["kcoord_group_lag"] == {(shown, shown, "0"): 2}
    assert set(seen) <= set(FAMILIES)


def test_a_group_that_is_gone_is_gone_from_the_page_and_from_memory() -> None:
    seen = values(metrics([group(), partitions((0, 1, 3))], [], [group(), partitions((0, 1, 3))]))
    assert "kcoord_group_lag_seconds" not in seen  # one end was seen since it is back


def served(made: Metrics) -> tuple[str, str | None]:
    """Return the page of metrics as it comes by HTTP, and what it is said to be."""
    server = HttpServer({"/metrics": made.page}, HttpLimits())
    try:
        client = HTTPConnection(*server.start("127.0.0.1", 0), timeout=30)
        client.request("GET", "/metrics")
        answer = client.getresponse()
        page = answer.read().decode()
        client.close()
    finally:
        server.close()
    return page, answer.headers["Content-Type"]


def test_every_metric_is_in_the_manual_and_on_a_page_that_is_served() -> None:
    manual = (ROOT / "docs" / "OPERATIONS.md").read_text(encoding="utf-8")
    told = re.findall(r"^\| `((?:kcoord|process)_[a-z_]+)(?:\{[^`]*\})?` \|", manual, flags=re.MULTILINE)
    figures = NodeFigures(LineFigures())
    figures.joins_cluster()
    families = (*figures.families(), *process_families(ROOT), *shard_families([CLUSTER, SHARD]))
    seen = [group(), partitions((0, 100, 200), (1, 100, 300))], [group(), partitions((0, 100, 300), commit_ms=11_000)]
    page, kind = served(metrics(*seen))
    assert [family.name for family in text_string_to_metric_families(page)] == list(FAMILIES)
    assert told == [*FAMILIES, *(family.name for family in families)]
    assert kind == "text/plain; version=0.0.4; charset=utf-8"


def test_families_are_read_by_prometheus_as_what_they_are() -> None:
    figures = NodeFigures(LineFigures())
    figures.joins_cluster().observe(0.03)
    wild = Family("kcoord_wild", "gauge", "Wild.", (("", (("name", WILD),), 1.5),))
    made = Metrics("9.9", max_groups=1, max_partitions=1)
    assert list(made.take([CLUSTER, SHARD], NODE, 1_000, (*figures.families(), wild, *process_families(ROOT)))) == []
    page, _ = served(made)
    read = {family.name: family for family in text_string_to_metric_families(page)}
    (asked,) = [each.value for each in read["kcoord_zk_request_seconds"].samples if each.labels.get("le") == "0.05"]
    assert asked == 1
    assert read["kcoord_group_events"].type == "counter"
    assert read["kcoord_wild"].samples[0].labels == {"name": WILD.replace("\ud800", "\\ud800")}
    assert read["kcoord_shard_isr_size"].samples[0].value == 2
    assert read["process_resident_memory_bytes"].samples[0].value > 1e6


def test_replication_is_told_of_what_is_led_here() -> None:
    full = ShardSeen(0, 4, 90, 100, in_sync=3, replicas=3, min_in_sync=2)
    alone = ShardSeen(2, 4, 90, 100, in_sync=1, replicas=3, min_in_sync=2, is_stalled=True)
    told = {family.name: family.samples for family in shard_families([CLUSTER, full, SHARD, alone])}
    assert told["kcoord_shard_high_watermark"] == tuple(("", (("shard", number),), 90) for number in "012")
    counted = [told[f"kcoord_{of}_shards"][0][2] for of in ("led", "under_replicated", "under_min_isr", "stalled")]
    assert counted == [3, 2, 1, 1]
    assert told["kcoord_offline_shards"] == (("", (), 1),)
    assert told["kcoord_active_controller"] == (("", (), 1),)
    assert told["kcoord_zk_session_state"] == (("", (("state", "registered"),), 1),)


def test_what_only_a_controller_or_a_cluster_knows_is_absent_elsewhere() -> None:
    follower = ClusterSeen(
        is_controller=False, hears_zookeeper=False, is_registered=True, nodes=None, offline_shards=None
    )
    told = {family.name: family.samples for family in shard_families([follower])}
    assert told["kcoord_offline_shards"] == told["kcoord_live_nodes"] == ()
    assert told["kcoord_active_controller"] == (("", (), 0),)
    assert told["kcoord_zk_session_state"] == (("", (("state", "suspended"),), 1),)
    alone = {family.name: family.samples for family in shard_families([SHARD])}
    assert alone["kcoord_active_controller"] == alone["kcoord_zk_session_state"] == ()
    nothing = shard_families([])
    assert not any(family.samples for family in nothing)


def test_a_limit_is_shown_by_its_setting() -> None:
    figures = NodeFigures(LineFigures())
    setting = "server.max_connections"
    figures.limits = lambda: LimitsSeen({setting: (3, 10)}, {setting: 2})
    told = {family.name: family.samples for family in figures.families()}
    sample = [told[f"kcoord_limit_{what}"] for what in ("used", "most", "reached_total")]
    assert sample == [(("", (("setting", setting),), value),) for value in (3, 10, 2)]
