"""A query that commits nothing, as it is in the product: its positions are its checkpoint's, and nothing is asked.

The product's own answers for the coordinator wherever something would be written; the member sees the partitions alone.
"""

from typing import TYPE_CHECKING

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.parts import PartitionResult
from spark_kcoord.member.core.held.holdings import Assignment, starts_anew
from spark_kcoord.microbatch.commands import AskAdvance, AskConfirm, Command
from spark_kcoord.microbatch.read_only.positions import ReadOnlyPositions
from spark_kcoord.microbatch.stream_offset import StreamOffset
from tests.sim.log.state import ViolationError

if TYPE_CHECKING:
    from tests.sim.query import Query


class ReadOnly:
    """The port between a query and its member."""

    def __init__(self, query: "Query", first: StreamOffset) -> None:
        self._query = query
        self._positions = ReadOnlyPositions(first)
        self.reached: dict[tuple[str, int], int] = {}
        """The position of the query in each partition, also in one that went to another member."""
        self.given_up: set[tuple[str, int]] = set()
        """The partitions that have been given up because Kafka does not have their position."""

    def shown(self) -> Assignment:
        """Return what the member owns, each where the query is to go on."""
        shown = self._positions.show(self._query.assignment)
        self.reached.update({(one.topic, one.partition): one.start for one in shown.partitions})
        return shown

    def answer(self, command: Command) -> object | None:
        """Answer for the coordinator; None for what has to be asked all the same."""
        match command:
            case AskAdvance(finished, claims):
                outcome = self._positions.advance(finished, claims)
                for claim, result in zip(finished, outcome.finished, strict=True):
                    if result.error is ErrorCode.NONE:
                        self.reached[claim.topic, claim.partition] = claim.until_offset
                return outcome
            case AskConfirm(claims):
                return self._positions.confirm_claims(claims)
        return None

    def take_report(self, results: tuple[PartitionResult, ...]) -> None:
        """Take what the coordinator has answered to a report, which the query asked for by itself."""
        self._positions.take_report(results)
        self.given_up.update((one.topic, one.partition) for one in results if starts_anew(one))


def must_keep_places(query: "Query", start: StreamOffset, latest: StreamOffset) -> None:
    """Check that a query that commits nothing shows wherever it was in its next stream offset too.

    A partition that another member has, or nobody, counts as well. A topic that was deleted since does not, nor does a
    position that was given up because Kafka does not have it.
    """
    known = query.world.kafka.topics
    there = {(one.topic, one.partition) for one in latest.ranges}
    for one in start.ranges:
        if (one.topic, one.partition) in query.given_up:
            continue
        if one.topic not in known or known[one.topic].topic_id != one.topic_id:
            continue
        if (one.topic, one.partition) not in there:
            raise ViolationError("place-forgotten", f"{query.name} was at {one} and shows it no more")
