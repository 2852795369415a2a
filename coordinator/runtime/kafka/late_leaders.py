"""Questions to the leaders of partitions of which some may be late: the answers of the others do not wait for them.

A leader that has not answered within the patience of a call is late. Its question stays on its way, and from then on it
is asked one question at a time for which nobody waits: each call takes the answer that has come meanwhile and sends the
next question. So a slow leader is told of a little later, a silent one is not told of, and neither costs time. A late
leader is waited for again once it answers promptly, and not before `_REST_S` are over: one that is now quick and now
slow costs a tenth of the time. All of it runs in the library's loop. It knows no client, no topics and no rounds.
"""

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, TypeAlias

from kafka.errors import KafkaError
from kafka.future import Future

from coordinator.core.effects import OffsetToResolve
from coordinator.core.events import ResolvedOffset
from coordinator.protocol.ids import TopicPartition

PATIENCE_S: Final = 0.5
"""Time in which a leader that is not late answers; on a healthy cluster it takes some milliseconds."""
_REST_S: Final = 10 * PATIENCE_S
_MOST_AT_ONCE: Final = 2000

LeaderKey: TypeAlias = tuple[int, bool]
"""A leader, and whether it is asked about committed records alone."""


@dataclass(slots=True)
class _Question:
    """A question on its way, with the time that its answer took."""

    request: Future
    asked_s: float
    took_s: float | None = None

    def __post_init__(self) -> None:
        self.request.add_both(self._take_time)

    def _take_time(self, _: object) -> None:
        self.took_s = time.monotonic() - self.asked_s

    @property
    def is_prompt(self) -> bool:
        """Say whether it was answered, and soon."""
        return self.took_s is not None and self.took_s <= PATIENCE_S and self.request.exception is None


@dataclass(slots=True)
class _LateLeader:
    """A leader that is not waited for: its question, the partitions to ask about next, and its newest answers."""

    late_s: float
    question: _Question
    to_ask: dict[TopicPartition, OffsetToResolve] = field(default_factory=dict)
    answers: deque[tuple[float, Mapping[TopicPartition, ResolvedOffset]]] = field(default_factory=deque)

    def answer_for(self, partition: TopicPartition) -> ResolvedOffset | None:
        """Return the newest answer, if there is one."""
        return next((some[partition] for _, some in reversed(self.answers) if partition in some), None)


@dataclass(frozen=True, slots=True)
class Told:
    """The knowledge at the end of a call: results of leaders, answers of late ones, and the time waited for those."""

    results: list[tuple[LeaderKey, Any]]
    answers: dict[TopicPartition, ResolvedOffset]
    waited_s: float


class LateLeaders:
    """The leaders that are late, and the way to ask so that they delay no others.

    `send` asks a leader and returns the library's future, or raises KafkaError; `call_at` is the library's; `read`
    takes a response apart. Answers of a late leader are told for `longest_kept_s`, for as long as it answers at all.
    """

    def __init__(
        self,
        send: Callable[[LeaderKey, Sequence[OffsetToResolve]], Future],
        call_at: Callable[[float, Callable[[], object]], object],
        read: Callable[[Any], Mapping[TopicPartition, ResolvedOffset]],
        longest_kept_s: float,
    ) -> None:
        self._send = send
        self._call_at = call_at
        self._read = read
        self._longest_kept_s = longest_kept_s
        self._late: dict[LeaderKey, _LateLeader] = {}

    async def ask(self, by_leader: Mapping[LeaderKey, Sequence[OffsetToResolve]]) -> Told:
        """Ask all leaders at once, and wait as long as patience lasts for those that are not late."""
        begun_s = time.monotonic()
        answers: dict[TopicPartition, ResolvedOffset] = {}
        awaited: dict[LeaderKey, _Question] = {}
        for key, offsets in by_leader.items():
            late = self._late.get(key)
            if late is not None and not (late.question.is_prompt and begun_s >= late.late_s + _REST_S):
                answers.update(self._ask_late(key, late, offsets))
            else:
                self._late.pop(key, None)
                awaited[key] = self._question(key, offsets)
        await self._wait_for([each.request for each in awaited.values()], begun_s + PATIENCE_S)
        ended_s = time.monotonic()
        results, last_s = [], 0.0
        for key, question in awaited.items():
            if question.request.is_done:
                results.append((key, _result(question.request)))
                last_s = max(last_s, question.took_s or 0.0)
            else:
                self._late[key] = _LateLeader(ended_s, question)
        return Told(results, answers, ended_s - begun_s - last_s if len(results) < len(awaited) else 0.0)

    def _ask_late(
        self, key: LeaderKey, late: _LateLeader, offsets: Sequence[OffsetToResolve]
    ) -> dict[TopicPartition, ResolvedOffset]:
        now_s = time.monotonic()
        for asked in offsets:
            late.to_ask.setdefault((asked.topic, asked.partition), asked)
        while late.answers and late.answers[0][0] < now_s - self._longest_kept_s:
            late.answers.popleft()
        if late.question.request.is_done:
            result = _result(late.question.request)
            if isinstance(result, KafkaError):
                late.answers.clear()
            else:
                late.answers.append((now_s, self._read(result)))
            some = list(islice(late.to_ask, _MOST_AT_ONCE))
            late.question = self._question(key, [late.to_ask.pop(partition) for partition in some])
        found = ((asked.topic, asked.partition) for asked in offsets)
        return {partition: answer for partition in found if (answer := late.answer_for(partition)) is not None}

    def _question(self, key: LeaderKey, offsets: Sequence[OffsetToResolve]) -> _Question:
        asked_s = time.monotonic()
        try:
            request = self._send(key, offsets)
        except KafkaError as error:
            request = Future().failure(error)
        return _Question(request, asked_s)

    async def _wait_for(self, requests: Sequence[Future], until_s: float) -> None:
        """Return once all requests have an end, or at a time."""
        over = Future()
        left = sum(not request.is_done for request in requests)

        def end() -> None:
            if not over.is_done:
                over.success(None)

        def count(_: object) -> None:
            nonlocal left
            left -= 1
            if not left:
                end()

        if left:
            for request in [each for each in requests if not each.is_done]:
                request.add_both(count)
            self._call_at(until_s, end)
            await over


def _result(request: Future) -> Any:
    """Return a response, or the error that a leader is responsible for; raises others."""
    if request.exception is not None and not isinstance(request.exception, KafkaError):
        raise request.exception
    return request.exception or request.value
