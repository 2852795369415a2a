"""Known mistakes in who is let in and what a member that commits nothing leaves; `mutants` has them beside its own."""

from typing import Any

from coordinator.core.groups.hard.records import Granted
from coordinator.core.groups.membership.places import applications, probing
from coordinator.core.groups.membership.places.probing import Probing
from coordinator.core.groups.reconciliation import grants
from coordinator.core.groups.reconciliation.round_report import Round
from coordinator.core.groups.soft.hints import Hints
from coordinator.core.groups.soft.shown import Shown


def second_member_accepted() -> list[tuple[Any, str, Any]]:
    return [(probing, "rivals", lambda *_: iter(()))]


def one_says_that_both_share() -> list[tuple[Any, str, Any]]:
    def rivals(group: Any, request: Any, *others: Any) -> Any:
        return () if request.shares_application else applications.rivals(group, request, *others)

    return [(probing, "rivals", lambda *arguments: iter(rivals(*arguments)))]


def probe_timed_when_asked() -> list[tuple[Any, str, Any]]:
    time_probes = Probing.time

    def time_all(self: Probing) -> None:
        self._desk.unsent_probes = dict.fromkeys(self._desk.unsent_probes, 0)
        time_probes(self)

    return [(Probing, "time", time_all)]


def last_list_alone() -> list[tuple[Any, str, Any]]:
    add = Shown.add

    def add_alone(self: Shown, claims: Any, hints: Any) -> None:
        if claims:
            self._claims.clear()
        add(self, claims, hints)

    return [(Shown, "add", add_alone)]


def start_of_a_reader_written() -> list[tuple[Any, str, Any]]:
    def granted(*fields: Any) -> Granted:
        return Granted(*fields[:8])

    return [(grants, "Granted", granted)]


def hints_of_a_reader_count() -> list[tuple[Any, str, Any]]:
    def hints_of(turn: Round) -> Hints:
        members = turn.group.members.values()
        return Hints(each for member in members for each in member.facts.hints)

    return [(grants, "_hints_of", hints_of)]
