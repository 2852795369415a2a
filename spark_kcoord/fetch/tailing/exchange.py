"""Requests of a tailing fetcher and what their answers say, in a fetch session where there can be one.

The first connection to a broker has a session, in which topics go by id; requests on the others name all that they ask.
No input or output.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from kafka.protocol.consumer import FetchRequest

from spark_kcoord.fetch.requests import NO_SESSION, PartAnswer, PartWanted, fetch_request, read_news, read_response
from spark_kcoord.fetch.tailing.lanes import LANES
from spark_kcoord.fetch.tailing.parts import Part, Parts
from spark_kcoord.fetch.tailing.sessions import Session
from spark_kcoord.options.kafka_settings import KafkaSettings

__all__ = ["Asked", "Exchange", "together"]


@dataclass(slots=True)
class Asked:
    """A request to a broker: what it asks for, how much, and until when the broker may wait (monotonic clock).

    One in a `session` is for all that stands in it. `response` is to be awaited.
    """

    parts: list[Part]
    wanted: list[PartWanted]
    session: Session | None
    most_bytes: int
    asked_at: float
    wait_until: float
    response: Any = None

    def failed(self) -> list[Part]:
        """Take that no answer comes; return the partitions that were asked for."""
        return self.parts if self.session is None else self.session.end()


@dataclass(slots=True)
class Exchange:
    """The requests to all brokers."""

    settings: KafkaSettings
    sessions: dict[int, Session] = field(default_factory=dict)

    def keep(self, parts: Parts) -> None:
        """Have those stand in no session that are not wanted any more."""
        for session in self.sessions.values():
            session.drop([part for part in session.standing.values() if not parts.is_current(part)])

    def standing(self) -> Iterator[int]:
        """Yield the brokers to which a request goes without naming anything."""
        return (broker for broker, session in self.sessions.items() if session.standing)

    def ask(
        self, place: tuple[int, int], asked: list[tuple[Part, PartWanted]], most_bytes: int, now: float, waits_s: float
    ) -> tuple[FetchRequest, Asked]:
        """Return the request for partitions to a broker on a lane, and what is to be kept of it."""
        broker, lane = place
        parts, named = [part for part, _ in asked], [wanted for _, wanted in asked]
        forgotten: list[PartWanted] = []
        session, numbers = None, NO_SESSION
        if lane == LANES[0] and (not named or named[0].topic_id is not None):
            session = self.sessions.setdefault(broker, Session())
            named, forgotten = session.ask(asked)
            numbers = session.id_and_epoch
        request = fetch_request(
            self.settings,
            named,
            most_bytes=most_bytes,
            max_wait_ms=math.ceil(waits_s * 1000),
            session=numbers,
            forgotten=forgotten,
        )
        for part in parts:
            part.is_out = part.was_asked = True
        return request, Asked(parts, named, session, most_bytes, now, now + waits_s)

    def answers(self, asked: Asked, response: Any) -> tuple[list[tuple[Part, PartAnswer]], list[Part]]:
        """Return what an answer says of which partitions, and those that nothing was said of and that stand no more."""
        session = asked.session
        if session is None:
            answers = read_response(self.settings, asked.wanted, response, most_bytes=asked.most_bytes)
            return list(zip(asked.parts, answers, strict=True)), []
        news = read_news(self.settings, session.known, response, session.names)
        session.ends |= {key: (answer.readable_end, answer.high_watermark) for key, answer in news.items()}
        # A broker does not say again what it has said of a partition, also where it was sought since. One that
        # throttles, or does not know the session, has looked at nothing.
        for part in () if response.error_code or response.throttle_time_ms else asked.parts:
            if part.end is None and part.key not in news and part.key in session.ends:
                readable_end, high_watermark = session.ends[part.key]
                news[part.key] = PartAnswer(None, readable_end=readable_end, high_watermark=high_watermark)
        found = [(session.standing.pop(key), answer) for key, answer in news.items() if key in session.standing]
        return found, session.take(response)


def together(asked: list[tuple[Part, PartWanted]]) -> list[tuple[Part, PartWanted]]:
    """Return partitions with those of a topic together, the topic of the first one first."""
    by_topic: dict[str, list[tuple[Part, PartWanted]]] = {}
    for one in asked:
        by_topic.setdefault(one[1].topic, []).append(one)
    # One fetch names topics by id or by name; those whose id is not known wait for a request of their own.
    has_id = bool(asked) and asked[0][1].topic_id is not None
    return [one for of_topic in by_topic.values() for one in of_topic if (one[1].topic_id is not None) == has_id]
