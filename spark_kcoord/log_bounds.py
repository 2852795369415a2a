"""Whether positions lie within what the brokers have, before they are read.

Ends come with every look; where partitions begin is asked when a partition is new to its owner and now and then after,
because brokers delete old records meanwhile. Executors look once more when they read. What is to be done about a
position that is gone is not decided here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from coordinator.protocol.parts import OwnedPartition
from spark_kcoord.errors import KafkaAwayError, UnknownTopicError
from spark_kcoord.member.holdings import AssignedPartition
from spark_kcoord.questions import PartitionKey, Planning, ReadStarts, ask_offsets

__all__ = ["LogBounds", "OutOfRange"]

STARTS_AGE_S: Final = 10.0
"""How old what is known of the beginnings may be."""


@dataclass(frozen=True, slots=True)
class OutOfRange:
    """A partition whose position the brokers do not have, as a sentence too.

    `has_aged_out` says that records were deleted from its beginning, so that what is left is still to be read.
    """

    owned: OwnedPartition
    why: str
    has_aged_out: bool


class LogBounds:
    """What is known of the beginnings of one member's partitions; `clock` returns monotonic seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._asked_at = float("-inf")
        self._known: set[tuple[str, int, int]] = set()

    def out_of_range(
        self,
        usable: Sequence[AssignedPartition],
        positions: Mapping[PartitionKey, int],
        ends: Mapping[PartitionKey, int],
        *,
        is_frozen: bool,
    ) -> Planning[tuple[OutOfRange, ...]]:
        """Return the partitions whose position lies before their first offset or behind their end.

        Frozen ends say nothing of where a partition ends now.
        """
        starts = yield from self._starts([owned for owned in usable if _has_more(owned, positions, ends)])
        found = []
        for owned in usable:
            key = (owned.topic, owned.partition)
            position, end, first = positions[key], ends.get(key), starts.get(key)
            why = None
            if end is not None and end < position and not is_frozen:
                why = (
                    f"ends at offset {end} at the broker, before offset {position} where this group would go on: it "
                    "was truncated, or the topic was deleted and created again."
                )
            elif first is not None and first > position:
                why = (
                    f"begins at offset {first} at the broker, after offset {position} where this group would go on: "
                    "what was between has aged out or was deleted."
                )
            if why is not None:
                part = OwnedPartition(owned.topic, owned.partition, owned.owner_epoch)
                has_aged_out = first is not None and first > position
                found.append(OutOfRange(part, f"Partition {owned.topic}-{owned.partition} {why}", has_aged_out))
        return tuple(found)

    def _starts(self, to_read: Sequence[AssignedPartition]) -> Planning[Mapping[PartitionKey, int]]:
        grants = {(owned.topic, owned.partition, owned.owner_epoch) for owned in to_read}
        now = self._clock()
        is_old = now - self._asked_at >= STARTS_AGE_S
        wanted = grants if is_old else grants - self._known
        if not wanted:
            return {}
        try:
            starts = yield from ask_offsets(ReadStarts(tuple(sorted(grant[:2] for grant in wanted))))
        except (KafkaAwayError, UnknownTopicError):
            return {}
        self._known = grants if is_old else self._known | wanted
        self._asked_at = now if is_old else self._asked_at
        return starts


def _has_more(
    owned: AssignedPartition, positions: Mapping[PartitionKey, int], ends: Mapping[PartitionKey, int]
) -> bool:
    key = (owned.topic, owned.partition)
    end = ends.get(key)
    return end is not None and end > positions[key]
