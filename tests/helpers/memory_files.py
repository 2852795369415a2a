"""Files in memory that can lose power: what was not synced survives sector by sector, or not, by the dice.

Stricter than most file systems: a name is durable only after `sync_directory` of its directory, names survive in the
order they were changed, and a write is lost in units of 512 bytes. A sync that fails leaves its data readable but
never writes it. A file that is given another name may have both after a loss of power; a directory has one.
"""

import errno
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

SECTOR_BYTES = 512


@dataclass(slots=True, eq=False)
class _Inode:
    content: bytearray = field(default_factory=bytearray)
    durable: bytes = b""
    unsynced: list[tuple[int, bytes]] = field(default_factory=list)

    def make_durable(self, position: int, data: bytes) -> None:
        durable = bytearray(self.durable)
        durable.extend(bytes(max(0, position + len(data) - len(durable))))
        durable[position : position + len(data)] = data
        self.durable = bytes(durable)

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


@dataclass(slots=True, eq=False)
class _Directory:
    names: "dict[str, _Inode | _Directory]" = field(default_factory=dict)
    durable: "dict[str, _Inode | _Directory]" = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Change:
    """Names of one directory that change together; None is a name that goes."""

    directory: _Directory
    names: tuple[tuple[str, "_Inode | _Directory | None"], ...]


class MemoryFiles:
    """`Files` in memory. `fail(call, path)` may raise an OSError before each call, as the disk would."""

    def __init__(self) -> None:
        self.fail: Callable[[str, Path], None] = lambda _call, _path: None
        self.has_synced_writes = False
        self._root = _Directory()
        self._unsynced: list[_Change] = []
        self._open: dict[int, tuple[Path, _Inode]] = {}
        self._next = 3

    def lose_power(self, dice: Random) -> None:
        """Forget every descriptor and, by `dice`, what was not synced."""
        for change in self._unsynced[: dice.randint(0, len(self._unsynced))]:
            _set(change.directory.durable, change)
        self._unsynced = []
        self._open = {}
        seen: set[int] = set()
        for _, directory in _directories(self._root, Path("/")):
            for inode in directory.durable.values():
                if isinstance(inode, _Inode) and id(inode) not in seen:
                    seen.add(id(inode))
                    inode.content = inode.after_power_loss(dice)
                    inode.durable, inode.unsynced = bytes(inode.content), []
            directory.names = dict(directory.durable)

    def copied(self) -> "MemoryFiles":
        """Return the same files on another machine, of which nobody makes calls fail."""
        copy = MemoryFiles()
        copy._root, copy._unsynced = deepcopy((self._root, self._unsynced))
        return copy

    def durable_copy(self) -> dict[Path, bytes]:
        """Return what would survive a loss of power whatever the dice say."""
        return {
            path / name: inode.durable
            for path, directory in _directories(self._root, Path("/"))
            for name, inode in directory.durable.items()
            if isinstance(inode, _Inode)
        }

    def replace(self, copy: Mapping[Path, bytes]) -> None:
        """Be another disk: one that holds these files and nothing else; no descriptor stays open."""
        self._root, self._unsynced, self._open = _Directory(), [], {}
        self.fail = lambda _call, _path: None
        for path, data in copy.items():
            self.make_directory(path.parent)
            self._change(path.parent, (path.name, _Inode(bytearray(data), data)))
        while self._unsynced:
            _set(self._unsynced[0].directory.durable, self._unsynced.pop(0))

    def content(self, path: Path) -> bytearray:
        """The content itself, for a test to damage."""
        return self._inode(path).content

    def open(self, path: Path) -> int:
        self.fail("open", path)
        return self._descriptor(path, self._inode(path))

    def create(self, path: Path) -> int:
        self.fail("create", path)
        inode = _Inode()
        self._change(path.parent, (path.name, inode))
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

    def write_synced(self, descriptor: int, data: bytes, position: int) -> None:
        self.write(descriptor, data, position)
        self.sync_last(descriptor)

    def sync_last(self, descriptor: int) -> None:
        """Make the last write to a file durable, and nothing that was written to it before."""
        path, inode = self._open[descriptor]
        last = inode.unsynced.pop()
        self.fail("sync", path)
        inode.make_durable(*last)

    def size(self, descriptor: int) -> int:
        return len(self._open[descriptor][1].content)

    def sync(self, descriptor: int) -> None:
        path, inode = self._open[descriptor]
        try:
            self.fail("sync", path)
        except OSError:
            inode.unsynced = []  # as Linux does: it counts the data as written and the next sync succeeds
            raise
        written, inode.unsynced = inode.unsynced, []
        for position, data in written:
            inode.make_durable(position, data)

    def close(self, descriptor: int) -> None:
        del self._open[descriptor]

    def rename(self, source: Path, target: Path) -> None:
        self.fail("rename", source)
        found = self._found(source)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(source))
        if isinstance(found, _Directory):
            assert source.parent == target.parent, "directories stay where they are"
            there = self._found(target)
            if isinstance(there, _Directory) and there.names:
                raise OSError(errno.ENOTEMPTY, "Directory not empty", str(target))
            self._change(source.parent, (target.name, found), (source.name, None))
        else:
            self._change(target.parent, (target.name, found))
            self._change(source.parent, (source.name, None))

    def delete(self, path: Path) -> None:
        self.fail("delete", path)
        self._inode(path)
        self._change(path.parent, (path.name, None))

    def make_directory(self, path: Path) -> None:
        self.fail("make_directory", path)
        for each in [*reversed(path.parents), path][1:]:
            if not isinstance(self._found(each), _Directory):
                self._change(each.parent, (each.name, _Directory()))

    def delete_directory(self, path: Path) -> None:
        self.fail("delete_directory", path)
        if self._directory(path).names:
            raise OSError(errno.ENOTEMPTY, "Directory not empty", str(path))
        self._change(path.parent, (path.name, None))

    def names(self, directory: Path) -> list[str]:
        self.fail("names", directory)
        return sorted(self._directory(directory).names)

    def sync_directory(self, directory: Path) -> None:
        self.fail("sync_directory", directory)
        synced = self._directory(directory)
        for change in self._unsynced:
            if change.directory is synced:
                _set(synced.durable, change)
        self._unsynced = [change for change in self._unsynced if change.directory is not synced]

    def _descriptor(self, path: Path, inode: _Inode) -> int:
        self._next += 1
        self._open[self._next] = (path, inode)
        return self._next

    def _found(self, path: Path) -> "_Inode | _Directory | None":
        found: _Inode | _Directory | None = self._root
        for name in path.parts[1:]:
            found = found.names.get(name) if isinstance(found, _Directory) else None
        return found

    def _inode(self, path: Path) -> _Inode:
        found = self._found(path)
        if not isinstance(found, _Inode):
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(path))
        return found

    def _directory(self, path: Path) -> _Directory:
        found = self._found(path)
        if not isinstance(found, _Directory):
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(path))
        return found

    def _change(self, directory: Path, *names: "tuple[str, _Inode | _Directory | None]") -> None:
        change = _Change(self._directory(directory), names)
        _set(change.directory.names, change)
        self._unsynced.append(change)


def _directories(directory: _Directory, path: Path) -> Iterator[tuple[Path, _Directory]]:
    """Yield a directory and all that would be in it after a loss of power."""
    yield path, directory
    for name, each in directory.durable.items():
        if isinstance(each, _Directory):
            yield from _directories(each, path / name)


def _set(names: "dict[str, _Inode | _Directory]", change: _Change) -> None:
    for name, found in change.names:
        if found is None:
            names.pop(name, None)
        else:
            names[name] = found
