"""The Kafka port: topics, their partitions and ends, and lookups of offsets, on a thread of its own.

Kafka has no watches, so it polls; kafka-python is not asyncio, so nothing of it touches the event loop. Topics that
are new are asked about at once. While Kafka is away it goes on trying for ever and says so every round (KafkaFailed);
lookups are then answered with the reason instead of an offset. A question that cannot be asked is answered as failed
and costs no other one; a bug of the thread's own has it begin anew, as often as it tries a Kafka that is away. Polling
never takes more than a tenth of the thread's time, nor of the interpreter that it shares with the event loop: the ends
of very many partitions are read piece by piece, with lookups and new topics between, and all of them so rarely that it
takes a twentieth of the time. To wait for a leader that does not answer is no work: the ends of the others are read as
often as without it. Does not promise that two answers are of one moment.
"""

import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain

from structlog.typing import FilteringBoundLogger

from coordinator.config import KafkaSettings
from coordinator.core.effects import OffsetToResolve
from coordinator.core.events import (
    EndOffsetsRead,
    Event,
    KafkaFailed,
    OffsetsResolved,
    ResolvedOffset,
    TopicMetadata,
    TopicsRead,
)
from coordinator.protocol.ids import LATEST, TopicPartition
from coordinator.runtime.kafka.access import KafkaAccess
from coordinator.runtime.kafka.client import ClusterView, EndsAnswer, KafkaAwayError, KafkaClient
from coordinator.runtime.kafka.kept_client import KeptClient
from coordinator.runtime.kafka.questions import ask_apart, merged
from coordinator.runtime.security.reread import Reread

_SHARE_OF_TIME = 10
_ENDS_SHARE_OF_TIME = 20
ENDS_AT_ONCE = 2000
"""Partitions whose ends are read in one piece, which takes some milliseconds."""
_LOOKUP_TRIES = 3
_LOOKUP_PAUSE_S = 0.2
_SHORTEST_BACKOFF_MS = 250
_LONGEST_BACKOFF_MS = 2000
_SAY_AGAIN_MS = 60_000
_MOST_REFUSED_SAID = 20


@dataclass(frozen=True, slots=True)
class _Lookup:
    lookup_id: int
    offsets: tuple[OffsetToResolve, ...]
    asks_topics: bool = False


@dataclass(slots=True)
class _EndsRound:
    """One look at the ends of all partitions, piece by piece; `is_lacking` when some could not be read."""

    begun_s: float
    to_read: list[TopicPartition]
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    is_lacking: bool = False
    spent_s: float = 0.0


