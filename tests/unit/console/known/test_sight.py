"""What one person sees of the picture: what the coordinators list to them, and nothing by any other way."""

from coordinator.console.known.describing import trouble_of
from coordinator.console.known.picture import Picture
from coordinator.console.known.sight import NOT_OF_THE_CLUSTER, OUTAGE_S, Listed, SeenBy, Sight, sight_of
from tests.helpers.console_world import NOW_MS, NOWHERE, described, fill, partition

OTHER = ("127.0.0.1", 2)


def picture() -> Picture:
    made = Picture()
    fill(made, described("mine", partition(0, 1, 5)), described("theirs", partition(0, 1, 9)))
    return made


def seen(whole: Picture, *groups: str, cluster: bool = False) -> SeenBy:
    return SeenBy(whole, lambda: Sight(frozenset(groups), cluster))


def test_groups_that_are_not_listed_to_a_person_are_not_there() -> None:
    whole = picture()
    view = seen(whole, "mine", "not yet surveyed")
    assert [group.row.group for group in view.heard().groups] == ["mine"]
    assert view.group("theirs") is None
    assert view.group("mine") == whole.group("mine")
    assert view.curve("mine").lag == [4]
    assert view.curve("theirs").lag == []
    view.watch("theirs", NOW_MS)
    assert whole.due(NOW_MS + 10_000, 1) == []
    view.watch("mine", NOW_MS)
    assert [name for name, _ in whole.due(NOW_MS + 10_000, 1)] == ["mine"]


def test_the_cluster_and_its_troubles_are_for_who_may_describe_it() -> None:
    whole = picture()
    whole.see_trouble("the coordinator at 10.0.0.7:9292 cannot be reached")
    view = seen(whole, "mine").heard()
    assert (view.cluster, view.unlisted, view.trouble) == (None, (), NOT_OF_THE_CLUSTER)
    view = seen(whole, "mine", cluster=True).heard()
    assert view.cluster is not None
    assert view.trouble == whole.heard().trouble


def test_who_may_not_describe_the_cluster_hears_that_groups_may_be_missing_and_not_of_which_shards() -> None:
    whole = picture()
    whole.see_list({}, (0,), 1)
    view = seen(whole, "mine")
    assert (view.heard().is_partial, view.heard().unlisted) == (True, ())
    assert trouble_of(view.heard()) == (
        "groups of some shards may be missing, or are as they were: no node serves them now"
    )
    # Of a group that may not be seen the same is said as of one that there is not.
    assert {view.is_unlisted(name) for name in ("theirs", "nobody's")} == {True}


def test_changes_name_only_what_a_person_may_see() -> None:
    whole = picture()
    change = seen(whole, "mine").change_since(0)
    assert change is not None
    assert (change.groups, change.more) == (["mine"], 0)
    whole.see_trouble("the coordinator at 10.0.0.7:9292 cannot be reached")
    change = seen(whole).change_since(0)
    assert change is not None
    assert (change.groups, change.trouble) == ([], NOT_OF_THE_CLUSTER)
    assert seen(whole).change_since(change.version) is None


def listed(groups: str, at_s: float, *shards: int) -> Listed:
    return Listed(frozenset(groups), frozenset(shards), at_s)


def test_what_a_silent_node_has_listed_counts_for_a_while() -> None:
    both = {NOWHERE: listed("a", 0.0, 0), OTHER: listed("b", 0.0, 1)}
    first = sight_of(both, sees_cluster=True, old=None, now_s=0.0)
    assert first.groups == {"a", "b"}
    late_s = OUTAGE_S - 1
    later = sight_of({NOWHERE: listed("c", late_s, 0)}, sees_cluster=False, old=first, now_s=late_s)
    assert (later.groups, later.sees_cluster) == ({"b", "c"}, False)
    last = sight_of({NOWHERE: listed("c", OUTAGE_S, 0)}, sees_cluster=False, old=later, now_s=OUTAGE_S)
    assert last.groups == {"c"}


def test_what_a_silent_node_has_listed_counts_no_more_once_others_list_all_its_shards() -> None:
    both = {NOWHERE: listed("a", 0.0, 0), OTHER: listed("bc", 0.0, 1, 2)}
    first = sight_of(both, sees_cluster=True, old=None, now_s=0.0)
    some = sight_of({NOWHERE: listed("ab", 1.0, 0, 1)}, sees_cluster=True, old=first, now_s=1.0)
    assert some.groups == {"a", "b", "c"}
    every = sight_of({NOWHERE: listed("ab", 2.0, 0, 1, 2)}, sees_cluster=True, old=some, now_s=2.0)
    assert every.groups == {"a", "b"}  # the right to see "c" was taken meanwhile
