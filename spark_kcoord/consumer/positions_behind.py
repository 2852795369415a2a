"""Positions of a plain consumer that lie behind the end of their log: nothing would ever come for them.

A broker answers a read behind its end with an error, but a consumer asks for ends first and reads up to these, so that
a log that was cut back looks like one without news. An end can be as old as a broker's leadership, and one who reads
committed records only may well stand behind the last stable offset; so the high watermark is asked, after a while and
now and then. What is to be done about a position that is gone is not decided here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from coordinator.protocol.ids import TopicPartition
from spark_kcoord.consumer.records import Position, Records
from spark_kcoord.errors import KafkaAwayError, UnknownTopicError
from spark_kcoord.member.core.session.patience import END_AGE_S

__all__ = ["PositionsBehind"]

_Place: TypeAlias = tuple[TopicPartition, int, int]
"""A partition, the owner epoch of its grant, and an offset."""


class PositionsBehind:
    """Since when each position has been behind the end that was known of its log; `clock` returns monotonic seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._since: dict[_Place, float] = {}
        self._ends: Mapping[TopicPartition, int] | None = None

    def look(
        self, records: Records, positions: Mapping[TopicPartition, Position], ends: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """Return the high watermarks of the partitions whose position has been behind it for END_AGE_S.

        `ends` are those known by now, of some of the partitions or of none; only other ones than before are looked at.
        """
        if ends is self._ends:
            return {}
        now, self._ends = self._clock(), ends
        places = {key: (key, position.owner_epoch, position.offset) for key, position in positions.items()}
        behind = {key: place for key, place in places.items() if key in ends and ends[key] < place[2]}
        unknown = {places[key] for key in places.keys() - ends.keys()}
        self._since = {place: since for place, since in self._since.items() if place in unknown} | {
            place: self._since.get(place, now) for place in behind.values()
        }
        asked = [key for key, place in behind.items() if now - self._since[place] >= END_AGE_S]
        if not asked:
            return {}
        try:
            marks = records.high_watermarks(asked)
        except (KafkaAwayError, UnknownTopicError):
            return {}
        for key in asked:
            if marks.get(key, positions[key].offset) >= positions[key].offset:
                self._since[behind[key]] = now
        return {key: marks[key] for key in asked if key in marks and marks[key] < positions[key].offset}
