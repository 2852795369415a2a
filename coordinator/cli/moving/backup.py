"""A backup of groups: the document, its checksum, and its file, which is whole or as it was before.

It has what a group cannot get back from anybody: committed offsets with their topics' ids, the settings that its first
member chose, and what operators have decided. Members, claims and epochs are not in it; they are of a running node.
A document of a later version, or one that is not what its checksum says, is refused.
"""

import errno
import hashlib
import os
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec

from coordinator.protocol.ids import MAX_OFFSET, MAX_PARTITION
from coordinator.protocol.messages import DescribeGroupResponse
from coordinator.protocol.parts import (
    CommittedOffset,
    ControlDescription,
    NewGroup,
    ResetPolicy,
    ResetTarget,
)
from coordinator.protocol.text.escaping import json_document
from coordinator.protocol.vocabulary import ControlKind, ResetKind
from coordinator.runtime.disk.files import TEMPORARY_SUFFIX, DiskError, OsFiles, write_atomically

FORMAT: Final = "kcoord-backup"
VERSION: Final = 1
MOST_BYTES: Final = 16 * 1024 * 1024 * 1024
"""A file that is larger is none of these: some 66 million offsets without metadata. To read one takes four times of it
in memory, and to make it took more."""
_CHECKSUM: Final = "checksum"


class BackupError(Exception):
    """A backup cannot be written or believed; the text says of which file, and why."""


class PolicyKept(msgspec.Struct, frozen=True):
    """A reset policy."""

    kind: str
    timestamp_ms: int | None = None


class SettingsKept(msgspec.Struct, frozen=True):
    """The settings of a group."""

    reset_policy: PolicyKept | None
    handover: str
    claim_timeout_ms: int | None = None

    def as_new_group(self) -> NewGroup:
        """Return them as those of a group that is made."""
        policy = self.reset_policy
        return NewGroup(
            None if policy is None else ResetPolicy(policy.kind, policy.timestamp_ms),
            self.handover,
            self.claim_timeout_ms,
        )


class OffsetKept(msgspec.Struct, frozen=True):
    """A committed offset."""

    topic: str
    topic_id: str
    partition: Annotated[int, msgspec.Meta(ge=0, le=MAX_PARTITION)]
    offset: Annotated[int, msgspec.Meta(ge=0, le=MAX_OFFSET)]
    leader_epoch: int | None = None
    metadata: str = ""
    commit_ms: int = 0


class ControlKept(msgspec.Struct, frozen=True):
    """A decision of an operator that stood: of a ControlKind, with what it is about."""

    kind: str
    who: str
    why: str
    at_ms: int
    topic: str = ""
    partition: int | None = None
    member_id: str = ""
    offset: int | None = None


class GroupKept(msgspec.Struct, frozen=True):
    """A group as it was."""

    group: str
    settings: SettingsKept
    offsets: tuple[OffsetKept, ...] = ()
    controls: tuple[ControlKept, ...] = ()

    def count(self, kind: ControlKind) -> int:
        """Return how many decisions of a kind stood."""
        return sum(control.kind == kind for control in self.controls)

    def targets(self, *, has_topic_ids: bool) -> tuple[ResetTarget, ...]:
        """Return the offsets to set; where a reset was pending it is what an operator wanted, and takes their place."""
        wanted = {
            (each.topic, each.partition): ResetTarget(
                each.topic,
                each.partition,
                ResetKind.OFFSET,
                each.offset,
                each.topic_id if has_topic_ids else "",
            )
            for each in self.offsets
        }
        for control in self.controls:
            if control.kind == ControlKind.RESET_PENDING and control.partition is not None:
                key = (control.topic, control.partition)
                topic_id = wanted[key].topic_id if key in wanted else ""
                wanted[key] = ResetTarget(*key, ResetKind.OFFSET, control.offset, topic_id)
        return tuple(wanted.values())


class Backup(msgspec.Struct, frozen=True):
    """All groups of a coordinator, one after the other as they were read."""

    format: str
    version: int
    made_at: str
    made_by: str
    kafka_cluster_id: str | None
    groups: tuple[GroupKept, ...]


