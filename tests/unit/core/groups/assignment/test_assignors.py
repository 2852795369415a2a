"""The assignors on cases small enough to check by eye."""

from collections.abc import Mapping

import pytest

from coordinator.core.groups.assignment.assignors import ASSIGNORS, DEFAULT_ASSIGNOR, AssignorInput, AssignorMember
from tests.sim.turns import turns_of

Numbers = dict[str, dict[str, list[int]]]


def assign(
    name: str,
    members: Mapping[str, tuple[str, int]],
    partitions: Mapping[str, int],
    current: Mapping[str, Mapping[str, list[int]]] | None = None,
) -> Numbers:
    """Members are written as {"m1": ("a b", 4)}: topics and streams; assignments as {"m1": {"a": [0, 1]}}."""
    given = AssignorInput(
        members=tuple(
            AssignorMember(m, frozenset(topics.split()), streams) for m, (topics, streams) in members.items()
        ),
        partitions=partitions,
        current={
            m: frozenset((topic, number) for topic, numbers in mine.items() for number in numbers)
            for m, mine in (current or {}).items()
        },
    )
    answer: Numbers = {}
    for member_id, mine in ASSIGNORS[name](given).items():
        answer[member_id] = {}
        for topic, number in sorted(mine):
            answer[member_id].setdefault(topic, []).append(number)
    return answer


def test_sticky_is_the_default_and_comes_first():
    assert list(ASSIGNORS) == ["sticky", "range", "round-robin"]
    assert DEFAULT_ASSIGNOR == "sticky"


@pytest.mark.parametrize("name", ASSIGNORS)
def test_no_members_get_nothing(name):
    assert assign(name, {}, {"a": 3}) == {}


@pytest.mark.parametrize("name", ASSIGNORS)
def test_a_member_of_topics_that_do_not_exist_gets_an_empty_entry(name):
    assert assign(name, {"m1": ("gone", 1), "m2": ("", 1), "m3": ("empty", 1)}, {"a": 3, "empty": 0}) == {
        "m1": {},
        "m2": {},
        "m3": {},
    }


@pytest.mark.parametrize("name", ASSIGNORS)
def test_one_member_gets_everything_it_subscribes_to_and_nothing_else(name):
    assert assign(name, {"m1": ("a b", 1)}, {"a": 2, "b": 1, "c": 9}) == {"m1": {"a": [0, 1], "b": [0]}}


class TestRange:
    def test_ranges_are_contiguous_and_the_first_members_get_the_longer_ones(self):
        assert assign("range", {"m2": ("a", 1), "m1": ("a", 1), "m3": ("a", 1)}, {"a": 8}) == {
            "m1": {"a": [0, 1, 2]},
            "m2": {"a": [3, 4, 5]},
            "m3": {"a": [6, 7]},
        }

    def test_every_topic_is_cut_by_itself_so_equal_numbers_meet(self):
        assert assign("range", {"m1": ("a b", 1), "m2": ("a b", 9)}, {"a": 3, "b": 3}) == {
            "m1": {"a": [0, 1], "b": [0, 1]},
            "m2": {"a": [2], "b": [2]},
        }

    def test_only_subscribers_take_part(self):
        assert assign("range", {"m1": ("a", 1), "m2": ("a b", 1), "m3": ("b", 1)}, {"a": 2, "b": 2}) == {
            "m1": {"a": [0]},
            "m2": {"a": [1], "b": [0]},
            "m3": {"b": [1]},
        }

    def test_members_without_a_partition_are_the_last(self):
        assert assign("range", {"m1": ("a", 1), "m2": ("a", 1), "m3": ("a", 1)}, {"a": 2}) == {
            "m1": {"a": [0]},
            "m2": {"a": [1]},
            "m3": {},
        }


