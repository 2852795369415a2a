"""Mistakes about turns: what is left of a long piece of work between two of them, and what others do meanwhile."""

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from coordinator.core.groups.bounds.claim_watch import ClaimWatch
from coordinator.core.groups.hard.state import GroupState
from coordinator.core.groups.partitions.partition_set import NOTHING
from coordinator.core.groups.partitions.partition_table import TopicPartition
from coordinator.core.groups.reconciliation.late_stops import LateStops
from coordinator.core.groups.reconciliation.reconciler import Reconciler
from coordinator.core.groups.reconciliation.tellings import Tellings
from tests.sim.directed import much_in_short_turns
from tests.sim.mix import Mix, draw_mix

Patches = list[tuple[Any, str, Any]]


def late_ones_of_one_turn() -> Patches:
    genuine = LateStops.stop_timed_out

    def stop_timed_out(self: LateStops, group_id: str, member_id: str) -> None:
        genuine(self, group_id, member_id)
        session, now_ms = self._desk.session_of(group_id, member_id), self._desk.now_ms
        if session is not None:
            for partition in [key for key, at_ms in session.stop_deadlines.items() if at_ms <= now_ms]:
                del session.stop_deadlines[partition]

    return [(LateStops, "stop_timed_out", stop_timed_out)]


def given_up_of_one_turn() -> Patches:
    genuine = ClaimWatch.timeout_is_due

    def timeout_is_due(self: ClaimWatch, group: GroupState) -> tuple[TopicPartition, ...]:
        given_up = genuine(self, group)
        if given_up:
            self._desk.soft_of(group.group_id).awaited_since.clear()
        return given_up

    return [(ClaimWatch, "timeout_is_due", timeout_is_due)]


def told_as_far_as_one_turn() -> Patches:
    genuine = Tellings.go_on

    def go_on(self: Tellings, group: GroupState, member_id: str) -> list[TopicPartition]:
        told = genuine(self, group, member_id)
        self._desk.soft_of(group.group_id).sessions[member_id].untold = NOTHING
        return told

    return [(Tellings, "go_on", go_on)]


def in_use_and_let_go_of() -> Patches:
    genuine = Reconciler.window_ended

    def window_ended(self: Reconciler, group_id: str) -> None:
        genuine(self, group_id)
        group = self._desk.group(group_id)
        assert group is not None
        self._desk.remains._add_large([], group.target_owners)

    return [(Reconciler, "window_ended", window_ended)]


MISTAKES: Mapping[str, tuple[str, Callable[[], Patches], Callable[[Random], Mix]]] = {
    "late-ones-of-one-turn": (
        "what is late is taken as far as one turn goes",
        late_ones_of_one_turn,
        much_in_short_turns,
    ),
    "given-up-of-one-turn": (
        "what was waited for is given up as far as one turn goes",
        given_up_of_one_turn,
        much_in_short_turns,
    ),
    "told-as-far-as-one-turn": (
        "who comes back is told what it has as far as one turn goes",
        told_as_far_as_one_turn,
        much_in_short_turns,
    ),
    "in-use-and-let-go-of": ("what is in use is let go of in turns", in_use_and_let_go_of, draw_mix),
}
