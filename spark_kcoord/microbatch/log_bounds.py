"""The check that positions lie within what the brokers have, before they are read.

A position is compared with [log start, high watermark], whatever the isolation level: between the last stable offset
and the high watermark there is nothing to read yet, and nothing is lost. Ends come with every look; where partitions
begin is asked when a partition is new to its owner and now and then after, because brokers delete old records
meanwhile. The high watermark is asked where a position is behind the end that was read, which is as old as a moment
and, as a broker that has just lost its leadership knows it, older. Executors look once more when they read. What is to
be done about a position that is gone is not decided here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from coordinator.protocol.ids import TopicPartition
from coordinator.protocol.parts import LostPosition
from spark_kcoord.errors import DataLossError, KafkaAwayError, UnknownTopicError
from spark_kcoord.member.core.held.holdings import AssignedPartition
from spark_kcoord.member.core.session.patience import END_AGE_S
from spark_kcoord.microbatch.commands import (
    AwaitChange,
    Planning,
    ReadAssignment,
    ReadHighWatermarks,
    ReadStarts,
    ask_assignment,
    ask_offsets,
)

__all__ = ["LogBounds", "OutOfRange", "passed_ends"]

STARTS_AGE_S: Final = 10.0
"""The age that what is known of the beginnings may have; so long a position that the log reached is not looked at."""
MOST_WAITS: Final = 4
"""The waits in a row for what is in doubt: owner epochs that change, and brokers that are away, begin it anew."""
PAUSES_S: Final = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
"""The time that a partition is left alone after each report in a row that changed nothing."""

_Grant: TypeAlias = tuple[str, int, int]


@dataclass(frozen=True, slots=True)
class OutOfRange:
    """A partition whose position the brokers do not have, as a sentence too.

    `has_aged_out` says that records were deleted from its beginning, so that what is left is still to be read.
    """

    owned: LostPosition
    why: str
    has_aged_out: bool


class LogBounds:
    """The known beginnings and ends of one member's partitions; `clock` returns monotonic seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._asked_at = float("-inf")
        self._known: set[_Grant] = set()
        self._reached: dict[_Grant, tuple[int, float]] = {}
        """The positions that the log was found to have reached, and when."""
        self._behind: dict[_Grant, tuple[int, float]] = {}
        """The positions that were found behind the high watermark, and from when on that is believed."""
        self._waits = 0
        """The number of waits for certainty in a row."""
        self.is_in_doubt = False
        """True if the last look found a position behind the high watermark for which that is not to be believed yet."""
        self._put_off: dict[_Grant, tuple[int, float]] = {}
        """The number of reports in a row that changed nothing, and until when there is to be no other."""

    @property
    def look_again_at(self) -> float:
        """The time at which partitions that nothing is decided about yet are to be looked at again."""
        times = [until for _, until in self._put_off.values() if until > self._clock()]
        times += [believed_at for _, believed_at in self._behind.values()]
        return min(times, default=math.inf)

    def await_certainty(self) -> Planning[None]:
        """Wait until nothing is in doubt that is now; what is known by then is another question.

        Raises DataLossError after a number of waits in a row that have not settled it.
        """
        self._waits += 1
        if self._waits > MOST_WAITS:
            shown = ", ".join(
                f"{topic}-{number} offset {self._behind[topic, number, epoch][0]}"
                for topic, number, epoch in sorted(self._behind)
            )
            raise DataLossError(
                f"Kafka does not say for certain whether it still has {shown}, which it seems to have lost. Run it "
                "again once all brokers are there; nothing that is not read is committed."
            )
        believed_at = max((at for _, at in self._behind.values()), default=-math.inf)
        while (left_s := believed_at - self._clock()) > 0:
            known = yield from ask_assignment(ReadAssignment())
            yield from ask_assignment(AwaitChange(known, left_s))

    def put_off(self, owned: LostPosition) -> None:
        """Leave a partition alone for a while, because a report about it has changed nothing."""
        grant = (owned.topic, owned.partition, owned.owner_epoch)
        times = self._put_off.get(grant, (0, 0.0))[0]
        self._put_off[grant] = (times + 1, self._clock() + PAUSES_S[min(times, len(PAUSES_S) - 1)])

    def await_next_report(self) -> Planning[None]:
        """Wait until partitions may be reported again, where that is soon: to prove a loss takes END_AGE_S."""
        now = self._clock()
        left_s = min((until for _, until in self._put_off.values() if until > now), default=math.inf) - now
        if left_s <= END_AGE_S:
            known = yield from ask_assignment(ReadAssignment())
            yield from ask_assignment(AwaitChange(known, left_s))

    def out_of_range(
        self,
        usable: Sequence[AssignedPartition],
        positions: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int],
        passed: Mapping[TopicPartition, int],
        *,
        is_patient: bool = False,
    ) -> Planning[tuple[OutOfRange, ...]]:
        """Return the partitions whose position lies before their first offset or behind their high watermark.

        The high watermark is asked of those whose position is behind their end among `passed`, which are the ends
        themselves unless these are frozen. One who `is_patient` hears of a position behind the high watermark only when
        it has been there for a while.
        """
        now = self._clock()
        looked_at = [owned for owned in usable if self._put_off.get(_grant(owned), (0, 0.0))[1] <= now]
        starts = yield from self._starts([owned for owned in looked_at if _has_more(owned, positions, ends)])
        behind, unanswered = yield from self._behind_the_log(looked_at, positions, passed)
        self._forget_others(usable, {*behind, *unanswered}, positions)
        for grant, (position, believed_at) in self._behind.items():
            if grant[:2] in unanswered:
                self._behind[grant] = (position, max(believed_at, now + END_AGE_S))
        found = []
        for owned in looked_at:
            key = _key(owned)
            position, first = positions[key], starts.get(key)
            has_aged_out = first is not None and first > position
            if has_aged_out:
                why = (
                    f"begins at offset {first} at the broker, after offset {position} where this group would go on: "
                    "what was between has aged out or was deleted."
                )
            elif key in behind and self._is_over(owned, position, now, is_patient=is_patient):
                why = (
                    f"ends at offset {behind[key]} at the broker, before offset {position} where this group would go "
                    "on: it was truncated, or the topic was deleted and created again."
                )
            else:
                continue
            part = LostPosition(owned.topic, owned.partition, owned.owner_epoch, position)
            found.append(OutOfRange(part, f"Partition {owned.topic}-{owned.partition} {why}", has_aged_out))
        self.is_in_doubt = any(believed_at > now for _, believed_at in self._behind.values())
        if not self.is_in_doubt:
            self._waits = 0
        return tuple(found)

    def _behind_the_log(
        self,
        looked_at: Sequence[AssignedPartition],
        positions: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int],
    ) -> Planning[tuple[Mapping[TopicPartition, int], frozenset[TopicPartition]]]:
        """Return the high watermarks of partitions whose position is behind theirs, and those whose are not told."""
        now = self._clock()
        asked = [
            owned
            for owned in looked_at
            if ends.get(_key(owned), math.inf) < positions[_key(owned)]
            and not self._has_reached(owned, positions[_key(owned)], now)
        ]
        if not asked:
            return {}, frozenset()
        try:
            marks = yield from ask_offsets(ReadHighWatermarks(tuple(sorted(map(_key, asked)))))
        except (KafkaAwayError, UnknownTopicError):
            marks = {}
        for owned in asked:
            if marks.get(_key(owned), -1) >= positions[_key(owned)]:
                self._reached[_grant(owned)] = (positions[_key(owned)], now)
        behind = {
            _key(owned): marks[_key(owned)]
            for owned in asked
            if _key(owned) in marks and marks[_key(owned)] < positions[_key(owned)]
        }
        return behind, frozenset(_key(owned) for owned in asked if _key(owned) not in marks)

    def _has_reached(self, owned: AssignedPartition, position: int, now: float) -> bool:
        reached, at = self._reached.get(_grant(owned), (-1, 0.0))
        return reached >= position and now - at < STARTS_AGE_S

    def _is_over(self, owned: AssignedPartition, position: int, now: float, *, is_patient: bool) -> bool:
        """Return whether a position behind the high watermark has been there for long enough, noting it."""
        believed_at = self._behind.setdefault(_grant(owned), (position, now + END_AGE_S))[1]
        return not is_patient or now >= believed_at

    def _forget_others(
        self,
        usable: Sequence[AssignedPartition],
        behind: Collection[TopicPartition],
        positions: Mapping[TopicPartition, int],
    ) -> None:
        """Forget what is known of grants that are over, and of positions that are not behind the log any more."""
        grants = {_grant(owned) for owned in usable}
        self._reached = {grant: known for grant, known in self._reached.items() if grant in grants}
        self._put_off = {grant: known for grant, known in self._put_off.items() if grant in grants}
        self._behind = {
            grant: known
            for grant, known in self._behind.items()
            if grant in grants and grant[:2] in behind and positions[grant[:2]] == known[0]
        }

    def _starts(self, to_read: Sequence[AssignedPartition]) -> Planning[Mapping[TopicPartition, int]]:
        grants = {_grant(owned) for owned in to_read}
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


def passed_ends(
    frozen: Mapping[TopicPartition, int], positions: Mapping[TopicPartition, int]
) -> Mapping[TopicPartition, int]:
    """Return the frozen ends that positions are behind: others have read on, or the log was cut back."""
    return {key: frozen[key] for key, position in positions.items() if frozen.get(key, position) < position}


def _key(owned: AssignedPartition) -> TopicPartition:
    return (owned.topic, owned.partition)


def _grant(owned: AssignedPartition) -> _Grant:
    return (owned.topic, owned.partition, owned.owner_epoch)


def _has_more(
    owned: AssignedPartition, positions: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> bool:
    end = ends.get(_key(owned))
    return end is not None and end > positions[_key(owned)]
