"""The claims and starts that a registration shows, gathered in columns as they come.

A member that shows very many lists them before it registers, in requests of bounded size. All that can be said of them
without the group is found out with each request, so that the registration itself has little left to do however many
there are. Knows nothing of groups.
"""

from collections.abc import Iterable, Sequence
from operator import add
from typing import Final

from msgspec.structs import replace

from coordinator.core.groups.partitions.in_topics import TopicHints, hints_by_topic
from coordinator.protocol.claim_columns import claims_in_columns
from coordinator.protocol.ids import EARLIEST, LATEST, MAX_ID_LENGTH, MAX_OFFSET, MAX_PARTITION, why_bad_partition
from coordinator.protocol.parts import Claim, StartHint, TopicClaims

MOST_SHOWN: Final = 2**62
"""No log gets there: an epoch from here on is not one of ours, and says nothing."""


_TOGETHER: Final = 8_192
"""Claims or starts in one set of columns: more of a topic are in several, so that a request takes no longer for what
came before it."""


class Shown:
    """The claims and starts that one registration shows; they only grow, and not after the registration has come."""

    __slots__ = ("_claims", "_hints", "claim_count", "end", "hint_count", "why_bad", "why_refused")

    def __init__(self, why_refused: str = "") -> None:
        self._claims: list[TopicClaims] = []
        self._hints: dict[tuple[str, str, bool], list[TopicHints]] = {}
        self.claim_count = 0
        self.hint_count = 0
        self.end = 0
        """The least end of the log, by the owner epochs of claims and starts; counted as these are."""
        self.why_bad = ""
        """The reason why one of the starts cannot be one; empty while all can."""
        self.why_refused = why_refused
        """The reason why some was not taken in, so that the registration would show less than its member means."""

    @property
    def claims(self) -> Sequence[TopicClaims]:
        """The claims, in the order in which they came."""
        return self._claims

    @property
    def hints(self) -> tuple[TopicHints, ...]:
        """The starts, topic by topic and kind by kind; those of a topic are in the order in which they came."""
        return tuple([piece for pieces in self._hints.values() for piece in pieces])

    def add(self, claims: Sequence[Claim], hints: Sequence[StartHint]) -> None:
        """Take in what came with one request."""
        self.claim_count += len(claims)
        self.hint_count += len(hints)
        for named in claims_in_columns(claims):
            self.end = max(self.end, _end_of(named.owner_epochs))
            last = self._claims[-1] if self._claims else None
            is_same = last is not None and (last.topic, last.topic_id) == (named.topic, named.topic_id)
            if last is not None and is_same and len(last.partitions) + len(named.partitions) <= _TOGETHER:
                self._claims[-1] = _joined(last, named)
            else:
                self._claims.append(named)
        for some in hints_by_topic(hints):
            self.end = max(self.end, _end_of(epoch for epoch in some.owner_epochs if epoch is not None))
            self.why_bad = self.why_bad or _why_bad(some)
            pieces = self._hints.setdefault((some.topic, some.topic_id, some.from_checkpoint), [])
            if pieces and len(pieces[-1].partitions) + len(some.partitions) <= _TOGETHER:
                pieces[-1] = _with_more(pieces[-1], some)
            else:
                pieces.append(some)


def _end_of(epochs: Iterable[int]) -> int:
    return max((epoch + 1 for epoch in epochs if epoch + 1 < MOST_SHOWN), default=0)


def _joined(first: TopicClaims, then: TopicClaims) -> TopicClaims:
    return TopicClaims(
        first.topic,
        first.topic_id,
        first.partitions + then.partitions,
        first.owner_epochs + then.owner_epochs,
        first.from_offsets + then.from_offsets,
        first.until_offsets + then.until_offsets,
    )


def _with_more(before: TopicHints, more: TopicHints) -> TopicHints:
    epochs: tuple[int | None, ...] = ()
    if before.owner_epochs or more.owner_epochs:
        epochs = add(*[each.owner_epochs or (None,) * len(each.partitions) for each in (before, more)])
    return replace(
        before,
        partitions=before.partitions + more.partitions,
        offsets=before.offsets + more.offsets,
        owner_epochs=epochs,
    )


def _why_bad(hints: TopicHints) -> str:
    """Say why one of some starts cannot be one, or return an empty text: they are looked at together first."""
    least = 0 if hints.from_checkpoint else min(EARLIEST, LATEST)
    if (
        len(hints.topic_id) <= MAX_ID_LENGTH
        and min(hints.partitions) >= 0
        and max(hints.partitions) <= MAX_PARTITION
        and min(hints.offsets) >= least
        and max(hints.offsets) <= MAX_OFFSET
    ):
        why = why_bad_partition(hints.topic, hints.partitions[0])
        return f"a start cannot be given: {why}" if why else ""
    for number, offset in zip(hints.partitions, hints.offsets, strict=True):
        if why := why_bad_partition(hints.topic, number):
            return f"a start cannot be given: {why}"
        if why := _why_bad_offset(hints, offset):
            return f"the start {offset} of {hints.topic}-{number} {why}"
    raise AssertionError("some starts are bad together and each of them is good")


def _why_bad_offset(hints: TopicHints, offset: int) -> str | None:
    if len(hints.topic_id) > MAX_ID_LENGTH:
        return f"comes with a topic id of {len(hints.topic_id)} characters; Kafka's have fewer"
    if offset > MAX_OFFSET:
        return f"is more than Kafka can count; {MAX_OFFSET} is the last"
    if offset >= 0:
        return None
    if hints.from_checkpoint:
        return "is negative, and an end in a checkpoint never is"
    return None if offset in {EARLIEST, LATEST} else f"is neither an offset, {EARLIEST} (earliest) nor {LATEST}"