class KafkaPort:
    """The thread that asks; `post` takes an event from any thread.

    `connect` makes the client that is asked; it raises KafkaAwayError. `access` says how brokers are spoken to, where
    that is not plainly: once it has another value, the port connects anew.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        post: Callable[[Event], None],
        log: FilteringBoundLogger,
        connect: Callable[[], KafkaClient] | None = None,
        access: Reread[KafkaAccess] | None = None,
    ) -> None:
        self._settings = settings
        self._post = post
        self._log = log
        self._connect = connect
        self._kept = KeptClient(self._new_client, log, access)
        self._thread = threading.Thread(target=self._run, name="kcoord-kafka", daemon=True)
        self._changed = threading.Condition()
        # Under the condition's lock: what other threads have asked for.
        self._topics: frozenset[str] = frozenset()
        self._new_topics: set[str] = set()
        self._lists_all = False
        self._lookups: list[_Lookup] = []
        self._is_closing = False
        self._why_away = "Kafka has not answered yet"
        # The thread's own.
        self._leaders: dict[TopicPartition, int] = {}
        self._known_topics: dict[str, TopicMetadata] = {}
        self._topics_due_s = 0.0
        self._topics_soonest_s = 0.0
        self._ends_due_s = 0.0
        self._ends_round: _EndsRound | None = None
        self._told_refused: frozenset[tuple[str, str]] = frozenset()
        self._failures = 0
        self._is_reachable: bool | None = None
        self._say_again_s = 0.0

    @property
    def why_away(self) -> str:
        """Say why Kafka cannot be asked now, empty if it can; from any thread."""
        return self._why_away

    def start(self) -> None:
        """Start asking."""
        self._thread.start()

    def watch_topics(self, topics: frozenset[str], *, lists_all: bool = False) -> None:
        """Poll these topics from now on, new ones at once; with `lists_all` every other topic is told of too."""
        with self._changed:
            if lists_all and not self._lists_all:
                self._topics_due_s = 0.0
            self._lists_all = lists_all
            self._new_topics |= topics - self._topics
            self._new_topics &= topics
            self._topics = topics
            self._changed.notify()

    def resolve_offsets(self, lookup_id: int, offsets: Sequence[OffsetToResolve], *, asks_topics: bool = False) -> None:
        """Find out where partitions begin, end or were at a time, and post OffsetsResolved."""
        with self._changed:
            self._lookups.append(_Lookup(lookup_id, tuple(offsets), asks_topics))
            self._changed.notify()

    def close(self, timeout_s: float = 5.0) -> None:
        """Stop asking; nothing is posted afterwards. Returns in time even when Kafka does not answer."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        self._kept.interrupt()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    # ---- the thread -------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while True:
                try:
                    if self._wait_for_work():
                        return
                    self._work()
                except KafkaAwayError as error:
                    self._fail(str(error))
                except Exception as error:  # noqa: BLE001 - a bug here must not end the thread, nor the node
                    self._log.critical("bug", why="the thread that asks Kafka met a bug; it begins anew", exc_info=True)
                    kind = type(error).__name__
                    self._fail(f"Kafka is not asked for now, since the thread that asks it met a bug ({kind})")
        finally:
            self._kept.drop()

    def _wait_for_work(self) -> bool:
        """Wait until something is due; True means the port is closing."""
        with self._changed:
            while not self._is_closing:
                is_asked = bool(self._new_topics or self._lookups)
                due_s = self._topics_due_s if self._failures else min(self._topics_due_s, self._ends_due_s)
                wait_s = due_s - time.monotonic()
                if wait_s <= 0 or (is_asked and not self._failures):
                    return False
                self._changed.wait(wait_s)
            return True

    def _work(self) -> None:
        self._kept.get()
        with self._changed:
            topics, lists_all = self._topics, self._lists_all
            new_topics = frozenset(self._new_topics)
            self._new_topics.clear()
        if time.monotonic() >= self._topics_due_s:
            started_s = time.monotonic()
            self._read_topics(topics, lists_all=lists_all)
            self._leaders = {key: leader for key, leader in self._leaders.items() if key[0] in topics}
            self._known_topics = {name: topic for name, topic in self._known_topics.items() if name in topics}
            self._topics_soonest_s = _next_due(started_s, 0)
            self._topics_due_s = _next_due(started_s, self._settings.topics_poll_ms)
        elif new_topics:
            self._read_topics(new_topics)
        self._answer_lookups()
        if time.monotonic() >= self._ends_due_s:
            self._read_some_ends(topics)

    def _new_client(self, access: KafkaAccess) -> KafkaClient:
        self._topics_due_s = 0.0
        if self._connect is not None:
            return self._connect()
        settings = self._settings
        return KafkaClient(settings.bootstrap_servers, settings.request_timeout_ms, settings.connect_timeout_ms, access)

    def _give_up(self, what: str, error: Exception) -> str:
        """Say that a question cannot be asked, and go on with another client; returns the reason."""
        self._log.critical("bug", why=f"Kafka cannot be asked {what}; the question is given up", exc_info=error)
        return f"it cannot be asked, by a bug of the coordinator's ({type(error).__name__})"

    def _read_topics(
        self, topics: frozenset[str], *, lists_all: bool = False, tells_absent: bool = True
    ) -> ClusterView:
        """Ask for topics and tell of them; absent ones as often as they are polled, since the core counts that."""
        if lists_all:
            view = self._known(self._kept.get().read_all_topics(topics))
        else:
            view = merged(ask_apart(sorted(topics), self._ask_topics, self._refuse_topics))
        if view.brokers:
            self._say_reachable(view)
        self._say_refused(view)
        for name in (*view.absent, *view.topics):
            before, now = self._known_topics.pop(name, None), view.topics.get(name)
            for partition in range(now.partitions if now else 0, before.partitions if before else 0):
                self._leaders.pop((name, partition), None)  # where it ends could never be read again
        self._known_topics.update(view.topics)
        for topic in view.topics.values():
            for partition, leader in enumerate(topic.leaders):
                if leader is None:
                    self._leaders.pop((topic.topic, partition), None)
                else:
                    self._leaders[topic.topic, partition] = leader
        absent = view.absent if tells_absent else frozenset()
        self._emit(TopicsRead(view.topics, absent, view.refused, view.brokers, view.cluster_id, is_whole=lists_all))
        return view

    def _ask_topics(self, names: Sequence[str]) -> ClusterView:
        try:
            return self._known(self._kept.get().read_topics(frozenset(names)))
        except BaseException:
            self._kept.drop()
            raise

    def _known(self, view: ClusterView) -> ClusterView:
        """Return an answer of a broker that knows its cluster; raises KafkaAwayError.

        One that has only begun, and waits to be told, names no brokers and says that there is no topic, of each.
        """
        if not view.brokers:
            names = ", ".join(self._settings.bootstrap_servers)
            raise KafkaAwayError(
                f"Kafka at {names} cannot be asked yet: the broker that answered has only begun, and knows no brokers"
            )
        return view

    def _refuse_topics(self, names: Sequence[str], error: Exception) -> ClusterView:
        if not names:
            raise error
        why = self._give_up(f"about {len(names)} topics", error)
        return ClusterView({}, frozenset(), dict.fromkeys(names, why), {}, None)

    def _ask_offsets(self, offsets: Sequence[OffsetToResolve]) -> list[ResolvedOffset]:
        try:
            return self._kept.get().list_offsets(offsets, self._leaders)
        except BaseException:
            self._kept.drop()
            raise

    def _no_offsets(self, offsets: Sequence[OffsetToResolve], error: Exception) -> list[ResolvedOffset]:
        why = self._give_up(f"where {len(offsets)} partitions begin or end", error)
        return [ResolvedOffset(asked.topic, asked.partition, None, why=why) for asked in offsets]

    def _list_offsets(self, offsets: Sequence[OffsetToResolve]) -> list[ResolvedOffset]:
        """Ask where partitions begin, end or were; an answer for each, in the order asked."""
        return list(chain.from_iterable(ask_apart(offsets, self._ask_offsets, self._no_offsets)))

    def _ask_ends(self, offsets: Sequence[OffsetToResolve]) -> EndsAnswer:
        try:
            return self._kept.get().list_ends(offsets, self._leaders)
        except BaseException:
            self._kept.drop()
            raise

    def _no_ends(self, offsets: Sequence[OffsetToResolve], error: Exception) -> EndsAnswer:
        return EndsAnswer(self._no_offsets(offsets, error), 0.0)

    def _read_some_ends(self, topics: frozenset[str]) -> None:
        """Read the next piece of the ends; tell of them once all are read, and begin anew after the interval."""
        started_s = time.monotonic()
        if self._ends_round is None:
            self._ends_round = _EndsRound(
                started_s, [partition for partition in self._leaders if partition[0] in topics]
            )
        turn = self._ends_round
        piece, turn.to_read = turn.to_read[:ENDS_AT_ONCE], turn.to_read[ENDS_AT_ONCE:]
        asked = [OffsetToResolve(topic, number, LATEST) for topic, number in piece if topic in topics]
        told = ask_apart(asked, self._ask_ends, self._no_ends) if asked else []
        for answer in chain.from_iterable(each.ends for each in told):
            if answer.offset is None:
                turn.is_lacking = True
            else:
                turn.ends[answer.topic, answer.partition] = answer.offset
        worked_from_s = started_s + sum(each.waited_s for each in told)
        turn.spent_s += time.monotonic() - worked_from_s
        self._ends_due_s = _next_due(worked_from_s, 0)
        if not turn.to_read:
            self._end_round(turn, is_told=bool(piece))

    def _end_round(self, turn: _EndsRound, *, is_told: bool) -> None:
        """Tell of the ends that were read, look for leaders if some were not, and plan the next round."""
        self._ends_round = None
        if is_told:
            self._emit(EndOffsetsRead(turn.ends))
        if turn.is_lacking:
            self._topics_due_s = min(self._topics_due_s, self._topics_soonest_s)
        interval_s = max(self._settings.ends_poll_ms / 1000, _ENDS_SHARE_OF_TIME * turn.spent_s)
        self._ends_due_s = max(self._ends_due_s, turn.begun_s + interval_s)

    def _answer_lookups(self) -> None:
        """Answer lookups until there are none, or topics are to be read before the next one."""
        is_first = True
        while True:
            with self._changed:
                is_topics_turn = bool(self._new_topics) or time.monotonic() >= self._topics_due_s
                if not self._lookups or (is_topics_turn and not is_first):
                    return
                lookup = self._lookups.pop(0)
            is_first = False
            try:
                found = self._look_up(lookup.offsets, asks_topics=lookup.asks_topics)
            except Exception:
                # Whatever it is, it is told to those that wait, who do not ask again by themselves.
                with self._changed:
                    self._lookups.insert(0, lookup)
                raise
            known = self._known_topics
            topics = {topic: known[topic] for topic in {asked.topic for asked in lookup.offsets} if topic in known}
            self._emit(OffsetsResolved(lookup.lookup_id, tuple(found), topics))

    def _look_up(self, offsets: Sequence[OffsetToResolve], *, asks_topics: bool = False) -> list[ResolvedOffset]:
        """Ask; where a leader has moved, ask for metadata and then the new one, and of topics that nobody polls before.

        So too with `asks_topics`. What Kafka says it does not have is not asked about again, but for topics that are
        polled and were there: one broker may be late, so what it lacks is believed the second time.
        """
        with self._changed:
            polled = self._topics
        is_polled = not asks_topics and polled.issuperset(asked.topic for asked in offsets)
        answers: dict[TopicPartition, ResolvedOffset] = {}
        left = list(offsets)
        for attempt in range(_LOOKUP_TRIES):
            if attempt:
                self._pause(_LOOKUP_PAUSE_S)
            there = left
            if attempt or not is_polled or any((asked.topic, asked.partition) not in self._leaders for asked in left):
                view = self._read_topics(frozenset(asked.topic for asked in left), tells_absent=False)
                there = _leave_out_absent(view, left, answers)
            found = self._list_offsets(there) if there else []
            if len(found) == len(offsets) and all(answer.offset is not None for answer in found):
                return found  # as nearly always, and they may be tens of thousands
            for answer in found:
                answers[answer.topic, answer.partition] = answer
            if asks_topics and not attempt:
                absent = [asked for asked in left if answers[asked.topic, asked.partition].is_absent]
                there = [*there, *(asked for asked in absent if asked.topic in polled)]
            left = [asked for asked in there if answers[asked.topic, asked.partition].offset is None]
            if not left:
                break
        return [answers[asked.topic, asked.partition] for asked in offsets]

    def _fail(self, why: str) -> None:
        self._kept.drop()
        self._ends_round = None
        self._failures += 1
        self._why_away = why
        now_s = time.monotonic()
        backoff_ms = min(_LONGEST_BACKOFF_MS, _SHORTEST_BACKOFF_MS * 2 ** min(self._failures - 1, 16))
        self._topics_due_s = now_s + backoff_ms * random.uniform(0.8, 1.2) / 1000  # noqa: S311 - only spread out
        if self._is_reachable is not False or now_s >= self._say_again_s:
            self._is_reachable = False
            self._say_again_s = now_s + _SAY_AGAIN_MS / 1000
            self._log.warning("kafka-unreachable", why=f"{why}; trying again until it answers")
        with self._changed:
            lookups, self._lookups = self._lookups, []
        self._emit(KafkaFailed(why))
        for lookup in lookups:
            unknown = tuple(ResolvedOffset(asked.topic, asked.partition, None, why=why) for asked in lookup.offsets)
            self._emit(OffsetsResolved(lookup.lookup_id, unknown))

    def _say_refused(self, view: ClusterView) -> None:
        """Say of topics that Kafka has newly refused to show why it does."""
        answered = view.refused.keys() | view.topics.keys() | view.absent
        told = {each for each in self._told_refused if each[0] not in answered}
        refused = set(view.refused.items())
        for topic, why in sorted(refused - self._told_refused)[:_MOST_REFUSED_SAID]:
            self._log.warning("kafka-topic-refused", topic=topic, why=why)
        self._told_refused = frozenset(told | refused)

    def _say_reachable(self, view: ClusterView) -> None:
        self._failures = 0
        self._why_away = ""
        if not self._is_reachable:
            self._is_reachable = True
            self._log.info("kafka-reachable", cluster=view.cluster_id, brokers=len(view.brokers))

    def _pause(self, seconds: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._is_closing, seconds)

    def _emit(self, event: Event) -> None:
        with self._changed:
            is_closing = self._is_closing
        if not is_closing:
            self._post(event)


