"""Decisions about whole micro-batches: what is claimed, run and finished together is looked at together.

A micro-batch is what it was when it was claimed, nearly always. Then a few comparisons of columns say of a thousand
partitions what `claims` says of each, and the record is the same. Whatever is not as simple is left to that path, which
refuses partition by partition: nothing is taken here that it would not take.
"""

from collections.abc import Iterable, Sequence
from operator import eq, lt, sub
from typing import NamedTuple

from msgspec.structs import replace

from coordinator.core.groups.hard.records import Advanced, TopicSteps
from coordinator.core.groups.hard.replay.changes import positions_of
from coordinator.core.groups.hard.state import GroupState
from coordinator.core.groups.offsets import committed_offsets
from coordinator.core.groups.partitions.in_topics import TopicNumbers
from coordinator.protocol.messages import Advance
from coordinator.protocol.parts import TopicClaims


class _Done(NamedTuple):
    """Claims that the request finishes, whose partitions the member owns."""

    claims: TopicClaims
    topic_id: str


def advance_together(group: GroupState, member_id: str, request: Advance, commit_ms: int) -> Advanced | None:
    """Return the record of an Advance of which everything is accepted; None if each partition has to be looked at."""
    if request.released or not (request.finished or request.claims):
        return None
    if not (_are_apart(request.finished) and _are_apart(request.claims)):
        return None
    done: dict[str, _Done] = {}
    finished = []
    for asked in request.finished:
        topic_id = _topic_id_of_whole(group, member_id, asked, is_running=True)
        if topic_id is None:
            return None
        done[asked.topic] = _Done(asked, topic_id)
        steps = tuple(map(sub, asked.until_offsets, asked.from_offsets))
        finished.append(TopicSteps(asked.topic, topic_id, asked.partitions, steps))
    offered = []
    for asked in request.claims:
        if not _can_be_offered(group, member_id, asked, done.get(asked.topic)):
            return None
        steps = tuple(map(sub, asked.until_offsets, asked.from_offsets))
        offered.append(TopicSteps(asked.topic, asked.topic_id, asked.partitions, steps))
    again = claimed_again(finished, offered)
    return Advanced(group.group_id, member_id, commit_ms, tuple(finished), again, keeps_offered=request.keeps_offered)


def claimed_again(finished: Sequence[TopicSteps], offered: Iterable[TopicSteps]) -> tuple[TopicSteps, ...]:
    """Return what is offered as a record has it: without partitions where they are those of the topic that finish."""
    named = {steps.topic: steps.partitions for steps in finished}
    if len(named) < len(finished):
        return tuple(offered)
    return tuple(
        [replace(steps, partitions=()) if named.get(steps.topic) == steps.partitions else steps for steps in offered]
    )


def begin_together(group: GroupState, member_id: str, claims: Sequence[TopicClaims]) -> tuple[TopicNumbers, ...] | None:
    """Return the partitions whose claims begin to run when all that are named are open and whole; None if not."""
    if not claims or not _are_apart(claims):
        return None
    for asked in claims:
        if _topic_id_of_whole(group, member_id, asked, is_running=False) != asked.topic_id:
            return None
    return tuple([TopicNumbers(asked.topic, asked.partitions) for asked in claims])


def _are_apart(claims: Sequence[TopicClaims]) -> bool:
    """True when each topic is named once, and some of its partitions."""
    if len(claims) == 1:
        return bool(claims[0].partitions)
    return len({asked.topic for asked in claims}) == len(claims) and all(asked.partitions for asked in claims)


def _topic_id_of_whole(group: GroupState, member_id: str, asked: TopicClaims, *, is_running: bool) -> str | None:
    """Return the topic's id if the claims are exactly some that were made together, under the owner's epochs."""
    place = group.claims.rows(asked.topic).get(asked.partitions[0])
    if place is None or not place.is_of(asked.partitions):
        return None
    claims, owner = place.claims, place.owner
    if (
        claims.is_running is not is_running
        or claims.until_offsets != asked.until_offsets
        or claims.from_offsets != asked.from_offsets
    ):
        return None
    if (
        owner.grants_changes == group.grants.changes
        and owner.member_id == member_id
        and owner.owner_epochs == asked.owner_epochs
    ):
        return owner.topic_id
    return committed_offsets.owned_topic_id(group, member_id, asked)


def _can_be_offered(group: GroupState, member_id: str, asked: TopicClaims, done: _Done | None) -> bool:
    """True when an owner may claim all of these ranges, once `done` is finished."""
    numbers, stopping = asked.partitions, group.stopping.get(member_id)
    if stopping is not None and any((asked.topic, number) in stopping for number in numbers):
        return False
    if not all(map(lt, asked.from_offsets, asked.until_offsets)):
        return False
    if done is not None and done.claims.partitions == numbers and done.claims.owner_epochs == asked.owner_epochs:
        return done.topic_id == asked.topic_id and done.claims.until_offsets == asked.from_offsets
    if committed_offsets.owned_topic_id(group, member_id, asked) != asked.topic_id:
        return False
    finished: dict[int, int] = {}
    if done is not None:
        finished.update(zip(done.claims.partitions, done.claims.until_offsets, strict=True))
    claims = group.claims.rows(asked.topic)
    if any(number not in finished and number in claims and claims[number].is_running for number in numbers):
        return False
    rows = group.offsets.rows(asked.topic)
    if not all(number in rows for number in numbers):
        return False
    begins: Iterable[int] = positions_of(group, asked.topic, numbers)
    if finished:
        begins = [finished.get(number, begin) for number, begin in zip(numbers, begins, strict=True)]
    ids = {rows[number].topic_id for number in numbers}
    return ids <= {asked.topic_id, ""} and all(map(eq, begins, asked.from_offsets))
