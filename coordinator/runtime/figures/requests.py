"""Requests and commits of one node: how long each kind of request takes until its answer, and what became of offsets.

A request is timed from when the node takes it until its answer is handed to its connection, which for whatever changes
something is after the records are on disk, and with the in-sync set. What a connection has asked that closes is
forgotten. All of it belongs to the thread of the event loop.
"""

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable
from typing import Final, TypeAlias

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    Advance,
    AdvanceResponse,
    CommitOffsets,
    CommitOffsetsResponse,
    FinishClaims,
    FinishClaimsResponse,
    Ping,
    PingResponse,
    Request,
    Response,
)
from coordinator.protocol.parts import PartitionResult
from coordinator.runtime.figures.family import DURATIONS, Family, Histogram, Sample, counter, histogram_samples

_FENCED: Final = frozenset(
    {
        ErrorCode.FENCED_OWNER_EPOCH,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.CLAIM_CLOSED,
        ErrorCode.UNKNOWN_MEMBER_ID,
    }
)
"""The refusals of somebody who is not the owner any more."""
_NONE: Final = ErrorCode.NONE
_FIRST_S: Final = DURATIONS[0]
_COMMITS: Final = frozenset({Advance, CommitOffsets, FinishClaims, Ping})


_Asked: TypeAlias = tuple[int, float, type]
"""The correlation id of a request, the time at which it was taken, in seconds, and its kind."""


class _Api:
    """The requests of one kind."""

    __slots__ = ("counts", "is_commit", "name", "refused", "sum_s")

    def __init__(self, kind: type) -> None:
        self.name = kind.__name__
        self.is_commit = kind in _COMMITS
        self.counts = [0] * (len(DURATIONS) + 1)
        self.sum_s = 0.0
        self.refused: Counter[str] = Counter()


class RequestFigures:
    """Requests that were taken, those that have no answer yet, and what became of offsets."""

    def __init__(self, now_s: Callable[[], float] = time.perf_counter) -> None:
        self._now_s = now_s
        self._apis: dict[type, _Api] = {}
        self._open: dict[int, _Asked | None] = {}
        """The one request of each connection that has no answer, as nearly always; replaced, for speed, not removed."""
        self._more: dict[int, dict[int, _Asked]] = {}
        """The others of connections that ask on before they are answered, by their correlation ids."""
        self._commit_took = Histogram()
        self._commits = Counter({"accepted": 0, "fenced": 0, "refused": 0})
        self._fenced: Counter[str] = Counter({code.name: 0 for code in sorted(_FENCED, key=lambda code: code.name)})

    def asked(self, connection_id: int, correlation_id: int, request: Request) -> None:
        """Take note of a request."""
        asked = correlation_id, self._now_s(), type(request)
        if self._open.get(connection_id) is None:
            self._open[connection_id] = asked
        else:
            self._more.setdefault(connection_id, {})[correlation_id] = asked

    def answered(self, connection_id: int, correlation_id: int, response: Response) -> None:
        """Take note of the answer to a request; one to nothing that is known counts as nothing."""
        asked = self._open.get(connection_id)
        if asked is not None and asked[0] == correlation_id:
            self._open[connection_id] = None
        else:
            more = self._more.get(connection_id)
            asked = None if more is None else more.pop(correlation_id, None)
            if asked is None:
                return
        _, began_s, kind = asked
        took_s = self._now_s() - began_s
        api = self._apis.get(kind)
        if api is None:
            api = self._apis[kind] = _Api(kind)
        # No call of its own: this is done for every request, and nearly all of them are in the first bucket.
        api.counts[0 if took_s <= _FIRST_S else bisect_left(DURATIONS, took_s)] += 1
        api.sum_s += took_s
        error = getattr(response, "error", _NONE)
        if error:
            api.refused[ErrorCode(error).name] += 1
        elif api.is_commit and self._count_commits(response):
            self._commit_took.observe(took_s)

    def closed(self, connection_id: int) -> None:
        """Forget what a connection has asked."""
        self._open.pop(connection_id, None)
        self._more.pop(connection_id, None)

    def families(self) -> tuple[Family, ...]:
        """Return everything as it is now."""
        apis = sorted(self._apis.values(), key=lambda api: api.name)
        took: list[Sample] = []
        for api in apis:
            took += histogram_samples(DURATIONS, api.counts, api.sum_s, (("api", api.name),))
        refused: list[Sample] = [
            ("", (("api", api.name), ("error", error)), count) for api in apis for error, count in api.refused.items()
        ]
        return (
            Family(
                "kcoord_request_seconds", "histogram", "Time from a request to its answer, by its kind.", tuple(took)
            ),
            Family(
                "kcoord_requests_refused_total", "counter", "Requests that were refused as a whole.", tuple(refused)
            ),
            Family(
                "kcoord_commit_duration_seconds",
                "histogram",
                "Time from a request that commits offsets to its answer, with the sync of what it wrote.",
                self._commit_took.samples(),
            ),
            counter(
                "kcoord_commits_total",
                "Offsets of partitions that were to be committed, by what became of them.",
                "result",
                self._commits,
            ),
            counter(
                "kcoord_commits_fenced_total",
                "Offsets that somebody wanted to commit who does not own the partition any more.",
                "reason",
                self._fenced,
            ),
        )

    def _count_commits(self, response: Response) -> int:
        """Count the offsets that a request was to commit, and return how many they were."""
        if isinstance(response, (PingResponse, CommitOffsetsResponse)):
            accepted, others = response.accepted, response.refused
        elif isinstance(response, AdvanceResponse) and response.finished is not None:
            accepted, others = response.finished.as_asked, response.finished.others
        elif isinstance(response, FinishClaimsResponse):
            accepted, others = response.results.as_asked, response.results.others
        else:
            return 0
        if not accepted and not others:
            return 0  # as of nearly every ping
        self._commits["accepted"] += accepted
        for other in others:
            self._count_other(other)
        return accepted + len(others)

    def _count_other(self, other: PartitionResult) -> None:
        error = other.error
        if not error:
            self._commits["accepted"] += 1
        elif error in _FENCED:
            self._commits["fenced"] += 1
            self._fenced[ErrorCode(error).name] += 1
        else:
            self._commits["refused"] += 1
