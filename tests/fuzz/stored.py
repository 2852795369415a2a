"""Targets of the disk: records, segments, snapshots, the data directory's own files, and Spark's checkpoint."""

import contextlib
import json
import struct

import google_crc32c
import msgspec

from coordinator.core.groups.hard.records import (
    GroupEmptied,
    GroupExpired,
    UnreadableRecordError,
    decode_record,
    encode_record,
)
from coordinator.core.log.entry import Batch, StorageError, encode_batch
from coordinator.core.log.meta import (
    ClusterMemory,
    DirectoryMeta,
    decode_memory,
    decode_meta,
    encode_memory,
    encode_meta,
)
from coordinator.core.log.recovery import SegmentBytes, recover_log
from coordinator.core.log.segment import scan_segment
from coordinator.core.log.snapshot import SnapshotPiece, encode_piece, read_pieces
from spark_kcoord.errors import KcoordError
from spark_kcoord.microbatch.stream_offset import StreamOffset
from tests.fuzz.target import Taken, Target
from tests.helpers.wire_examples import CLAIM

_HEADER = struct.Struct(">BQII")


def records(data: bytes) -> None:
    """A record of any number and fields, or any bytes: what is read is written and read again as the same."""
    taken = Taken(data)
    if taken.number() % 4:
        fields = [taken.number(), *(taken.value() for _ in range(taken.number() % 16))]
        body = taken.changed(bytes([taken.one_of((1, 1, 1, 0, 2))]) + msgspec.msgpack.encode(fields))
    else:
        body = taken.rest()
    record = decode_record(body)
    assert decode_record(encode_record(record)) == record


def segments(data: bytes) -> None:
    """Frames of which some are right to the last bit and some are not, cut and changed: batches, or a reason."""
    taken = Taken(data)
    said = bytearray()
    base = offset = taken.one_of((0, 0, 5, 2**40))
    for _ in range(taken.number() % 6):
        match taken.number() % 4:
            case 0 | 1:
                rows = tuple(taken.piece(taken.number() % 30) for _ in range(taken.number() % 4))
                said += encode_batch(Batch(offset, taken.number() % 4, rows))
                offset += len(rows)
            case 2:  # a frame whose checksum is right, whatever is in it
                epoch, count = taken.number(4), taken.number(4)
                body = _HEADER.pack(0xC1 - taken.number() % 2, offset, epoch, count) + taken.piece(taken.number())
                body += bytes(-(len(body) + 9) % 8) + bytes([0xE0 + taken.number() % 9])
                said += struct.pack(">II", len(body), google_crc32c.value(bytes(body))) + body
            case _:
                said += taken.piece(taken.number())
    for _ in range(taken.number() % 3):
        if said:
            said[taken.number(2) % len(said)] = taken.number()
    said = said[: len(said) - taken.number() % 20] + bytes(taken.number())
    may_be_torn = taken.number() % 2 == 0
    heard: list[Batch] = []
    refused = None
    try:
        scan = scan_segment(bytes(said), path_hint="s", base_offset=base, may_be_torn=may_be_torn)
        assert scan.valid_bytes + scan.cut_bytes <= len(said) or scan.cut_bytes == 0
        assert [batch.base_offset for batch in scan.batches] == sorted(batch.base_offset for batch in scan.batches)
    except StorageError as error:
        refused = error
    with contextlib.suppress(StorageError):
        log = recover_log("d", base or None, [SegmentBytes("s", base, bytes(said))], heard.append)
        assert log.log_end_offset >= base
    if refused is not None:
        raise refused


def snapshots(data: bytes) -> None:
    """Pieces of a snapshot, with right checksums over anything, cut and changed."""
    taken = Taken(data)
    said = bytearray()
    for number in range(taken.number() % 4):
        rows = tuple(taken.piece(taken.number() % 30) for _ in range(taken.number() % 4))
        said += encode_piece(SnapshotPiece(taken.one_of((5, 5, 6)), 1, rows, number, taken.number() % 3 == 0))
    for _ in range(taken.number() % 3):
        if said:
            said[taken.number(2) % len(said)] = taken.number()
    said += taken.rest()
    content = bytes(said)
    list(read_pieces(lambda at, count: content[at : at + count], len(content), path_hint="s"))


def directory(data: bytes) -> None:
    """The two files in which a data directory says whose it is, with a right form and any values, or any bytes."""
    taken = Taken(data)
    if taken.number() % 4:
        names = ("format", "shards", "directory_id", "node_id", "cluster_id", "starts", "controller_epoch", "checksum")
        names += ("node_epoch", "buckets")
        data = json.dumps({taken.one_of(names): _as_json(taken) for _ in range(taken.number() % 8)}).encode() + b"\n"
    else:
        data = taken.rest()
    for decode in (decode_meta, decode_memory):
        with contextlib.suppress(StorageError):
            decode(data, path_hint="f")


def _as_json(taken: Taken) -> object:
    value = taken.value(2)
    return json.loads(json.dumps(value, default=lambda other: other.hex()))


def stream_offsets(data: bytes) -> None:
    """A document in Spark's checkpoint, as ours or as anybody's: an offset that is written as it was, or a reason."""
    taken = Taken(data)
    document = json.loads(_EXAMPLE)
    for _ in range(taken.number() % 4):
        inner = document
        while isinstance(inner, dict) and inner:
            name = taken.one_of([*inner])
            if not isinstance(inner[name], dict) or taken.number() % 3 == 0:
                inner[name] = _as_json(taken)
                break
            inner = inner[name]
    offset = StreamOffset.from_json(document)
    again = StreamOffset.from_json(json.loads(json.dumps(offset.to_json())))
    assert again == offset


_EXAMPLE = json.dumps(
    StreamOffset("c", "g", "m", (CLAIM,), 3, ("h:1",), (("n", 2),)).to_json()
    | {"log": {"incarnation": "5d1a", "end": 9}}
)
_SHAPES = [bytes([number]) + bytes(range(number, number + 90)) for number in range(0, 160, 7)]

TARGETS = (
    Target(
        "records",
        records,
        (UnreadableRecordError,),
        lambda: [
            *_SHAPES,
            b"\0" + encode_record(GroupExpired("g", "why")),
            b"\0" + encode_record(GroupEmptied("g", 1)),
        ],
    ),
    Target("segments", segments, (StorageError,), lambda: _SHAPES),
    Target(
        "snapshots",
        snapshots,
        (StorageError,),
        lambda: [*_SHAPES, b"\0\0" + encode_piece(SnapshotPiece(3, 1, (b"a", b"b"), 0, True))],
    ),
    Target(
        "directory",
        directory,
        (),
        lambda: [*_SHAPES, b"\0" + encode_meta(DirectoryMeta(4, "d")), b"\0" + encode_memory(ClusterMemory(4))],
    ),
    Target("stream-offsets", stream_offsets, (KcoordError,), lambda: _SHAPES),
)
