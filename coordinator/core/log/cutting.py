"""A log that is cut or replaced, as changes of its files in an order in which a crash may stop anywhere.

Half a cut looks like damage: a sealed segment without the one after it, a log that ends before its snapshot. So a
marker that says what is being done is there first and goes last. A start that finds it does the same again, whatever of
it was done before, and the log is recovered after that. The log is as it was until the marker is there, and cut or
replaced from then on.

    changing                            the marker: one line of JSON with a CRC-32C
    incoming.snapshot                   a snapshot of the leader's, whole and synced before the marker is written

Each change is atomic and durable before the next one. Knows the names of files and what is in them, no directory.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, assert_never

import google_crc32c
import msgspec

from coordinator.core.log.entry import Batch, CorruptLogError, encode_batch
from coordinator.core.log.segment import scan_segment

MARKER: Final = "changing"
INCOMING: Final = "incoming.snapshot"
BLANK: Final = bytes(4096)
"""Space that follows the frames of a segment which was written anew: a segment is never empty."""

_SEGMENT: Final = ".log"
_SNAPSHOT: Final = ".snapshot"


@dataclass(frozen=True, slots=True)
class Cut:
    """Records at or above `end` are being taken away; none of them was committed."""

    end: int


@dataclass(frozen=True, slots=True)
class Install:
    """The incoming snapshot, which ends at `end`, is taking the place of everything there is."""

    end: int


Change: TypeAlias = Cut | Install


@dataclass(frozen=True, slots=True)
class PutFile:
    """Have a file with this content, in the place of one with the same name."""

    name: str
    data: bytes


@dataclass(frozen=True, slots=True)
class RenameFile:
    """Give a file another name, in the place of one that has it."""

    name: str
    to: str


@dataclass(frozen=True, slots=True)
class DeleteFile:
    """Delete a file."""

    name: str


FileChange: TypeAlias = PutFile | RenameFile | DeleteFile


class _Stored(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    change: Literal["cut", "install"]
    end: int
    crc32c: str


def encode_marker(change: Change) -> bytes:
    """Encode what is being done as one line of JSON."""
    kind: Literal["cut", "install"] = "cut" if isinstance(change, Cut) else "install"
    return msgspec.json.encode(_Stored(kind, change.end, _checksum(kind, change.end))) + b"\n"


def decode_marker(data: bytes, *, path_hint: str) -> Change:
    """Decode what `encode_marker` wrote; raises CorruptLogError."""
    try:
        stored = msgspec.json.decode(data, type=_Stored)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CorruptLogError(path_hint, 0, None, f"it cannot be read: {error}") from error
    change = Cut(stored.end) if stored.change == "cut" else Install(stored.end)
    if data != encode_marker(change):
        raise CorruptLogError(path_hint, 0, None, "its CRC-32C does not match")
    return change


def begun(change: Change) -> PutFile:
    """Return what is done first: from then on the change is made, whatever happens."""
    return PutFile(MARKER, encode_marker(change))


def rest_of(change: Change, names: Iterable[str], read: Callable[[str], bytes]) -> list[FileChange]:
    """Return all that is left to be done once the marker is there, with its deletion as the last.

    `names` are the files that there are, `read` gives the content of one. Raises CorruptLogError for files to which the
    change cannot be made, and ValueError for a cut that takes what a snapshot stands for, which was committed.
    """
    present = sorted(names)
    match change:
        case Cut():
            changes = _rest_of_cut(change.end, present, read)
        case Install():
            changes = _rest_of_install(change.end, present)
        case _:
            assert_never(change)
    return [*changes, DeleteFile(MARKER)]


def segment_name(base: int) -> str:
    """Return the name of the segment that begins at an offset."""
    return f"{base:020d}{_SEGMENT}"


def snapshot_name(end: int) -> str:
    """Return the name of the snapshot that ends at an offset."""
    return f"{end:020d}{_SNAPSHOT}"


def _rest_of_cut(end: int, names: list[str], read: Callable[[str], bytes]) -> list[FileChange]:
    bases = [int(name.removesuffix(_SEGMENT)) for name in names if name.endswith(_SEGMENT)]
    kept = max((base for base in bases if base <= end), default=None)
    if kept is None:
        raise CorruptLogError(MARKER, 0, end, "the log is to be cut before its first segment")
    for name in names:
        if name.endswith(_SNAPSHOT) and name != INCOMING and int(name.removesuffix(_SNAPSHOT)) > end:
            raise ValueError(f"a cut to {end} takes records of {name}, which were committed")
    last = segment_name(kept)
    changes: list[FileChange] = [DeleteFile(segment_name(base)) for base in reversed(bases) if base > end]
    return [*changes, PutFile(last, cut_segment(read(last), path_hint=last, base_offset=kept, end=end))]


def cut_segment(data: bytes, *, path_hint: str, base_offset: int, end: int) -> bytes:
    """Return a segment with its records below `end` alone, so without its seal; a frame may be parted.

    Raises CorruptLogError for damage, and for a segment that ends below `end`.
    """
    scan = scan_segment(data, path_hint=path_hint, base_offset=base_offset, may_be_torn=True)
    if scan.end_offset < end:
        raise CorruptLogError(path_hint, scan.valid_bytes, scan.end_offset, f"the log is to be cut to {end}, above it")
    frames = [
        encode_batch(Batch(batch.base_offset, batch.leader_epoch, batch.records[: end - batch.base_offset]))
        for batch in scan.batches
        if batch.base_offset < end
    ]
    return b"".join(frames) + BLANK


def _rest_of_install(end: int, names: list[str]) -> list[FileChange]:
    installed, first = snapshot_name(end), segment_name(end)
    is_incoming = INCOMING in names
    if not is_incoming and installed not in names:
        raise CorruptLogError(MARKER, 0, end, "the snapshot that was to take the place of the log is missing")
    keeps = {MARKER, INCOMING, installed, first}
    replaced = [name for name in names if name.endswith((_SEGMENT, _SNAPSHOT)) and name not in keeps]
    changes: list[FileChange] = [DeleteFile(name) for name in reversed(replaced)]
    if is_incoming:
        changes.append(RenameFile(INCOMING, installed))
    return [*changes, PutFile(first, BLANK)]


def _checksum(kind: str, end: int) -> str:
    return f"{google_crc32c.value(msgspec.json.encode((kind, end))):08x}"
