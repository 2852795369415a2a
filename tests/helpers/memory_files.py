"""Files in memory that can lose power: what was not synced survives sector by sector, or not, by the dice.

Stricter than most file systems: a name is durable only after `sync_directory`, names survive in the order
they were changed, and a write is lost in units of 512 bytes. A sync that fails leaves its data readable but
never writes it.
"""

import errno
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

SECTOR_BYTES = 512


@dataclass(slots=True)
class _Inode:
    content: bytearray = field(default_factory=bytearray)
    durable: bytes = b""
    unsynced: list[tuple[int, bytes]] = field(default_factory=list)

    def after_power_loss(self, dice: Random) -> bytearray:
        survived = bytearray(self.durable)
        for position, data in self.unsynced:
            at = position
            while at < position + len(data):
                end = min(at - at % SECTOR_BYTES + SECTOR_BYTES, position + len(data))
                if dice.random() < 0.5:
                    survived.extend(bytes(max(0, end - len(survived))))
                    survived[at:end] = data[at - position : end - position]
                at = end
        return survived


class MemoryFiles:
    """`Files` in memory. `fail(call, path)` may raise an OSError before each call, as the disk would."""

    def __init__(self) -> None:
        self.fail: Callable[[str, Path], None] = lambda _call, _path: None
        self._names: dict[Path, _Inode] = {}
        self._durable_names: dict[Path, _Inode] = {}
        self._unsynced_names: list[tuple[Path, _Inode | None]] = []
        self._open: dict[int, tuple[Path, _Inode]] = {}
        self._next = 3

    def lose_power(self, dice: Random) -> None:
        """Forget every descriptor and, by `dice`, what was not synced."""
        kept = dice.randint(0, len(self._unsynced_names))
        for path, inode in self._unsynced_names[:kept]:
            _set(self._durable_names, path, inode)
        self._unsynced_names = []
        self._open = {}
        for inode in set(map(id, self._durable_names.values())):
            found = next(each for each in self._durable_names.values() if id(each) == inode)
            found.content = found.after_power_loss(dice)
            found.durable, found.unsynced = bytes(found.content), []
        self._names = dict(self._durable_names)

    def durable_copy(self) -> dict[Path, bytes]:
        """Return what would survive a loss of power whatever the dice say."""
        return {path: inode.durable for path, inode in self._durable_names.items()}

    def replace(self, copy: Mapping[Path, bytes]) -> None:
        """Be another disk: one that holds these files and nothing else; no descriptor stays open."""
        self._names = {path: _Inode(bytearray(data), data) for path, data in copy.items()}
        self._durable_names = dict(self._names)
        self._unsynced_names = []
        self._open = {}
        self.fail = lambda _call, _path: None

    def content(self, path: Path) -> bytearray:
        """The content itself, for a test to damage."""
        return self._inode(path).content

    def open(self, path: Path) -> int:
        self.fail("open", path)
        return self._descriptor(path, self._inode(path))

    def create(self, path: Path) -> int:
        self.fail("create", path)
        inode = _Inode()
        self._rename(path, inode)
        return self._descriptor(path, inode)

    def read(self, path: Path, limit: int) -> bytes:
        self.fail("read", path)
        content = bytes(self._inode(path).content)
        if len(content) > limit:
            raise OSError(errno.EFBIG, "too large")
        return content

    def read_at(self, descriptor: int, length: int, position: int) -> bytes:
        path, inode = self._open[descriptor]
        self.fail("read", path)
        return bytes(inode.content[position : position + length])

    def write(self, descriptor: int, data: bytes, position: int) -> None:
        path, inode = self._open[descriptor]
        self.fail("write", path)
        inode.content.extend(bytes(max(0, position + len(data) - len(inode.content))))
        inode.content[position : position + len(data)] = data
        inode.unsynced.append((position, data))

    def size(self, descriptor: int) -> int:
        return len(self._open[descriptor][1].content)

    def sync(self, descriptor: int) -> None:
        path, inode = self._open[descriptor]
        try:
            self.fail("sync", path)
        except OSError:
            inode.unsynced = []  # as Linux does: it counts the data as written and the next sync succeeds
            raise
        durable = bytearray(inode.durable)
        for position, data in inode.unsynced:
            durable.extend(bytes(max(0, position + len(data) - len(durable))))
            durable[position : position + len(data)] = data
        inode.durable, inode.unsynced = bytes(durable), []

    def close(self, descriptor: int) -> None:
        del self._open[descriptor]

    def rename(self, source: Path, target: Path) -> None:
        self.fail("rename", source)
        inode = self._inode(source)
        self._rename(target, inode)
        self._rename(source, None)

    def delete(self, path: Path) -> None:
        self.fail("delete", path)
        self._inode(path)
        self._rename(path, None)

    def make_directory(self, path: Path) -> None:
        self.fail("make_directory", path)

    def names(self, directory: Path) -> list[str]:
        self.fail("names", directory)
        return sorted(path.name for path in self._names if path.parent == directory)

    def sync_directory(self, directory: Path) -> None:
        self.fail("sync_directory", directory)
        for path, inode in self._unsynced_names:
            if path.parent == directory:
                _set(self._durable_names, path, inode)
        self._unsynced_names = [entry for entry in self._unsynced_names if entry[0].parent != directory]

    def _descriptor(self, path: Path, inode: _Inode) -> int:
        self._next += 1
        self._open[self._next] = (path, inode)
        return self._next

    def _inode(self, path: Path) -> _Inode:
        if path not in self._names:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(path))
        return self._names[path]

    def _rename(self, path: Path, inode: _Inode | None) -> None:
        _set(self._names, path, inode)
        self._unsynced_names.append((path, inode))


def _set(names: dict[Path, _Inode], path: Path, inode: _Inode | None) -> None:
    if inode is None:
        names.pop(path, None)
    else:
        names[path] = inode
