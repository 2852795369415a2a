"""Figures of the mirror of groups to Kafka as families; a node without a mirror has no samples of them."""

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from coordinator.runtime.figures.family import Family

_Kind: TypeAlias = Literal["gauge", "counter"]
_FAMILIES: Final[tuple[tuple[str, _Kind, str], ...]] = (
    ("kcoord_mirror_delay_seconds", "gauge", "Time for which Kafka has lacked an offset that is committed here."),
    ("kcoord_mirror_groups", "gauge", "Groups of this node that are mirrored to Kafka."),
    ("kcoord_mirror_groups_behind", "gauge", "Groups of which Kafka lacks an offset that is committed here, or may."),
    (
        "kcoord_mirror_groups_stopped",
        "gauge",
        "Groups that Kafka does not take, as when its group has members of its own.",
    ),
    ("kcoord_mirror_groups_refused", "gauge", "Groups of which Kafka does not take some partition."),
    ("kcoord_mirror_writes_total", "counter", "Writes of the mirror that were answered."),
    ("kcoord_mirror_failures_total", "counter", "Those of them that failed."),
)


def mirror_families(figures: Mapping[str, float]) -> tuple[Family, ...]:
    """Return the families of what a mirror says of itself, by their names; what it does not say has no sample."""
    return tuple(
        Family(name, kind, meaning, (("", (), figures[name]),) if name in figures else ())
        for name, kind, meaning in _FAMILIES
    )
