"""The map of a group's assignment: each partition in the colour of its owner, as many as a person can take in. Pure."""

from dataclasses import dataclass
from typing import Final

from coordinator.console.known.group_seen import Measured

MOST_CELLS: Final = 1_000
COLOURS: Final = 8
NOBODY: Final = "none"


@dataclass(frozen=True, slots=True)
class AssignmentMap:
    """Owners with their colours, and by topic the number, colour and owner of each partition.

    More owners than there are colours share them; each cell names its owner.
    """

    owners: tuple[tuple[str, str], ...]
    topics: tuple[tuple[str, tuple[tuple[int, str, str], ...]], ...]
    left_out: int


def assignment_map(measured: Measured) -> AssignmentMap:
    """Return the map of a group."""
    names = {member.member_id: member.client_id or member.member_id for member in measured.description.members}
    places = {member_id: f"o{place % COLOURS}" for place, member_id in enumerate(names)}
    cells: dict[str, list[tuple[int, str, str]]] = {}
    drawn: set[str] = set()
    partitions = measured.description.partitions
    for said in partitions[:MOST_CELLS]:
        owner = said.member_id
        if owner is not None and owner in names:
            drawn.add(owner)
            cell = (said.partition, places[owner], names[owner])
        else:
            cell = (said.partition, NOBODY, "nobody")
        cells.setdefault(said.topic, []).append(cell)
    return AssignmentMap(
        tuple((names[owner], places[owner]) for owner in names if owner in drawn),
        tuple((topic, tuple(mine)) for topic, mine in cells.items()),
        max(0, len(partitions) - MOST_CELLS),
    )
