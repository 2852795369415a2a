"""The identity of a data directory: what was fixed when it was made and can never change in place.

One line of JSON that a person can read, with a CRC-32C over the other fields. Knows nothing of files.
"""

from dataclasses import dataclass

import google_crc32c
import msgspec

from coordinator.core.log.entry import CorruptLogError, UnknownFormatError

FORMAT = 1


@dataclass(frozen=True, slots=True)
class DirectoryMeta:
    """The shard count, which decides where each group lives, and the id given when the directory was made."""

    shards: int
    directory_id: str


class _Stored(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    format: int
    shards: int
    directory_id: str
    crc32c: str


class _StoredFormat(msgspec.Struct, frozen=True):
    format: int


def encode_meta(meta: DirectoryMeta) -> bytes:
    """Encode `meta` as one line of JSON."""
    stored = _Stored(FORMAT, meta.shards, meta.directory_id, _checksum(meta.shards, meta.directory_id))
    return msgspec.json.encode(stored) + b"\n"


def decode_meta(data: bytes, *, path_hint: str) -> DirectoryMeta:
    """Decode what `encode_meta` wrote; raises CorruptLogError or UnknownFormatError."""
    try:
        found = msgspec.json.decode(data, type=_StoredFormat).format
        if found != FORMAT:
            raise UnknownFormatError(path_hint, 0, found, FORMAT)
        stored = msgspec.json.decode(data, type=_Stored)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CorruptLogError(path_hint, 0, None, f"it cannot be read: {error}") from error
    if stored.crc32c != _checksum(stored.shards, stored.directory_id) or data != encode_meta(
        DirectoryMeta(stored.shards, stored.directory_id)
    ):
        raise CorruptLogError(path_hint, 0, None, "its CRC-32C does not match")
    return DirectoryMeta(stored.shards, stored.directory_id)


def _checksum(shards: int, directory_id: str) -> str:
    content = msgspec.json.encode((FORMAT, shards, directory_id))
    return f"{google_crc32c.value(content):08x}"
