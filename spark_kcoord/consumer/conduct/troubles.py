"""Troubles that a consumer is told in place of records, and when: none waits for other partitions to run dry.

Records of other partitions come first, for one call; then the trouble is raised once, and after that whenever there is
nothing else to return. Positions that Kafka does not have are the coordinator's to judge for a member, and the policy's
for partitions that were assigned by hand.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import Future
from functools import partial
from typing import Any

from coordinator.protocol.ids import TopicPartition as Key
from coordinator.protocol.parts import LostPosition
from spark_kcoord.consumer.conduct.group import Group
from spark_kcoord.consumer.core.machine import ConsumerMachine
from spark_kcoord.consumer.errors import (
    CorruptRecordError,
    LogTruncatedError,
    OffsetOutOfRangeError,
    StartNotKnownError,
    translated,
)
from spark_kcoord.consumer.settings import Settings, own_error
from spark_kcoord.consumer.values import TopicPartition
from spark_kcoord.errors import KcoordError
from spark_kcoord.fetch.tailing.fetched import AT_BEGINNING, AT_END, Trouble

__all__ = ["Troubles"]

_log = logging.getLogger(__name__)

Raise = Callable[[], None]


class Troubles:
    """The troubles of one consumer. `clock` returns monotonic seconds."""

    def __init__(self, settings: Settings, machine: ConsumerMachine, group: Group, clock: Callable[[], float]) -> None:
        self._settings = settings
        self._machine = machine
        self._group = group
        self._clock = clock
        self._reporting: tuple[tuple[LostPosition, ...], Future[Any]] | None = None
        self._seen: frozenset[Hashable] = frozenset()
        self._told: frozenset[Hashable] = frozenset()

    def raise_next(self, *, is_beside_rows: bool) -> None:
        """Raise the trouble that is due, if there is one; `is_beside_rows` says that there are rows to return."""
        found = list(self._all())
        if not found and not self._seen and not self._told:
            return
        names = frozenset(name for name, _ in found)
        seen, self._seen, self._told = self._seen, names, self._told & names
        for name, tell in found:
            if not is_beside_rows or (name in seen and name not in self._told):
                self._told |= {name}
                tell()

    def _all(self) -> Iterator[tuple[Hashable, Raise]]:
        for held, trouble in self._machine.troubled():
            yield (held.key, held.token), partial(self._raise_trouble, trouble)
        for held in self._machine.without_start():
            yield (held.key, held.token), partial(self.raise_without_start, held.key)
        if self._settings.reset_policy == "none" and (gone := tuple(self._machine.start_over())):
            yield ("gone", *gone), partial(self._raise_gone, gone)
        if self._machine.withheld:
            yield tuple((one.topic, one.partition) for one in self._machine.withheld), self._raise_withheld
        cut = self._machine.take_truncations()
        if cut and self._settings["auto_offset_reset"] != "none":
            _log.warning("%s Going on there.", _cut_back(cut))
        elif cut:
            yield cut, partial(self._raise_cut, cut)

    def _raise_trouble(self, trouble: Trouble) -> None:
        if trouble.is_of_record:
            where = f"topic '{trouble.key[0]}' partition {trouble.key[1]}"
            what = f"{trouble.error} Seek beyond offset {trouble.position} of {where} to pass it."
            raise CorruptRecordError(what, *trouble.key, trouble.position) from trouble.error
        self._machine.retry(trouble.key)
        raise own_error(trouble.error) from trouble.error

    def raise_without_start(self, key: Key) -> None:
        """Raise StartNotKnownError if nobody says where a partition starts that was assigned by hand."""
        held = self._machine.held(key)
        if held is not None and held.is_without_start:
            raise StartNotKnownError(
                f"Nobody says where {key[0]}-{key[1]} starts: there is no committed offset and 'auto_offset_reset' is "
                "none. Seek, or assign it with an offset.",
                [key],
            )

    def _raise_gone(self, gone: tuple[Key, ...]) -> None:
        shown = ", ".join(f"{topic}-{number}" for topic, number in gone)
        raise OffsetOutOfRangeError(
            f"Kafka does not have the positions of {shown}, and 'auto_offset_reset' is none: seek.", gone
        )

    def _raise_withheld(self) -> None:
        withheld = self._machine.withheld
        shown = ", ".join(f"{one.topic}-{one.partition}" for one in withheld[:8])
        raise StartNotKnownError(
            f"Group '{self._settings.group_id}' has no offset of {shown}, and its policy is none: commit one "
            "(kcoord group reset-offsets), or say 'auto_offset_reset' in a new group.",
            [(one.topic, one.partition) for one in withheld],
        )

    def _raise_cut(self, cut: tuple[tuple[Key, int], ...]) -> None:
        raise LogTruncatedError(_cut_back(cut), {TopicPartition(*key): offset for key, offset in cut})

    # ---- positions that Kafka does not have -------------------------------------------------------------------------

    def report(self) -> None:
        """Tell the coordinator of positions that Kafka does not have, and go on as it says."""
        if self._reporting is not None and self._reporting[1].done():
            (asked, answer), self._reporting = self._reporting, None
            if answer.exception() is None:
                refused = self._machine.take_report(asked, answer.result(), self._clock())
                if refused:
                    shown = "; ".join(
                        f"{result.topic}-{result.partition}: Kafka does not have offset {position}, {result.message}"
                        for result, position in refused
                    )
                    keys = [(result.topic, result.partition) for result, _ in refused]
                    raise OffsetOutOfRangeError(f"{shown}. Seek to where it is to go on.", keys)
        lost = self._machine.lost_positions(self._clock()) if self._reporting is None else ()
        if lost:
            _log.warning(
                "group %s: Kafka does not have %s; the coordinator is told",
                self._settings.group_id,
                "; ".join(f"offset {part.position} of {part.topic}-{part.partition}" for part in lost),
            )
            try:
                self._reporting = (lost, self._group.report(lost))
            except KcoordError as error:
                raise translated(error) from error

    def start_over(self) -> None:
        """Start partitions anew that were assigned by hand and whose position Kafka does not have, by the policy."""
        if self._settings.reset_policy == "none":
            return  # told in place of records
        for key, is_new_topic in self._machine.start_over().items():
            start = AT_BEGINNING if is_new_topic or self._settings.reset_policy == "earliest" else AT_END
            _log.warning(
                "%s-%d: %s; starting at its %s",
                *key,
                "the topic was made anew" if is_new_topic else "Kafka does not have the position",
                "beginning" if start == AT_BEGINNING else "end",
            )
            self._machine.seek(key, start)


def _cut_back(cut: tuple[tuple[Key, int], ...]) -> str:
    shown = "; ".join(f"{topic}-{number} was cut back to offset {offset}" for (topic, number), offset in cut)
    return f"Kafka has another history now than was read: {shown} (an unclean election)."
