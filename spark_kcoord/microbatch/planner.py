"""The next read and commit of a streaming query, decided without any input or output.

Decides what the next micro-batch reads and what of a batch may still be read. It keeps these promises: a range is
returned to Spark only after the coordinator has accepted the claim on it; what is committed is what the checkpoint's
own stream offset says, under the owner epochs written there and never the session's current ones; a partition without
a claim is never read. What it has to know or have done on the way it asks for: its methods are generators of commands,
each to be answered before the next, so that a blocking driver and a simulator run the same decisions in the same order.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.ids import TopicPartition
from coordinator.protocol.parts import Claim, ClaimState, ClaimStatus, LogPosition, PartitionResult
from coordinator.protocol.text.addresses import Address
from spark_kcoord.errors import (
    DataLossError,
    KafkaAwayError,
    KcoordError,
    OptionError,
    UnknownTopicError,
    UnreadBatchError,
)
from spark_kcoord.member.core.effects import AdvanceOutcome, Joined
from spark_kcoord.member.core.held.holdings import AssignedPartition, Assignment, starts_anew
from spark_kcoord.microbatch.claim_reports import (
    report_not_committed,
    report_not_read,
    report_refused,
    report_where_group_wins,
    told_positions,
)
from spark_kcoord.microbatch.commands import (
    AskAdvance,
    AskConfirm,
    AskReport,
    AwaitAssignment,
    Planning,
    ReadAssignment,
    ReadEnds,
    ask_assignment,
    ask_offsets,
)
from spark_kcoord.microbatch.frozen_run import FrozenRun
from spark_kcoord.microbatch.log_bounds import LogBounds, OutOfRange, passed_ends
from spark_kcoord.microbatch.pace import Pace
from spark_kcoord.microbatch.read_only.away import with_those_away
from spark_kcoord.microbatch.read_positions import ReadPositions, claims_ahead, claims_between
from spark_kcoord.microbatch.stream_offset import StreamOffset
from spark_kcoord.microbatch.topic_watch import TopicWatch, reads_all
from spark_kcoord.microbatch.unread.batches import must_have_been_read
from spark_kcoord.microbatch.unread.ranges import UnreadRanges
from spark_kcoord.planning.rate_limit import BatchLimits

__all__ = ["UNLIMITED", "BatchPlanner"]

_log = logging.getLogger(__name__)

MOST_REPORTS: Final = 5
"""The times in one plan that partitions may be found to have lost their positions; then the next call plans."""

UNLIMITED: Final = BatchLimits()

FIRST_ASSIGNMENT_TIMEOUT_S: Final = 10.0
"""The time that the first micro-batch of a run waits for partitions before it finds that there are none yet."""


class BatchPlanner:
    """The state of a joined member's micro-batches.

    A Kafka that gives no answer soon is waited for up to `kafka_timeout_s` more, and up to `first_kafka_timeout_s`
    before its first answer. One plan at a time. A plan that is given up between two commands, because one could not be
    answered, has committed and claimed nothing that is not asked for again by the same call. A query that is not
    `is_committing` has no position but its checkpoint, which is made true before an error ends it. `reads` says of a
    topic and a partition whether the query still asks for it.
    """

    def __init__(
        self,
        joined: Joined,
        *,
        group_id: str,
        fail_on_data_loss: bool,
        rebalance_timeout_s: float,
        kafka_timeout_s: float,
        clock: Callable[[], float],
        first_kafka_timeout_s: float = 0.0,
        is_committing: bool = True,
        reads: Callable[[str, int], bool] = reads_all,
    ) -> None:
        self._joined = joined
        self._group_id = group_id
        self._fail_on_data_loss = fail_on_data_loss
        self._rebalance_timeout_s = rebalance_timeout_s
        self._kafka_timeout_s = kafka_timeout_s
        self._first_kafka_timeout_s = first_kafka_timeout_s
        self._is_committing = is_committing
        self._clock = clock
        self._has_seen_kafka = False
        self._quiet: tuple[Assignment, tuple[TopicPartition, ...], Mapping[TopicPartition, int]] | None = None
        self._pace = Pace(group_id, clock)
        self._topics = TopicWatch(clock, reads)
        self._bounds = LogBounds(clock)
        self._nodes: tuple[Address, ...] = ()
        self._log: LogPosition | None = None
        self._frozen: Mapping[TopicPartition, int] | None = None
        self._run: FrozenRun | None = None
        self._has_waited = False
        self._settled: StreamOffset | None = None
        self._told: StreamOffset | None = None
        """The last start whose micro-batch was said to be done, whatever came of it."""
        self._has_offers = False
        self._planned = Assignment()
        self._done = ReadPositions()
        self._unread = UnreadRanges()
        self._ends_with: UnreadBatchError | None = None
        """The error of a query that commits nothing, once its checkpoint is true."""

    @property
    def identity(self) -> StreamOffset:
        """The stream offset of a query that has joined and read nothing yet."""
        return StreamOffset(self._joined.kafka_cluster_id or "", self._group_id, self._joined.member_id)

    def freeze_ends(self, ends: Mapping[TopicPartition, int]) -> None:
        """Read no further than these ends in this run, and only partitions assigned when its first batch is made.

        A run that ends by itself ends no sooner either; see FrozenRun.
        """
        self._frozen = dict(ends)

    # ---- the next micro-batch ---------------------------------------------------------------------------------------

    def next_offset(
        self, start: StreamOffset, limit: int | None, *, is_single_run: bool, others: BatchLimits = UNLIMITED
    ) -> Planning[StreamOffset]:
        """Plan to commit the finished micro-batch `start` and to claim the next ranges, and return these.

        Returns `start` itself when there is nothing new, or not enough, or the identity where `start` has none; where
        `start` shows ranges that nobody has read, an offset that is true (UnreadRanges). `limit` is the most offsets to
        read, None for all, and `others` are the other limits. In a run that ends by itself the first call waits for a
        complete assignment, and nothing waits for more data.
        """
        start.must_belong_to(cluster=self._joined.kafka_cluster_id, group=self._group_id)
        if self._ends_with is not None:
            raise self._ends_with
        while True:
            try:
                latest = yield from self._next_offset(start, limit, others, is_single_run=is_single_run)
            except UnreadBatchError as error:
                if self._is_committing:
                    raise
                self._ends_with = error
                return self._unread.corrected(start)
            if latest != start:
                return latest
            if self._run is None or (yield from self._is_over(self._run)):
                break
        corrected = self._unread.corrected(start)
        if corrected != start:
            # What nobody has read may be there to be claimed, now that the group's offset is known.
            latest = yield from self._next_offset(start, limit, others, is_single_run=is_single_run)
        return corrected if latest == start else latest

    def _is_over(self, run: FrozenRun) -> Planning[bool]:
        try:
            return (yield from run.is_over(self._planned))
        except DataLossError as error:
            self._data_lost(str(error))
            run.accept_short()
            return False

    def _next_offset(
        self, start: StreamOffset, limit: int | None, others: BatchLimits, *, is_single_run: bool
    ) -> Planning[StreamOffset]:
        for _ in range(MOST_REPORTS):
            try:
                latest = yield from self._plan(start, limit, others, is_single_run=is_single_run)
            except KcoordError as error:
                yield from self._commit_before(error, start)
                raise
            if latest is not None:
                return latest
        return self._unchanged(start)

    def _commit_before(self, error: KcoordError, start: StreamOffset) -> Planning[None]:
        """Commit what is done, unless that was tried, before an error ends the query: others would read it again.

        An option that leads to another cluster may have led the micro-batch there too.
        """
        is_said = start in (self._settled, self._told) or isinstance(error, OptionError)
        finished = () if is_said else self._not_yet_finished(start, self._planned)
        if finished:
            with suppress(KcoordError):
                yield from self._advance(start, finished, ())

    def _plan(
        self, start: StreamOffset, limit: int | None, others: BatchLimits, *, is_single_run: bool
    ) -> Planning[StreamOffset | None]:
        """Plan a micro-batch, or return None when partitions were given up that are granted anew: plan again then."""
        if self._has_waited:
            assignment = yield from ask_assignment(ReadAssignment())
        else:
            assignment = yield from self._first_assignment(start, is_single_run=is_single_run)
        self._planned = assignment
        self._pace.watch_batch_time(self._rebalance_timeout_s)
        if not self._topics.has_seen(assignment):
            yield from self._check_topics(start, assignment)
        finished = () if start == self._settled else self._not_yet_finished(start, assignment)
        has_work = bool(finished) or self._has_offers
        if not has_work and (not assignment.partitions or (yield from self._is_quiet(assignment))):
            self._settled = start
            return self._unchanged(start)
        usable = self._usable(assignment)
        self._done.keep(assignment.partitions)
        if self._run is not None:
            self._run.note_read(self._done.of(assignment.partitions, ()).items())
        positions = self._done.of(usable, finished)
        try:
            ends = yield from self._ends(positions)
        except KafkaAwayError as error:
            timeout_s = self._kafka_timeout_s if self._has_seen_kafka else self._first_kafka_timeout_s
            if timeout_s <= 0:
                raise
            self._say_waiting(error, timeout_s)
            if finished or self._has_offers:
                # What is done is committed, and what is wanted back let go, before Kafka is waited for.
                yield from self._advance(start, finished, ())
                finished = ()
                positions = self._done.of(usable, finished)
            ends = yield from self._ends(positions, timeout_s=timeout_s)
        passed = ends if self._frozen is None else passed_ends(self._frozen, positions)
        is_patient, is_once = self._fail_on_data_loss, is_single_run or self._frozen is not None
        gone = yield from self._bounds.out_of_range(usable, positions, ends, passed, is_patient=is_patient)
        lost = self._pass_over_aged_out(gone)
        if lost or (is_patient and is_once and self._bounds.is_in_doubt):
            if finished or self._has_offers:
                # What is done is committed under the grants that are about to end, and before anything is waited for.
                yield from self._advance(start, finished, ())
            yield from self._give_up(lost) if lost else self._bounds.await_certainty()
            return None
        if self._run is not None:
            self._run.note_ends(positions, ends)
        limits = replace(others, min_offsets=None) if is_single_run else others
        untils = yield from self._pace.untils(positions, ends, limit, limits)
        next_claims = claims_ahead(usable, positions, untils)
        if not next_claims and not finished and not self._has_offers:
            self._settled = start
            self._quiet = (assignment, tuple(sorted(positions)), ends) if self._frozen is None else None
            self._pace.look_again_at(self._bounds.look_again_at)
            return self._unchanged(start)
        accepted = yield from self._advance(start, finished, next_claims)
        if len(accepted) < len(next_claims) and (known := self._done.of(usable, ())) != positions:
            # A finished range was skipped, so its partition goes on somewhere else: where the group's offset is.
            positions = known
            untils = yield from self._pace.untils(positions, ends, limit, limits)
            next_claims = claims_ahead(usable, positions, untils)
            accepted = yield from self._advance(start, (), next_claims)
        if not accepted:
            return self._unchanged(start)
        self._pace.note_batch()
        if self._run is not None:
            self._run.note_batch()
        latest = self._offset_of(accepted, usable, positions)
        if not self._is_committing:
            latest = with_those_away(latest, self._unread.corrected(start), self._topics.may_come_back)
        # Ranges of a micro-batch whose claims were closed can be claimed again just as they were.
        return replace(latest, attempt=start.attempt + 1) if latest.ranges == start.ranges else latest

    def _not_yet_finished(self, start: StreamOffset, assignment: Assignment) -> tuple[Claim, ...]:
        """Return the claims of a finished micro-batch that a listener has not had committed meanwhile."""
        known = set(assignment.finished)
        for claim in known.intersection(start.claims):
            self._note_finished(claim)
        return tuple(claim for claim in start.claims if claim not in known)

    def _is_quiet(self, assignment: Assignment) -> Planning[bool]:
        """Say whether nothing has happened since the last look, which an idle query takes many times a second."""
        if self._quiet is None or self._quiet[0] is not assignment or self._clock() >= self._pace.waits_until:
            return False
        _, partitions, before = self._quiet
        try:
            try:
                ends = yield from ask_offsets(ReadEnds(partitions))
            except KafkaAwayError as error:
                self._say_waiting(error, self._kafka_timeout_s)
                ends = yield from ask_offsets(ReadEnds(partitions, self._kafka_timeout_s))
        except UnknownTopicError:
            return False
        return ends == before

    def _say_waiting(self, error: KafkaAwayError, timeout_s: float) -> None:
        _log.warning("group %s: %s Waiting for it up to %g s.", self._group_id, error, timeout_s)

    def _advance(
        self, start: StreamOffset, finished: tuple[Claim, ...], next_claims: tuple[Claim, ...]
    ) -> Planning[tuple[Claim, ...]]:
        self._told = start
        outcome = yield AskAdvance(finished, next_claims)
        assert isinstance(outcome, AdvanceOutcome)
        self._nodes, self._log = outcome.nodes, outcome.log
        self._settle(start, finished, outcome.finished)
        report_refused(self._group_id, next_claims, outcome.claims)
        self._done.note_told(told_positions(next_claims, outcome.claims))
        self._has_offers = bool(outcome.claimed)
        return outcome.claimed

    def _unchanged(self, start: StreamOffset) -> StreamOffset:
        # Spark runs the first micro-batch of a query even when it is empty: the identity is in the checkpoint then.
        return start if start.member else self.identity

    def _first_assignment(self, start: StreamOffset, *, is_single_run: bool) -> Planning[Assignment]:
        if is_single_run and start.claims:
            # What of it is wanted back is let go when it is committed, and no assignment is complete before.
            yield from self._advance(start, start.claims, ())
        timeout_s = self._rebalance_timeout_s if is_single_run else FIRST_ASSIGNMENT_TIMEOUT_S
        assignment = yield from ask_assignment(AwaitAssignment(complete=is_single_run, timeout_s=timeout_s))
        self._has_waited = True
        if is_single_run:
            self._run = FrozenRun(
                self._frozen or {},
                assignment,
                group_id=self._group_id,
                member_id=self._joined.member_id,
                patience_s=self._rebalance_timeout_s,
                clock=self._clock,
            )
            self._run.note_read(self._done.reached())
        report_where_group_wins(self._group_id, start.ranges, assignment.partitions)
        return assignment

    def _usable(self, assignment: Assignment) -> list[AssignedPartition]:
        # While a topic that was made again is handed over, grants of both can be held. A stream offset holds one topic
        # id a topic, and what was granted last is what exists now.
        newest: dict[str, AssignedPartition] = {}
        for owned in assignment.partitions:
            if owned.topic not in newest or owned.owner_epoch > newest[owned.topic].owner_epoch:
                newest[owned.topic] = owned
        return [
            owned
            for owned in assignment.partitions
            if not owned.is_stopping
            and owned.topic_id == newest[owned.topic].topic_id
            and (self._run is None or self._run.takes((owned.topic, owned.partition)))
        ]

    def _check_topics(self, start: StreamOffset, assignment: Assignment) -> Planning[None]:
        has_looked = self._topics.has_looked
        lost = yield from self._topics.look(start, assignment)
        # A topic that was made again before this run has ends of its own among the frozen ones.
        there = {one.topic for one in assignment.partitions} if not has_looked else set()
        self._lose_topics(lost, keeps=there)

    def _lose_topics(self, lost: Mapping[str, str], *, keeps: Collection[str] = ()) -> None:
        for why in lost.values():
            self._data_lost(why)
        if self._run is not None:
            self._run.forget_topics(lost.keys() - keeps)

    def _ends(
        self, positions: Mapping[TopicPartition, int], *, timeout_s: float | None = None
    ) -> Planning[Mapping[TopicPartition, int]]:
        frozen = self._frozen
        if frozen is None:
            return (yield from self._ends_at_brokers(tuple(sorted(positions)), timeout_s))
        # A topic that was made again since may end earlier; what it will hold there is not read yet.
        ahead = tuple(sorted(key for key, position in positions.items() if frozen.get(key, position) > position))
        ends = yield from self._ends_at_brokers(ahead, timeout_s)
        return {key: min(frozen[key], ends[key]) for key in ahead if key in ends}

    def _pass_over_aged_out(self, gone: Iterable[OutOfRange]) -> tuple[OutOfRange, ...]:
        """Tell of partitions that have lost their beginning, whose ranges executors read from what is left, as
        spark-sql-kafka does; return the others."""
        for one in gone:
            if one.has_aged_out:
                self._data_lost(one.why)
        return tuple(one for one in gone if not one.has_aged_out)

    def _give_up(self, lost: Sequence[OutOfRange]) -> Planning[None]:
        """Have partitions start anew by the group's policy whose positions are gone, if the coordinator finds so too.

        What it finds otherwise is left alone for a while.
        """
        if self._fail_on_data_loss:
            self._data_lost(lost[0].why)
        results = yield AskReport(tuple(one.owned for one in lost))
        assert isinstance(results, tuple)
        has_new_starts = False
        for one, result in zip(lost, results, strict=True):
            assert isinstance(result, PartitionResult)
            owned = one.owned
            if result.error is ErrorCode.OFFSET_OUT_OF_RANGE:
                raise DataLossError(f"{one.why} {result.message}.")
            if result.error is not ErrorCode.NONE:
                self._bounds.put_off(owned)
                said = result.message or result.error.name
                _log.warning("group %s: %s The coordinator says: %s.", self._group_id, one.why, said)
                continue
            self._data_lost(one.why)
            if starts_anew(result):
                has_new_starts = True
                self._topics.note_given_up(owned)
            elif result.committed is not None:
                self._done.note(owned, result.committed)
        if self._run is not None or self._frozen is not None:
            # There may be no later plan in which it is looked at again.
            if has_new_starts:
                yield from ask_assignment(AwaitAssignment(complete=True, timeout_s=FIRST_ASSIGNMENT_TIMEOUT_S))
            yield from self._bounds.await_next_report()

    def _ends_at_brokers(
        self, partitions: tuple[TopicPartition, ...], timeout_s: float | None
    ) -> Planning[Mapping[TopicPartition, int]]:
        if not partitions:
            return {}
        try:
            ends = yield from ask_offsets(ReadEnds(partitions, timeout_s))
        except UnknownTopicError as error:
            left = tuple(key for key in partitions if key[0] not in error.topics)
            if left == partitions:
                raise
            self._lose_topics(self._topics.note_gone(error.topics))
            return (yield from self._ends_at_brokers(left, timeout_s))
        self._has_seen_kafka = True
        self._topics.note_known(key[0] for key in ends)
        return ends

    def _note_finished(self, claim: Claim) -> None:
        self._done.note_finished(claim)
        if self._run is not None:
            self._run.note_read([((claim.topic, claim.partition), claim.until_offset)])

    def _settle(self, start: StreamOffset, finished: Sequence[Claim], results: Sequence[PartitionResult]) -> None:
        self._unread.note_finished(finished, results)
        must_have_been_read(self._group_id, finished, results, is_committing=self._is_committing)
        self._settled = start
        for claim, result in zip(finished, results, strict=True):
            if result.error is ErrorCode.NONE:
                self._note_finished(claim)
            else:
                if result.committed is not None:
                    # Counts only while the partition is owned under that very owner epoch.
                    self._done.note(claim, result.committed)
                report_not_committed(self._group_id, claim, result, was_read=self._unread.was_planned(claim))

    def _offset_of(
        self,
        accepted: Iterable[Claim],
        usable: Iterable[AssignedPartition],
        positions: Mapping[TopicPartition, int],
    ) -> StreamOffset:
        ranges = {(one.topic, one.partition): one for one in claims_between(usable, positions, positions)}
        ranges.update({(claim.topic, claim.partition): claim for claim in accepted})
        return StreamOffset(
            self._joined.kafka_cluster_id or "",
            self._group_id,
            self._joined.member_id,
            tuple(ranges[key] for key in sorted(ranges)),
            nodes=self._nodes,
            log=self._log,
        )

    # ---- what of a micro-batch may be read --------------------------------------------------------------------------

    def readable(self, end: StreamOffset) -> Planning[tuple[Claim, ...]]:
        """Plan to mark the claims of a micro-batch as running, and return those that are still open.

        A range that was committed, taken over, reset or released since is left out, with a warning: somebody else has
        read it or will.
        """
        end.must_belong_to(cluster=self._joined.kafka_cluster_id, group=self._group_id)
        self._has_offers = False
        claims = end.claims
        if not claims:
            return ()
        self._pace.note_running()
        statuses = yield AskConfirm(claims)
        assert isinstance(statuses, tuple)
        readable = []
        for claim, status in zip(claims, statuses, strict=True):
            assert isinstance(status, ClaimStatus)
            if status.state is ClaimState.RUNNING:
                readable.append(claim)
            else:
                report_not_read(self._group_id, claim, status)
        self._unread.note_planned(readable)
        return tuple(readable)

    def _data_lost(self, what: str) -> None:
        if self._fail_on_data_loss:
            raise DataLossError(
                f"{what} Set option 'failOnDataLoss' to false to go on with what is there, or use a new checkpoint "
                "and reset the group's offsets."
            )
        _log.warning("group %s: %s Going on, because failOnDataLoss is false.", self._group_id, what)
