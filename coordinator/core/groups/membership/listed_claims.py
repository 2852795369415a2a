"""The claims that a registration lists, held against those that are open: how each stands, and which are dropped.

An identity that comes back and does not list a claim has not got it in its checkpoint: it will never finish it. Claims
that are closed for the same reason are told together, since they may be as many as a registration may list. Very many
are looked at in turns, between which others go on: what was found open is held against the group once more at the end.
Nothing here changes state.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import filterfalse, repeat
from typing import Final, NamedTuple

from coordinator.core.groups.hard.state import GroupState
from coordinator.core.groups.hard.tables.claim_table import ClaimPlace, OpenClaims
from coordinator.core.groups.hard.tables.committed_table import positions
from coordinator.core.groups.partitions.in_topics import TopicNumbers, one_by_one
from coordinator.core.groups.partitions.partition_table import TopicPartition
from coordinator.protocol.parts import ClaimState, ClaimStatus, ClaimStatuses, ClosedClaims, TopicClaims

_NOBODYS: Final = "the partition is nobody's now; the owner epoch is over"
_GRANTED_AGAIN: Final = "the partition was granted again; the owner epoch is over"
_NOT_OPEN: Final = "the claim is closed: it was committed, dropped or never made"
_OTHER_RANGE: Final = "another range of the partition is claimed"


class Listed(NamedTuple):
    """The state of the listed claims, and the open ones of the identity that are not among them."""

    statuses: ClaimStatuses
    dropped: tuple[TopicNumbers, ...]

    def running(self, group: GroupState) -> list[TopicPartition]:
        """Return the partitions whose claims run among those that are dropped."""
        return [partition for partition in one_by_one(self.dropped) if group.claims.is_running(partition)]


@dataclass(slots=True)
class _Closed:
    places: list[int] = field(default_factory=list)
    committed: list[int | None] = field(default_factory=list)


class _Seen(NamedTuple):
    """A place of claims as it was when it was looked at."""

    topic: str
    number: int
    place: ClaimPlace
    claims: OpenClaims
    left: int

    def is_as_it_was(self, group: GroupState) -> bool:
        """True when each of its partitions still has its claim from here, and it is the same."""
        place = group.claims.rows(self.topic).get(self.number)
        return place is self.place and place.claims is self.claims and place.left == self.left


@dataclass(slots=True)
class _Found:
    """The claims that were found so far."""

    running: int = 0
    others: list[ClaimStatus] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    closed: dict[str, _Closed] = field(default_factory=dict)
    open: dict[str, set[int]] = field(default_factory=dict)
    """The partitions, by topic, whose open claims are listed."""
    seen: dict[int, _Seen] = field(default_factory=dict)
    """The places of open claims, by identity."""

    def statuses(self) -> ClaimStatuses:
        closed = [
            ClosedClaims(why, tuple(those.places), _unless_none(those.committed)) for why, those in self.closed.items()
        ]
        return ClaimStatuses(self.running, tuple(self.others), tuple(self.places), tuple(closed))


class Look:
    """Listed claims of a member as they are held against those that are open, some in each turn.

    Without `keeps` all that the member has is over with its registration, and so are all of its claims.
    """

    __slots__ = ("_at", "_claims", "_first", "_found", "_piece", "keeps", "member_id")

    def __init__(self, member_id: str, claims: Sequence[TopicClaims], *, keeps: bool = True) -> None:
        self.member_id = member_id
        self.keeps = keeps
        self._claims = claims
        self._piece = self._at = self._first = 0
        self._found = _Found()

    @property
    def is_through(self) -> bool:
        """True when all have been looked at."""
        return self._piece == len(self._claims)

    def go_on(self, group: GroupState, most: int | None = None) -> None:
        """Look at so many more, or at all that are left."""
        left = most
        while not self.is_through and (left is None or left > 0):
            asked = self._claims[self._piece]
            count = len(asked.partitions)
            end = count if left is None else min(count, self._at + left)
            some = asked if end - self._at == count else _cut(asked, self._at, end)
            if self.keeps and group.grants.rows(asked.topic):
                _look_at(group, self.member_id, some, self._first, self._found)
            else:
                _all_closed(group, some, self._first, self._found)
            self._first += end - self._at
            left = None if left is None else left - (end - self._at)
            self._piece, self._at = (self._piece + 1, 0) if end == count else (self._piece, end)

    def is_current(self, group: GroupState) -> bool:
        """True when what was found open is so still; a claim that was found closed is not opened again."""
        return all(seen.is_as_it_was(group) for seen in self._found.seen.values())

    def listed(self, group: GroupState) -> Listed:
        """Return how all stand, and which open ones are dropped because they are not listed."""
        return Listed(self._found.statuses(), _dropped(group, self.member_id, self._found.open))


def _cut(asked: TopicClaims, begin: int, end: int) -> TopicClaims:
    columns = (asked.partitions, asked.owner_epochs, asked.from_offsets, asked.until_offsets)
    return TopicClaims(asked.topic, asked.topic_id, *[column[begin:end] for column in columns])


def look_at_listed(group: GroupState, member_id: str, claims: Sequence[TopicClaims]) -> Listed:
    """Say how listed claims stand, and which open ones are dropped because they are not listed."""
    look = Look(member_id, claims)
    look.go_on(group)
    return look.listed(group)


def _all_closed(group: GroupState, asked: TopicClaims, first: int, look: _Found) -> None:
    """Note claims of a topic of which nobody has anything."""
    closed = look.closed.setdefault(_NOBODYS, _Closed())
    closed.places += range(first, first + len(asked.partitions))
    rows = group.offsets.rows(asked.topic)
    if rows:
        closed.committed += [
            None if known is None else known[0] for known in positions(rows, asked.partitions, asked.topic_id)
        ]
    else:
        closed.committed += repeat(None, len(asked.partitions))


def _look_at(group: GroupState, member_id: str, asked: TopicClaims, first: int, look: _Found) -> None:
    grants, open_claims = group.grants.rows(asked.topic), group.claims.rows(asked.topic)
    offsets = positions(group.offsets.rows(asked.topic), asked.partitions, asked.topic_id)
    is_open = look.open.setdefault(asked.topic, set())
    last: OpenClaims | None = None
    at = -1
    rows = zip(asked.partitions, asked.owner_epochs, asked.from_offsets, asked.until_offsets, strict=True)
    for place, ((number, owner_epoch, begin, end), known) in enumerate(zip(rows, offsets, strict=True), first):
        committed = None if known is None else known[0]
        grant = grants.get(number)
        if grant is None:
            why = _NOBODYS
        elif grant.member_id != member_id:
            why = f"the partition is {grant.member_id}'s now; the owner epoch is over"
        elif grant.owner_epoch != owner_epoch:
            why = _GRANTED_AGAIN
        else:
            shared = open_claims.get(number)
            if shared is None:
                why = _NOT_OPEN
            else:
                at += 1
                found = shared.claims
                numbers = found.partitions
                if found is not last or at >= len(numbers) or numbers[at] != number:
                    last, at = found, bisect_left(numbers, number)
                    look.seen.setdefault(id(shared), _Seen(asked.topic, number, shared, found, shared.left))
                if found.from_offsets[at] == begin and found.until_offsets[at] == end:
                    is_open.add(number)
                    if found.is_running and committed == begin:
                        look.running += 1
                        continue
                    state = ClaimState.RUNNING if found.is_running else ClaimState.OFFERED
                    look.others.append(ClaimStatus(asked.topic, number, owner_epoch, state, committed=committed))
                    look.places.append(place)
                    continue
                why = _OTHER_RANGE
        closed = look.closed.get(why)
        if closed is None:
            closed = look.closed[why] = _Closed()
        closed.places.append(place)
        closed.committed.append(committed)


def _dropped(group: GroupState, member_id: str, listed: dict[str, set[int]]) -> tuple[TopicNumbers, ...]:
    dropped = []
    for topic, numbers in sorted(group.owned_by(member_id).columns()):
        its, claimed = listed.get(topic, ()), group.claims.rows(topic)
        if not claimed or len(its) == len(numbers):
            continue
        some = tuple(filterfalse(its.__contains__, filter(claimed.__contains__, numbers)))
        if some:
            dropped.append(TopicNumbers(topic, some))
    return tuple(dropped)


def _unless_none(offsets: Sequence[int | None]) -> tuple[int | None, ...]:
    return tuple(offsets) if offsets.count(None) < len(offsets) else ()