def kept(
    described: DescribeGroupResponse, offsets: Sequence[CommittedOffset], controls: Sequence[ControlDescription]
) -> GroupKept:
    """Return what a coordinator says of a group as a backup has it."""
    policy = described.reset_policy
    return GroupKept(
        described.group_id,
        SettingsKept(
            None if policy is None else PolicyKept(policy.kind, policy.timestamp_ms),
            described.handover,
            described.claim_timeout_ms,
        ),
        tuple(
            OffsetKept(
                each.topic,
                each.topic_id,
                each.partition,
                each.offset,
                each.leader_epoch,
                each.metadata,
                each.commit_ms,
            )
            for each in offsets
        ),
        tuple(
            ControlKept(
                each.kind,
                each.who,
                each.why,
                each.at_ms,
                each.topic,
                each.partition,
                each.member_id,
                each.offset,
            )
            for each in controls
        ),
    )


def make_backup(groups: Sequence[GroupKept], kafka_cluster_id: str | None, who: str) -> Backup:
    """Return the backup of groups, made now."""
    made_at = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    release = f"kcoord {metadata.version('kcoord')}, {who}"
    return Backup(FORMAT, VERSION, made_at, release, kafka_cluster_id, tuple(groups))


def encode(backup: Backup) -> bytes:
    """Return a backup as a JSON document with its checksum."""
    document = msgspec.to_builtins(backup)
    document = {_CHECKSUM: _checksum(document), **document}
    return (json_document(msgspec.json.format(msgspec.json.encode(document)).decode()) + "\n").encode()


def decode(data: bytes, name: str) -> Backup:
    """Return the backup that a document is; raises BackupError, which calls it by its name."""
    try:
        document = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BackupError(f"{name} is no JSON document: {error}; it is cut off, or no backup") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise BackupError(f"{name} is no backup of `kcoord cluster backup`: its format is not {FORMAT}")
    version = document.get("version")
    if version != VERSION:
        raise BackupError(f"{name} is of version {version} and {VERSION} can be read here: use the kcoord that made it")
    if document.pop(_CHECKSUM, None) != _checksum(document):
        raise BackupError(f"{name} is not what was written, by its checksum: it was changed or damaged")
    try:
        return msgspec.convert(document, Backup)
    except msgspec.ValidationError as error:
        raise BackupError(f"{name} cannot be read: {error}") from error


def _checksum(document: Any) -> str:
    """Return the SHA-256 of a document's values, however it is laid out."""
    return "sha256:" + hashlib.sha256(msgspec.json.encode(document, order="deterministic")).hexdigest()


def write(path: Path, data: bytes) -> None:
    """Put a backup at a path, whole or not at all, for its maker alone to read; raises BackupError.

    A link is followed: what it leads to is replaced, and it stays. What `read` would refuse is not written.
    """
    path = Path(os.path.realpath(path))
    if len(data) > MOST_BYTES:
        raise BackupError(
            f"{path} has not been written: the backup has {len(data)} bytes, and no more than {MOST_BYTES} can be "
            "restored from one file. Make several, each of a part of the groups, with --match"
        )
    before = _identity(path)
    suffix = f".{os.getpid()}{TEMPORARY_SUFFIX}"
    try:
        write_atomically(OsFiles(), path, data, suffix)
    except BaseException as error:
        with suppress(OSError):
            path.with_name(path.name + suffix).unlink()
        if not isinstance(error, DiskError):
            raise
        cause = error.__cause__
        why = cause.strerror if isinstance(cause, OSError) else error
        if _identity(path) != before:
            raise BackupError(
                f"{path} has the backup, but it is not certain that it outlives a crash of the machine, since its "
                f"directory cannot be synced: {why}. Copy it to another file system"
            ) from error
        raise BackupError(f"{path} cannot be written: {why}; what was there before is as it was") from error


def _identity(path: Path) -> tuple[int, int] | None:
    """Return what tells a file from one that takes its place, None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def read(path: Path) -> Backup:
    """Return the backup in a file; raises BackupError."""
    try:
        data = OsFiles().read(path, MOST_BYTES)
    except OSError as error:
        if error.errno == errno.EFBIG:
            raise BackupError(f"{path} is no backup of `kcoord cluster backup`: {error.strerror}") from error
        raise BackupError(f"{path} cannot be read: {error.strerror or error}") from error
    return decode(data, str(path))
