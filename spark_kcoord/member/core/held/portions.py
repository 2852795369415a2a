"""Cuts long lists into portions that fit into a frame: a member of ten thousand partitions is one like any other.

A portion is bounded in bytes, estimated from above, and in items, so that no request keeps a coordinator busy for long.
That what is cut means the same in several requests is the protocol's business and not known here.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, TypeVar, assert_never

from coordinator.protocol.columns import OffsetToCommit
from coordinator.protocol.ids import TopicPartition
from coordinator.protocol.parts import Claim, FinalOffset, LostPosition, OwnedPartition, StartHint
from spark_kcoord.member.core.effects import AdvanceOutcome
from spark_kcoord.member.core.held.holdings import partition_of

Piece: TypeAlias = Claim | StartHint | LostPosition | OwnedPartition | FinalOffset | OffsetToCommit
_Item = TypeVar("_Item")

MAX_BYTES: Final = 512 * 1024
MAX_ITEMS: Final = 2_000
_NUMBERS_BYTES: Final = 60
"""More than the numbers of any piece take, with what goes before each field."""


def bytes_of(piece: Piece) -> int:
    """Return how many bytes a piece of a request takes at most."""
    size = _NUMBERS_BYTES + len(piece.topic.encode())
    match piece:
        case Claim() | StartHint():
            return size + len(piece.topic_id.encode())
        case FinalOffset() | OffsetToCommit():
            return size + len(piece.metadata.encode())
        case LostPosition() | OwnedPartition():
            return size
        case _:
            assert_never(piece)


def portions(
    items: Iterable[_Item], size_of: Callable[[_Item], int], most_items: int = MAX_ITEMS
) -> Iterator[tuple[_Item, ...]]:
    """Yield items in portions of bounded size, none when there are no items."""
    portion: list[_Item] = []
    size = 0
    for item in items:
        more = size_of(item)
        if portion and (size + more > MAX_BYTES or len(portion) >= most_items):
            yield tuple(portion)
            portion, size = [], 0
        portion.append(item)
        size += more
    if portion:
        yield tuple(portion)


@dataclass(frozen=True, slots=True)
class AdvancePortion:
    """Some partitions' part of a micro-batch."""

    finished: tuple[Claim, ...]
    claims: tuple[Claim, ...]


def advance_portions(
    finished: Sequence[Claim], claims: Sequence[Claim], most_items: int = MAX_ITEMS
) -> tuple[AdvancePortion, ...]:
    """Cut a micro-batch by its partitions, each with what is finished and what is claimed of it; at least one portion.

    A portion that is the whole keeps the order of both.
    """
    by_partition: dict[TopicPartition, list[Claim]] = {}
    for claim in (*finished, *claims):
        by_partition.setdefault(partition_of(claim), []).append(claim)
    cut = list(portions(by_partition.items(), lambda item: sum(map(bytes_of, item[1])), most_items))
    if len(cut) <= 1:
        return (AdvancePortion(tuple(finished), tuple(claims)),)
    owners = {key: index for index, portion in enumerate(cut) for key, _ in portion}
    done: list[list[Claim]] = [[] for _ in cut]
    wanted: list[list[Claim]] = [[] for _ in cut]
    for claim in finished:
        done[owners[partition_of(claim)]].append(claim)
    for claim in claims:
        wanted[owners[partition_of(claim)]].append(claim)
    return tuple(AdvancePortion(tuple(one), tuple(other)) for one, other in zip(done, wanted, strict=True))


def join_outcomes(
    asked: Sequence[AdvancePortion],
    outcomes: Sequence[AdvanceOutcome],
    finished: Sequence[Claim],
    claims: Sequence[Claim],
) -> AdvanceOutcome:
    """Return the outcome of a micro-batch that was cut, with results in the order of the whole."""
    if len(outcomes) == 1:
        return outcomes[0]
    of_finished = {
        claim: result
        for portion, outcome in zip(asked, outcomes, strict=True)
        for claim, result in zip(portion.finished, outcome.finished, strict=True)
    }
    of_claims = {
        claim: result
        for portion, outcome in zip(asked, outcomes, strict=True)
        for claim, result in zip(portion.claims, outcome.claims, strict=True)
    }
    stands = {claim for outcome in outcomes for claim in outcome.claimed}
    return AdvanceOutcome(
        claimed=tuple(claim for claim in claims if claim in stands),
        finished=tuple(of_finished[claim] for claim in finished),
        claims=tuple(of_claims[claim] for claim in claims),
        released=tuple(result for outcome in outcomes for result in outcome.released),
        nodes=outcomes[-1].nodes,
        log=outcomes[-1].log,
    )
