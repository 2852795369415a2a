"""Requests and commits of one node: how long each kind of request takes until its answer, and what became of offsets.

A request is timed from when the node takes it until its answer is handed to its connection, which for whatever changes
something is after the records are on disk, and with the in-sync set. What a connection has asked that closes is
forgotten. All of it belongs to the thread of the event loop.
"""

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    AdvanceResponse,
    CommitOffsetsResponse,
    FinishClaimsResponse,
    PingResponse,
    Request,
    Response,
)
from coordinator.protocol.parts import PartitionResult
from coordinator.runtime.figures.family import DURATIONS, Family, Labels, Sample, counter, histogram_samples

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

_Asked: TypeAlias = tuple[int, int, float, type]
"""The connection of a request, its correlation id, the time at which it was taken, in seconds, and its kind."""
_NOTHING: Final[_Asked] = (-1, -1, 0.0, object)


class _Took:
    """The times that some requests took until their answers, counted by the bounds of DURATIONS."""

    __slots__ = ("counts", "sum_s")

    def __init__(self) -> None:
        self.counts = [0] * (len(DURATIONS) + 1)
        self.sum_s = 0.0

    def add(self, other: "_Took") -> None:
        """Count the requests of another one, too."""
        self.counts = [mine + its for mine, its in zip(self.counts, other.counts, strict=True)]
        self.sum_s += other.sum_s

    def samples(self, labels: Labels = ()) -> tuple[Sample, ...]:
        """Return them as Prometheus has a histogram."""
        return histogram_samples(DURATIONS, self.counts, self.sum_s, labels)


class _Api:
    """The requests of one kind, those that committed offsets apart, so that each is counted once."""

    __slots__ = ("commits", "name", "others", "refused")

    def __init__(self, kind: type) -> None:
        self.name = kind.__name__
        self.commits = _Took()
        self.others = _Took()
        self.refused: Counter[str] = Counter()


class RequestFigures:
    """Requests that were taken, those that have no answer yet, and what became of offsets."""

    def __init__(self, now_s: Callable[[], float] = time.perf_counter) -> None:
        self._now_s = now_s
        self._apis: dict[type, _Api] = {}
        self._last = _NOTHING
        """The request that came last, which is nearly always answered before the next one comes."""
        self._open: dict[int, _Asked | None] = {}
        """The one other request of each connection that has no answer; replaced, for speed, not removed."""
        self._more: dict[int, dict[int, _Asked]] = {}
        """The others of connections that ask on before they are answered, by their correlation ids."""
        self._accepted = self._fenced_in_all = self._refused = 0
        self._fenced: Counter[str] = Counter({code.name: 0 for code in sorted(_FENCED, key=lambda code: code.name)})

    def asked(self, connection_id: int, correlation_id: int, request: Request) -> None:
        """Take note of a request."""
        last = self._last
        if last is not _NOTHING:
            its_connection = last[0]
            if self._open.get(its_connection) is None:
                self._open[its_connection] = last
            else:
                self._more.setdefault(its_connection, {})[last[1]] = last
        self._last = connection_id, correlation_id, self._now_s(), type(request)

    def answered(self, connection_id: int, correlation_id: int, response: Response) -> None:
        """Take note of the answer to a request; one to nothing that is known counts as nothing.

        Nothing here is a call that need not be one: this is done for every request.
        """
        its_connection, its_id, began_s, kind = self._last
        if its_id == correlation_id and its_connection == connection_id:
            self._last = _NOTHING
        else:
            asked = self._open.get(connection_id)
            if asked is not None and asked[1] == correlation_id:
                self._open[connection_id] = None
            else:
                more = self._more.get(connection_id)
                asked = None if more is None else more.pop(correlation_id, None)
                if asked is None:
                    return
            _, _, began_s, kind = asked
        took_s = self._now_s() - began_s
        try:
            api = self._apis[kind]
        except KeyError:
            api = self._apis[kind] = _Api(kind)
        error: int
        others: Sequence[PartitionResult]
        if type(response) is PingResponse or type(response) is CommitOffsetsResponse:
            error, accepted, others = response.error, response.accepted, response.refused
        else:
            error, accepted, others = _outcome(response)
        took = api.others
        if error:
            api.refused[ErrorCode(error).name] += 1
        elif accepted or others:
            took = api.commits
            self._accepted += accepted
            if others:
                self._count_others(others)
        took.counts[0 if took_s <= _FIRST_S else bisect_left(DURATIONS, took_s)] += 1
        took.sum_s += took_s

    def closed(self, connection_id: int) -> None:
        """Forget what a connection has asked."""
        if self._last[0] == connection_id:
            self._last = _NOTHING
        self._open.pop(connection_id, None)
        self._more.pop(connection_id, None)

    def families(self) -> tuple[Family, ...]:
        """Return everything as it is now."""
        apis = sorted(self._apis.values(), key=lambda api: api.name)
        took: list[Sample] = []
        commits_took = _Took()
        for api in apis:
            all_took = _Took()
            all_took.add(api.commits)
            all_took.add(api.others)
            took += all_took.samples((("api", api.name),))
            commits_took.add(api.commits)
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
                commits_took.samples(),
            ),
            counter(
                "kcoord_commits_total",
                "Offsets of partitions that were to be committed, by what became of them.",
                "result",
                {"accepted": self._accepted, "fenced": self._fenced_in_all, "refused": self._refused},
            ),
            counter(
                "kcoord_commits_fenced_total",
                "Offsets that somebody wanted to commit who does not own the partition any more.",
                "reason",
                self._fenced,
            ),
        )

    def _count_others(self, others: Sequence[PartitionResult]) -> None:
        for other in others:
            error = other.error
            if not error:
                self._accepted += 1
            elif error in _FENCED:
                self._fenced_in_all += 1
                self._fenced[ErrorCode(error).name] += 1
            else:
                self._refused += 1


def _outcome(response: Response) -> tuple[int, int, Sequence[PartitionResult]]:
    """Return the error of an answer, how many offsets it says were committed as asked, and the results of others."""
    if isinstance(response, AdvanceResponse) and response.finished is not None:
        return response.error, response.finished.as_asked, response.finished.others
    if isinstance(response, FinishClaimsResponse):
        return response.error, response.results.as_asked, response.results.others
    return getattr(response, "error", _NONE), 0, ()
