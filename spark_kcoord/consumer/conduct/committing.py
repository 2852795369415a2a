"""Commits of a consumer, waited for or not, and the group's committed offsets: what is asked, and what came of it.

A member commits under its owner epochs, on its own connection, in order. A consumer whose partitions were assigned by
hand commits as anybody may, for partitions that nobody owns. Positions before the group's offset are left out.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, Final

from coordinator.client.refusals import refusal_of, show_refusal
from coordinator.protocol.columns import OffsetToCommit, in_columns, results_of
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.ids import TopicPartition as Key
from coordinator.protocol.messages import (
    CommitOffsets,
    CommitOffsetsResponse,
    FetchOffsets,
    FetchOffsetsResponse,
)
from coordinator.protocol.parts import CommittedOffset, PartitionResult
from spark_kcoord.consumer.conduct import asking
from spark_kcoord.consumer.conduct.group import Group
from spark_kcoord.consumer.conduct.wishes import Answer, Call, Flow, Wait
from spark_kcoord.consumer.core.commits import AsyncCommits, Callback, Committing
from spark_kcoord.consumer.core.machine import ConsumerMachine
from spark_kcoord.consumer.errors import (
    CommitRefusedError,
    ConsumerError,
    CoordinatorUnavailableError,
    GroupRefusedError,
    PartitionsNotOwnedError,
    SubscriptionNotValidError,
    translated,
)
from spark_kcoord.consumer.settings import Settings
from spark_kcoord.consumer.subscription import must_be_offset, must_be_partitions
from spark_kcoord.consumer.values import OffsetAndMetadata, TopicPartition
from spark_kcoord.errors import KcoordError, LeftAloneError
from spark_kcoord.member.core.held.holdings import Assignment
from spark_kcoord.member.speech import CONSUMER

__all__ = ["Committer", "as_told"]

_log = logging.getLogger(__name__)

MOST_METADATA_BYTES: Final = 4_096
_LARGEST_EPOCH: Final = 2**31 - 1
_AGAIN_S: Final = 0.2
_HOW_BACK: Final = "which moves back only by a reset that says who and why: kcoord group reset-offsets."
_LATE_S: Final = 3.0
"""The time after which a coordinator has been told that a topic was made again."""


class Committer:
    """The commits of one consumer; `is_member` says whether its partitions are the group's to give.

    `clock` returns monotonic seconds.
    """

    def __init__(
        self,
        settings: Settings,
        machine: ConsumerMachine,
        group: Group,
        is_member: Callable[[], bool],
        clock: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._machine = machine
        self._group = group
        self._is_member = is_member
        self._clock = clock
        self._async = AsyncCommits()
        self._out: list[tuple[Committing, list[Future[Any]]]] = []
        self._given_up: list[tuple[Sequence[OffsetToCommit], list[Future[Any]]]] = []
        """Commits of calls that have ended without their answers."""
        self._seen: Assignment | None = None

    # ---- commits ----------------------------------------------------------------------------------------------------

    def commit(self, offsets: Any, timeout_s: float) -> Flow[None]:
        """Commit offsets, or all that was returned, and wait; raises CommitRefusedError naming what was refused."""
        asked = self._asked(offsets)
        if not asked:
            return
        if not self._is_member():
            results = yield from self._commit_by_hand(asked, timeout_s)
            self._must_be_accepted(asked, results)
            return
        behind = self._async.next_to_send(beside=True)
        if behind is not None:
            self._send(behind)
        answers: list[PartitionResult] = []
        futures: list[Future[Any]] = []
        try:
            futures = self._group.commit(asked, max(1, int(timeout_s * 1000)))
            for future in futures:
                answers += yield Answer(future, timeout_s + 5.0)
        except TimeoutError:
            raise CoordinatorUnavailableError(f"The commit was not answered within {timeout_s:g} s.") from None
        except KcoordError as error:
            raise _failure(error, asked) from error
        finally:
            if futures and len(answers) < len(asked):
                self._given_up.append((asked, futures))
        self._must_be_accepted(asked, _in_order(asked, answers))

    def commit_async(self, offsets: Any, callback: Callback | None) -> None:
        """Commit offsets, or all that was returned, and do not wait; `send` has it go out."""
        asked = self._asked(offsets)
        given = offsets if offsets is not None else _as_given(asked)
        if not self._is_member():
            raise SubscriptionNotValidError(
                "commit_async is for members; partitions assigned by hand are committed by commit()."
            )
        self._async.add(asked, callback, given)
        self.send()

    def send(self) -> None:
        """Have the next of those go out that nobody waits for, and take what was answered."""
        self._take_answers()
        following = self._async.next_to_send() if self._is_member() else None
        if following is not None:
            self._send(following)

    def _take_answers(self) -> None:
        for committing, futures in list(self._out):
            if all(future.done() for future in futures):
                self._out.remove((committing, futures))
                self._async.answered(committing, self._outcome(committing, futures))

    def run_callbacks(self) -> Flow[None]:
        """Tell those who gave callbacks what came of their commits."""
        self.send()
        while (owed := self._async.next_owed()) is not None:
            callback, given, error = owed
            yield Call(partial(callback, given, error))

    def finish(self, left_s: Callable[[], float]) -> Flow[BaseException | None]:
        """Wait, at the end, for commits that are out; tell all who gave callbacks, and return what the first raised."""
        behind = self._async.next_to_send(beside=True)
        if behind is not None:
            self._send(behind)
        for _, futures in list(self._out):
            for future in futures:
                try:
                    yield Answer(future, left_s())
                except (KcoordError, TimeoutError) as error:
                    _log.debug("a commit that nobody waits for was not answered: %s", error)
        self.send()
        for committing, _ in self._out:
            why = "The commit was not answered before the consumer left its group: it may be done or not."
            self._async.answered(committing, CoordinatorUnavailableError(why))
        self._out.clear()
        raised: BaseException | None = None
        while (owed := self._async.next_owed()) is not None:
            callback, given, outcome = owed
            try:
                yield Call(partial(callback, given, outcome))
            except GeneratorExit:
                raise
            except BaseException as error:  # noqa: BLE001 - nobody is told later
                raised = raised or error
        return raised

    def _send(self, committing: Committing) -> None:
        try:
            futures = self._group.commit(committing.offsets)
        except KcoordError as error:
            self._async.answered(committing, _failure(error, committing.offsets))
            return
        self._out.append((committing, futures))

    def _outcome(self, committing: Committing, futures: Sequence[Future[Any]]) -> Exception | None:
        results: list[PartitionResult] = []
        for future in futures:
            error = future.exception()
            if error is not None:
                if isinstance(error, KcoordError):
                    return _failure(error, committing.offsets)
                return RuntimeError(str(error))
            results += future.result()
        try:
            self._must_be_accepted(committing.offsets, _in_order(committing.offsets, results))
        except ConsumerError as refused:
            return refused
        return None

    def _must_be_accepted(self, asked: Sequence[OffsetToCommit], results: Sequence[PartitionResult]) -> None:
        self._machine.note_committed(asked, results)
        refused = [
            (one, result) for one, result in zip(asked, results, strict=True) if result.error is not ErrorCode.NONE
        ]
        if refused:
            shown = "; ".join(
                f"{result.topic}-{result.partition}: {CONSUMER.translate(result.message) or result.error.name}"
                for _, result in refused
            )
            raise CommitRefusedError(
                f"Offsets of group '{self._settings.group_id}' were refused: {shown}.{_what_follows(refused)}",
                [(result.topic, result.partition) for _, result in refused],
            )

    def _asked(self, offsets: Any) -> tuple[OffsetToCommit, ...]:
        if not self._settings.is_member:
            raise SubscriptionNotValidError("Offsets are a group's: this consumer has no 'group_id'.")
        self._know_committed()
        if offsets is None:
            return self._machine.returned()
        if not isinstance(offsets, Mapping):
            raise TypeError(f"offsets are a mapping from TopicPartition, not {offsets!r}")
        must_be_partitions(offsets)
        return tuple(self._one(key, given) for key, given in sorted(offsets.items()))

    def _know_committed(self) -> None:
        """Take up to where the group is by what went with pings, and by commits of calls that did not hear of it."""
        self._take_answers()
        for asked, futures in list(self._given_up):
            if not all(future.done() for future in futures):
                continue
            self._given_up.remove((asked, futures))
            results = [result for future in futures if future.exception() is None for result in future.result()]
            known = {(result.topic, result.partition) for result in results}
            answered = [one for one in asked if (one.topic, one.partition) in known]
            self._machine.note_committed(answered, _in_order(answered, results))
        granted = self._group.granted
        for part in () if granted is self._seen else granted.partitions:
            held = self._machine.held((part.topic, part.partition))
            if held is not None and held.grant.owner_epoch == part.owner_epoch:
                held.know_committed(part.position)
        self._seen = granted

    def _one(self, key: Key, given: Any) -> OffsetToCommit:
        offset, metadata, epoch = given if isinstance(given, OffsetAndMetadata) else (given, "", -1)
        must_be_offset(offset)
        metadata = metadata or ""
        if not isinstance(metadata, str):
            raise TypeError(f"the metadata of {key[0]}-{key[1]} is a text, not {metadata!r}")
        if len(metadata.encode()) > MOST_METADATA_BYTES:
            raise ValueError(f"the metadata of {key[0]}-{key[1]} has more than {MOST_METADATA_BYTES} bytes")
        held = self._machine.held(key)
        leader_epoch = epoch if isinstance(epoch, int) and epoch >= 0 else None
        if leader_epoch is not None and leader_epoch > _LARGEST_EPOCH:
            raise ValueError(f"the leader epoch {leader_epoch} of {key[0]}-{key[1]} is larger than Kafka's can be")
        if held is None and self._is_member():
            raise PartitionsNotOwnedError(
                f"Offsets of {key[0]}-{key[1]} cannot be committed: it is not this consumer's now.", [key]
            )
        if held is None:
            return OffsetToCommit(*key, offset, None, leader_epoch, metadata)
        if held.committed is not None and offset < held.committed:
            raise CommitRefusedError(
                f"Offset {offset} of {key[0]}-{key[1]} is before the group's offset {held.committed}, {_HOW_BACK}",
                [key],
            )
        return held.to_commit(offset, metadata, leader_epoch)

    # ---- what is committed ------------------------------------------------------------------------------------------

    def committed(self, keys: Sequence[Key] | None, timeout_s: float) -> Flow[dict[Key, CommittedOffset]]:
        """Return the group's offsets of partitions, or of all, whichever topic they are of; one without is absent."""
        if not self._settings.is_member:
            raise SubscriptionNotValidError("Offsets are a group's: this consumer has no 'group_id'.")
        found: dict[Key, CommittedOffset] = yield from asking.asked(
            lambda: partial(self._fetch_committed, keys), timeout_s, self._clock
        )
        return found

    def _fetch_committed(self, keys: Sequence[Key] | None, timeout_s: float) -> dict[Key, CommittedOffset]:
        named = None if keys is None else tuple((topic, number) for topic, number in keys)
        response = asking.ask_coordinators(
            self._group.coordinators, FetchOffsets(self._settings.group_id or "", named), timeout_s
        )
        refusal = refusal_of(response)
        if refusal is not None and refusal[0] is ErrorCode.GROUP_ID_NOT_FOUND:
            return {}
        if refusal is not None:
            raise GroupRefusedError(
                f"The coordinator refused to say offsets: {show_refusal(refusal)}", refusal[0].name, refusal[0].doc_code
            )
        assert isinstance(response, FetchOffsetsResponse)
        return {(one.topic, one.partition): one for one in response.offsets}

    def _commit_by_hand(self, asked: Sequence[OffsetToCommit], timeout_s: float) -> Flow[list[PartitionResult]]:
        """Commit; and again for a while where the coordinator may be told late that a topic was made again."""
        begun_s = self._clock()
        results: list[PartitionResult] = yield from self._commit_once(asked, timeout_s)
        while late := [at for at, result in enumerate(results) if result.error is ErrorCode.UNKNOWN_TOPIC_ID]:
            again_s = self._clock() + _AGAIN_S
            if again_s - begun_s >= min(timeout_s, _LATE_S):
                break
            while (left_s := again_s - self._clock()) > 0:
                yield Wait(left_s)
            again = yield from self._commit_once([asked[at] for at in late], begun_s + timeout_s - self._clock())
            for at, result in zip(late, again, strict=True):
                results[at] = result
        return results

    def _commit_once(self, asked: Sequence[OffsetToCommit], timeout_s: float) -> Flow[list[PartitionResult]]:
        found: list[PartitionResult] = yield from asking.asked(
            lambda: partial(self._ask_to_commit, asked), timeout_s, self._clock
        )
        return found

    def _ask_to_commit(self, asked: Sequence[OffsetToCommit], timeout_s: float) -> list[PartitionResult]:
        response = asking.ask_coordinators(
            self._group.coordinators, CommitOffsets(self._settings.group_id or "", in_columns(asked)), timeout_s
        )
        refusal = refusal_of(response)
        if refusal is not None:
            raise GroupRefusedError(
                f"The coordinator refused a commit: {show_refusal(refusal)}", refusal[0].name, refusal[0].doc_code
            )
        assert isinstance(response, CommitOffsetsResponse)
        return list(results_of(asked, response.refused))


