"""Requests and commits of one node: how long each kind of request takes until its answer, and what became of offsets.

A request is timed from when the node takes it until its answer is handed to its connection, which for whatever changes
something is after the records are on disk, and with the in-sync set. What a connection has asked that closes is
forgotten. All of it belongs to the thread of the event loop.
"""

import time
from collections import Counter
from collections.abc import Callable
from typing import Final

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
from coordinator.protocol.parts import Outcomes, PartitionResult
from coordinator.runtime.figures.family import Family, Histogram, Sample, counter

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
_COMMITS: Final = frozenset({Advance, CommitOffsets, FinishClaims, Ping})


class _Api:
    """The requests of one kind."""

    __slots__ = ("is_commit", "name", "refused", "took")

    def __init__(self, kind: type) -> None:
        self.name = kind.__name__
        self.is_commit = kind in _COMMITS
        self.took = Histogram()
        self.refused: Counter[str] = Counter()


class RequestFigures:
    """Requests that were taken, those that have no answer yet, and what became of offsets."""

    def __init__(self, now_s: Callable[[], float] = time.perf_counter) -> None:
        self._now_s = now_s
        self._apis: dict[type, _Api] = {}
        self._open: dict[int, dict[int, tuple[float, _Api]]] = {}
        self._commit_took = Histogram()
        self._commits = Counter({"accepted": 0, "fenced": 0, "refused": 0})
        self._fenced: Counter[str] = Counter({code.name: 0 for code in sorted(_FENCED, key=lambda code: code.name)})

    def asked(self, connection_id: int, correlation_id: int, request: Request) -> None:
        """Take note of a request."""
        kind = type(request)
        api = self._apis.get(kind)
        if api is None:
            api = self._apis[kind] = _Api(kind)
        asked = self._open.get(connection_id)
        if asked is None:
            asked = self._open[connection_id] = {}
        asked[correlation_id] = self._now_s(), api

    def answered(self, connection_id: int, correlation_id: int, response: Response) -> None:
        """Take note of the answer to a request; one to nothing that is known counts as nothing."""
        asked = self._open.get(connection_id)
        found = None if asked is None else asked.pop(correlation_id, None)
        if found is None:
            return
        began_s, api = found
        took_s = self._now_s() - began_s
        api.took.observe(took_s)
        error = getattr(response, "error", ErrorCode.NONE)
        if error:
            api.refused[ErrorCode(error).name] += 1
        elif api.is_commit and self._count_commits(response):
            self._commit_took.observe(took_s)

    def closed(self, connection_id: int) -> None:
        """Forget what a connection has asked."""
        self._open.pop(connection_id, None)

    def families(self) -> tuple[Family, ...]:
        """Return everything as it is now."""
        apis = sorted(self._apis.values(), key=lambda api: api.name)
        took: list[Sample] = []
        for api in apis:
            took += api.took.samples((("api", api.name),))
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
        match response:
            case AdvanceResponse(finished=Outcomes() as outcomes) | FinishClaimsResponse(results=outcomes):
                accepted, others = outcomes.as_asked, outcomes.others
            case CommitOffsetsResponse() | PingResponse():
                accepted, others = response.accepted, response.refused
            case _:
                return 0
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
