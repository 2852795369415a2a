"""The records on their way to followers: one stream a shard and follower, as far ahead of its disk as is allowed.

A replica says once what is to be sent; here it is sent as room comes, from the tail in memory or, if it is older than
that, as it was read from the disk. A stream belongs to one fetch of one epoch, and ends with it. All streams to one
follower share a window besides: what all leaders send it waits for one disk, and what is sent to it for one connection.
What waits for its disk goes on to wait when a contact ends, and counts in the stream that follows there.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from coordinator.core.cluster_node.effects import ReadLog
from coordinator.core.cluster_node.events import LogRead
from coordinator.core.cluster_node.stream.tail import Tail
from coordinator.core.log.entry import Batch, batch_bytes
from coordinator.core.replica.effects import AnswerFetch, PushRecords
from coordinator.core.replica.events import BelowLogStart


@dataclass(slots=True)
class Stream:
    """The records that one follower is to have of one shard: `sent` of it is under way or there, up to `wanted`."""

    push: PushRecords
    sent: int
    is_reading: bool = False
    under_way: deque[tuple[int, int]] = field(default_factory=deque)
    """The ends of what was sent and is not on the follower's disk yet, each with the bytes before it."""
    bytes: int = 0
    reading_bytes: int = 0
    """Room that is kept for what is being read, or was."""
    turn: int = 0
    """The turn in which it was served last."""

    @property
    def is_behind(self) -> bool:
        """Return whether there is more to send."""
        return self.sent < self.push.end

    @property
    def ahead_bytes(self) -> int:
        """Return the bytes that count in its follower's window."""
        return self.bytes + self.reading_bytes

    def is_of(self, leader_epoch: int, fetch: int) -> bool:
        """Return whether it belongs to a fetch."""
        return (self.push.leader_epoch, self.push.fetch) == (leader_epoch, fetch)

    def send(self, batches: tuple[Batch, ...]) -> None:
        """Take note of what is sent."""
        self.sent = batches[-1].end
        size = sum(batch_bytes(batch.records) for batch in batches)
        self.under_way.append((self.sent, size))
        self.bytes += size
        self.reading_bytes = 0


