"""Mistakes in what ends a range that is read, for `mutants.py`: what is wrong then, and where it is planted."""

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from spark_kcoord.fetch.progress import TOPIC_GONE, RangeProgress
from spark_kcoord.fetch.requests import PartAnswer
from tests.sim.directed import leaders_that_know_no_topic
from tests.sim.mix import Mix, draw_mix

Patches = list[tuple[Any, str, Any]]


def _empty_answers_end_a_range() -> Patches:
    take_nothing = RangeProgress._take_nothing

    def end_it(self: RangeProgress, answer: PartAnswer, now: float) -> None:
        take_nothing(self, answer, now)
        if self.is_in_doubt:
            self.is_in_doubt = False
            self.position = self.wanted.end

    return [(RangeProgress, "_take_nothing", end_it)]


def _remote_tier_is_not_asked_for() -> Patches:
    settle = RangeProgress.settle

    def settle_as_if_local(self: RangeProgress, local_start: int | None, now: float) -> None:
        settle(self, self.position, now)

    return [(RangeProgress, "settle", settle_as_if_local)]


def _empty_turn_is_an_answer() -> Patches:
    take_nothing = RangeProgress._take_nothing

    def end_it_without_a_turn(self: RangeProgress, answer: PartAnswer, now: float) -> None:
        if not answer.had_its_turn and answer.readable_end >= self.wanted.end:
            self.position = self.wanted.end
        else:
            take_nothing(self, answer, now)

    return [(RangeProgress, "_take_nothing", end_it_without_a_turn)]


def _leader_is_believed_that_a_topic_is_gone() -> Patches:
    fail = RangeProgress.fail

    def fail_or_miss(self: RangeProgress, error: Any, now: float) -> bool:
        if error.errno not in TOPIC_GONE:
            return fail(self, error, now)
        self.miss(error, now)
        return False

    return [(RangeProgress, "fail", fail_or_miss)]


MISTAKES: Mapping[str, tuple[str, Callable[[], Patches], Callable[[Random], Mix]]] = {
    "empty-answers-end-a-range": (
        "an empty answer is taken for the end of a log",
        _empty_answers_end_a_range,
        draw_mix,
    ),
    "remote-tier-taken-for-hole": (
        "an empty answer from below the leader's own log is believed",
        _remote_tier_is_not_asked_for,
        draw_mix,
    ),
    "full-answer-taken-for-hole": (
        "a partition without its turn is taken for empty",
        _empty_turn_is_an_answer,
        draw_mix,
    ),
    "leader-knows-no-topic": (
        "a leader that does not know a topic is believed that it is gone",
        _leader_is_believed_that_a_topic_is_gone,
        leaders_that_know_no_topic,
    ),
}
