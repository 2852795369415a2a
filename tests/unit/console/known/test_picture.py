"""What the console keeps of what it hears: groups, their measures, versions, and bounds."""

import pytest
from msgspec.structs import replace

from coordinator.console.known import picture as picture_module
from coordinator.console.known.group_seen import CURVE_MS, CURVE_STEP_MS, Curve, lag_seconds
from coordinator.console.known.picture import Picture
from tests.helpers.console_world import NOW_MS, commit, described, fill, member, partition, summary


def test_a_group_is_listed_at_once_and_measured_when_it_is_described() -> None:
    picture = Picture()
    picture.see_list({"g": (summary("g"), 1)}, ())
    seen = picture.group("g")
    assert seen is not None
    assert (seen.row.state, seen.row.members, seen.row.lag, seen.row.as_of_ms) == ("Stable", 1, None, None)

    found = described("g", partition(0, 10, 25), partition(1, None, 5), partition(2, 9, 7))
    picture.see_described(found, [commit(0, 10, NOW_MS - 9), commit(2, 9, NOW_MS - 3)], NOW_MS)
    seen = picture.group("g")
    assert seen is not None
    row = seen.row
    assert (row.partitions, row.lag, row.max_lag, row.unknown) == (3, 15, 15, 1)
    assert (row.last_commit_ms, row.as_of_ms) == (NOW_MS - 3, NOW_MS)
    assert (row.lag_seconds, row.status) == (None, None)  # one end, one commit: nothing is known of the one behind


def test_lag_in_seconds_and_status_come_of_what_was_seen_before() -> None:
    picture = Picture()
    picture.see_list({"g": (summary("g"), 1)}, ())
    for step in range(4):
        at_ms = NOW_MS + step * 10_000
        picture.see_described(described("g", partition(0, 100, 200 + step * 100)), [commit(0, 100, at_ms)], at_ms)
    seen = picture.group("g")
    assert seen is not None
    assert (seen.row.lag_seconds, seen.row.status) == (40.0, "ERR")
    assert seen.measured is not None
    assert seen.measured.statuses == ["STALL"]
    assert picture.curve("g").lag == [100, 200, 300, 400]


def test_what_was_seen_of_a_topic_before_it_was_made_again_tells_nothing() -> None:
    picture = Picture()
    picture.see_list({"g": (summary("g"), 1)}, ())
    for step, (topic_id, committed, end) in enumerate([("a", 100, 200), ("a", 100, 250), ("b", 150, 300)]):
        at_ms = NOW_MS + step * 10_000
        found = replace(described("g", partition(0, committed, end)), topic_ids=(("t", topic_id),))
        picture.see_described(found, [commit(0, committed, at_ms)], at_ms)
    seen = picture.group("g")
    assert seen is not None
    assert (seen.row.lag, seen.row.lag_seconds, seen.row.status) == (150, None, None)


def test_a_group_that_is_not_listed_any_more_is_forgotten_unless_some_shard_was_not_listed() -> None:
    picture = Picture()
    fill(picture, described("a", partition(0, 1, 2)), described("b", partition(0, 1, 2)))
    picture.see_list({"a": (summary("a"), 1)}, (3,))
    assert (picture.group("b") is not None, picture.heard().unlisted) == (True, (3,))
    picture.see_list({"a": (summary("a"), 1)}, ())
    assert (picture.group("b"), picture.heard().unlisted) == (None, ())
    assert picture.curve("b").at_ms == []


def test_a_group_of_a_shard_that_is_listed_is_forgotten_while_others_are_not() -> None:
    """One shard may be without a leader for weeks, and groups come and go on the others meanwhile."""
    picture = Picture()
    picture.see_list({name: (summary(name), 1) for name in "abc"}, (), 2)
    picture.see_list({}, (1,), 2)
    assert [group.row.group for group in picture.heard().groups] == ["c"]
    assert (picture.is_unlisted("c"), picture.is_unlisted("a")) == (True, False)


def test_whoever_heard_of_a_console_before_is_told_all_by_the_one_in_its_place() -> None:
    """The new one has soon counted further than the old one had, which is no reason to leave out what came first."""
    before, after = Picture(1_000), Picture(2_000)
    fill(before, described("a"))
    fill(after, *(described(name) for name in "abcdefghi"))
    change = after.change_since(before.heard().version)
    assert change is not None
    assert (change.groups, change.is_cluster) == (list("abcdefghi"), True)


def test_a_description_of_a_group_that_is_not_listed_is_passed_over() -> None:
    picture = Picture()
    picture.see_described(described("g", partition(0, 1, 2)), [], NOW_MS)
    assert picture.group("g") is None


def test_only_what_a_person_would_see_is_a_change() -> None:
    picture = Picture()
    fill(picture, described("g", partition(0, 1, 2)), described("h", partition(0, 1, 2)))
    before = picture.heard().version
    picture.see_list({"g": (summary("g"), 1), "h": (summary("h"), 1)}, ())
    for name in ("g", "h"):
        picture.see_described(described(name, partition(0, 1, 2)), [commit(0, 1, NOW_MS - 5_000)], NOW_MS)
    assert picture.change_since(before) is None

    moved = described("h", partition(0, 1, 2, "n"), members=(member("m"), member("n")))
    picture.see_described(moved, [commit(0, 1, NOW_MS - 5_000)], NOW_MS + 1)
    change = picture.change_since(before)
    assert change is not None
    assert (change.groups, change.more, change.is_cluster) == (["h"], 0, False)
    assert picture.change_since(change.version) is None


