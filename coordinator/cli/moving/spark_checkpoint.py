"""The position of a query of `format("kafka")`, as its checkpoint tells it: up to where its finished batches have read.

Spark writes `offsets/N` before batch N runs, with the end of each source, and `commits/N` when it is done. So the last
batch that has both is the position, and what later files name was begun and is not finished. Before the first batch is
finished it is where the source began, which is in `sources/`. Offset logs of versions 1 and 2 are read, those of Spark
3 and 4. Every file is held against the checksum that Hadoop keeps beside it; one that is cut off, of another source or
of a later version is refused with its name, since a position that was guessed would lose records or repeat them.
Nothing here asks Kafka or a coordinator, and nothing is written.
"""

import re
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import msgspec

from coordinator.protocol.ids import MAX_OFFSET, TopicPartition, why_bad_partition
from coordinator.protocol.text.counts import counted

_NUMBER: Final = re.compile(r"\d{1,18}")
_LOCATION: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?://([^/]*))?(.*)", re.DOTALL)
_NO_OFFSET: Final = "-"
_CRC_MAGIC: Final = b"crc\0"
_MOST_NAMED: Final = 20


class CheckpointError(Exception):
    """The position cannot be told; the text says of which file, why, and what to do."""


@dataclass(frozen=True, slots=True)
class SourcePosition:
    """The position of one source of a query; ends are exclusive, as Kafka's offsets are."""

    source: str
    batch_id: int | None
    """The last finished batch; None where none is, and the position is where the source began."""
    offsets: Mapping[TopicPartition, int]
    unfinished: tuple[int, ...] = ()
    """The batches that were begun behind it."""
    unfinished_until: Mapping[TopicPartition, int] = field(default_factory=dict)
    """The ends of the last of them."""
    has_state: bool = False
    """True for a query that aggregates, joins or drops duplicates: what it knows of records is in the checkpoint."""

    def topics(self) -> tuple[str, ...]:
        """Return the topics that it has read."""
        return tuple(dict.fromkeys(topic for topic, _ in self.offsets))


def local_directory(text: str) -> Path:
    """Return the directory that a checkpoint's location names; raises CheckpointError where it is not a local one.

    It is taken apart as Hadoop's Path does: what follows `file:` is the name as it stands, also with %, # and ?.
    """
    parts = _LOCATION.fullmatch(text)
    if parts is None:
        return Path(text)
    scheme, host, path = parts.groups(default="")
    if scheme.lower() != "file" or host not in {"", "localhost"}:
        raise CheckpointError(
            f"{text} is not on this machine: copy the directory here, with its hidden files (`hdfs dfs -get`, `aws s3 "
            "cp --recursive`), and name the copy"
        )
    if not path.startswith("/"):
        raise CheckpointError(f"{text} is no whole path: after file: a directory is named from / on")
    return Path(path)


def read_checkpoint(directory: Path, source: str | None = None) -> SourcePosition:
    """Return the position of the query's one source, or of the one that is named by its number or name.

    Raises CheckpointError.
    """
    try:
        return replace(_read_checkpoint(directory, source), has_state=_has_state(directory / "state"))
    except OSError as error:
        where = error.filename or directory
        raise CheckpointError(f"{where} cannot be read: {error.strerror or error}") from error


def _read_checkpoint(directory: Path, source: str | None) -> SourcePosition:
    _must_be_checkpoint(directory)
    # In this order: a batch of a query that runs begins before it is finished, and so has begun if it is seen to be.
    committed = _batches(directory / "commits")
    begun = _batches(directory / "offsets")
    finished = max(committed, default=None)
    behind = [batch_id for batch_id in begun if finished is None or batch_id > finished]
    if finished is None:
        return _before_the_first(directory, source, behind)
    _read_commit(directory / "commits" / str(finished))
    if finished not in begun:
        raise CheckpointError(
            f"{directory / 'commits' / str(finished)} says that batch {finished} is finished, and "
            f"{directory / 'offsets' / str(finished)} is not there: the checkpoint is not whole; copy all of it"
        )
    path = directory / "offsets" / str(finished)
    sources = _read_offsets(path)
    name = _chosen(directory, sources, source)
    text = sources[name]
    begin = directory / "sources" / name / "0"
    offsets = _read_initial(begin, name) if text is None else _parse_kafka(text, path, name)
    until = _unfinished_until(directory, name, behind)
    return SourcePosition(name, finished, offsets, tuple(behind), until)


