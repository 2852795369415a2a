"""The target of Kafka's brokers: record batches, by both decoders, which agree."""

from typing import Any

import google_crc32c

from scripts.fuzz_decoder import seeds
from spark_kcoord.errors import KcoordError
from spark_kcoord.fetch.decoding import decode_numpy
from spark_kcoord.fetch.decoding.decode import COLUMNS, load_decoder
from tests.fuzz.target import Taken, Target

NATIVE = load_decoder("native")
_HEAD = 21
"""Bytes of a batch before those that its checksum covers."""


def batches(data: bytes) -> None:
    """A record set as a broker may send it, or not: both decoders give the same rows, or refuse it."""
    taken = Taken(data)
    checks, is_mended = taken.number() % 2 == 0, taken.number() % 2 == 0
    record_set = taken.rest()
    if is_mended and len(record_set) > _HEAD:
        crc = google_crc32c.value(record_set[_HEAD:])
        record_set = record_set[:17] + crc.to_bytes(4, "big") + record_set[_HEAD:]
    found = [_outcome(decoder, record_set, checks) for decoder in (NATIVE, decode_numpy)]
    assert found[0] == found[1]
    if found[0] is None:
        raise KcoordError("both decoders refuse it")


def _outcome(decoder: Any, record_set: bytes, checks: bool) -> object:
    try:
        decoded = decoder.decode(record_set, "t", 0, 2, 400, columns=COLUMNS, check_crcs=checks)
    except KcoordError:
        return None
    decoded.rows.validate(full=True)
    return decoded.next_offset, decoded.rows


TARGETS = (Target("batches", batches, (KcoordError,), lambda: [b"\0\0" + one for one in seeds() if len(one) < 4000]),)
