"""A fetch session with one broker (KIP-227): what it knows is not said again, and what has no news is not answered.

An idle consumer of thousands of partitions sends and gets a request without any. Partitions of a session stand in it
until the broker has news of them. A session that the broker does not know, or does not want, is begun anew by a request
that names everything, and so is one with a topic that was made again. Its ids and epochs are kafka-python's. No input
or output.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kafka.consumer.fetcher import FetchMetadata

from spark_kcoord.fetch.requests import PartWanted
from spark_kcoord.fetch.tailing.parts import Part
from spark_kcoord.fetch.topic_range import TopicPartition

__all__ = ["Session"]


class Session:
    """The session of one connection; requests are made and answered one after the other."""

    def __init__(self) -> None:
        self._metadata = FetchMetadata.INITIAL
        self.known: dict[TopicPartition, PartWanted] = {}
        """The partitions as the broker was asked for them last."""
        self.names: dict[str, str] = {}
        """Their topics by id."""
        self.ends: dict[TopicPartition, tuple[int, int]] = {}
        """Their readable ends and high watermarks, as the broker said them last."""
        self.standing: dict[TopicPartition, Part] = {}
        """The partitions that the next request is for without saying so."""

    @property
    def id_and_epoch(self) -> tuple[int, int]:
        """The two numbers of the next request."""
        return self._metadata.session_id, self._metadata.epoch

    def ask(self, asked: Iterable[tuple[Part, PartWanted]]) -> tuple[list[PartWanted], list[PartWanted]]:
        """Add partitions to those that stand; return what a request has to name, and what it says to forget."""
        named = []
        for part, wanted in asked:
            self.standing[part.key] = part
            before = self.known.get(part.key)
            if before is not None and before.topic_id != wanted.topic_id:
                # To the broker it is another partition: it would go on to say that the one before is gone.
                self._metadata = self._metadata.next_close_existing()
                self.ends.pop(part.key, None)
            if before != wanted:
                self.known[part.key] = wanted
                self.names[wanted.topic_id or ""] = wanted.topic
                named.append(wanted)
        forgotten = []
        if len(self.known) > len(self.standing):
            forgotten = [self.known.pop(key) for key in list(self.known) if key not in self.standing]
            for wanted in forgotten:
                self.ends.pop((wanted.topic, wanted.partition), None)
        return (list(self.known.values()), []) if self._metadata.is_full else (named, forgotten)

    def drop(self, parts: Iterable[Part]) -> None:
        """Have these stand no more."""
        for part in parts:
            self.standing.pop(part.key, None)

    def take(self, response: Any) -> list[Part]:
        """Take that a response came; return the partitions that stand no more because the session is over."""
        session_id, _ = self.id_and_epoch
        if response.error_code or response.session_id < 0:
            return self.end()
        if response.session_id == FetchMetadata.INVALID_SESSION_ID:
            self._metadata = FetchMetadata.INITIAL
            return self._forget()
        if self._metadata.is_full:
            self._metadata = FetchMetadata.new_incremental(response.session_id)
            return []
        if response.session_id != session_id:
            return self.end()
        self._metadata = self._metadata.next_incremental()
        return []

    def end(self) -> list[Part]:
        """Begin anew with the next request; return the partitions that stood."""
        self._metadata = self._metadata.next_close_existing()
        return self._forget()

    def _forget(self) -> list[Part]:
        parts = list(self.standing.values())
        self.standing.clear()
        self.known.clear()
        self.ends.clear()
        return parts
