"""A run that ends by itself: what it is to read, and whether it may end.

Such a run freezes the partitions it is assigned at its beginning and where they ended, and not the owner epochs: a
lost connection changes those, and the partitions come back within moments. It may end when each of them is read to its
frozen end, or is another member's by then, or paused by an operator. Else it waits for what nobody has, and ends with
an error that names it; nothing is lost then, since the next run goes on at the group's offsets.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from coordinator.protocol.ids import TopicPartition
from spark_kcoord.errors import DataLossError, KcoordError
from spark_kcoord.member.core.held.holdings import Assignment
from spark_kcoord.member.holders import Holder
from spark_kcoord.microbatch.commands import (
    AskHolders,
    AwaitChange,
    Planning,
    ReadAssignment,
    ask_assignment,
    ask_holders,
)

__all__ = ["FrozenRun"]

_log = logging.getLogger(__name__)

LOOK_AGAIN_S: Final = 1.0
"""The time that a run which cannot end yet waits for a change before it plans again all the same."""
SHOWN: Final = 5
"""The number of partitions that an error names."""


class FrozenRun:
    """The partitions and ends of one run; one of a single micro-batch has no ends.

    `patience_s` is how long it waits for partitions that nobody has, `clock` returns monotonic seconds.
    """

    def __init__(
        self,
        ends: Mapping[TopicPartition, int],
        assignment: Assignment,
        *,
        group_id: str,
        member_id: str,
        patience_s: float,
        clock: Callable[[], float],
    ) -> None:
        self._group_id = group_id
        self._member_id = member_id
        self._patience_s = patience_s
        self._clock = clock
        assigned = {(one.topic, one.partition) for one in assignment.partitions}
        # An assignment that is not complete does not say yet which partitions are this run's.
        self._partitions = frozenset(assigned) if assignment.is_complete else None
        if not assignment.is_complete:
            _log.warning(
                "group %s: after %.0f s the assignment is still not complete, since other members have not let "
                "go of their partitions; this run reads the %d partitions it has",
                group_id,
                patience_s,
                len(assignment.partitions),
            )
        self._ends = {key: end for key, end in ends.items() if self.takes(key)}
        self._read_to: dict[TopicPartition, int] = {}
        self._short: dict[TopicPartition, int | None] = {}
        self._waits_since: float | None = None

    def takes(self, partition: TopicPartition) -> bool:
        """Say whether the run reads a partition."""
        return self._partitions is None or partition in self._partitions

    def note_read(self, partitions: Iterable[tuple[TopicPartition, int]]) -> None:
        """Take note of how far partitions are read and committed; after a reset that can be less than before."""
        self._read_to.update(partitions)

    def note_ends(self, positions: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> None:
        """Take note of where partitions end at the brokers, of those that are not read to their frozen ends."""
        self._short = {
            key: ends.get(key)
            for key, position in positions.items()
            if self._ends.get(key, position) > position and ends.get(key, position) <= position
        }

    def note_batch(self) -> None:
        """Take note that there is a micro-batch to read: the run has not come to a stand."""
        self._waits_since = None

    def forget_topics(self, topics: Iterable[str]) -> None:
        """Take note that topics are gone, or are others by now, and that the user goes on without them."""
        gone = set(topics)
        self._ends = {key: end for key, end in self._ends.items() if key[0] not in gone}

    def is_over(self, planned: Assignment) -> Planning[bool]:
        """Say whether the run may end after a plan with this assignment; else it is to be planned once more.

        Raises KcoordError for partitions that nobody has, or that this query has and cannot read, for too long, and
        DataLossError when the brokers do not have them up to their frozen ends any more.
        """
        unread = [key for key, end in sorted(self._ends.items()) if self._read_to.get(key, -1) < end]
        if not unread:
            self._waits_since = None
            return True
        if self._waits_since is None:
            self._waits_since = self._clock()
        left_s = self._waits_since + self._patience_s - self._clock()
        assignment = yield from ask_assignment(ReadAssignment())
        if assignment != planned and left_s > 0:
            return False
        usable = {(one.topic, one.partition) for one in assignment.partitions if not one.is_stopping}
        holders: Mapping[TopicPartition, Holder] = {}
        if not usable.issuperset(unread):
            holders = yield from ask_holders(AskHolders())
        waiting = {}
        for key in unread:
            why = _USABLE if key in usable else self._why_waited_for(holders.get(key, Holder()))
            if why is not None:
                waiting[key] = why
        if not waiting:
            self._waits_since = None  # a query with other sources asks again, and what others have can come back
            self._say_left(unread, holders)
            return True
        if left_s <= 0:
            raise self._unread(waiting)
        yield from ask_assignment(AwaitChange(assignment, min(LOOK_AGAIN_S, left_s)))
        return False

    def accept_short(self) -> None:
        """Go on without what the brokers do not have any more."""
        for key in self._short:
            self._ends.pop(key, None)
        self._short = {}

    def _why_waited_for(self, holder: Holder) -> str | None:
        if holder.is_paused or holder.member_id not in (None, self._member_id):
            return None
        return "no member has it" if holder.member_id is None else "it is this query's, and on its way to or from it"

    def _say_left(self, unread: Iterable[TopicPartition], holders: Mapping[TopicPartition, Holder]) -> None:
        for key in unread:
            is_paused = holders[key].is_paused
            _log.log(
                logging.WARNING if is_paused else logging.INFO,
                "group %s: this run ends without the rest of %s, because %s",
                self._group_id,
                self._progress(key),
                "an operator has paused it" if is_paused else f"member {holders[key].member_id} has it now",
            )

    def _progress(self, key: TopicPartition) -> str:
        read_to = self._read_to.get(key)
        where = "of which nothing is read" if read_to is None else f"which is read up to offset {read_to}"
        return f"{key[0]}-{key[1]}, {where} of {self._ends[key]}"

    def _unread(self, waiting: Mapping[TopicPartition, str]) -> KcoordError:
        gone = {key: self._short[key] for key, why in waiting.items() if why is _USABLE and key in self._short}
        if gone:
            shown = "; ".join(
                f"{self._progress(key)}, {'is not there' if end is None else f'ends at {end}'} at the broker"
                for key, end in list(gone.items())[:SHOWN]
            )
            return DataLossError(
                f"Kafka does not have any more what there was when this run of group '{self._group_id}' began, because "
                f"a partition was truncated or its topic was deleted and created again: {shown}."
            )
        shown = "; ".join(f"{self._progress(key)}: {why}" for key, why in list(waiting.items())[:SHOWN])
        more = f"; and {len(waiting) - SHOWN} more" if len(waiting) > SHOWN else ""
        return KcoordError(
            f"This run of group '{self._group_id}' cannot read all that there was when it began. It has waited for "
            f"{self._patience_s:g} s (option 'kcoord.rebalance.timeout') for {shown}{more}. Nothing is lost: run the "
            "query again from its checkpoint. 'kcoord group describe' and 'kcoord group events' show why nobody has a "
            "partition."
        )


_USABLE: Final = "it is this query's, and could not be claimed"
