"""A fetcher that follows partitions as their records come, on a thread of its own, with connections of its own.

One request is out to each broker for all the partitions that it leads, and waits there for records; while one answer is
decoded the next is on its way, and `lanes` says when there is a second for positions that are new. All that was fetched
and not taken back is bounded: beyond it nothing is asked for. What comes is handed over in order, partition by
partition, and says under which token it was fetched. It decides nothing about offsets: a position that Kafka does not
have is told, and nothing more of that partition is fetched.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import kafka.errors as kafka_errors

from spark_kcoord.errors import KcoordError, OptionError
from spark_kcoord.fetch.connection import KafkaClient, describe_failure
from spark_kcoord.fetch.decoding.decode import AbortedTransaction, end_of
from spark_kcoord.fetch.offsets import ask_offsets
from spark_kcoord.fetch.receiving.compiled import going_first
from spark_kcoord.fetch.requests import NO_REPLICA, PartAnswer, PartWanted
from spark_kcoord.fetch.tailing.chunks import chunks_of
from spark_kcoord.fetch.tailing.counts import FetchCounts
from spark_kcoord.fetch.tailing.exchange import Asked, Exchange, together
from spark_kcoord.fetch.tailing.fetched import Chunk, Fetched, OutOfRange, Resolved, Trouble, Wanted
from spark_kcoord.fetch.tailing.lanes import LANES, lane_of, wait_s
from spark_kcoord.fetch.tailing.parts import Part, Parts
from spark_kcoord.fetch.tailing.room import Room
from spark_kcoord.fetch.topic_range import TopicPartition
from spark_kcoord.options.kafka_settings import KafkaSettings
from spark_kcoord.threads import start_once

__all__ = ["Tailer"]

_log = logging.getLogger(__name__)

_MOST_PARTITIONS: Final = 10_000
"""Partitions in one request."""
_PASSES: Final = frozenset({3, 100, 103})
"""UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, INCONSISTENT_TOPIC_ID: brokers learn of topics at different moments."""
_SMALL_BYTES: Final = 65_536
"""Records of answers that are decoded before the next request goes out."""
_IDLE_S: Final = 60.0
_CLOSE_S: Final = 2.0
_SILENCE_S: Final = 30.0
"""The time for which one failure is not said again."""


@dataclass(slots=True)
class _Raw:
    """Records of one partition that came and are not decoded yet."""

    part: Part
    token: int
    start: int
    end: int
    records: bytes | memoryview
    aborted: tuple[AbortedTransaction, ...] | None
    readable_end: int
    high_watermark: int


class Tailer:
    """Follows partitions. Its public methods belong to one thread, the rest to the fetcher's own.

    `on_news` is called on the fetcher's thread when there is something to take; it must not wait.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        *,
        columns: tuple[str, ...],
        max_buffered_bytes: int,
        on_news: Callable[[], None],
        connect: Callable[[KafkaSettings], KafkaClient] = KafkaClient,
    ) -> None:
        self._settings = settings
        self._columns = columns
        self._on_news = on_news
        self._connect = connect
        self._lock = threading.RLock()  # a signal may come within a call, and its handler make another
        # Guarded by _lock:
        self._wanted: Mapping[TopicPartition, Wanted] | None = None
        self._news: dict[int, Fetched] = {}
        """In the order in which they came, by identity: to take one is a step that no signal's handler can divide."""
        self._room = Room(max_buffered_bytes, settings.max_partition_fetch_bytes, settings.fetch_max_bytes)
        self._is_closed = False
        self._failure: BaseException | None = None
        self._client: KafkaClient | None = None
        self._thread: threading.Thread | None = None
        # The fetcher's own:
        self._counts = FetchCounts()
        self._parts = Parts()
        self._clients: list[KafkaClient] = []
        self._requests: dict[tuple[int, int], Asked] = {}
        self._exchange = Exchange(settings)
        self._raw: deque[_Raw] = deque()
        self._ready_brokers: dict[int, float] = {}
        self._stale: set[str] = set()
        self._look_up: Any = None
        self._look_up_at = 0.0
        self._resolving: dict[int, tuple[list[Part], Any]] = {}
        """The partitions of which it is asked where they begin or end, by their leaders: one may hang, or be none."""
        self._said: dict[str, float] = {}

    # ---- from the consumer's thread ---------------------------------------------------------------------------------

    def want(self, wanted: Mapping[TopicPartition, Wanted]) -> None:
        """Fetch exactly these partitions from now on."""
        with self._lock:
            self._wanted = dict(wanted)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="kcoord-fetch", daemon=True)
            if not self._is_closed:
                start_once(self._thread)
        self._wake()

    def news(self) -> list[Fetched]:
        """Return what came and was not taken yet; raises KcoordError when the fetcher has ended by a bug."""
        with self._lock:
            if self._failure is not None:
                raise KcoordError(
                    f"The fetcher has stopped by a bug in kcoord ({type(self._failure).__name__}: {self._failure})."
                ) from self._failure
            return list(self._news.values())

    def taken(self, news: Sequence[Fetched]) -> None:
        """Say that these of `news` need not come again; what was said before counts for nothing."""
        with self._lock:
            for one in news:
                self._news.pop(id(one), None)

    def free(self, freed_bytes: int, parked_bytes: int) -> None:
        """Say how many bytes of what was taken are not held any more, and how many are held for later."""
        with self._lock:
            is_to_wake = self._room.free(freed_bytes, parked_bytes)
        if is_to_wake:
            self._wake()

    def counts(self) -> FetchCounts:
        """Return how much it has done, as it stands now."""
        return replace(self._counts, requests=sum(client.requests for client in list(self._clients)))

    def close(self) -> None:
        """End the fetcher and close its connections; does not wait for long."""
        with self._lock:
            self._is_closed = True
            thread = self._thread
        self._wake()
        if thread is not None and thread.ident is not None and thread is not threading.current_thread():
            thread.join(_CLOSE_S)

    def abandon(self) -> None:
        """Have the fetcher end without waiting for it."""
        self._is_closed = True
        self._wake()

    def _wake(self) -> None:
        client = self._client
        if client is not None:
            client.wake()

    # ---- the fetcher's thread ---------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            client = self._client = self._connect(self._settings)
            self._clients.append(client)
            try:
                while not self._is_closed:
                    self._turn(client)
            finally:
                for one in reversed(self._clients):
                    one.close()
        except Exception as error:  # noqa: BLE001 - the thread's last line: nobody may wait for a dead fetcher
            _log.critical("the fetcher has stopped by a bug", exc_info=True)
            with self._lock:
                self._failure = error
            self._on_news()

    def _turn(self, client: KafkaClient) -> None:
        with self._lock:
            wanted, self._wanted = self._wanted, None
        now = time.monotonic()
        if wanted is not None:
            self._parts.adopt(wanted, now)
            self._exchange.keep(self._parts)
        self._take_look_up(client, now)
        self._take_resolved(client, now)
        for place in [place for place, request in self._requests.items() if request.response.is_done]:
            self._take_answer(place[0], self._requests.pop(place), now)
        if sum(len(raw.records) for raw in self._raw) <= _SMALL_BYTES:
            self._decode_all()
        if not self._raw:
            self._ask(client, now)
            client.turn(self._wait_s(now))
            return
        with going_first():
            if self._ask(client, now):
                client.catch_up()
            self._decode_one(self._raw.popleft())
            client.turn(0)

    def _decode_all(self) -> None:
        """Decode few records at once: somebody may wait for them, and is not to until the next request is made."""
        if not self._raw:
            return
        while self._raw:
            self._decode_one(self._raw.popleft())
        # Whoever was told has the interpreter first.
        time.sleep(0)

    def _on_lane(self, lane: int) -> KafkaClient:
        """Return the client that has the connections of a lane."""
        while len(self._clients) <= lane:
            self._clients.append(self._clients[0].beside())
        return self._clients[lane]

    def _not_behind_a_fetch(self) -> KafkaClient:
        """Return a client for a question that is not to wait until a broker has records."""
        used = {lane for _, lane in self._requests}
        return self._on_lane(next((lane for lane in LANES if lane not in used), LANES[-1]))

    def _wait_s(self, now: float) -> float:
        times = [self._parts.next_ready_at(), *self._ready_brokers.values()]
        if self._stale and self._look_up is None:
            times.append(self._look_up_at)
        later = [at - now for at in times if at is not None and at > now]
        return min(later, default=_IDLE_S)

    # ---- metadata and positions -------------------------------------------------------------------------------------

    def _take_look_up(self, client: KafkaClient, now: float) -> None:
        if self._look_up is not None and self._look_up.is_done:
            error, self._look_up = self._look_up.exception, None
            if error is None:
                self._stale.clear()
            else:
                self._not_looked_up(error)
                self._look_up_at = now + self._settings.retry_backoff_ms / 1000
        self._stale |= {name for name in self._parts.topics if client.topic(name) is None}
        self._stale &= self._parts.topics
        if self._stale and self._look_up is None and now >= self._look_up_at:
            self._look_up_at = now + self._settings.retry_backoff_ms / 1000
            self._look_up = client.start_soon(partial(self._not_behind_a_fetch().refresh, sorted(self._stale)))

    def _not_looked_up(self, error: BaseException) -> None:
        """Try on, unless an option keeps everything from Kafka: whoever waits for its partitions is told."""
        if not isinstance(error, OptionError):
            self._say(error)
            return
        error = error.with_traceback(None)  # the frames of the library would bury it
        for part in [part for part in self._parts if not part.is_stopped]:
            part.is_stopped = True
            self._hand_over_after_raw(Trouble(part.key, part.token, part.position, error))

    def _take_resolved(self, client: KafkaClient, now: float) -> None:
        for leader in [leader for leader, (_, answer) in self._resolving.items() if answer.is_done]:
            parts, answer = self._resolving.pop(leader)
            found, failure = answer.value if answer.exception is None else ({}, answer.exception)
            if failure is not None:
                self._say(failure)
            for part in parts:
                part.is_out = False
                offset = found.get(part.key)
                if offset is None:
                    self._parts.put_off(part, now)
                    self._stale.add(part.key[0])
                elif self._parts.is_current(part):
                    part.position = offset
                    self._tell(Resolved(part.key, part.token, offset, part.topic_id))
        by_leader: dict[int, list[Part]] = {}
        for part in self._parts.unresolved(now):
            topic = client.topic(part.key[0])
            leader, _ = topic.leaders.get(part.key[1], (-1, -1)) if topic is not None else (-1, -1)
            if topic is not None and leader not in self._resolving:
                if part.topic_id is None and topic.error is None:
                    part.topic_id = topic.topic_id  # what is made again before the first fetch is another topic
                by_leader.setdefault(leader, []).append(part)
        for leader, parts in by_leader.items():
            for part in parts:
                part.is_out = True
            ask = partial(ask_offsets, self._not_behind_a_fetch(), {part.key: part.position for part in parts})
            self._resolving[leader] = (parts, client.start_soon(ask))

    # ---- asking -----------------------------------------------------------------------------------------------------

    def _ask(self, client: KafkaClient, now: float) -> bool:
        """Send a request to each broker that has partitions to be asked for and none under way; say if one was."""
        with self._lock:
            room = self._room.left()
        room -= sum(len(raw.records) for raw in self._raw) + sum(one.most_bytes for one in self._requests.values())
        if room <= 0:
            return False
        by_lane: dict[tuple[int, int], list[tuple[Part, PartWanted]]] = {}
        ends: dict[int, list[tuple[int, float]]] = {}
        for (broker, lane), request in self._requests.items():
            ends.setdefault(broker, []).append((lane, request.wait_until))
        for part in self._parts.ready(now):
            found = self._place(client, part, now)
            if found is None:
                continue
            broker, leader_epoch = found
            free = lane_of(ends.get(broker, ()), now, is_new=not part.was_asked)
            if free is None or self._ready_brokers.get(broker, 0.0) > now:
                continue
            wanted = PartWanted(
                topic=part.key[0],
                topic_id=part.topic_id,
                partition=part.key[1],
                position=part.position,
                most_bytes=self._settings.max_partition_fetch_bytes,
                leader_epoch=leader_epoch,
                last_epoch=part.last_epoch,
            )
            by_lane.setdefault((broker, free), []).append((part, wanted))
        for broker in self._exchange.standing():
            is_free = lane_of(ends.get(broker, ()), now, is_new=False) == LANES[0]
            if is_free and self._ready_brokers.get(broker, 0.0) <= now:
                by_lane.setdefault((broker, LANES[0]), [])
        for number, (place, asked) in enumerate(by_lane.items()):
            most_bytes = self._room.share(room, len(by_lane) - number)
            room -= most_bytes
            waits_s = wait_s(ends.get(place[0], ()), now, self._settings.fetch_max_wait_ms / 1000)
            chosen = together(asked[:_MOST_PARTITIONS])
            request, self._requests[place] = self._exchange.ask(place, chosen, most_bytes, now, waits_s)
            send = partial(self._on_lane(place[1]).send, place[0], request)
            self._requests[place].response = client.start_soon(send)
        return bool(by_lane)

    def _place(self, client: KafkaClient, part: Part, now: float) -> tuple[int, int] | None:
        """Return the broker that a partition is read from, and its leader's epoch; None when that is not known."""
        topic = client.topic(part.key[0])
        if topic is None:
            return None
        if part.topic_id is None and topic.error is None:
            part.topic_id = topic.topic_id
        leader, epoch = topic.leaders.get(part.key[1], (-1, -1))
        is_other = part.topic_id is not None and topic.topic_id not in (None, part.topic_id)
        # What was learned before the partition was wanted may be older than the topic that its position is of.
        if is_other and part.is_by_name and topic.error is None and topic.learned_at >= part.adopted_at:
            part.is_stopped = True
            self._hand_over_after_raw(OutOfRange(part.key, part.token, part.position, is_new_topic=True))
            return None
        if topic.error is not None or is_other or leader < 0:
            self._stale.add(part.key[0])
            self._parts.put_off(part, now)
            return None
        return (leader if part.replica == NO_REPLICA else part.replica), epoch

    # ---- answers ----------------------------------------------------------------------------------------------------

    def _take_answer(self, broker: int, request: Asked, now: float) -> None:
        error = request.response.exception
        if error is not None:
            if not isinstance(error, kafka_errors.KafkaError):
                raise error
            for part in request.failed():
                part.is_out = False
                self._fail(part, error, now)
            return
        response = request.response.value
        self._counts.note_fetch((now - request.asked_at) * 1000)
        if response.throttle_time_ms:
            self._ready_brokers[broker] = now + response.throttle_time_ms / 1000
        answers, left = self._exchange.answers(request, response)
        for part in left:
            part.is_out = False
            if response.error_code:
                self._parts.put_off(part, now)
        for part, answer in answers:
            part.is_out = False
            if self._parts.is_current(part):
                self._take_part(part, answer, now)

    def _take_part(self, part: Part, answer: PartAnswer, now: float) -> None:
        judged = part.judge(answer)
        if judged is not None:
            self._hand_over_after_raw(judged)
        elif answer.error is not None:
            self._fail(part, answer.error, now)
        elif answer.preferred_replica >= 0:
            part.replica = answer.preferred_replica
        elif answer.records:
            self._take_records(part, answer)
        else:
            part.wait_s = 0.0
            self._tell_end(part, answer)

    def _take_records(self, part: Part, answer: PartAnswer) -> None:
        try:
            records_end = end_of(answer.records, _where(part.key))
        except KcoordError as error:
            part.is_stopped = True
            self._hand_over_after_raw(Trouble(part.key, part.token, part.position, error, is_of_record=True))
            return
        if records_end is None or records_end.next_offset <= part.position:
            return  # a batch that is cut off: it comes whole when the partition is the first of its request
        self._counts.fetched_bytes += len(answer.records)
        self._raw.append(
            _Raw(
                part,
                part.token,
                part.position,
                records_end.next_offset,
                answer.records,
                answer.aborted,
                answer.readable_end,
                answer.high_watermark,
            )
        )
        part.position, part.last_epoch = records_end.next_offset, records_end.leader_epoch
        self._parts.served(part)

    def _tell_end(self, part: Part, answer: PartAnswer) -> None:
        if answer.readable_end != part.end and answer.readable_end >= 0:
            part.end = answer.readable_end
            known = (answer.readable_end, answer.high_watermark, part.topic_id)
            self._hand_over_after_raw(Chunk(part.key, part.token, part.position, part.position, None, 0, (), *known))

    def _fail(self, part: Part, error: kafka_errors.KafkaError, now: float) -> None:
        part.replica = NO_REPLICA
        self._stale.add(part.key[0])
        errno = getattr(error, "errno", None)
        may_pass = error.retriable or errno in _PASSES or errno in (-1, kafka_errors.OffsetOutOfRangeError.errno)
        self._parts.put_off(part, now)
        if may_pass:
            self._say(error)
        elif self._parts.is_current(part):
            part.is_stopped = True
            why = f"{_where(part.key)} cannot be read: {describe_failure(error)}."
            self._hand_over_after_raw(Trouble(part.key, part.token, part.position, KcoordError(why)))

    # ---- what is handed over ----------------------------------------------------------------------------------------

    def _decode_one(self, raw: _Raw) -> None:
        for one in chunks_of(
            raw.part.key,
            raw.token,
            raw.records,
            raw.start,
            raw.end,
            columns=self._columns,
            aborted=raw.aborted,
            check_crcs=self._settings.check_crcs,
            ends=(raw.readable_end, raw.high_watermark),
            topic_id=raw.part.topic_id,
        ):
            if isinstance(one, Trouble):
                raw.part.is_stopped = True
            self._tell(one)

    def _hand_over_after_raw(self, news: Fetched) -> None:
        """Hand something over, after what came of its partition before and is not decoded yet."""
        waiting = [raw for raw in self._raw if raw.part.key == news.key]
        for raw in waiting:
            self._raw.remove(raw)
            self._decode_one(raw)
        self._tell(news)

    def _tell(self, news: Fetched) -> None:
        with self._lock:
            self._news[id(news)] = news
            if isinstance(news, Chunk):
                self._room.held_bytes += news.size
        self._on_news()

    def _say(self, error: BaseException) -> None:
        what = describe_failure(error) if isinstance(error, kafka_errors.KafkaError) else str(error)
        # Several failures take turns while a broker is away.
        now = time.monotonic()
        if now >= self._said.get(what, 0.0):
            self._said = {said: until for said, until in self._said.items() if until > now} | {what: now + _SILENCE_S}
            _log.warning("Kafka at %s: %s; trying on", ", ".join(self._settings.servers), what)


def _where(key: TopicPartition) -> str:
    return f"topic '{key[0]}' partition {key[1]}"
