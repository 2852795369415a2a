"""The claims that a registration lists, held against those that are open: how each stands, and which are dropped.

An identity that comes back and does not list a claim has not got it in its checkpoint: it will never finish it. Claims
that are closed for the same reason are told together, since they may be as many as a registration may list. Nothing
here changes state.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Final, NamedTuple

from coordinator.core.groups.hard.state import GroupState
from coordinator.core.groups.hard.tables.claim_table import ClaimPlace, OpenClaims
from coordinator.core.groups.hard.tables.committed_table import positions
from coordinator.core.groups.partitions.in_topics import TopicNumbers, by_topic
from coordinator.core.groups.partitions.partition_table import TopicPartition
from coordinator.protocol.parts import ClaimState, ClaimStatus, ClaimStatuses, ClosedClaims, TopicClaims

_NOBODYS: Final = "the partition is nobody's now; the owner epoch is over"
_GRANTED_AGAIN: Final = "the partition was granted again; the owner epoch is over"
_NOT_OPEN: Final = "the claim is closed: it was committed, dropped or never made"
_OTHER_RANGE: Final = "another range of the partition is claimed"


class Listed(NamedTuple):
    """How the listed claims stand, and the open ones of the identity that are not among them."""

    statuses: ClaimStatuses
    dropped: tuple[TopicNumbers, ...]

    def running(self, group: GroupState) -> list[TopicPartition]:
        """Return the partitions whose claims run among those that are dropped."""
        dropped = ((one.topic, number) for one in self.dropped for number in one.partitions)
        return [partition for partition in dropped if group.claims.is_running(partition)]


@dataclass(slots=True)
class _Closed:
    places: list[int] = field(default_factory=list)
    committed: list[int | None] = field(default_factory=list)


@dataclass(slots=True)
class _Look:
    """What was found so far."""

    running: int = 0
    others: list[ClaimStatus] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    closed: dict[str, _Closed] = field(default_factory=dict)
    open: dict[str, set[int]] = field(default_factory=dict)
    """The partitions, by topic, whose open claims are listed."""

    def statuses(self) -> ClaimStatuses:
        closed = [
            ClosedClaims(why, tuple(those.places), _unless_none(those.committed)) for why, those in self.closed.items()
        ]
        return ClaimStatuses(self.running, tuple(self.others), tuple(self.places), tuple(closed))


def look_at_listed(group: GroupState, member_id: str, claims: Sequence[TopicClaims]) -> Listed:
    """Say how listed claims stand, and which open ones are dropped because they are not listed."""
    look = _Look()
    first = 0
    for asked in claims:
        if group.grants.rows(asked.topic):
            _look_at(group, member_id, asked, first, look)
        else:
            _all_closed(group, asked, first, look)
        first += len(asked.partitions)
    return Listed(look.statuses(), _dropped(group, member_id, look.open))


def _all_closed(group: GroupState, asked: TopicClaims, first: int, look: _Look) -> None:
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


def _look_at(group: GroupState, member_id: str, asked: TopicClaims, first: int, look: _Look) -> None:
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
    owned = group.owned_by(member_id)
    if not owned or sum(map(len, listed.values())) == len(owned):
        return ()
    claimed = {topic: group.claims.rows(topic) for topic in group.claims.topics()}
    nothing: dict[int, ClaimPlace] = {}
    none: set[int] = set()
    return by_topic(
        partition
        for partition in owned
        if partition[1] in claimed.get(partition[0], nothing) and partition[1] not in listed.get(partition[0], none)
    )


def _unless_none(offsets: Sequence[int | None]) -> tuple[int | None, ...]:
    return tuple(offsets) if offsets.count(None) < len(offsets) else ()
