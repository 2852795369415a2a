"""The stream offset: what Spark writes into its checkpoint for a kcoord source, and nothing more is needed to replay.

It names the Kafka cluster, the group, the member whose identity the query has, and a range for each partition of the
micro-batch: `from` and `until` (the next offset to read) under an owner epoch. A range with `from` equal to `until` is
a partition the query owned that had nothing new; it keeps the end known. The form is nested JSON objects with text,
whole numbers and no lists, since that is what Spark keeps. Pure; made by us, but read back as input from a disk.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from coordinator.protocol.parts import Claim, LogPosition, StartHint
from coordinator.protocol.text.addresses import Address, format_address, parse_address
from spark_kcoord.errors import KcoordError

__all__ = ["STREAM_OFFSET_VERSION", "StreamOffset"]

STREAM_OFFSET_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """The ranges of one micro-batch, sorted by topic and partition, and whose they are.

    `cluster` is Kafka's cluster id; `member` is empty only before the query has joined for the first time. `attempt`
    tells a micro-batch from the one before it when both have the same ranges: Spark runs none whose offset is equal.
    `coordinators` says where the group's coordinator is asked for, to those who hear of the offset in Spark's progress
    reports. `nodes` are coordinator nodes known besides, for the day when none of those is left. `log` is how
    far the group's log had come, by which a coordinator sees that its own went back. None of them makes a difference
    between offsets.
    """

    cluster: str
    group: str
    member: str
    ranges: tuple[Claim, ...] = ()
    attempt: int = 0
    coordinators: tuple[str, ...] = field(default=(), compare=False)
    nodes: tuple[Address, ...] = field(default=(), compare=False)
    log: LogPosition | None = field(default=None, compare=False)

    @property
    def claims(self) -> tuple[Claim, ...]:
        """The ranges that hold something to read."""
        return tuple(item for item in self.ranges if item.until_offset > item.from_offset)

    def hints(self, *, is_finished: bool) -> tuple[StartHint, ...]:
        """Say where each partition is to start if the group has lost its offsets.

        When the micro-batch is finished that is its end, else its beginning.
        """
        return tuple(
            StartHint(
                topic=item.topic,
                topic_id=item.topic_id,
                partition=item.partition,
                offset=item.until_offset if is_finished else item.from_offset,
                from_checkpoint=True,
                owner_epoch=item.owner_epoch,
            )
            for item in self.ranges
        )

    def to_json(self) -> dict[str, Any]:
        """Return the form for the checkpoint; the same offset always gives the same text."""
        topics: dict[str, dict[str, Any]] = {}
        for item in sorted(self.ranges, key=lambda item: (item.topic, item.partition)):
            topic = topics.setdefault(item.topic, {"id": item.topic_id, "parts": {}})
            assert topic["id"] == item.topic_id, f"ranges of two topics called {item.topic} in one stream offset"
            topic["parts"][str(item.partition)] = {
                "from": item.from_offset,
                "until": item.until_offset,
                "epoch": item.owner_epoch,
            }
        document: dict[str, Any] = {
            "v": STREAM_OFFSET_VERSION,
            "cluster": self.cluster,
            "group": self.group,
            "member": self.member,
            "topics": topics,
        }
        if self.coordinators:
            document["coordinators"] = ",".join(self.coordinators)
        if self.nodes:
            document["nodes"] = {str(index): format_address(node) for index, node in enumerate(self.nodes)}
        if self.log is not None:
            document["log"] = {"incarnation": self.log.incarnation, "end": self.log.end}
        if self.attempt:
            document["attempt"] = self.attempt
        return document

    @classmethod
    def from_json(cls, document: Any) -> StreamOffset:
        """Read what `to_json` made.

        Raises KcoordError for an offset of another source, of a newer version or that is damaged, saying which. Such
        an offset need not be an object: that of Spark's source of rates is a number.
        """
        is_ours = isinstance(document, Mapping) and not document.keys().isdisjoint(("v", "topics"))
        if not is_ours:
            raise _unreadable("it is not a kcoord stream offset; it may be another source's, such as format('kafka')")
        version = document.get("v")
        if version != STREAM_OFFSET_VERSION:
            raise _unreadable(f"it has version {version!r} and this kcoord reads version {STREAM_OFFSET_VERSION}")
        try:
            return cls(
                cluster=_text(document, "cluster"),
                group=_text(document, "group"),
                member=_text(document, "member"),
                ranges=tuple(_ranges(document["topics"])),
                attempt=_number(document, "attempt") if "attempt" in document else 0,
                coordinators=_servers(document),
                nodes=tuple(_nodes(document["nodes"])) if "nodes" in document else (),
                log=_log(document["log"]) if "log" in document else None,
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise _unreadable(f"it is damaged: {error!r}") from error

    @classmethod
    def from_progress(cls, text: str | None) -> StreamOffset | None:
        """Read an offset from a progress report of Spark; None for another source's, or none.

        Raises KcoordError as `from_json` does.
        """
        if not isinstance(text, str) or not text.startswith("{"):
            return None
        document = json.loads(text)
        is_ours = {"v", "cluster", "group", "member", "topics"} <= set(document)
        return cls.from_json(document) if is_ours else None

    def must_belong_to(self, *, cluster: str | None, group: str) -> None:
        """Raise KcoordError naming both when the offset is of another group or another Kafka cluster."""
        if self.group != group:
            raise KcoordError(
                f"The checkpoint belongs to group '{self.group}' and option 'kcoord.group.id' says '{group}'. "
                "Use the checkpoint's group, or a new checkpoint location for the new group."
            )
        if cluster is not None and self.cluster and self.cluster != cluster:
            raise KcoordError(
                f"The checkpoint belongs to Kafka cluster '{self.cluster}' and the coordinator's is '{cluster}'. "
                "Offsets of one cluster mean nothing in another: use a new checkpoint location."
            )


def _unreadable(why: str) -> KcoordError:
    return KcoordError(
        f"The offset in the query's checkpoint cannot be used: {why}. "
        "Start the query with the version that wrote it, or with a new checkpoint location; "
        "the group's committed offsets are kept by the coordinator."
    )


def _text(document: Mapping[str, Any], key: str) -> str:
    value = document[key]
    if not isinstance(value, str):
        raise TypeError(f"{key} is {value!r}, not text")
    return value


def _servers(document: Mapping[str, Any]) -> tuple[str, ...]:
    named = _text(document, "coordinators") if "coordinators" in document else ""
    return tuple(named.split(",")) if named else ()


def _number(document: Mapping[str, Any], key: str) -> int:
    value = document[key]
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{key} is {value!r}, not a whole number from 0")
    return value


def _nodes(nodes: Mapping[str, Any]) -> Iterable[Address]:
    for _, text in sorted(nodes.items(), key=lambda item: int(item[0])):
        yield parse_address(text)


def _log(document: Mapping[str, Any]) -> LogPosition:
    return LogPosition(_text(document, "incarnation"), _number(document, "end"))


def _ranges(topics: Mapping[str, Any]) -> Iterable[Claim]:
    for topic, entry in sorted(topics.items()):
        topic_id = _text(entry, "id")
        for partition, part in sorted(entry["parts"].items(), key=lambda item: int(item[0])):
            claim = Claim(
                topic=topic,
                topic_id=topic_id,
                partition=int(partition),
                owner_epoch=_number(part, "epoch"),
                from_offset=_number(part, "from"),
                until_offset=_number(part, "until"),
            )
            if claim.until_offset < claim.from_offset:
                raise ValueError(f"{topic}-{partition} ends at {claim.until_offset} before {claim.from_offset}")
            yield claim
