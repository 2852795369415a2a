"""The positions of a query in what it owns: up to where each grant is done, and the claims that go on from there.

A position belongs to a grant, which its owner epoch names: what was done under an earlier one says nothing of a later.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from coordinator.protocol.ids import TopicPartition
from coordinator.protocol.parts import Claim, LostPosition
from spark_kcoord.member.core.held.holdings import AssignedPartition

_Grant: TypeAlias = tuple[str, int, int]


class ReadPositions:
    """The offsets up to which a query's grants are done, as far as they are beyond their starts."""

    __slots__ = ("_done",)

    def __init__(self) -> None:
        self._done: dict[_Grant, int] = {}

    def keep(self, owned: Iterable[AssignedPartition]) -> None:
        """Forget every grant but these."""
        held = {(one.topic, one.partition, one.owner_epoch) for one in owned}
        self._done = {grant: until for grant, until in self._done.items() if grant in held}

    def note_finished(self, claim: Claim) -> None:
        """Take note that a claim is done."""
        self._done[claim.topic, claim.partition, claim.owner_epoch] = claim.until_offset

    def note(self, one: Claim | LostPosition, offset: int) -> None:
        """Take note of where the grant of a claim or a lost position goes on."""
        self._done[one.topic, one.partition, one.owner_epoch] = offset

    def note_told(self, told: Iterable[tuple[_Grant, int]]) -> None:
        """Take note of where the coordinator says that grants go on."""
        self._done.update(told)

    def reached(self) -> Iterator[tuple[TopicPartition, int]]:
        """Yield each partition of which something is noted with its offset, whether it is owned or not."""
        return (((topic, partition), offset) for (topic, partition, _), offset in self._done.items())

    def of(self, owned: Iterable[AssignedPartition], finished: Iterable[Claim]) -> dict[TopicPartition, int]:
        """Return the position of each partition, as it is when `finished` are done."""
        done = self._done | {
            (claim.topic, claim.partition, claim.owner_epoch): claim.until_offset for claim in finished
        }
        # Another process with a copy of the checkpoint can have had this identity meanwhile, and moved the start on.
        return {
            (one.topic, one.partition): max(one.start, done.get((one.topic, one.partition, one.owner_epoch), one.start))
            for one in owned
        }


def claims_between(
    owned: Iterable[AssignedPartition], positions: Mapping[TopicPartition, int], untils: Mapping[TopicPartition, int]
) -> tuple[Claim, ...]:
    """Return a claim on what lies between position and `until` of each partition, also where that is nothing."""
    return tuple(
        Claim(
            topic=one.topic,
            topic_id=one.topic_id,
            partition=one.partition,
            owner_epoch=one.owner_epoch,
            from_offset=positions[one.topic, one.partition],
            until_offset=untils[one.topic, one.partition],
        )
        for one in owned
    )


def claims_ahead(
    owned: Iterable[AssignedPartition], positions: Mapping[TopicPartition, int], untils: Mapping[TopicPartition, int]
) -> tuple[Claim, ...]:
    """Return a claim on what lies between position and `until` of each partition that has something there."""
    ahead = [one for one in owned if untils[one.topic, one.partition] > positions[one.topic, one.partition]]
    return claims_between(ahead, positions, untils)
