"""Logs as brokers before Kafka 0.11 left them, and a broker of today that serves them.

Every partition tells one story: format 0 and format 1 in every codec of their time, stamped by the broker, begun in old
formats and gone on with today's, and with the holes that a cleaner leaves.
"""

from collections.abc import Mapping, Sequence

from coordinator.local.kafka.broker import LocalKafka
from tests.helpers.old_messages import OLD_CODECS, OldSet, place_segment
from tests.helpers.record_batches import Row, record_batch

FIRST_MS = 1_400_000_000_000
STEP_MS = 2_000
SHAPES = (
    Row(b"k0", b"v0"),
    Row(None, b"no key"),
    Row(b"no value", None),
    Row(None, None),
    Row(b"", b""),
    Row("ключ".encode(), bytes(range(256))),
    Row(b"long", b"x" * 70_000),
    *(Row(b"%d" % number, b"%d " % number * number) for number in range(30)),
)


def placed(base: int, rows: Sequence[Row] = SHAPES, *, holes: int = 0) -> dict[int, Row]:
    """Return rows at offsets from `base` on, every `holes`-th left out, with times that rise with the offset."""
    return {
        base + at: Row(row.key, row.value, FIRST_MS + (base + at) * STEP_MS)
        for at, row in enumerate(rows)
        if not holes or at % holes != holes // 2
    }


def in_every_codec(magic: int, *, holes: int = 0, append_time: int | None = None) -> bytes:
    """Return sets of one format, codec after codec, twice."""
    sets = []
    base = 0
    for codec in OLD_CODECS * 2:
        sets.append(OldSet(magic, placed(base, holes=holes), codec, append_time).to_bytes())
        base += len(SHAPES)
    return b"".join(sets)


def mixed() -> bytes:
    """Return a log that went from format to format and once back."""
    step = len(SHAPES)
    sets = (
        OldSet(0, placed(0)).to_bytes(),
        OldSet(0, placed(step), "snappy").to_bytes(),
        OldSet(1, placed(2 * step), "gzip").to_bytes(),
        record_batch(placed(3 * step), base_offset=3 * step, codec="zstd"),
        OldSet(1, placed(4 * step), "lz4", FIRST_MS).to_bytes(),
        OldSet(0, placed(5 * step, holes=3)).to_bytes(),
        record_batch(placed(6 * step), base_offset=6 * step, codec="gzip", append_time=FIRST_MS),
    )
    return b"".join(sets)


OLD_LOGS: Mapping[int, bytes] = {
    0: in_every_codec(0),
    1: in_every_codec(1),
    2: in_every_codec(0, holes=4),
    3: in_every_codec(1, holes=5),
    4: in_every_codec(1, append_time=FIRST_MS + 7),
    5: mixed(),
}
"""The log of each partition; every one begins at offset 0."""


def serve_old_logs(
    kafka: LocalKafka, topics: Sequence[str], others: Mapping[tuple[str, int], bytes] | None = None
) -> None:
    """Create topics and give each the old logs, for which the broker is stopped and started again.

    `others` are logs of partitions that exist already, which are laid into the broker's directory at the same time.
    """
    for topic in topics:
        kafka.create_topic(topic, len(OLD_LOGS))
    logs = {(topic, partition): log for topic in topics for partition, log in OLD_LOGS.items()}
    kafka.stop()
    for (topic, partition), log in (logs | dict(others or {})).items():
        place_segment(kafka.data_dir, topic, partition, log)
    kafka.start()
