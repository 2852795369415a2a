"""Reading a shard's log again while the node runs, on a thread of its own: it takes as long as the disk does.

It decides nothing: when to read is said to it, and what was found, or why nothing was, is posted as an event.
"""

import asyncio
import threading
from collections.abc import Callable, Sequence

from coordinator.core.events import Event, ShardRecovered, ShardUnreadable
from coordinator.core.log.storage import DiskPort


class ShardReader:
    """Reads shards again; `post` takes an event from any thread."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        disk: DiskPort,
        post: Callable[[Event], None],
    ) -> None:
        self._loop = loop
        self._disk = disk
        self._post = post

    def read(self, shard: int, after_ms: int) -> None:
        """Read a shard after a pause, and post ShardRecovered or ShardUnreadable."""
        self._loop.call_later(after_ms / 1000, self._begin, shard)

    def _begin(self, shard: int) -> None:
        threading.Thread(target=self._read, args=(shard,), name=f"kcoord-read-{shard}", daemon=True).start()

    def _read(self, shard: int) -> None:
        found = _Pieces()
        try:
            self._disk.recover(shard, found)
        except Exception as error:  # noqa: BLE001 - whatever keeps a shard from being read is tried again, and said
            self._post(ShardUnreadable(shard, str(error) or repr(error)))
        else:
            self._post(ShardRecovered(shard, found.pieces))


class _Pieces:
    """Keeps what is read until the event loop replays it."""

    def __init__(self) -> None:
        self.pieces: list[tuple[bool, int, Sequence[bytes]]] = []

    def take_snapshot(self, end_offset: int, records: Sequence[bytes]) -> None:
        self.pieces.append((True, end_offset, records))

    def take_batch(self, base_offset: int, records: Sequence[bytes]) -> None:
        self.pieces.append((False, base_offset, records))
