"""The open claims of a group: a table by partition whose values are shared by what was claimed at once.

A micro-batch is claimed, run and finished as a whole, so a thousand claims of it are one value here, in a place that
its partitions share: what happens to all of them only changes what is in the place, and what happens to some gives
these a place of their own. What was claimed at once is one owner's, as long as it is claimed.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import filterfalse, groupby
from typing import Final

import msgspec

from coordinator.core.groups.partitions.no_entries import NO_ENTRIES
from coordinator.core.groups.partitions.partition_table import NO_PARTITIONS, PartitionTable, TopicPartition

_MANY: Final = 1_000
"""So many claims of a topic are looked at by their places, where that does."""


class OpenClaim(msgspec.Struct, frozen=True, gc=False):
    """A range [from_offset, until_offset) handed to the owner; offered until it is known to be read."""

    from_offset: int
    until_offset: int
    is_running: bool = False


class OpenClaims(msgspec.Struct, frozen=True, gc=False):
    """Claims of one topic that were made at once, in columns by ascending partition; each is an OpenClaim."""

    partitions: tuple[int, ...]
    from_offsets: tuple[int, ...]
    until_offsets: tuple[int, ...]
    is_running: bool = False

    def of(self, number: int) -> OpenClaim:
        """Return the claim on one of the partitions."""
        at = bisect_left(self.partitions, number)
        assert self.partitions[at] == number, f"partition {number} is not one of those claimed together"
        return OpenClaim(self.from_offsets[at], self.until_offsets[at], self.is_running)


class Owner(msgspec.Struct, frozen=True, gc=False):
    """Under which owner epochs a member owned what it claimed; that holds while the group's grants do not change."""

    grants_changes: int
    member_id: str
    topic_id: str
    owner_epochs: tuple[int, ...]


class ClaimPlace(msgspec.Struct, gc=False):
    """The place that partitions share which were claimed together."""

    claims: OpenClaims
    left: int
    """The number of the partitions that still have their claim from here."""
    owner: Owner
    copies: int
    """The copies its table had been made of: a place is shared by those that were made after it."""

    @property
    def is_whole(self) -> bool:
        """True while all of the partitions have."""
        return self.left == len(self.claims.partitions)

    @property
    def is_running(self) -> bool:
        """True when the claims run."""
        return self.claims.is_running

    def is_of(self, numbers: tuple[int, ...]) -> bool:
        """True when these partitions, and no others, have their claims from here."""
        return self.left == len(numbers) and self.claims.partitions == numbers

    def of(self, number: int) -> OpenClaim:
        """Return the claim on one of the partitions."""
        return self.claims.of(number)