def _before_the_first(directory: Path, source: str | None, behind: Sequence[int]) -> SourcePosition:
    """Return the position of a query none of whose batches is finished."""
    if behind and behind[-1] > 0:
        raise CheckpointError(
            f"{directory / 'commits'} has no finished batch and {directory / 'offsets'} has batch {behind[-1]}, before "
            "which others must have been finished: the checkpoint is not whole; copy all of it"
        )
    if not behind:
        raise CheckpointError(f"{directory} is of a query that has begun no batch: there is no position in it")
    sources = _read_offsets(directory / "offsets" / str(behind[-1]))
    name = _chosen(directory, sources, source)
    begin = _read_initial(directory / "sources" / name / "0", name)
    return SourcePosition(name, None, begin, tuple(behind), _unfinished_until(directory, name, behind))


def _unfinished_until(directory: Path, name: str, behind: Sequence[int]) -> Mapping[TopicPartition, int]:
    if not behind:
        return {}
    path = directory / "offsets" / str(behind[-1])
    text = _read_offsets(path).get(name)
    return {} if text is None else _parse_kafka(text, path, name)


# ---- which source -------------------------------------------------------------------------------------------------


def _chosen(directory: Path, sources: Mapping[str, str | None], source: str | None) -> str:
    told = ", ".join(f"{name} ({_kind_of(text)})" for name, text in list(sources.items())[:_MOST_NAMED])
    if source is not None:
        if source not in sources:
            raise CheckpointError(f"the query of {directory} has no source {source}; there is {told}")
        return source
    if len(sources) > 1:
        raise CheckpointError(
            f"the query of {directory} has {len(sources)} sources: {told}; say which one with --source, one group each"
        )
    return next(iter(sources))


def _kind_of(text: str | None) -> str:
    """Say what a source is by its offset, for people."""
    if text is None:
        return "nothing read yet"
    offsets = _as_kafka(text)
    if isinstance(offsets, str):
        return offsets
    topics = list(dict.fromkeys(topic for topic, _ in offsets))
    more = f" and {counted(len(topics) - _MOST_NAMED, 'more topic')}" if len(topics) > _MOST_NAMED else ""
    return f'format("kafka"): {" ".join(topics[:_MOST_NAMED])}{more}'


def _has_state(state: Path) -> bool:
    """Return whether a query with state has begun: Spark makes the directory for nobody else."""
    return state.is_dir() and any(not each.name.startswith(".") for each in state.iterdir())


# ---- files --------------------------------------------------------------------------------------------------------


def _must_be_checkpoint(directory: Path) -> None:
    if not directory.is_dir():
        raise CheckpointError(f"{directory} is no directory on this machine")
    if (directory / "_spark_metadata").exists():
        raise CheckpointError(f"{directory} is the output of a query; name its checkpointLocation")
    missing = [name for name in ("metadata", "offsets", "commits") if not (directory / name).exists()]
    if missing in ([], ["commits"]):  # Spark makes `commits` when the first batch ends
        return
    inner = sorted(path.name for path in directory.iterdir() if (path / "offsets").is_dir())[:_MOST_NAMED]
    hint = f"; these in it are: {', '.join(inner)}" if inner else ""
    raise CheckpointError(
        f"{directory} is no checkpoint of a streaming query: it has no {' and no '.join(missing)}{hint}"
    )


def _batches(directory: Path) -> list[int]:
    """Return the batches that have a file in a log, ascending; what Hadoop hides or writes for a moment is none."""
    if not directory.exists():
        return []
    if not directory.is_dir():
        raise CheckpointError(f"{directory} is no directory, as it is in a checkpoint: copy all of it")
    names = [path.name for path in directory.iterdir() if not path.name.startswith((".", "_"))]
    compact = next((name for name in names if name.endswith(".compact")), None)
    if compact is not None:
        raise CheckpointError(f"{directory / compact} is a compacted log, which is of another format than a query's")
    return sorted(int(name) for name in names if _NUMBER.fullmatch(name))


def _read(path: Path) -> str:
    """Return the text of a file that is whole as far as its checksum tells; raises CheckpointError."""
    try:
        data = path.read_bytes()
        beside = path.with_name(f".{path.name}.crc")
        checksums = beside.read_bytes() if beside.exists() else None
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror or error}") from error
    if checksums is not None and not _is_whole(data, checksums):
        raise CheckpointError(
            f"{path} is not what Spark wrote, by the checksum in {beside.name}: it was cut off or changed; take "
            "another copy of the checkpoint"
        )
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{path} is no text, and so no file of a checkpoint") from error