class TestStickyWithEqualSubscriptions:
    def test_fresh_partitions_are_dealt_in_turns(self):
        assert assign("sticky", {"m1": ("a b", 4), "m2": ("a b", 4)}, {"a": 4, "b": 3}) == {
            "m1": {"a": [0, 2], "b": [0, 2]},
            "m2": {"a": [1, 3], "b": [1]},
        }

    def test_a_member_with_twice_the_streams_gets_twice_the_partitions_of_each_topic(self):
        assert assign("sticky", {"m1": ("a b", 4), "m2": ("a b", 8)}, {"a": 6, "b": 6}) == {
            "m1": {"a": [1, 4], "b": [1, 4]},
            "m2": {"a": [0, 2, 3, 5], "b": [0, 2, 3, 5]},
        }

    def test_a_newcomer_gets_its_share_and_nobody_else_gains(self):
        current = {"m1": {"a": [0, 2, 4, 6]}, "m2": {"a": [1, 3, 5, 7]}}
        assert assign("sticky", {"m1": ("a", 1), "m2": ("a", 1), "m3": ("a", 1)}, {"a": 8}, current) == {
            "m1": {"a": [0, 2, 4]},
            "m2": {"a": [1, 3, 5]},
            "m3": {"a": [6, 7]},
        }

    def test_what_a_newcomer_takes_comes_from_every_topic(self):
        current = {"m1": {"a": [0, 1, 2, 3], "b": [0, 1, 2, 3]}}
        assert assign("sticky", {"m1": ("a b", 1), "m2": ("a b", 1)}, {"a": 4, "b": 4}, current) == {
            "m1": {"a": [0, 1], "b": [0, 1]},
            "m2": {"a": [2, 3], "b": [2, 3]},
        }

    def test_what_a_leaver_had_goes_round_and_nothing_else_moves(self):
        current = {"m1": {"a": [0, 2, 4]}, "m2": {"a": [1, 3, 5]}, "m3": {"a": [6, 7]}}
        assert assign("sticky", {"m1": ("a", 1), "m3": ("a", 1)}, {"a": 8}, current) == {
            "m1": {"a": [0, 2, 3, 4]},
            "m3": {"a": [1, 5, 6, 7]},
        }

    def test_the_odd_partition_stays_with_whoever_has_it(self):
        current = {"m1": {"a": [0]}, "m2": {"a": [1, 2]}}
        assert assign("sticky", {"m1": ("a", 1), "m2": ("a", 1)}, {"a": 3}, current) == current

    def test_partitions_that_are_added_move_nothing(self):
        current = {"m1": {"a": [0, 1]}, "m2": {"a": [2, 3]}}
        assert assign("sticky", {"m1": ("a", 1), "m2": ("a", 1)}, {"a": 6}, current) == {
            "m1": {"a": [0, 1, 4]},
            "m2": {"a": [2, 3, 5]},
        }

    def test_what_was_held_but_is_not_there_any_more_is_passed_over(self):
        current = {"gone": {"a": [0]}, "m1": {"a": [1, 7], "b": [0], "deleted": [0]}, "m2": {"a": [1]}}
        assert assign("sticky", {"m1": ("a", 1), "m2": ("a", 1)}, {"a": 2, "b": 1}, current) == {
            "m1": {"a": [1]},
            "m2": {"a": [0]},
        }

    def test_streams_of_none_count_as_one(self):
        assert assign("sticky", {"m1": ("a", 0), "m2": ("a", -5), "m3": ("a", 1)}, {"a": 3}) == {
            "m1": {"a": [0]},
            "m2": {"a": [1]},
            "m3": {"a": [2]},
        }

    def test_groups_of_members_without_a_common_topic_do_not_touch_each_other(self):
        members = {"m1": ("a", 1), "m2": ("b", 1), "m3": ("a", 1), "m4": ("b", 3)}
        assert assign("sticky", members, {"a": 2, "b": 4}) == {
            "m1": {"a": [0]},
            "m2": {"b": [1]},
            "m3": {"a": [1]},
            "m4": {"b": [0, 2, 3]},
        }


class TestStickyWithDifferentSubscriptions:
    def test_a_topic_with_one_subscriber_weighs_in_the_sharing_of_the_other(self):
        assert assign("sticky", {"m1": ("a", 1), "m2": ("a b", 1)}, {"a": 3, "b": 1}) == {
            "m1": {"a": [0, 1]},
            "m2": {"a": [2], "b": [0]},
        }

    def test_a_loaded_member_gives_its_part_of_a_shared_topic_away(self):
        current = {"m1": {"a": [0], "b": [0, 1, 2]}, "m2": {"a": [1]}}
        assert assign("sticky", {"m1": ("a b", 1), "m2": ("a", 1)}, {"a": 2, "b": 3}, current) == {
            "m1": {"b": [0, 1, 2]},
            "m2": {"a": [0, 1]},
        }

    def test_streams_count_as_well(self):
        assert assign("sticky", {"m1": ("a", 2), "m2": ("a b", 4)}, {"a": 5, "b": 1}) == {
            "m1": {"a": [0, 1]},
            "m2": {"a": [2, 3, 4], "b": [0]},
        }

    def test_a_topic_that_is_given_up_leaves_the_rest_alone(self):
        current = {"m1": {"a": [0], "b": [0, 1]}, "m2": {"a": [1, 2]}, "m3": {"b": [2]}}
        assert assign("sticky", {"m1": ("b", 1), "m2": ("a", 1), "m3": ("a b", 1)}, {"a": 3, "b": 3}, current) == {
            "m1": {"b": [0, 1]},
            "m2": {"a": [1, 2]},
            "m3": {"a": [0], "b": [2]},
        }


class TestRoundRobin:
    def test_partitions_are_dealt_in_turns_across_topics(self):
        assert assign("round-robin", {"m1": ("a b", 1), "m2": ("a b", 9)}, {"a": 3, "b": 3}) == {
            "m1": {"a": [0, 2], "b": [1]},
            "m2": {"a": [1], "b": [0, 2]},
        }

    def test_members_are_passed_over_for_topics_they_do_not_subscribe_to(self):
        members = {"m1": ("a", 1), "m2": ("a b", 1), "m3": ("a b c", 1)}
        assert assign("round-robin", members, {"a": 1, "b": 2, "c": 3}) == {
            "m1": {"a": [0]},
            "m2": {"b": [0]},
            "m3": {"b": [1], "c": [0, 1, 2]},
        }


def test_a_target_takes_the_same_turns_in_whatever_order_sets_are_gone_through() -> None:
    def turns(held: list[tuple[str, int]]) -> int:
        members = tuple(AssignorMember(name, frozenset({"a"}), 1) for name in ("m1", "m2"))
        given = AssignorInput(members, {"a": 6}, {"m1": dict.fromkeys(held).keys()})
        with turns_of(1):
            return sum(1 for _ in ASSIGNORS["sticky"].in_turns(given))

    held = [("a", 0), ("a", 1), ("gone", 0), ("a", 2), ("a", 3)]
    assert turns(held) == turns(held[::-1])
    assert turns(held) == turns([held[2], *held[:2], *held[3:]])