def _leave_out_absent(
    view: ClusterView, offsets: Sequence[OffsetToResolve], answers: dict[TopicPartition, ResolvedOffset]
) -> list[OffsetToResolve]:
    """Return those that Kafka neither lacks nor refuses to tell of, and answer the others."""
    sizes = {topic.topic: len(topic.leaders) for topic in view.topics.values()}
    gone = {topic: f"Kafka has no topic {topic}" for topic in view.absent}
    left = []
    for asked in offsets:
        topic, number = asked.topic, asked.partition
        if topic in gone:
            answers[topic, number] = ResolvedOffset(topic, number, None, why=gone[topic], is_absent=True)
        elif topic in view.refused:
            answers[topic, number] = ResolvedOffset(topic, number, None, why=view.refused[topic])
        elif topic in sizes and number >= sizes[topic]:
            why = f"Kafka has no partition {number} of topic {topic}, which has {sizes[topic]}"
            answers[topic, number] = ResolvedOffset(topic, number, None, why=why, is_absent=True)
        else:
            left.append(asked)
    return left


def _next_due(started_s: float, interval_ms: int) -> float:
    now_s = time.monotonic()
    return max(started_s + interval_ms / 1000, now_s + (_SHARE_OF_TIME - 1) * (now_s - started_s))
