"""Known mistakes about logs that went back; `mutants` has them beside its own."""

from collections.abc import Callable, Mapping
from typing import Any

from coordinator.core.groups.hard.replay import life_replay
from coordinator.core.groups.hard.state import GroupState
from coordinator.core.groups.membership import gone_back

Patches = list[tuple[Any, str, Any]]


def gone_back_unnoticed() -> Patches:
    return [(gone_back, "is_of_another_log", lambda *_: False)]


def epochs_within_reach() -> Patches:
    """Begin right after the end of the log, as if what the first member shows were all that was told."""
    return [(gone_back, "MARGIN", 0), (gone_back, "end_shown", lambda *_: 0)]


def grants_outlive_what_was_lost() -> Patches:
    def keep(group: GroupState, partition: Any) -> None:
        del group, partition

    return [(life_replay, "release", keep)]


MISTAKES: Mapping[str, tuple[str, Callable[[], Patches]]] = {
    "gone-back-unnoticed": ("nobody looks whether the log went back", gone_back_unnoticed),
    "epochs-within-reach": ("owner epochs go on where the old copy ends", epochs_within_reach),
    "grants-outlive-what-was-lost": ("what an old copy has granted stands", grants_outlive_what_was_lost),
}
