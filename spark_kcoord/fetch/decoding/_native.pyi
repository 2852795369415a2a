from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from spark_kcoord.fetch.decoding.record_set import AbortedTransaction, DecodedBatch, RecordSetEnd

def decode(
    data: bytes | memoryview,
    topic: str,
    partition: int,
    start: int,
    end: int,
    *,
    columns: Sequence[str],
    aborted: Sequence[AbortedTransaction] | None = None,
    check_crcs: bool = True,
    max_bytes: int = ...,
) -> DecodedBatch: ...
def end_of(data: bytes | memoryview, where: str) -> RecordSetEnd | None: ...
def records(
    rows: pa.RecordBatch, topic: str, partition: int, epochs: Sequence[tuple[int, int]], kind: type[Any]
) -> list[Any]: ...
def checksum(data: bytes | memoryview, *, by_table: bool = False) -> int: ...
def checksum_by_instruction() -> bool: ...

RECEIVES: bool

def receive(sock: int, target: memoryview, many: int) -> int: ...
def turn_begins() -> None: ...
def turn_ends() -> None: ...
def lock_is_wanted() -> bool: ...
