"""Claims, one by one and in the columns in which they are sent, and the answers about them.

The order stays: columns are cut where the topic changes, so that an answer can name a claim by its place.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby, repeat
from operator import attrgetter

from coordinator.protocol.ids import TopicPartition
from coordinator.protocol.messages import Advance
from coordinator.protocol.parts import (
    Claim,
    ClaimState,
    ClaimStatus,
    ClaimStatuses,
    FinalOffset,
    Outcomes,
    PartitionResult,
    TopicClaims,
)


def claims_in_columns(claims: Iterable[Claim]) -> tuple[TopicClaims, ...]:
    """Return claims in columns, in their order."""
    columns = []
    for (topic, topic_id), alike in groupby(claims, attrgetter("topic", "topic_id")):
        rows = tuple(alike)
        columns.append(
            TopicClaims(
                topic,
                topic_id,
                tuple([claim.partition for claim in rows]),
                tuple([claim.owner_epoch for claim in rows]),
                tuple([claim.from_offset for claim in rows]),
                tuple([claim.until_offset for claim in rows]),
            )
        )
    return tuple(columns)


def claims_of(columns: Iterable[TopicClaims]) -> Iterator[Claim]:
    """Yield the claims of columns, in their order."""
    for each in columns:
        rows = zip(each.partitions, each.owner_epochs, each.from_offsets, each.until_offsets, strict=True)
        for number, owner_epoch, from_offset, until_offset in rows:
            yield Claim(each.topic, each.topic_id, number, owner_epoch, from_offset, until_offset)


def partitions_of(columns: Iterable[TopicClaims]) -> Iterator[TopicPartition]:
    """Yield the partitions of columns, in their order."""
    for each in columns:
        for number in each.partitions:
            yield each.topic, number


def count_of(columns: Iterable[TopicClaims]) -> int:
    """Return how many claims columns hold."""
    return sum([len(each.partitions) for each in columns])


def advance_of(
    finished: Iterable[Claim],
    claims: Iterable[Claim],
    released: Sequence[FinalOffset] = (),
    *,
    keeps_offered: bool = False,
) -> Advance:
    """Return an Advance about these claims."""
    return Advance(claims_in_columns(finished), claims_in_columns(claims), tuple(released), keeps_offered)


def finished_as_asked(claim: Claim) -> PartitionResult:
    """Return the result of a finished claim that needs no saying."""
    return PartitionResult(claim.topic, claim.partition, committed=claim.until_offset)


def claimed_as_asked(claim: Claim) -> PartitionResult:
    """Return the result of an offered claim that needs no saying."""
    return PartitionResult(claim.topic, claim.partition, committed=claim.from_offset)


def released_as_asked(final: FinalOffset) -> PartitionResult:
    """Return the result of a released partition that needs no saying."""
    return PartitionResult(final.topic, final.partition, committed=final.offset)


def running_as_asked(claim: Claim) -> ClaimStatus:
    """Return the status of a claim that needs no saying."""
    return ClaimStatus(claim.topic, claim.partition, claim.owner_epoch, ClaimState.RUNNING, committed=claim.from_offset)


def outcomes_of(results: Sequence[PartitionResult], as_asked: Iterable[PartitionResult]) -> Outcomes:
    """Return results in the form in which they are sent: those that need no saying are counted."""
    said = [place for place, (one, plain) in enumerate(zip(results, as_asked, strict=True)) if one != plain]
    return Outcomes(len(results) - len(said), tuple([results[place] for place in said]), tuple(said))


def results_of(outcomes: Outcomes, as_asked: Iterable[PartitionResult]) -> tuple[PartitionResult, ...]:
    """Return a result for each that was asked about, in order; the reverse of `outcomes_of`."""
    results = list(as_asked)
    for place, result in zip(outcomes.places, outcomes.others, strict=True):
        results[place] = result
    return tuple(results)


def statuses_of(statuses: Sequence[ClaimStatus], claims: Iterable[Claim]) -> ClaimStatuses:
    """Return the states of claims in the form in which they are sent: those that run are counted."""
    plain = map(running_as_asked, claims)
    said = [place for place, (one, other) in enumerate(zip(statuses, plain, strict=True)) if one != other]
    return ClaimStatuses(len(statuses) - len(said), tuple([statuses[place] for place in said]), tuple(said))


def each_status(statuses: ClaimStatuses, claims: Iterable[Claim]) -> tuple[ClaimStatus, ...]:
    """Return a status for each claim that was asked about, in order; the reverse of `statuses_of`."""
    each = list(map(running_as_asked, claims))
    for place, status in zip(statuses.places, statuses.others, strict=True):
        each[place] = status
    for closed in statuses.closed:
        offsets = closed.committed or repeat(None, len(closed.places))
        for place, offset in zip(closed.places, offsets, strict=True):
            asked = each[place]
            each[place] = ClaimStatus(
                asked.topic, asked.partition, asked.owner_epoch, ClaimState.CLOSED, closed.why, offset
            )
    return tuple(each)


def is_whole(answer: Outcomes | ClaimStatuses, count: int) -> bool:
    """True when an answer accounts for all of so many, each once."""
    places = answer.places
    if len(places) != len(answer.others) or list(places) != sorted(set(places)):
        return False
    if isinstance(answer, Outcomes):
        as_asked = answer.as_asked
    else:
        as_asked = answer.running
        if any(closed.committed and len(closed.committed) != len(closed.places) for closed in answer.closed):
            return False
        places = (*places, *chain.from_iterable([closed.places for closed in answer.closed]))
        if len(set(places)) != len(places):
            return False
    return as_asked + len(places) == count and all(0 <= place < count for place in places)
