"""Mistakes in what ends a range that is read, for `mutants.py`: what is wrong then, and where it is planted."""

from collections.abc import Callable, Mapping
from typing import Any

from spark_kcoord.fetch.progress import RangeProgress
from spark_kcoord.fetch.requests import PartAnswer

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


MISTAKES: Mapping[str, tuple[str, Callable[[], Patches]]] = {
    "empty-answers-end-a-range": ("an empty answer is taken for the end of a log", _empty_answers_end_a_range),
    "remote-tier-taken-for-hole": (
        "an empty answer from below the leader's own log is believed",
        _remote_tier_is_not_asked_for,
    ),
    "full-answer-taken-for-hole": ("a partition without its turn is taken for empty", _empty_turn_is_an_answer),
}