@dataclass(slots=True, eq=False)
class ClaimTable:
    """A mapping from (topic, partition) to OpenClaim."""

    _shared: PartitionTable[ClaimPlace] = field(default_factory=PartitionTable)
    _offered: dict[str, dict[int, tuple[str, ClaimPlace]]] = field(default_factory=lambda: NO_ENTRIES)
    """The places whose claims do not run, with their topics, by owner and by their identity; no owner has none."""
    _copies: int = 0

    def topics(self) -> Iterable[str]:
        """Return the topics of which something is claimed."""
        return self._shared.topics()

    def rows(self, topic: str) -> dict[int, ClaimPlace]:
        """Return by number where a topic's claims are, to read; of a topic without any, nothing."""
        return self._shared.rows(topic)

    def get(self, partition: TopicPartition) -> OpenClaim | None:
        """Return the claim on a partition, if there is one."""
        found = self._shared.get(partition)
        return None if found is None else found.of(partition[1])

    def is_running(self, partition: TopicPartition) -> bool:
        """True when a claim on a partition runs."""
        found = self._shared.get(partition)
        return found is not None and found.is_running

    def any_running(self, topic: str, numbers: Iterable[int]) -> bool:
        """True when a claim on one of a topic's partitions runs."""
        rows = self._shared.rows(topic)
        if len(rows) >= _MANY and not any(place.is_running for place in self._places_of(topic)):
            return False
        return bool(rows) and any(number in rows and rows[number].claims.is_running for number in numbers)

    def running(self, topic: str, numbers: Iterable[int]) -> list[int]:
        """Return those of a topic's partitions whose claims run, in the order in which they are given."""
        rows = self._shared.rows(topic)
        if not rows:
            return []
        if len(rows) >= _MANY and all(place.is_running for place in self._places_of(topic)):
            return list(filter(rows.__contains__, numbers))
        return [number for number in numbers if number in rows and rows[number].claims.is_running]

    def idle_of(self, owner: str, topic: str, owned: Sequence[int]) -> Sequence[int]:
        """Return the partitions of a topic on which no claim runs; `owned` are all that an owner has of it."""
        rows = self._shared.rows(topic)
        if len(rows) >= _MANY:
            run = {place.is_running for place in self._places_of(topic)}
            if run == {True}:
                return () if self._are_all_of(owner, topic, len(owned)) else list(filterfalse(rows.__contains__, owned))
            if run == {False}:
                return owned
        return [number for number in owned if number not in rows or not rows[number].claims.is_running]

    def _are_all_of(self, owner: str, topic: str, count: int) -> bool:
        """True when a topic's claims are very many, are as many as that, and are all of one owner.

        What is claimed is owned, so an owner of as many partitions has a claim on each of them.
        """
        if count < _MANY or len(self._shared.rows(topic)) != count:
            return False
        return all(place.owner.member_id == owner for place in self._places_of(topic))

    def _places_of(self, topic: str) -> Iterator[ClaimPlace]:
        """Yield the places of a topic, each once or a few times: they are far fewer than its claims."""
        for place, _ in groupby(self._shared.rows(topic).values()):
            yield place

    def places(self) -> Iterator[tuple[TopicPartition, ClaimPlace]]:
        """Yield each claimed partition with the place where its claim is."""
        return self._shared.items()

    def items(self) -> Iterator[tuple[TopicPartition, OpenClaim]]:
        """Yield each claimed partition with its claim."""
        for partition, found in self._shared.items():
            yield partition, found.of(partition[1])

    def offered_to(self, member_id: str) -> Iterator[tuple[str, list[int]]]:
        """Yield what an owner has claimed and does not run: partitions of a topic that were claimed at once."""
        for topic, place in self._offered.get(member_id, {}).values():
            yield topic, self._left_in(topic, place)

    def _left_in(self, topic: str, place: ClaimPlace) -> list[int]:
        numbers = place.claims.partitions
        if place.is_whole:
            return list(numbers)
        rows = self._shared.rows(topic)
        return [number for number in numbers if rows.get(number) is place]

    def __len__(self) -> int:
        return len(self._shared)

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self._shared)

    def __contains__(self, partition: TopicPartition) -> bool:
        return partition in self._shared

    def __eq__(self, other: object) -> bool:
        """Tables are equal when every partition has the same claim in both, however it came to be there."""
        if not isinstance(other, ClaimTable):
            return NotImplemented
        return dict(self.items()) == dict(other.items())

    def open(self, topic: str, claims: OpenClaims, owner: Owner) -> None:
        """Open claims of a topic, in place of those there are on the same partitions."""
        numbers = claims.partitions
        if not numbers:
            return
        place = self._shared.rows(topic).get(numbers[0])
        if place is not None and place.is_of(numbers):
            self._change(topic, place, claims, owner)
            return
        rows = self._shared.rows_to_fill(topic)
        if not rows.keys().isdisjoint(numbers):
            for number in numbers:
                self._leave(rows.get(number))
        place = ClaimPlace(claims, len(numbers), owner, self._copies)
        rows.update(dict.fromkeys(numbers, place))
        self._note_offered(topic, place)

    def run(self, topic: str, numbers: tuple[int, ...]) -> None:
        """Have the claims on partitions run, all of which have one and the same owner."""
        rows = self._shared.rows(topic)
        first = rows[numbers[0]]
        if first.is_of(numbers):
            claims = first.claims
            running = OpenClaims(claims.partitions, claims.from_offsets, claims.until_offsets, is_running=True)
            self._change(topic, first, running, first.owner)
            return
        each = [rows[number].of(number) for number in numbers]
        from_offsets, until_offsets = [claim.from_offset for claim in each], [claim.until_offset for claim in each]
        owner = Owner(first.owner.grants_changes, first.owner.member_id, first.owner.topic_id, ())
        self.open(topic, OpenClaims(numbers, tuple(from_offsets), tuple(until_offsets), is_running=True), owner)

    def close(self, partition: TopicPartition) -> None:
        """Close the claim on a partition, if there is one."""
        if partition in self._shared:
            self._leave(self._shared.pop(partition))

    def close_all(self, topic: str, numbers: Collection[int]) -> None:
        """Close the claims on partitions of a topic that have one."""
        rows = self._shared.rows(topic)
        if not rows:
            return
        if len(numbers) >= len(rows) >= _MANY and rows.keys() <= set(numbers):
            self._close_topic(topic)
            return
        for number in numbers:
            self._leave(rows.pop(number, None))
        if not rows:
            self._shared.drop(topic)

    def close_of(self, owner: str, topic: str, owned: Sequence[int]) -> None:
        """Close the claims of an owner on partitions of a topic; `owned` are all that it has of the topic."""
        if self._are_all_of(owner, topic, len(owned)):
            self._close_topic(topic)
        else:
            self.close_all(topic, owned)

    def _close_topic(self, topic: str) -> None:
        for place in list(self._places_of(topic)):
            place.left = 0
            self._forget_offered(place)
        self._shared.rows(topic).clear()
        self._shared.drop(topic)

    def copy(self) -> "ClaimTable":
        """Return a table with the same claims, to read: what becomes of those of this one is not seen there.

        The places are shared by both, so that a copy takes no longer than its rows; who changes one makes its own.
        """
        if self is NO_CLAIMS:
            return self
        self._copies += 1
        return ClaimTable(self._shared.copy(), NO_ENTRIES, self._copies)

    def _change(self, topic: str, place: ClaimPlace, claims: OpenClaims, owner: Owner) -> None:
        """Have other claims on all the partitions of a place that is whole."""
        if not place.is_running:
            self._forget_offered(place)
        if place.copies == self._copies:
            place.claims, place.owner = claims, owner
        else:
            place = ClaimPlace(claims, place.left, owner, self._copies)
            self._shared.rows_to_fill(topic).update(dict.fromkeys(claims.partitions, place))
        self._note_offered(topic, place)

    def _note_offered(self, topic: str, place: ClaimPlace) -> None:
        if not place.is_running:
            if self._offered is NO_ENTRIES:
                self._offered = {}
            self._offered.setdefault(place.owner.member_id, {})[id(place)] = (topic, place)

    def _forget_offered(self, place: ClaimPlace) -> None:
        of_owner = self._offered.get(place.owner.member_id)
        if of_owner is not None and of_owner.pop(id(place), None) is not None and not of_owner:
            del self._offered[place.owner.member_id]

    def _leave(self, place: ClaimPlace | None) -> None:
        """Note that one partition less has its claim from where it was."""
        if place is not None:
            place.left -= 1
            if not place.left:
                self._forget_offered(place)


NO_CLAIMS: Final = ClaimTable(NO_PARTITIONS)
"""The claims of groups of which nothing is claimed, to read: what is opened in it fails in the table of nothing."""