def test_a_change_of_very_many_groups_names_some() -> None:
    picture = Picture()
    picture.see_list({f"g{number}": (summary(f"g{number}"), 1) for number in range(130)}, ())
    change = picture.change_since(0)
    assert change is not None
    assert (len(change.groups), change.more) == (100, 30)


def test_trouble_is_a_change_and_is_over_when_somebody_answers() -> None:
    picture = Picture()
    fill(picture, described("g", partition(0, 1, 2)))
    before = picture.heard().version
    picture.see_trouble("nobody answers")
    change = picture.change_since(before)
    assert change is not None
    assert (change.is_cluster, change.trouble, picture.heard().as_of_ms) == (True, "nobody answers", NOW_MS)
    picture.see_trouble("nobody answers")
    assert picture.change_since(change.version) is None
    fill(picture, described("g", partition(0, 1, 2)), now_ms=NOW_MS + 5)
    assert (picture.heard().trouble, picture.heard().as_of_ms) == (None, NOW_MS + 5)


def test_groups_that_are_looked_at_are_due_again_and_again_until_nobody_looks() -> None:
    picture = Picture()
    fill(picture, described("g", partition(0, 1, 2)), described("h", partition(0, 1, 2)))
    assert picture.due(NOW_MS + 60_000, 2_000) == []
    picture.watch("g", NOW_MS)
    picture.watch("nobody knows it", NOW_MS)
    assert picture.due(NOW_MS + 1_999, 2_000) == []
    assert picture.due(NOW_MS + 2_000, 2_000) == [("g", 1)]
    assert picture.due(NOW_MS + 30_000, 2_000) == []


def test_what_is_watched_is_described_again_when_the_clock_is_set_back() -> None:
    picture = Picture()
    fill(picture, described("g", partition(0, 1, 2)))
    an_hour_ago_ms = NOW_MS - 3_600_000
    picture.watch("g", an_hour_ago_ms)
    assert picture.due(an_hour_ago_ms, 2_000) == [("g", 1)]


def test_of_groups_that_are_looked_at_the_last_few_are_watched() -> None:
    picture = Picture()
    names = [f"g{number}" for number in range(20)]
    picture.see_list({name: (summary(name), 1) for name in names}, ())
    for name in names:
        picture.watch(name, NOW_MS)
    assert [name for name, _ in picture.due(NOW_MS, 0)] == names[-picture_module.MOST_WATCHED :]


def test_more_partitions_than_are_followed_have_lag_in_records_alone(monkeypatch) -> None:
    monkeypatch.setattr(picture_module, "MOST_FOLLOWED", 3)
    picture = Picture()
    small, large = described("s", partition(0, 5, 5)), described("l", *(partition(n, 5, 9) for n in range(3)))
    fill(picture, small, large)
    rows = {group.row.group: group.row for group in picture.heard().groups}
    assert (rows["s"].lag_seconds, rows["l"].lag_seconds, rows["l"].lag) == (0.0, None, 12)
    picture.see_list({"l": (summary("l"), 1)}, ())  # and once there is room, all of it
    for at_ms in (NOW_MS + 1, NOW_MS + 2):
        picture.see_described(described("l", *(partition(n, 9, 9) for n in range(3))), [], at_ms)
    seen = picture.group("l")
    assert seen is not None
    assert seen.row.lag_seconds == 0.0


def test_a_curve_has_a_point_every_ten_seconds_and_forgets_after_an_hour() -> None:
    curve = Curve()
    for second in range(0, 7_200, 2):
        curve.see(second, NOW_MS + second * 1000)
    points = curve.document()
    assert len(points.at_ms) == CURVE_MS // CURVE_STEP_MS + 1
    assert points.lag[-1] == 7_198  # the newest point is as of the last look
    assert points.at_ms[-1] - points.at_ms[0] == CURVE_MS


def test_a_curve_goes_on_when_the_clock_is_set_back() -> None:
    curve = Curve()
    for second in (0, 20, 40, 60, 30, 45):
        curve.see(second, NOW_MS + second * 1000)
    assert curve.document().at_ms == [NOW_MS + second * 1000 for second in (0, 20, 30, 45)]


@pytest.mark.parametrize(
    ("partitions", "seconds"),
    [
        ([], None),
        ([(None, None)], None),
        ([(0, 0), (None, None)], 0.0),
        ([(0, 0), (7, None)], None),
        ([(7, None), (0, 0)], None),
        ([(7, 2_000), (8, None), (0, 0)], 2.0),
        ([(7, 2_000), (8, 3_500)], 3.5),
    ],
)
def test_the_lag_in_time_of_a_group_is_never_zero_while_it_is_behind(
    partitions: list[tuple[int | None, int | None]], seconds: float | None
) -> None:
    assert lag_seconds(partitions) == seconds
