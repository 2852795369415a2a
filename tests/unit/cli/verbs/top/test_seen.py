"""The order of rows, the head above them, their cells, and since when something is wrong."""

import pytest

from coordinator.cli.verbs.top.pace import Way
from coordinator.cli.verbs.top.seen import Row, Seen, Sorting, Trouble, Troubles, in_order, shown, total
from coordinator.cli.verbs.top.text import cells, head_lines, rate_text, trouble_lines
from coordinator.client.cluster_view import ClusterView, NodeView, ShardView
from coordinator.protocol.parts import NodeDescription

ROWS = [
    Row("b", "Stable", 3, 1, 5, 0, 2.0, 10.0, 10.0),
    Row("a", "Stable", 1, 1, 50, 0, None, 0.0, 1.0),
    Row("d", "Empty", 0),
    Row("c", "Stable", 1, 1, 0, 0, 90.0, 3.5, 1.0),
]


@pytest.mark.parametrize(
    ("sorting", "order"),
    [
        (Sorting.LAG, "abcd"),
        (Sorting.LAG_TIME, "cbad"),
        (Sorting.RATE, "bcad"),
        (Sorting.MEMBERS, "bacd"),
        (Sorting.GROUP, "abcd"),
    ],
)
def test_rows_are_sorted_with_the_greatest_first_and_the_unknown_last(sorting: Sorting, order: str) -> None:
    assert "".join(row.group for row in in_order(ROWS, sorting)) == order


def test_limit_leaves_the_first_rows_of_the_order() -> None:
    assert [row.group for row in shown(ROWS, Sorting.MEMBERS, 2)] == ["b", "a"]


def test_next_sorting_comes_to_all_of_them_and_round() -> None:
    sorting, met = Sorting.LAG, []
    for _ in Sorting:
        met.append(sorting)
        sorting = sorting.next()
    assert (set(met), sorting) == (set(Sorting), Sorting.LAG)


def test_total_is_of_the_known_ones_and_unknown_over_none() -> None:
    assert (total([1, None, 2]).value, total([1, None, 2]).groups) == (3, 2)
    assert total([None]).value is None


def shard(number: int, leader: int | None, status: str | None, isr: tuple[int, ...] = (1, 2)) -> ShardView:
    return ShardView(number, leader, 1, status, (1, 2), isr, None, None, {})


def node(number: int, status: str = "ready", why: str = "", replicas: int = 1) -> NodeView:
    return NodeView(NodeDescription(number, status), None, why, number == 1, 0, replicas, 0)


def cluster(*shards: ShardView, nodes: tuple[NodeView, ...] = (node(1), node(2))) -> ClusterView:
    return ClusterView("c1", 1, 4, 2, 1, nodes, shards, ())


def test_head_counts_nodes_shards_groups_lag_and_commits() -> None:
    shards = (shard(0, 1, "serving"), shard(1, None, None), shard(2, 1, "serving", (1,)), shard(3, 1, "loading"))
    nodes = (node(1), node(2, why="cannot be reached"), node(3, "gone"), node(4, "gone", replicas=0))
    assert head_lines(Seen(1_000, cluster(*shards, nodes=nodes), tuple(ROWS))) == [
        "00:00:01Z  cluster c1  controller 1  nodes 1 of 3 up",
        "4 shards: 1 without a leader, 1 not serving, 1 out of sync",
        "4 groups: 3 Stable, 1 Empty  lag 55 (of 3 groups)  committed/s 14 (of 3 groups)",
    ]


def test_head_says_nothing_as_0_that_is_not_known() -> None:
    assert head_lines(Seen(1_000, None, (Row("d", "Empty", 0),))) == [
        "00:00:01Z  cluster -  controller -  nodes -",
        "shards -",
        "1 group: 1 Empty  lag -  committed/s -",
    ]
    assert head_lines(Seen(1_000, cluster(shard(0, 1, "serving")), ()))[1:] == [
        "1 shard: all served and in sync",
        "0 groups  lag -  committed/s -",
    ]


def test_cells_say_unknown_as_a_dash_and_an_incomplete_lag_with_a_plus() -> None:
    assert cells(Row("d", "Empty", 0)) == ("d", "Empty", "0", "-", "-", "-", "-", "-", "-", "-")
    row = Row("a", "Stable", 1, 3, 50, 1, 0.25, 0.0, 1234.5, Way("falls behind"), "WARN", 5)
    assert cells(row) == ("a", "Stable", "1", "3", "50+", "250ms", "0", "1234", "falls behind", "WARN")


def test_row_that_the_last_look_did_not_describe_is_marked_with_its_time() -> None:
    assert cells(Row("a", "Stable", 1, 1, 5, 0, as_of_ms=61_000, way=Way("still"), is_old=True))[8] == (
        "old: as of 00:01:01Z"
    )


def test_names_and_reasons_are_nothing_that_a_terminal_obeys() -> None:
    assert cells(Row("a\x1b[31m\u202e", "St\n", 1))[:2] == ("a\\x1b[31m\\u202e", "St\\n")
    assert trouble_lines([Trouble(0, "no\x1b[2J")]) == ["! since 00:00:00Z: no\\x1b[2J"]


def test_few_troubles_are_shown_and_the_others_counted() -> None:
    lines = trouble_lines([Trouble(0, f"t{number}") for number in range(6)])
    assert lines[3:] == ["! since 00:00:00Z: t3", "! and 2 more: `kcoord cluster status` names them"]


def test_trouble_keeps_the_time_since_when_it_is_there_and_begins_anew_after_its_end() -> None:
    troubles = Troubles()
    assert troubles.see({"away": "why one"}, 10) == (Trouble(10, "why one"),)
    assert troubles.see({"away": "why two", "kafka": "k"}, 20) == (Trouble(10, "why two"), Trouble(20, "k"))
    assert troubles.see({}, 30) == ()
    assert troubles.see({"away": "again"}, 40) == (Trouble(40, "again"),)


@pytest.mark.parametrize(
    ("rate", "text"), [(None, "-"), (0, "0"), (0.04, "<0.1"), (9.94, "9.9"), (9.96, "10"), (12345.6, "12346")]
)
def test_rate_has_a_digit_behind_the_point_where_there_are_few(rate: float | None, text: str) -> None:
    assert rate_text(rate) == text
