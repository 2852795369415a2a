"""The assignors a group can use, by the names that members send.

A group uses an assignor that all of its members name; `sticky` is what a member gets that names none.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from coordinator.core.groups.assignment.assignors.assignor import (
    Assignor,
    AssignorInput,
    AssignorMember,
    Pace,
    Partitions,
    TopicPartition,
    Turns,
    TurnsAssignor,
    gather,
    let_go,
    portions,
    run_whole,
)
from coordinator.core.groups.assignment.assignors.range import assign_range
from coordinator.core.groups.assignment.assignors.round_robin import assign_round_robin
from coordinator.core.groups.assignment.assignors.sticky import assign_sticky
from coordinator.protocol.vocabulary import AssignorName

DEFAULT_ASSIGNOR: Final = AssignorName.STICKY

ASSIGNORS: Final[Mapping[str, Assignor]] = MappingProxyType(
    {
        AssignorName.STICKY: TurnsAssignor(assign_sticky),
        AssignorName.RANGE: TurnsAssignor(assign_range),
        AssignorName.ROUND_ROBIN: TurnsAssignor(assign_round_robin),
    }
)
"""Every assignor by name, the default first."""

__all__ = [
    "ASSIGNORS",
    "DEFAULT_ASSIGNOR",
    "Assignor",
    "AssignorInput",
    "AssignorMember",
    "Pace",
    "Partitions",
    "TopicPartition",
    "Turns",
    "TurnsAssignor",
    "gather",
    "let_go",
    "portions",
    "run_whole",
]
