"""One streaming query as one member: what the stream reader does in its long-lived process beside the Spark driver.

Decides what the next micro-batch reads and what of a batch may still be read. It keeps these promises: a range is
returned to Spark only after the coordinator has accepted the claim on it; what is committed is what the checkpoint's
own stream offset says, under the owner epochs written there and never the session's current ones; a partition without
a claim is never read. It knows the member client and the Kafka lookup by their ports only, so that both have fakes.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.parts import Claim, ClaimState, ClaimStatus, PartitionResult
from spark_kcoord.errors import DataLossError, KafkaAwayError, UnknownTopicError
from spark_kcoord.member.client import AdvanceOutcome, AssignedPartition, Assignment, Joined
from spark_kcoord.offsets import StreamOffset
from spark_kcoord.rate_limit import limit_ends

__all__ = ["DriverSession", "EndOffsets", "Member"]

_log = logging.getLogger(__name__)

PartitionKey = tuple[str, int]

FIRST_ASSIGNMENT_TIMEOUT_S: Final = 10.0
"""How long the first micro-batch of a run waits for partitions before it finds that there are none yet."""


class Member(Protocol):
    """The member client as this room needs it; every call may raise KcoordError, which ends the query."""

    def join(self) -> Joined:
        """Wait until the member is registered."""

    def assignment(self) -> Assignment:
        """Return what the member owns now, without waiting."""

    def wait_for_assignment(self, *, complete: bool, timeout_s: float) -> Assignment:
        """Wait for any assignment, or for a complete one, and return what there is when time is over."""

    def confirm_claims(self, claims: Sequence[Claim]) -> tuple[ClaimStatus, ...]:
        """Mark open claims as running and say of each how it stands."""

    def advance(self, finished: Sequence[Claim], claims: Sequence[Claim]) -> AdvanceOutcome:
        """Commit what is finished, let go of what is wanted back, claim what is next."""

    def close(self) -> None:
        """Close the connection; no leave, no commit."""


class EndOffsets(Protocol):
    """Where partitions end at the brokers."""

    def end_offsets(
        self, partitions: Sequence[PartitionKey], *, timeout_s: float | None = None
    ) -> Mapping[PartitionKey, int]:
        """Return the exclusive end of each partition.

        Raises UnknownTopicError naming topics that are gone, KafkaAwayError after `timeout_s` (None: soon) without an
        answer, another KcoordError when Kafka refuses.
        """

    def close(self) -> None:
        """Close the connections."""


class DriverSession:
    """A joined member and the state of its micro-batches.

    `first` is the stream offset of the first call of this process; its member id, claims and ends were given to the
    coordinator at the join. Used by one thread, Spark's.
    """

    def __init__(
        self,
        member: Member,
        kafka: EndOffsets,
        joined: Joined,
        *,
        group_id: str,
        fail_on_data_loss: bool,
        rebalance_timeout_s: float,
        kafka_timeout_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._member = member
        self._kafka = kafka
        self._joined = joined
        self._group_id = group_id
        self._fail_on_data_loss = fail_on_data_loss
        self._rebalance_timeout_s = rebalance_timeout_s
        self._kafka_timeout_s = kafka_timeout_s
        self._clock = clock
        self._has_seen_kafka = False
        self._quiet: tuple[Assignment, Sequence[PartitionKey], Mapping[PartitionKey, int]] | None = None
        self._running_since: float | None = None
        self._said_lost: set[PartitionKey] = set()
        self._frozen: Mapping[PartitionKey, int] | None = None
        self._allowed: frozenset[tuple[str, int, int]] | None = None
        self._has_waited = False
        self._settled: StreamOffset | None = None
        self._has_offers = False
        self._finished_until: dict[tuple[str, int, int], int] = {}

    @property
    def identity(self) -> StreamOffset:
        """The stream offset of a query that has joined and read nothing yet."""
        return StreamOffset(self._joined.kafka_cluster_id or "", self._group_id, self._joined.member_id)

    def freeze_ends(self, ends: Mapping[PartitionKey, int]) -> None:
        """Read no further than these ends in this run, and only partitions assigned when its first batch is made."""
        self._frozen = dict(ends)

    def close(self) -> None:
        """Close all connections; the coordinator sees a closed connection and nothing else."""
        self._member.close()
        self._kafka.close()

    # ---- the next micro-batch ---------------------------------------------------------------------------------------

    def next_offset(self, start: StreamOffset, limit: int | None, *, is_single_run: bool) -> StreamOffset:
        """Commit the finished micro-batch `start`, claim the next ranges and return them.

        Returns `start` itself when there is nothing new, or the identity where `start` has none. `limit` is the most
        offsets to read, None for all. In a run that ends by itself the first call waits for a complete assignment.
        """
        start.must_belong_to(cluster=self._joined.kafka_cluster_id, group=self._group_id)
        assignment = (
            self._first_assignment(start, is_single_run=is_single_run)
            if not self._has_waited
            else self._member.assignment()
        )
        self._watch_batch_time()
        finished = () if start == self._settled else start.claims
        if not finished and not self._has_offers and (not assignment.partitions or self._is_quiet(assignment)):
            self._settled = start
            return self._unchanged(start)
        usable = self._usable(assignment)
        owned = {(p.topic, p.partition, p.owner_epoch) for p in usable}
        self._finished_until = {key: until for key, until in self._finished_until.items() if key in owned}
        self._check_topics(start, usable)
        positions = self._positions(usable, finished)
        try:
            ends = self._ends(positions)
        except KafkaAwayError as error:
            if not self._has_seen_kafka:
                raise
            _log.warning("group %s: %s Waiting for it up to %g s.", self._group_id, error, self._kafka_timeout_s)
            if finished or self._has_offers:
                # What is done is committed, and what is wanted back let go, before Kafka is waited for.
                self._advance(start, finished, ())
                finished = ()
                positions = self._positions(usable, finished)
            ends = self._ends(positions, timeout_s=self._kafka_timeout_s)
        next_claims = _next_claims(usable, positions, limit_ends(positions, ends, limit))
        if not next_claims and not finished and not self._has_offers:
            self._settled = start
            self._quiet = (assignment, sorted(positions), ends) if self._frozen is None else None
            return self._unchanged(start)
        accepted = self._advance(start, finished, next_claims)
        if len(accepted) < len(next_claims) and (known := self._positions(usable, ())) != positions:
            # A finished range was skipped, so its partition goes on somewhere else: where the group's offset is.
            positions = known
            accepted = self._advance(start, (), _next_claims(usable, positions, limit_ends(positions, ends, limit)))
        return self._offset_of(accepted, usable, positions) if accepted else self._unchanged(start)

    def _is_quiet(self, assignment: Assignment) -> bool:
        """Say whether nothing has happened since the last look, which an idle query takes many times a second."""
        if self._quiet is None or self._quiet[0] is not assignment:
            return False
        try:
            return self._kafka.end_offsets(self._quiet[1]) == self._quiet[2]
        except (KafkaAwayError, UnknownTopicError):
            return False

    def _advance(
        self, start: StreamOffset, finished: Sequence[Claim], next_claims: Sequence[Claim]
    ) -> tuple[Claim, ...]:
        outcome = self._member.advance(finished, next_claims)
        self._settle(start, finished, outcome.finished)
        self._report_refused(next_claims, outcome.claims)
        self._has_offers = bool(outcome.claimed)
        return outcome.claimed

    def _unchanged(self, start: StreamOffset) -> StreamOffset:
        # Spark runs the first micro-batch of a query even when it is empty: the identity is in the checkpoint then.
        return start if start.member else self.identity

    def _first_assignment(self, start: StreamOffset, *, is_single_run: bool) -> Assignment:
        timeout_s = self._rebalance_timeout_s if is_single_run else FIRST_ASSIGNMENT_TIMEOUT_S
        assignment = self._member.wait_for_assignment(complete=is_single_run, timeout_s=timeout_s)
        self._has_waited = True
        if is_single_run:
            if not assignment.is_complete:
                _log.warning(
                    "group %s: after %.0f s the assignment is still not complete, since other members have not let "
                    "go of their partitions; this run reads the %d partitions it has",
                    self._group_id,
                    timeout_s,
                    len(assignment.partitions),
                )
            self._allowed = frozenset((p.topic, p.partition, p.owner_epoch) for p in assignment.partitions)
        self._warn_where_group_wins(start, assignment)
        return assignment

    def _warn_where_group_wins(self, start: StreamOffset, assignment: Assignment) -> None:
        known = {(item.topic, item.partition): item for item in start.ranges}
        for owned in assignment.partitions:
            item = known.get((owned.topic, owned.partition))
            if item is None or item.owner_epoch == owned.owner_epoch or item.until_offset == owned.start:
                continue
            _log.warning(
                "group %s: %s-%d starts at the group's committed offset %d and not at the checkpoint's %d, because "
                "the group's offset counts",
                self._group_id,
                owned.topic,
                owned.partition,
                owned.start,
                item.until_offset,
            )

    def _usable(self, assignment: Assignment) -> list[AssignedPartition]:
        return [
            owned
            for owned in assignment.partitions
            if not owned.is_stopping
            and (self._allowed is None or (owned.topic, owned.partition, owned.owner_epoch) in self._allowed)
        ]

    def _check_topics(self, start: StreamOffset, usable: Iterable[AssignedPartition]) -> None:
        if start == self._settled:
            return
        known = {item.topic: item.topic_id for item in start.ranges if item.topic_id}
        for topic, topic_id in sorted({(owned.topic, owned.topic_id) for owned in usable}):
            before = known.get(topic)
            if before is not None and topic_id and before != topic_id:
                self._data_lost(
                    f"Topic '{topic}' has been deleted and created again: the checkpoint knows it as {before} and "
                    f"Kafka as {topic_id}. What the query had not read of the old topic is gone."
                )

    def _positions(self, usable: Iterable[AssignedPartition], finished: Iterable[Claim]) -> dict[PartitionKey, int]:
        done = self._finished_until | {
            (claim.topic, claim.partition, claim.owner_epoch): claim.until_offset for claim in finished
        }
        return {
            (owned.topic, owned.partition): done.get((owned.topic, owned.partition, owned.owner_epoch), owned.start)
            for owned in usable
        }

    def _ends(
        self, positions: Mapping[PartitionKey, int], *, timeout_s: float | None = None
    ) -> Mapping[PartitionKey, int]:
        if self._frozen is not None:
            return {key: self._frozen[key] for key in positions if key in self._frozen}
        ends = self._ends_at_brokers(sorted(positions), timeout_s)
        for key, end in ends.items():
            if end >= positions[key]:
                self._said_lost.discard(key)
            elif key not in self._said_lost:
                self._said_lost.add(key)
                self._data_lost(
                    f"Partition {key[0]}-{key[1]} ends at offset {end} at the broker, before offset {positions[key]} "
                    "where this group would go on: it was truncated, or the topic was deleted and created again."
                )
        return ends

    def _ends_at_brokers(
        self, partitions: Sequence[PartitionKey], timeout_s: float | None
    ) -> Mapping[PartitionKey, int]:
        if not partitions:
            return {}
        try:
            ends = self._kafka.end_offsets(partitions, timeout_s=timeout_s)
        except UnknownTopicError as error:
            gone = [key for key in partitions if key[0] in error.topics]
            if not gone:
                raise
            if not self._said_lost.issuperset(gone):
                self._said_lost.update(gone)
                self._data_lost(
                    f"Kafka does not know topic {', '.join(sorted(error.topics))} any more: it was deleted. What the "
                    "query had not read of it is gone."
                )
            return self._ends_at_brokers([key for key in partitions if key not in set(gone)], timeout_s)
        self._has_seen_kafka = True
        return ends

    def _settle(self, start: StreamOffset, finished: Sequence[Claim], results: Sequence[PartitionResult]) -> None:
        self._settled = start
        for claim, result in zip(finished, results, strict=True):
            key = (claim.topic, claim.partition, claim.owner_epoch)
            if result.error is ErrorCode.NONE:
                self._finished_until[key] = claim.until_offset
            else:
                if result.committed is not None:
                    # Counts only while the partition is owned under that very owner epoch.
                    self._finished_until[key] = result.committed
                _log.warning(
                    "group %s: offsets [%d, %d) of %s-%d were read under owner epoch %d and are not committed: %s "
                    "(the group's committed offset is %s)",
                    self._group_id,
                    claim.from_offset,
                    claim.until_offset,
                    claim.topic,
                    claim.partition,
                    claim.owner_epoch,
                    result.message or result.error.name,
                    result.committed,
                )

    def _report_refused(self, claims: Sequence[Claim], results: Sequence[PartitionResult]) -> None:
        for claim, result in zip(claims, results, strict=True):
            if result.error is ErrorCode.NONE:
                continue
            _log.log(
                logging.INFO if result.error is ErrorCode.REBALANCE_IN_PROGRESS else logging.WARNING,
                "group %s: %s-%d is left out of the next micro-batch: %s",
                self._group_id,
                claim.topic,
                claim.partition,
                result.message or result.error.name,
            )

    def _offset_of(
        self,
        accepted: Iterable[Claim],
        usable: Iterable[AssignedPartition],
        positions: Mapping[PartitionKey, int],
    ) -> StreamOffset:
        ranges = {
            (owned.topic, owned.partition): Claim(
                topic=owned.topic,
                topic_id=owned.topic_id,
                partition=owned.partition,
                owner_epoch=owned.owner_epoch,
                from_offset=positions[owned.topic, owned.partition],
                until_offset=positions[owned.topic, owned.partition],
            )
            for owned in usable
        }
        ranges.update({(claim.topic, claim.partition): claim for claim in accepted})
        in_order = tuple(ranges[key] for key in sorted(ranges))
        return StreamOffset(self._joined.kafka_cluster_id or "", self._group_id, self._joined.member_id, in_order)

    # ---- what of a micro-batch may be read --------------------------------------------------------------------------

    def readable(self, end: StreamOffset) -> tuple[Claim, ...]:
        """Return the claims of a micro-batch that are still open, marking them as running.

        A range that was committed, taken over, reset or released since is left out, with a warning: somebody else has
        read it or will.
        """
        end.must_belong_to(cluster=self._joined.kafka_cluster_id, group=self._group_id)
        self._has_offers = False
        claims = end.claims
        if not claims:
            return ()
        self._running_since = self._clock()
        statuses = self._member.confirm_claims(claims)
        readable = []
        for claim, status in zip(claims, statuses, strict=True):
            if status.state is ClaimState.RUNNING:
                readable.append(claim)
            else:
                _log.warning(
                    "group %s: offsets [%d, %d) of %s-%d are not read in this micro-batch: %s "
                    "(the group's committed offset is %s)",
                    self._group_id,
                    claim.from_offset,
                    claim.until_offset,
                    claim.topic,
                    claim.partition,
                    status.why or "the claim is closed",
                    status.committed,
                )
        return tuple(readable)

    def _watch_batch_time(self) -> None:
        if self._running_since is None:
            return
        seconds = self._clock() - self._running_since
        self._running_since = None
        if seconds > self._rebalance_timeout_s / 2:
            _log.warning(
                "group %s: from the planning of the last micro-batch to the next trigger it took %.0f s, more than "
                "half of the %.0f s (option 'kcoord.rebalance.timeout') after which its partitions are given to "
                "others and read again: raise the option, or make batches and the trigger interval shorter",
                self._group_id,
                seconds,
                self._rebalance_timeout_s,
            )

    def _data_lost(self, what: str) -> None:
        if self._fail_on_data_loss:
            raise DataLossError(
                f"{what} Set option 'failOnDataLoss' to false to go on with what is there, or use a new checkpoint "
                "and reset the group's offsets."
            )
        _log.warning("group %s: %s Going on, because failOnDataLoss is false.", self._group_id, what)


def _next_claims(
    usable: Iterable[AssignedPartition], positions: Mapping[PartitionKey, int], untils: Mapping[PartitionKey, int]
) -> list[Claim]:
    return [
        Claim(
            topic=owned.topic,
            topic_id=owned.topic_id,
            partition=owned.partition,
            owner_epoch=owned.owner_epoch,
            from_offset=positions[owned.topic, owned.partition],
            until_offset=untils[owned.topic, owned.partition],
        )
        for owned in usable
        if untils[owned.topic, owned.partition] > positions[owned.topic, owned.partition]
    ]
