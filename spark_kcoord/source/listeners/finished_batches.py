"""Tells coordinators which micro-batches are finished, each run of a query on a thread of its own.

A run whose coordinator is away holds up no other one. Only the newest micro-batch of each source of a run is kept
waiting: that it could be built shows that the one before it was committed. Saying it twice, late, or after the member
has said it itself is harmless, since the coordinator commits a claim only while it runs under the owner epoch that the
stream offset names. A micro-batch that Spark counts as done and never planned does not run: it is not committed, and
`wait` says so. Knows nothing of Spark.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from coordinator.protocol.claim_columns import claims_in_columns, finished_as_asked, results_of
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import FinishClaims, FinishClaimsResponse, Request, Response
from coordinator.protocol.parts import PartitionResult
from coordinator.protocol.text.addresses import Address
from spark_kcoord.errors import KcoordError, UnreadBatchError
from spark_kcoord.member.core.held.portions import bytes_of, portions
from spark_kcoord.member.one_shot import request_once
from spark_kcoord.member.refusals import must_account_for
from spark_kcoord.microbatch.stream_offset import StreamOffset
from spark_kcoord.microbatch.unread.batches import must_have_been_read, show_claims

__all__ = ["FinishedBatch", "FinishedBatches"]

_log = logging.getLogger(__name__)

CLOSE_TIMEOUT_S: Final = 5.0
"""The time that the end of the process waits for what is still to be said."""

_EXPECTED: Final = frozenset({ErrorCode.NONE, ErrorCode.CLAIM_CLOSED, ErrorCode.FENCED_OWNER_EPOCH})
"""Answers that need no warning: the range is committed, or its claim was closed, which the reader said loudly."""

Ask = Callable[[tuple[Address, ...], Request, float], Response]


def _ask(coordinators: tuple[Address, ...], request: Request, timeout_s: float) -> Response:
    return request_once(coordinators, request, timeout_s=timeout_s)


@dataclass(frozen=True, slots=True)
class FinishedBatch:
    """A finished micro-batch of one run of a query: the end offset of each kcoord source, and whom to tell."""

    run_id: str
    batch_id: int
    offsets: Mapping[int, tuple[StreamOffset, tuple[Address, ...]]]
    """By the place of the source in the query: its end offset and the coordinators to ask first."""
    unread: frozenset[int] = frozenset()
    """The places of the sources of which Spark has read no row."""


class FinishedBatches:
    """Says what is finished, newest first by run, until it is closed; used by any thread.

    `timeout_s` is how long it tries for one micro-batch while no coordinator answers. After that a warning is logged
    and the next start of the query from its checkpoint commits.
    """

    def __init__(self, *, timeout_s: float, ask: Ask = _ask) -> None:
        self._timeout_s = timeout_s
        self._ask = ask
        # Ctrl-C between two lines of a Condition's own `with` would leave it locked; this lock has no lines.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._waiting: dict[str, FinishedBatch] = {}
        self._telling: set[str] = set()
        """The runs that have a thread, which takes from what waits of its run until nothing does."""
        self._told: dict[str, tuple[int, KcoordError | None]] = {}
        self._said: dict[tuple[str, int], StreamOffset] = {}
        self._ended: set[str] = set()
        """The runs that have ended and of which something is still to be told."""
        self._is_closed = False

    def add(self, batch: FinishedBatch) -> None:
        """Have a finished micro-batch told, in place of one of the same run that still waits."""
        with self._lock:
            if self._is_closed:
                return
            self._waiting[batch.run_id] = batch
            if batch.run_id not in self._telling:
                name = f"kcoord-finished-batches-{batch.run_id}"
                threading.Thread(target=self._run, args=(batch.run_id,), name=name, daemon=True).start()
                self._telling.add(batch.run_id)

    def wait(self, run_id: str, batch_id: int, timeout_s: float) -> None:
        """Wait until this micro-batch of a run, or a later one, has been told.

        Raises UnreadBatchError when Spark has not read it, KcoordError when it could not be told or the time is over.
        """
        deadline_s = time.monotonic() + timeout_s
        with self._lock:
            while True:
                told, error = self._told.get(run_id, (-1, None))
                if told >= batch_id:
                    if error is not None:
                        raise error
                    return
                remaining_s = deadline_s - time.monotonic()
                if remaining_s <= 0 or self._is_closed:
                    raise KcoordError(
                        f"Micro-batch {batch_id} was not known to be committed within {timeout_s:g} s. The next start "
                        "of the query from its checkpoint commits it; check that the coordinator can be reached, and "
                        "that attach() was called before the query was started."
                    )
                self._changed.wait(remaining_s)

    def forget(self, run_id: str) -> None:
        """Forget what was said of a run that has ended; what still waits is told before."""
        with self._lock:
            if run_id in self._telling:
                self._ended.add(run_id)
            else:
                self._forget_said(run_id)
            while len(self._told) > RUNS_REMEMBERED:
                del self._told[next(iter(self._told))]

    def _forget_said(self, run_id: str) -> None:
        for key in [key for key in self._said if key[0] == run_id]:
            del self._said[key]

    def close(self, timeout_s: float = CLOSE_TIMEOUT_S) -> None:
        """Tell what still waits, for at most this long, and say nothing more."""
        with self._lock:
            self._changed.wait_for(lambda: not self._telling, timeout_s)
            left = self._telling | self._waiting.keys()
            if left:
                _log.warning("%d finished micro-batches were not known to be committed before the end", len(left))
            self._is_closed = True
            self._waiting.clear()
            self._changed.notify_all()

    def _run(self, run_id: str) -> None:
        batch = self._next(run_id, None)
        while batch is not None:
            batch = self._next(run_id, (batch.batch_id, self._tell(batch)))

    def _next(self, run_id: str, told: tuple[int, KcoordError | None] | None) -> FinishedBatch | None:
        """Note what was told of a run; return what waits of it, or None where nothing is to be told any more."""
        with self._lock:
            if told is not None:
                self._told.pop(run_id, None)
                self._told[run_id] = told
            batch = None if self._is_closed else self._waiting.pop(run_id, None)
            if batch is None:
                self._telling.discard(run_id)
                if run_id in self._ended:
                    self._ended.remove(run_id)
                    self._forget_said(run_id)
            self._changed.notify_all()
            return batch

    def _tell(self, batch: FinishedBatch) -> KcoordError | None:
        failure: KcoordError | None = None
        for place, (offset, coordinators) in batch.offsets.items():
            if not offset.claims or self._said.get((batch.run_id, place)) == offset:
                continue
            try:
                self._tell_source(offset, coordinators, is_unread=place in batch.unread)
            except UnreadBatchError as error:
                _log.error("group %s: micro-batch %d is not committed: %s", offset.group, batch.batch_id, error)
                failure = error
            except KcoordError as error:
                _log.warning(
                    "group %s: micro-batch %d is finished and could not be committed at once: %s The query's next "
                    "micro-batch, or its next start from the checkpoint, commits it.",
                    offset.group,
                    batch.batch_id,
                    error,
                )
                failure = error
            except Exception as error:  # noqa: BLE001 - the thread tells of other queries too, and goes on
                _log.exception("group %s: micro-batch %d could not be committed by a bug", offset.group, batch.batch_id)
                failure = KcoordError(
                    f"Micro-batch {batch.batch_id} of group {offset.group} is finished and could not be committed, by "
                    f"a bug of kcoord ({type(error).__name__}: {error}): please report it with the log. The next start "
                    "of the query from its checkpoint commits it."
                )
            else:
                with self._lock:
                    self._said[batch.run_id, place] = offset
        return failure

    def _tell_source(self, offset: StreamOffset, coordinators: tuple[Address, ...], *, is_unread: bool) -> None:
        results = self._results(offset, coordinators)
        for claim, result in zip(offset.claims, results, strict=True):
            level = logging.DEBUG if result.error in _EXPECTED else logging.WARNING
            _log.log(
                level,
                "group %s: [%d, %d) of %s-%d: %s %s",
                offset.group,
                claim.from_offset,
                claim.until_offset,
                claim.topic,
                claim.partition,
                result.error.name,
                result.message,
            )
        must_have_been_read(offset.group, offset.claims, results)
        nobodys = tuple(
            claim
            for claim, result in zip(offset.claims, results, strict=True)
            if result.error is not ErrorCode.NONE and result.committed == claim.from_offset
        )
        if is_unread and nobodys:
            _log.error(
                "group %s: of %s Spark read no row, and nobody has committed them: they were let go before they were "
                "planned, because the sink passed over the micro-batch or the query ended; they are read again. A new "
                "checkpoint needs a new output.",
                offset.group,
                show_claims(nobodys),
            )

    def _results(self, offset: StreamOffset, coordinators: tuple[Address, ...]) -> tuple[PartitionResult, ...]:
        """Ask in as many requests as it takes, each of which commits what it names."""
        deadline_s = time.monotonic() + self._timeout_s
        results: list[PartitionResult] = []
        for portion in portions(offset.claims, bytes_of):
            request = FinishClaims(offset.group, offset.member, claims_in_columns(portion))
            response = self._ask(coordinators, request, max(0.0, deadline_s - time.monotonic()))
            assert isinstance(response, FinishClaimsResponse)
            if response.error is not ErrorCode.NONE:
                raise KcoordError(f"The coordinator refused: {response.error.name} ({response.message}).")
            must_account_for(response.results, len(portion), offset.group)
            results += results_of(response.results, map(finished_as_asked, portion))
        return tuple(results)


RUNS_REMEMBERED: Final = 1_000
"""The number of runs of queries that `wait` knows of."""
