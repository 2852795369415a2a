"""Figures of the limits of a node as families, each limit by its setting."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from coordinator.runtime.figures.family import Family, counter


@dataclass(frozen=True, slots=True)
class LimitsSeen:
    """Limits by their settings: what is used and the most, of limits of amounts; how often each was reached."""

    used: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    reached: Mapping[str, int] = field(default_factory=dict)


def limit_families(seen: LimitsSeen) -> tuple[Family, ...]:
    """Return the families of limits; of a limit that is not told of there is no sample."""
    used = tuple(("", (("setting", setting),), amount) for setting, (amount, _) in seen.used.items())
    most = tuple(("", (("setting", setting),), bound) for setting, (_, bound) in seen.used.items())
    return (
        Family("kcoord_limit_used", "gauge", "How much of a limit of the node is used now, by its setting.", used),
        Family("kcoord_limit_most", "gauge", "The limit.", most),
        counter(
            "kcoord_limit_reached_total",
            "How often it has refused, closed or held something since the node started.",
            "setting",
            seen.reached,
        ),
    )