def _is_whole(data: bytes, checksums: bytes) -> bool:
    """Return whether data is that of a Hadoop checksum file: a mark, the bytes of a chunk, the CRC-32 of each chunk."""
    if not checksums.startswith(_CRC_MAGIC) or len(checksums) < 8:
        return True  # of another kind, which says nothing about this one
    (size,) = struct.unpack(">i", checksums[4:8])
    if size <= 0:
        return True
    expected = b"".join(struct.pack(">I", zlib.crc32(data[at : at + size])) for at in range(0, len(data), size))
    return checksums[8:] == expected


def _cut_off(path: Path) -> CheckpointError:
    return CheckpointError(
        f"{path} is cut off: Spark did not write all of it, and would not start from it either; take another copy of "
        f"the checkpoint. If the batch is one that was only begun, a copy without {path.name} in `offsets` says so"
    )


def _lines(path: Path, known: Sequence[str]) -> list[str]:
    """Return the lines of a log's file, its version first; raises CheckpointError for one that is not known."""
    version, *lines = _read(path).split("\n")
    if not version:
        raise _cut_off(path)
    if not re.fullmatch(r"v\d+", version):
        raise CheckpointError(f"{path} does not begin with a version, as the files of a query's checkpoint do")
    if version not in known:
        raise CheckpointError(
            f"{path} is of version {version} and {' and '.join(known)} can be read here: update kcoord"
        )
    return [version, *lines]


def _read_commit(path: Path) -> None:
    """See that a batch is really finished."""
    _, *lines = _lines(path, ("v1", "v2", "v3"))
    try:
        told = msgspec.json.decode(lines[0]) if lines else None
    except (msgspec.DecodeError, RecursionError):
        told = None
    if not isinstance(told, dict):
        raise _cut_off(path)


def _read_offsets(path: Path) -> dict[str, str | None]:
    """Return the offset of each source of a batch by the source's number or name."""
    version, *lines = _lines(path, ("v1", "v2"))
    if len(lines) < 2:
        raise _cut_off(path)
    try:
        msgspec.json.decode(lines[0] or "{}")
    except (msgspec.DecodeError, RecursionError) as error:
        raise _cut_off(path) from error
    sources: dict[str, str | None] = {}
    for number, line in enumerate(lines[1:]):
        name, colon, text = (str(number), ":", line) if version == "v1" else line.partition(":")
        if not colon or not text or "/" in name or name in {"", ".", ".."}:
            raise _cut_off(path)
        sources[name] = None if text == _NO_OFFSET else text
    return sources


def _read_initial(path: Path, name: str) -> Mapping[TopicPartition, int]:
    """Return the offsets at which a source of `format("kafka")` began."""
    if not path.exists():
        raise CheckpointError(
            f'{path} is not there, which says where source {name} began: it is not of format("kafka"), or the '
            "checkpoint is not whole"
        )
    text = _read(path).removeprefix("\0")
    return _parse_kafka(text.removeprefix("v1\n"), path, name)


def _parse_kafka(text: str, path: Path, name: str) -> Mapping[TopicPartition, int]:
    found = _as_kafka(text)
    if isinstance(found, str):
        raise CheckpointError(f'source {name} of {path} is not of format("kafka"): it is {found}')
    return found


def _as_kafka(text: str) -> dict[TopicPartition, int] | str:
    """Return the offsets of a source of `format("kafka")`, or say what the text is instead."""
    try:
        told = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return "cut off, or of another source"
    if isinstance(told, dict) and {"cluster", "group", "member"} <= told.keys():
        return 'of format("kcoord"), whose position is its group\'s already'
    if isinstance(told, dict) and "logOffset" in told:
        return "a source of files"
    if not isinstance(told, dict) or not told or not all(isinstance(each, dict) for each in told.values()):
        return "another source"
    offsets: dict[TopicPartition, int] = {}
    for topic, partitions in told.items():
        for number, offset in partitions.items():
            is_number = _NUMBER.fullmatch(number) is not None and why_bad_partition(topic, int(number)) is None
            if not is_number or type(offset) is not int or not 0 <= offset <= MAX_OFFSET:
                return "another source"
            offsets[topic, int(number)] = offset
    return dict(sorted(offsets.items()))
