"""Reading a shard's log while the node runs, on a thread of its own: it takes as long as the disk does.

It decides nothing: when to read is said to it, and what was found, or why nothing was, is posted as an event. One
thread at a time reads a shard, for the newest epoch that was asked for.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Sequence
from typing import TypeAlias

from coordinator.core.events import ShardRecovered, ShardUnreadable
from coordinator.core.log.storage import LogReplacedError, LogSink

Read: TypeAlias = Callable[[LogSink], int]
"""Hands a log on to a sink, blocking, and returns the leader epoch of its last record; raises what the disk does."""


class ShardReader:
    """Reads shards; `post` takes an event from any thread. Its methods belong to the loop's thread."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        post: Callable[[ShardRecovered | ShardUnreadable], None],
    ) -> None:
        self._loop = loop
        self._post = post
        self._wanted: dict[int, tuple[int, Read]] = {}
        """The newest leader epoch in which each shard is to be read, and how."""
        self._reading: set[int] = set()
        """The shards that are being read."""
        self._held_back: dict[int, int] = {}
        """The epochs for which shards are to be read as soon as the reading under way ends."""

    def read(self, shard: int, leader_epoch: int, after_ms: int, read: Read) -> None:
        """Read a shard after a pause, and post ShardRecovered or ShardUnreadable, or nothing for a log that is gone.

        Whatever was asked for in a former epoch and has not begun is not read any more.
        """
        self._wanted[shard] = leader_epoch, read
        self._loop.call_later(after_ms / 1000, self._begin, shard, leader_epoch)

    def _begin(self, shard: int, leader_epoch: int) -> None:
        wanted_epoch, read = self._wanted[shard]
        if wanted_epoch != leader_epoch:
            return
        if shard in self._reading:
            self._held_back[shard] = leader_epoch
            return
        self._reading.add(shard)
        arguments = (shard, leader_epoch, read)
        threading.Thread(target=self._read, args=arguments, name=f"kcoord-read-{shard}", daemon=True).start()

    def _read(self, shard: int, leader_epoch: int, read: Read) -> None:
        found = _Pieces()
        try:
            last_epoch = read(found)
        except LogReplacedError:
            pass
        except Exception as error:  # noqa: BLE001 - whatever keeps a shard from being read is tried again, and said
            self._post(ShardUnreadable(shard, leader_epoch, str(error) or repr(error)))
        else:
            self._post(ShardRecovered(shard, leader_epoch, last_epoch, found.pieces))
        with contextlib.suppress(RuntimeError):  # the loop has ended, and nobody waits for the shard
            self._loop.call_soon_threadsafe(self._has_read, shard)

    def _has_read(self, shard: int) -> None:
        self._reading.discard(shard)
        leader_epoch = self._held_back.pop(shard, None)
        if leader_epoch is not None:
            self._begin(shard, leader_epoch)


class _Pieces:
    """Keeps what is read until the event loop replays it."""

    def __init__(self) -> None:
        self.pieces: list[tuple[bool, int, Sequence[bytes]]] = []

    def take_snapshot(self, end_offset: int, records: Sequence[bytes]) -> None:
        self.pieces.append((True, end_offset, records))

    def take_batch(self, base_offset: int, records: Sequence[bytes]) -> None:
        self.pieces.append((False, base_offset, records))
