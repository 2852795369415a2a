"""Mistakes about what comes back when nobody looks: a former process of a member, and a topic between two plans."""

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from coordinator.core.groups.bounds.claim_watch import ClaimWatch
from coordinator.core.groups.membership import removal
from coordinator.core.groups.membership.listed_claims import Listed
from spark_kcoord.microbatch.topic_watch import TopicWatch
from tests.sim.directed import processes_that_come_back, topics_that_come_back
from tests.sim.mix import Mix, draw_mix

Patches = list[tuple[Any, str, Any]]


def former_process_drops_claims() -> Patches:
    return [(Listed, "running", lambda self, group: [])]


def process_that_never_got_in_drops_claims() -> Patches:
    return [(ClaimWatch, "began_together", lambda self, group, claimed: iter(()))]


def process_that_never_got_in_drops_old_claims() -> Patches:
    began_together = ClaimWatch.began_together

    def only_young(self: Any, group: Any, claimed: Any) -> Any:
        for began, numbers in began_together(self, group, claimed):
            if self._desk.now_ms - began.at_ms < self._desk.limits.claim_age_notice_ms:
                yield began, numbers

    return [(ClaimWatch, "began_together", only_young)]


def came_and_went_unseen() -> Patches:
    return [(TopicWatch, "_came_and_went", lambda self, assignment, staying: set())]


def static_member_loses_its_place() -> Patches:
    return [(removal, "has_its_session", lambda group, member_id, *, has_running_claim: False)]


MISTAKES: Mapping[str, tuple[str, Callable[[], Patches], Callable[[Random], Mix]]] = {
    "former-process-drops-claims": (
        "a process that comes back gives up what a later one left running",
        former_process_drops_claims,
        processes_that_come_back,
    ),
    "late-entry-drops-claims": (
        "a process that was kept out since before a claim began gives it up",
        process_that_never_got_in_drops_claims,
        processes_that_come_back,
    ),
    "late-entry-drops-old-claims": (
        "a process that was kept out gives up a later one's claim once that is old enough to be told",
        process_that_never_got_in_drops_old_claims,
        processes_that_come_back,
    ),
    "came-and-went-unseen": (
        "a topic that came back and was deleted between two plans is not asked about",
        came_and_went_unseen,
        topics_that_come_back,
    ),
    "static-member-put-out": (
        "a static member whose connection closed is removed before its session is over",
        static_member_loses_its_place,
        draw_mix,
    ),
}