class Streams:
    """All streams of a node; a stream may have `window_bytes` under way, and all of a follower `peer_window_bytes`.

    One batch may be more than there is room for.
    """

    def __init__(self, window_bytes: int, peer_window_bytes: int) -> None:
        self._window_bytes = window_bytes
        self._peer_window_bytes = peer_window_bytes
        self._turn = 0
        self._ahead: dict[int, int] = {}
        """By follower, the bytes of all its streams that are under way or kept room for, since `due` looked."""
        self._streams: dict[tuple[int, int], Stream] = {}
        self._read: dict[tuple[int, int], tuple[Batch, ...]] = {}
        """Records that were read for streams and not sent yet."""
        self._left: dict[tuple[int, int], deque[tuple[int, int]]] = {}
        """The batches of streams whose contact has ended: the follower has taken them, or asks for them again."""

    def push(self, push: PushRecords) -> None:
        """Have a follower sent what its leader says."""
        key = push.follower, push.shard
        stream = self._streams.get(key)
        if stream is None or not stream.is_of(push.leader_epoch, push.fetch):
            left = self._left.pop(key, ()) if stream is None else stream.under_way
            # What is not before the new begin did not come, or is in the follower's log no longer.
            under_way = deque(each for each in left if each[0] <= push.begin)
            size = sum(size for _, size in under_way)
            self._streams[key] = Stream(push, push.begin, under_way=under_way, bytes=size)
            self._read.pop(key, None)
        else:
            stream.push = push

    def progressed(self, follower: int, shard: int, leader_epoch: int, fetch: int, durable_end: int) -> None:
        """Count what has come to a follower's disk as arrived, also of a later fetch that has been sent nothing yet."""
        stream = self._streams.get((follower, shard))
        if stream is None:
            left = self._left.get((follower, shard))
            while left and left[0][0] <= durable_end:
                left.popleft()
        elif stream.push.leader_epoch == leader_epoch and stream.push.fetch <= fetch:
            while stream.under_way and stream.under_way[0][0] <= durable_end:
                stream.bytes -= stream.under_way.popleft()[1]

    def was_read(self, read: LogRead) -> None:
        """Take what was read for a stream; without records it is read again when there are more."""
        key = read.follower, read.shard
        stream = self._streams.get(key)
        if stream is None or not stream.is_of(read.leader_epoch, read.fetch) or stream.sent != read.begin:
            return
        stream.is_reading = False
        if read.batches:
            self._read[key] = read.batches
        else:
            stream.reading_bytes = 0

    def skip(self, read: LogRead, begin: int) -> tuple[AnswerFetch, ...]:
        """Go on from an offset, after the records before it were let go.

        A follower that is sent what comes after it sees that something is missing, and asks anew. Where nothing does,
        it is told.
        """
        stream = self._streams.get((read.follower, read.shard))
        if stream is None or not stream.is_of(read.leader_epoch, read.fetch):
            return ()
        stream.is_reading, stream.reading_bytes, stream.sent = False, 0, max(begin, stream.sent)
        if stream.is_behind:
            return ()
        return (AnswerFetch(read.shard, read.follower, read.leader_epoch, read.fetch, BelowLogStart(begin)),)

    def end_peer(self, peer: int) -> None:
        """End the streams to a peer without a connection, whose disk may have a lot to write all the same."""
        self._left |= {key: stream.under_way for key, stream in self._streams.items() if key[0] == peer}
        self._end(lambda follower, _: follower == peer)

    def end_shard(self, shard: int) -> None:
        """End the streams of a shard that is led here no longer."""
        self._end(lambda _, other: other == shard)
        self._left = {key: left for key, left in self._left.items() if key[1] != shard}

    def _end(self, is_over: Callable[[int, int], bool]) -> None:
        for key in [key for key in self._streams if is_over(*key)]:
            del self._streams[key]
            self._read.pop(key, None)

    def due(self) -> Iterator[Stream]:
        """Yield the streams that have more to send and room for it, by follower, first who was served longest ago.

        Each is to be taken before the next.
        """
        self._turn += 1
        if not any(stream.is_behind for stream in self._streams.values()):
            return
        of_peer: dict[int, list[Stream]] = {}
        for stream in self._streams.values():
            of_peer.setdefault(stream.push.follower, []).append(stream)
        for peer, streams in sorted(of_peer.items()):
            self._ahead[peer] = sum(stream.ahead_bytes for stream in streams)
            for stream in sorted(streams, key=lambda stream: (stream.turn, stream.push.shard)):
                if stream.is_behind and not stream.is_reading and self._room(stream) > 0:
                    stream.turn, before = self._turn, stream.ahead_bytes
                    yield stream
                    self._ahead[peer] += stream.ahead_bytes - before

    def _room(self, stream: Stream) -> int:
        """Return the bytes that may be sent of a stream now; what was read for it has its room."""
        if (stream.push.follower, stream.push.shard) in self._read:
            return stream.reading_bytes
        of_peer = self._peer_window_bytes - self._ahead[stream.push.follower]
        return min(self._window_bytes - stream.bytes, of_peer)

    def take(self, stream: Stream, tail: Tail, durable_end: int) -> tuple[Batch, ...] | ReadLog | None:
        """Return what a stream sends now, or what is to be read for it; None if that is not on the disk yet."""
        push, room = stream.push, self._room(stream)
        batches = self._read.pop((push.follower, push.shard), None)
        if batches is None:
            batches = tail.read(stream.sent, room)
        if batches:
            stream.send(batches)
            return batches
        if durable_end <= stream.sent:
            return None
        stream.is_reading, stream.reading_bytes = True, room
        return ReadLog(push.shard, push.follower, push.leader_epoch, push.fetch, stream.sent, room)
