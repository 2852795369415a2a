"""Documents of what is known."""

import pytest

from coordinator.console.known import describing, tables
from coordinator.console.known.group_seen import Trail, measure
from coordinator.console.known.picture import Picture
from coordinator.protocol.parts import Claim, ClaimState, GroupEvent, PartitionDescription
from tests.helpers.console_world import NOW_MS, described, fill, member, partition


@pytest.mark.parametrize(
    ("named", "text"),
    [
        ([], ""),
        ([("t", 0)], "t:0"),
        ([("t", 3), ("t", 0), ("t", 1), ("t", 2), ("t", 7)], "t:0-3,7"),
        ([("u", 1), ("t", 0), ("u", 2)], "t:0 u:1-2"),
    ],
)
def test_partitions_are_written_in_ranges(named: list[tuple[str, int]], text: str) -> None:
    assert describing.ranges(named) == text


def test_very_many_ranges_are_cut_short_and_counted() -> None:
    assert describing.ranges([("t", number) for number in range(0, 20, 2)], 3) == "t:0,2,4 and 7 ranges more"


def test_a_member_has_its_lag_and_its_assignment() -> None:
    group = described(
        "g",
        partition(0, 1, 5, "a"),
        partition(1, 1, 6, "a"),
        partition(2, None, 6, "b"),
        members=(member("a", owned=2), member("b"), member("c", owned=0)),
    )
    found = describing.members(measure(group, (), Trail(), NOW_MS))
    assert [(one.consumer_id, one.lag, one.assignment) for one in found] == [
        ("a", 9, "t:0-1"),
        ("b", None, "t:2"),
        ("c", None, ""),
    ]


def test_a_partition_has_its_owner_and_its_claim() -> None:
    claimed = PartitionDescription("t", 0, 5, 9, "m", 7, True, Claim("t", "id", 0, 7, 5, 8), ClaimState.RUNNING)
    (found,) = describing.partitions(measure(described("g", claimed), (), Trail(), NOW_MS), [0])
    assert (found.client_id, found.owner_epoch, found.is_stopping) == ("client", 7, True)
    assert found.claim is not None
    assert (found.claim.from_offset, found.claim.until_offset, found.claim.state) == (5, 8, "RUNNING")


def test_a_timeline_counts_what_it_does_not_name() -> None:
    first = GroupEvent(1, 5, "member-joined", "m", "why", 1)
    second = GroupEvent(2, 6, "rebalance", "", "m joined", 2, (("t", 0), ("t", 1)), None, 40)
    found = describing.events([second, first])
    assert [(one.sequence, one.consumer_id, one.partitions, one.partition_count) for one in found] == [
        (2, None, "t:0-1", 40),
        (1, "m", "", 0),
    ]


def test_a_timeline_of_ten_thousand_is_paged_and_searched_by_its_partitions() -> None:
    told = [GroupEvent(n, n, "granted", f"m{n}", "why", 1, (("t", n), ("t", n + 1)), None, 2) for n in range(1, 10_001)]
    last = tables.EVENTS.choose(reversed(told), tables.EVENTS.read([("page", "100")]))
    assert ([row.sequence for row in last.rows], last.total) == (list(range(100, 0, -1)), 10_000)
    found = tables.EVENTS.choose(reversed(told), tables.EVENTS.read([("search", "t:777-778")]))
    assert [(row.sequence, row.partitions) for row in describing.events(found.rows)] == [(777, "t:777-778")]


def test_topics_sum_up_the_groups_that_read_them() -> None:
    picture = Picture()
    fill(
        picture,
        described("a", partition(0, 1, 5), partition(1, 1, 6)),
        described("b", partition(0, 2, 5), partition(0, None, None, topic="u")),
    )
    groups = picture.heard().groups
    assert [(one.topic, one.partitions, one.groups, one.lag) for one in describing.topics(groups)] == [
        ("t", 2, 2, 12),
        ("u", 1, 1, None),
    ]
    assert [(one.group, one.lag) for one in describing.topic_groups("t", groups)] == [("a", 9), ("b", 3)]


def test_an_overview_counts_what_is_known_and_says_null_of_what_is_not() -> None:
    nothing = describing.overview(Picture().heard())
    assert (nothing.lag, nothing.as_of_ms, nothing.replication_factor) == (None, None, None)
    assert (nothing.groups, nothing.described, nothing.members, nothing.nodes, nothing.shards) == (None,) * 5
    picture = Picture()
    fill(picture, described("a", partition(0, 1, 5)), described("b"))
    found = describing.overview(picture.heard())
    assert (found.groups, found.described, found.lag, found.by_state) == (2, 2, 4, {"Stable": 2})
    assert (found.nodes, found.shards, found.troubles) == (1, 1, [])


@pytest.mark.parametrize(
    ("unlisted", "words"),
    [
        ((3,), "groups of shard 3 may"),
        ((3, 5), "groups of shards 3, 5 may"),
        (range(9), "3, 4, 5, 6, 7 and 1 more may"),
    ],
)
def test_groups_that_nobody_lists_are_said_to_be_missing(unlisted: tuple[int, ...], words: str) -> None:
    picture = Picture()
    fill(picture, described("a"))
    assert describing.trouble_of(picture.heard()) is None
    picture.see_list({}, unlisted)
    assert words in (describing.trouble_of(picture.heard()) or "")
    picture.see_trouble("nobody answers")
    assert describing.trouble_of(picture.heard()) == "nobody answers"
