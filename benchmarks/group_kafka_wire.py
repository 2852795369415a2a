"""The few Kafka requests that load on a group coordinator needs, as bytes; kafka-python has no KIP-848 heartbeat.

All are flexible versions: ConsumerGroupHeartbeat 1, OffsetCommit 9, FindCoordinator 3, IncrementalAlterConfigs 1.
Pure: no sockets. A frame goes out with its length; what comes in is read without it.
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

OFFSET_COMMIT, FIND_COORDINATOR, ALTER_CONFIGS, HEARTBEAT = 8, 10, 44, 68
TOPIC_RESOURCE, GROUP_RESOURCE = 2, 32
JOIN_EPOCH, LEAVE_EPOCH = 0, -1

_HEADER: Final = struct.Struct(">hhih")
_CLIENT: Final = b"load"
_NO_TAGS: Final = b"\x00"
_NULL: Final = b"\x00"
_ERROR_AT: Final = 9
"""The place of the error in a heartbeat's answer: after correlation id, tags and throttle time."""

T = TypeVar("T")


def varint(number: int) -> bytes:
    """Return an unsigned variable-length number."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def text(value: str | None) -> bytes:
    """Return a compact string, or the compact null."""
    if value is None:
        return _NULL
    encoded = value.encode()
    return varint(len(encoded) + 1) + encoded


def array(items: Sequence[bytes]) -> bytes:
    """Return a compact array of what is encoded already."""
    return varint(len(items) + 1) + b"".join(items)


def frame(key: int, version: int, correlation_id: int, body: bytes) -> bytes:
    """Return a whole request."""
    header = _HEADER.pack(key, version, correlation_id, len(_CLIENT)) + _CLIENT + _NO_TAGS
    return struct.pack(">i", len(header) + len(body)) + header + body


def heartbeat(
    correlation_id: int,
    group_id: str,
    member_id: str,
    epoch: int,
    *,
    topics: Sequence[str] | None = None,
    rebalance_timeout_ms: int = -1,
    owned: Mapping[bytes, Sequence[int]] | None = None,
) -> bytes:
    """Return a heartbeat: to join it names topics and owns nothing, to acknowledge it names what is owned."""
    names = _NULL if topics is None else array([text(topic) for topic in topics])
    partitions = (
        _NULL
        if owned is None
        else array([topic_id + _numbers(numbers) + _NO_TAGS for topic_id, numbers in owned.items()])
    )
    body = text(group_id) + text(member_id) + struct.pack(">i", epoch) + text(None) + text(None)
    body += struct.pack(">i", rebalance_timeout_ms) + names + text(None) + text(None) + partitions + _NO_TAGS
    return frame(HEARTBEAT, 1, correlation_id, body)


def commit(
    correlation_id: int, group_id: str, member_id: str, epoch: int, topic: str, numbers: Sequence[int], offset: int
) -> bytes:
    """Return a commit of the same offset for partitions of one topic."""
    partitions = [struct.pack(">iqi", number, offset, -1) + text("") + _NO_TAGS for number in numbers]
    body = text(group_id) + struct.pack(">i", epoch) + text(member_id) + text(None)
    body += array([text(topic) + array(partitions) + _NO_TAGS]) + _NO_TAGS
    return frame(OFFSET_COMMIT, 9, correlation_id, body)


def commit_accepted(correlation_id: int, topic: str, numbers: Sequence[int]) -> bytes:
    """Return the answer to a commit in which nothing was refused and nothing throttled."""
    partitions = [struct.pack(">ih", number, 0) + _NO_TAGS for number in numbers]
    answer = struct.pack(">i", correlation_id) + _NO_TAGS + struct.pack(">i", 0)
    return answer + array([text(topic) + array(partitions) + _NO_TAGS]) + _NO_TAGS


def find_coordinator(correlation_id: int, group_id: str) -> bytes:
    """Return a question for a group's coordinator; the first one makes the broker create its offsets topic."""
    return frame(FIND_COORDINATOR, 3, correlation_id, text(group_id) + b"\x00" + _NO_TAGS)


