"""The partitions that a tailing fetcher reads: where each stands, and which are asked for next. No input or output.

Those that gave something last come after the others, so that a broker, which fills its answer from the first on, serves
them in turn.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import kafka.errors as kafka_errors

from spark_kcoord.fetch.requests import NO_REPLICA, PartAnswer
from spark_kcoord.fetch.tailing.fetched import OutOfRange, Truncated, Wanted
from spark_kcoord.fetch.topic_range import TopicPartition

__all__ = ["Part", "Parts"]

_FIRST_WAIT_S = 0.05
_LONGEST_WAIT_S = 1.0


@dataclass(slots=True)
class Part:
    """One partition under one token; before `ready_at` (monotonic clock) it is not asked for.

    `is_out` says that a request for it is under way, `was_asked` that one was before, `is_stopped` that nothing more is
    fetched under its token, `is_by_name` that it may be of any topic of the name. It is wanted since `adopted_at`.
    """

    key: TopicPartition
    topic_id: str | None
    token: int
    position: int
    last_epoch: int
    replica: int = NO_REPLICA
    ready_at: float = 0.0
    wait_s: float = 0.0
    is_out: bool = False
    was_asked: bool = False
    is_stopped: bool = False
    is_by_name: bool = False
    adopted_at: float = 0.0
    end: int | None = None

    def put_off(self, now: float, uniform: Callable[[float, float], float]) -> None:
        """Ask for it again after a wait, which doubles from one time to the next."""
        self.wait_s = min(_LONGEST_WAIT_S, self.wait_s * 2 or _FIRST_WAIT_S)
        self.ready_at = now + self.wait_s * uniform(0.8, 1.2)

    def judge(self, answer: PartAnswer) -> OutOfRange | Truncated | None:
        """Return what an answer says about the position, if that cannot be gone on from; then it is stopped."""
        errno = getattr(answer.error, "errno", None)
        if errno == kafka_errors.OffsetOutOfRangeError.errno and self.replica == NO_REPLICA:
            self.is_stopped = True
            return OutOfRange(self.key, self.token, self.position)
        if answer.error is None and answer.diverged_at is not None:
            self.is_stopped = True
            # The record before the position is of an epoch that the log does not have, however far that goes.
            return Truncated(self.key, self.token, min(answer.diverged_at, self.position))
        return None


class Parts:
    """All partitions that are wanted, in the order in which they are asked for."""

    def __init__(self, uniform: Callable[[float, float], float] = random.uniform) -> None:
        self._parts: dict[TopicPartition, Part] = {}
        self._uniform = uniform
        self.topics: frozenset[str] = frozenset()
        """The names of their topics."""

    def __iter__(self) -> Iterator[Part]:
        """Yield the partitions in turn."""
        return iter(self._parts.values())

    def adopt(self, wanted: Mapping[TopicPartition, Wanted], now: float = 0.0) -> None:
        """Read exactly these; one that is read under the same token goes on where it is."""
        self.topics = frozenset(topic for topic, _ in wanted)
        for key in [key for key in self._parts if key not in wanted]:
            del self._parts[key]
        for key, one in wanted.items():
            known = self._parts.get(key)
            if known is None or known.token != one.token:
                self._parts.pop(key, None)
                self._parts[key] = Part(
                    key,
                    one.topic_id or one.named_id,
                    one.token,
                    one.position,
                    one.last_epoch,
                    is_by_name=one.topic_id is None,
                    adopted_at=now,
                )

    def is_current(self, part: Part) -> bool:
        """Say whether a partition is still wanted as it was when it was asked for."""
        return self._parts.get(part.key) is part

    def unresolved(self, now: float) -> list[Part]:
        """Return those whose position Kafka is to be asked for."""
        return [part for part in self if part.position < 0 and not part.is_out and part.ready_at <= now]

    def ready(self, now: float) -> Iterator[Part]:
        """Yield those that may be asked for, in turn."""
        for part in self:
            if part.position >= 0 and not part.is_out and not part.is_stopped and part.ready_at <= now:
                yield part

    def next_ready_at(self) -> float | None:
        """Return when the first of those may be asked for again that wait."""
        return min((part.ready_at for part in self if not part.is_out and not part.is_stopped), default=None)

    def served(self, part: Part) -> None:
        """Put a partition behind the others: it gave something."""
        part.wait_s = 0.0
        if self.is_current(part):
            del self._parts[part.key]
            self._parts[part.key] = part

    def put_off(self, part: Part, now: float) -> None:
        """Ask for a partition again after a wait."""
        part.put_off(now, self._uniform)
