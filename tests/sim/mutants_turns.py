"""Mistakes about turns: what is left of a long piece of work between two of them, and what others do meanwhile."""

from collections.abc import Callable, Collection, Mapping
from random import Random
from typing import Any

from coordinator.core.groups.bounds.claim_watch import ClaimWatch
from coordinator.core.groups.hard.state import GroupState
from coordinator.core.groups.membership.listed_claims import Look
from coordinator.core.groups.partitions.partition_set import NOTHING
from coordinator.core.groups.partitions.partition_table import TopicPartition
from coordinator.core.groups.reconciliation.late_stops import LateStops
from coordinator.core.groups.reconciliation.reconciler import Reconciler
from coordinator.core.groups.reconciliation.stopping.stops import Stops
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


def found_long_ago() -> Patches:
    return [(Look, "is_current", lambda self, group: True)]


def told_as_far_as_one_turn() -> Patches:
    genuine = Tellings.go_on

    def go_on(self: Tellings, group: GroupState, member_id: str) -> list[TopicPartition]:
        told = genuine(self, group, member_id)
        self._desk.soft_of(group.group_id).sessions[member_id].untold = NOTHING
        return told

    return [(Tellings, "go_on", go_on)]


def asked_before_told() -> Patches:
    genuine = Stops.push

    def push(self: Stops, group_id: str, member_id: str, partitions: Collection[TopicPartition]) -> None:
        session = self._desk.soft_of(group_id).sessions[member_id]
        untold, session.untold = session.untold, NOTHING
        genuine(self, group_id, member_id, partitions)
        session.untold = untold

    return [(Stops, "push", push)]


def told_what_is_lost() -> Patches:
    genuine = Tellings.go_on

    def go_on(self: Tellings, group: GroupState, member_id: str) -> list[TopicPartition]:
        untold = self._desk.soft_of(group.group_id).sessions[member_id].untold
        had, granted = set(untold), set(group.grants)
        told = genuine(self, group, member_id)
        gone = sorted(had.difference(untold) & granted.difference(group.owned_by(member_id)))
        self._push(group, self._desk.soft_of(group.group_id), member_id, gone, complete=False) if gone else None
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
    "found-long-ago": (
        "claims are told as they were when they were looked at, turns ago",
        found_long_ago,
        much_in_short_turns,
    ),
    "told-as-far-as-one-turn": (
        "who comes back is told what it has as far as one turn goes",
        told_as_far_as_one_turn,
        much_in_short_turns,
    ),
    "asked-before-told": (
        "who comes back is asked for what it has not been told yet",
        asked_before_told,
        much_in_short_turns,
    ),
    "told-what-is-lost": (
        "who comes back is told what another got between two turns",
        told_what_is_lost,
        much_in_short_turns,
    ),
    "in-use-and-let-go-of": ("what is in use is let go of in turns", in_use_and_let_go_of, draw_mix),
}