def alter_configs(correlation_id: int, kind: int, name: str, configs: Mapping[str, str]) -> bytes:
    """Return a request to set configurations of one resource."""
    settings = [text(key) + b"\x00" + text(value) + _NO_TAGS for key, value in configs.items()]
    resource = struct.pack(">b", kind) + text(name) + array(settings) + _NO_TAGS
    return frame(ALTER_CONFIGS, 1, correlation_id, array([resource]) + b"\x00" + _NO_TAGS)


@dataclass(frozen=True, slots=True)
class HeartbeatAnswer:
    """The answer to a heartbeat; no assignment means that it has not changed."""

    error: int
    message: str
    epoch: int
    interval_ms: int
    assignment: dict[bytes, list[int]] | None


def read_heartbeat(body: bytes) -> HeartbeatAnswer:
    """Read the answer to a heartbeat."""
    reader = Reader(body)
    reader.skip(4)
    reader.tags()
    reader.skip(4)
    error = reader.number(">h")
    message = reader.text()
    reader.text()
    epoch, interval_ms = reader.number(">i"), reader.number(">i")
    assignment = None
    if reader.number(">b") >= 0:
        assignment = dict(reader.array(Reader.topic_partitions))
    return HeartbeatAnswer(error, message or "", epoch, interval_ms, assignment)


def heartbeat_error(body: bytes) -> int:
    """Return the error of a heartbeat's answer without reading the rest."""
    (error,) = struct.unpack_from(">h", body, _ERROR_AT)
    return int(error)


def read_find_coordinator(body: bytes) -> tuple[int, int]:
    """Return the error of the answer about a coordinator, and the id of the broker that is named."""
    reader = Reader(body)
    reader.skip(4)
    reader.tags()
    reader.skip(4)
    error = reader.number(">h")
    reader.text()
    return error, reader.number(">i")


def read_alter_configs(body: bytes) -> list[tuple[int, str]]:
    """Return the error and message of each resource."""
    reader = Reader(body)
    reader.skip(4)
    reader.tags()
    reader.skip(4)
    return reader.array(Reader.altered_resource)


class Reader:
    """Reads flexible Kafka messages from front to back."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._at = 0

    def skip(self, count: int) -> None:
        """Pass over bytes."""
        self._at += count

    def number(self, form: str) -> int:
        """Read a number of fixed size."""
        (value,) = struct.unpack_from(form, self._body, self._at)
        self._at += struct.calcsize(form)
        return int(value)

    def varint(self) -> int:
        """Read an unsigned variable-length number."""
        value = shift = 0
        while True:
            byte = self._body[self._at]
            self._at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def take(self, count: int) -> bytes:
        """Read so many bytes."""
        found = self._body[self._at : self._at + count]
        if len(found) < count:
            raise ValueError(f"a message ends {count - len(found)} bytes too early")
        self._at += count
        return found

    def text(self) -> str | None:
        """Read a compact string or null."""
        length = self.varint()
        return None if length == 0 else self.take(length - 1).decode()

    def tags(self) -> None:
        """Pass over tagged fields."""
        for _ in range(self.varint()):
            self.varint()
            self.skip(self.varint())

    def array(self, read: Callable[["Reader"], T]) -> list[T]:
        """Read a compact array; null is empty."""
        return [read(self) for _ in range(self.varint() - 1)]

    def altered_resource(self) -> tuple[int, str]:
        """Read what became of one resource's configurations: error and message."""
        found = self.number(">h"), self.text() or ""
        self.skip(1)
        self.text()
        self.tags()
        return found

    def topic_partitions(self) -> tuple[bytes, list[int]]:
        """Read a topic id and partition numbers."""
        topic_id = self.take(16)
        numbers = self.array(lambda reader: reader.number(">i"))
        self.tags()
        return topic_id, numbers


def _numbers(numbers: Sequence[int]) -> bytes:
    return varint(len(numbers) + 1) + struct.pack(f">{len(numbers)}i", *numbers)