def _failure(error: KcoordError, asked: Sequence[OffsetToCommit]) -> KcoordError:
    """Return why a commit failed as the consumer's own error: one whose member has left is not closed for that."""
    if isinstance(error, LeftAloneError):
        keys = [(one.topic, one.partition) for one in asked]
        return CommitRefusedError(f"{error} The next poll joins again, and what is not committed is read again.", keys)
    return translated(error)


def _what_follows(refused: Sequence[tuple[OffsetToCommit, PartitionResult]]) -> str:
    """Return what the program can count on, or do, where that is known of a refusal."""
    told = ""
    if any(result.error is ErrorCode.FENCED_OWNER_EPOCH for _, result in refused):
        told += " Whoever has a partition now that is not this consumer's any more reads it again."
    if any(
        result.error is ErrorCode.INVALID_REQUEST and result.committed is not None and one.offset < result.committed
        for one, result in refused
    ):
        told += f" An offset lies before the group's, {_HOW_BACK}"
    return told


def _in_order(asked: Sequence[OffsetToCommit], results: Sequence[PartitionResult]) -> list[PartitionResult]:
    by_partition = {(result.topic, result.partition): result for result in results}
    return [by_partition[one.topic, one.partition] for one in asked]


def _as_given(asked: Sequence[OffsetToCommit]) -> dict[Any, Any]:
    return {TopicPartition(one.topic, one.partition): as_told(one) for one in asked}


def as_told(one: OffsetToCommit | CommittedOffset) -> OffsetAndMetadata:
    """Return an offset as the program has it."""
    return OffsetAndMetadata(one.offset, one.metadata, -1 if one.leader_epoch is None else one.leader_epoch)
