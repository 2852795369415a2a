"""Mistakes in what a query notices by itself, for `mutants.py`: what is wrong then, and where it is planted."""

from collections.abc import Callable, Mapping
from typing import Any

from spark_kcoord.member.core.held.holdings import AssignedPartition, Assignment
from spark_kcoord.member.core.session.patience import Absence
from spark_kcoord.microbatch.commands import Planning
from spark_kcoord.microbatch.frozen_run import FrozenRun
from spark_kcoord.microbatch.planner import BatchPlanner
from spark_kcoord.microbatch.stream_offset import StreamOffset
from spark_kcoord.microbatch.topic_watch import TopicWatch

Patches = list[tuple[Any, str, Any]]


def _frozen_epochs() -> Patches:
    begin, usable = FrozenRun.__init__, BatchPlanner._usable
    epochs: dict[int, set[tuple[str, int, int]]] = {}

    def begin_with_epochs(self: FrozenRun, ends: Any, assignment: Assignment, **settings: Any) -> None:
        begin(self, ends, assignment, **settings)
        epochs[id(self)] = {(one.topic, one.partition, one.owner_epoch) for one in assignment.partitions}

    def usable_under_old_epochs(self: BatchPlanner, assignment: Assignment) -> list[AssignedPartition]:
        found = usable(self, assignment)
        known = epochs.get(id(self._run))
        return [one for one in found if known is None or (one.topic, one.partition, one.owner_epoch) in known]

    return [
        (FrozenRun, "__init__", begin_with_epochs),
        (FrozenRun, "is_over", _is_over_with_no_news),
        (BatchPlanner, "_usable", usable_under_old_epochs),
    ]


def _is_over_with_no_news(self: FrozenRun, planned: Assignment) -> Planning[bool]:
    yield from ()
    return True


def _run_ends_with_no_news() -> Patches:
    return [(FrozenRun, "is_over", _is_over_with_no_news)]


def _absence_begins_with_a_call() -> Patches:
    return [(Absence, "begin", lambda self, now_ms: None)]


def _topics_of_grants_alone() -> Patches:
    def look(self: TopicWatch, start: StreamOffset, assignment: Assignment) -> Planning[Mapping[str, str]]:
        yield from ()
        self._seen = assignment
        return self._made_again((one.topic, one.topic_id) for one in assignment.partitions)

    return [(TopicWatch, "look", look)]


MISTAKES: Mapping[str, tuple[str, Callable[[], Patches]]] = {
    "frozen-epochs": ("a run that ends keeps to the owner epochs it began with", _frozen_epochs),
    "run-ends-with-no-news": ("a run ends as soon as there is nothing to claim", _run_ends_with_no_news),
    "topics-of-grants-alone": ("topics are compared only where they are granted again", _topics_of_grants_alone),
    "absence-begins-with-a-call": ("the time a coordinator is away begins with a call", _absence_begins_with_a_call),
}
