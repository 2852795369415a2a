"""Whether a record is in the outputs of queries twice, by topic id, partition and offset: under `hold` it may not be.

A number of a micro-batch counts once in a sink, however often it is written: a sink that appends would have to know it.
Blocks of ``spark_kcoord.batch`` and consumers are not asked: they have no numbers that a sink could know. Nor are
queries that commit nothing.

Excused are the records that a person, or a loss that no promise covers, has read again, and each only where it says so:
a position that is set back (a reset, or an offset that was deleted or forgotten and is named anew), a claim that an
operator released, what a member had begun to read that leaves for good, and from then on everything once a checkpoint,
or the coordinator's disk, is not what it was. A query of the product never leaves; its place is kept by `hold`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from coordinator.protocol.parts import Claim
from tests.sim.log.state import ViolationError
from tests.sim.sink import Sink

NOT_AS_THEY_WERE = frozenset(
    {
        "checkpoint-lost",
        "checkpoint-copied",
        "checkpoint-restored",
        "disk-lost",
        "disk-restored",
    }
)
"""Faults after which a query, or the coordinator, does not know any more what was written."""

KINDS = ("written once", "written again under its number")
"""Happenings that try the promise: the first in groups that are judged, the second in any."""
PartitionOfTopic = tuple[str, int]
"""A topic's id and a partition."""


@dataclass(slots=True)
class _Written:
    """The offsets of one partition that outputs have."""

    offsets: set[int] = field(default_factory=set)
    excused: set[int] = field(default_factory=set)
    """Offsets that may come once more."""


class Outputs:
    """The outputs of one run."""

    def __init__(self) -> None:
        self.is_judged = False
        """Whether nothing may be in them twice; true in a group that holds claims without a time-out."""
        self.judged = 0
        """The number of records that were found to be new."""
        self.excused = 0
        """The number of records that came again and were excused."""
        self.repeated = 0
        """The number of micro-batches that were written again under their number."""
        self._partitions: dict[PartitionOfTopic, _Written] = {}
        self._numbers: dict[tuple[int, int], set[Claim]] = {}
        self._sinks: dict[int, Sink] = {}
        """By identity, and kept so that no other sink gets it."""

    def write(self, sink: Sink, number: int, claims: Iterable[Claim]) -> None:
        """Take what a micro-batch writes; raises ViolationError for a record that is there already and must not be."""
        self._sinks[id(sink)] = sink
        known = self._numbers.setdefault((id(sink), number), set())
        for claim in claims:
            if claim in known:
                self.repeated += 1
                continue
            known.add(claim)
            if self.is_judged:
                self._add(claim, number)

    def _add(self, claim: Claim, number: int) -> None:
        written = self._of(claim.topic_id, claim.partition)
        offsets = set(range(claim.from_offset, claim.until_offset))
        again = offsets & written.offsets
        twice = sorted(again - written.excused)
        if twice:
            raise ViolationError(
                "twice-under-hold",
                f"{len(twice)} records from offset {twice[0]} on are written again, in micro-batch {number}: {claim}",
            )
        self.excused += len(again)
        written.excused -= again
        written.offsets |= offsets
        self.judged += len(offsets - again)

    # ---- what excuses -----------------------------------------------------------------------------------------------

    def started(self, topic_id: str, partition: int, offset: int) -> None:
        """Note that a position is set by decision: what is written from there on comes again."""
        written = self._of(topic_id, partition)
        written.excused |= {one for one in written.offsets if one >= offset}

    def released(self, topic_id: str, partition: int, from_offset: int, until_offset: int) -> None:
        """Note that a range was let go of by decision, which may have been written or be on its way."""
        self._of(topic_id, partition).excused.update(range(from_offset, until_offset))

    def fault(self, name: str) -> None:
        """Note a fault; after some nothing is judged any more."""
        self.is_judged = self.is_judged and name not in NOT_AS_THEY_WERE

    def _of(self, topic_id: str, partition: int) -> _Written:
        return self._partitions.setdefault((topic_id, partition), _Written())
