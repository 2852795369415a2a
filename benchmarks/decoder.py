"""The 100 B records a second that one core decodes into Arrow, beside memcpy and other readers of the same bytes.

    make bench-decoder        or: uv run python benchmarks/decoder.py [--records 400000] [--rounds 15]

librdkafka writes the records (100 B values, 8 B keys) to a real broker, once in batches of 16 KB as a Java producer
makes them and once of up to 1 MB; the segment files are the record sets, cut into the pieces a fetch would bring. All
columns but headers are decoded (and, beside, one alone) and checksums are checked. Figures are rows per second of the
decoding thread's processor time, warm, the median of rounds in which all decoders take turns; memcpy copies the same
bytes. confluent-kafka has no decoder apart: its figure is `consume()` from the broker by the clock, fetching
included. The last line is of the 16 KB batches, and is OK when the compiled decoder makes at least 25 million rows
per second.
"""

import argparse
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from kafka.record import MemoryRecords

from coordinator.local.kafka.broker import LocalKafka
from spark_kcoord.fetch.decoding.decode import COLUMNS, Decoder, load_decoder

KEY_BYTES, VALUE_BYTES = 8, 100
PIECE_BYTES = 4 << 20
BATCHES = {"16 KB": 16 << 10, "1 MB": 1 << 20}
ORACLE_RECORDS = 20_000
BAR = 25_000_000
READ_TIMEOUT_S = 60.0


def write(kafka: LocalKafka, topic: str, records: int, batch_bytes: int) -> None:
    """Fill a topic of one partition."""
    kafka.create_topic(topic, 1, {})
    settings = {"batch.size": batch_bytes, "linger.ms": 100, "queue.buffering.max.messages": records + 1}
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, **settings})
    value = bytes(range(VALUE_BYTES))
    for number in range(records):
        producer.produce(topic, value, key=b"%08d" % number)
    producer.flush()


def record_sets(kafka: LocalKafka, topic: str) -> list[bytes]:
    """Return the topic's segments, in pieces that begin and end with whole batches."""
    pieces = []
    for segment in sorted(kafka.data_dir.rglob(f"{topic}-0/*.log")):
        data = memoryview(segment.read_bytes())
        while len(data):
            piece = data[: end_of_batches(data, PIECE_BYTES)]
            if not len(piece):
                break
            pieces.append(bytes(piece))
            data = data[len(piece) :]
    return pieces


def end_of_batches(data: memoryview, most: int) -> int:
    """Return how many of the first `most` bytes are whole batches."""
    at = 0
    while at + 12 <= min(most, len(data)):
        size = 12 + int.from_bytes(data[at + 8 : at + 12], "big")
        if at + size > min(most, len(data)):
            break
        at += size
    return at


def decode_all(decoder: Decoder, pieces: list[bytes], columns: Sequence[str] = COLUMNS[:-1]) -> int:
    """Decode all pieces and return the number of rows."""
    rows = 0
    for piece in pieces:
        rows += decoder.decode(piece, "topic", 0, 0, 1 << 62, columns=columns).rows.num_rows
    return rows


def read_memory_records(pieces: list[bytes]) -> int:
    """Read some records as kafka-python's consumer does, and return their number."""
    rows = 0
    for piece in pieces:
        batches = MemoryRecords(piece)
        while batches.has_next():
            for record in batches.next_batch():
                _ = (record.key, record.value, record.offset, record.timestamp, record.timestamp_type)
                rows += 1
            if rows >= ORACLE_RECORDS:
                return rows
    return rows


def consume_rate(kafka: LocalKafka, topic: str, records: int) -> float:
    """Return rows per second of confluent-kafka's consume(), after its first batch."""
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": "bench", "check.crcs": True})
    consumer.assign([TopicPartition(topic, 0, 0)])
    try:
        seen = len(consumer.consume(1, READ_TIMEOUT_S))
        started = time.perf_counter()
        first = seen
        while seen < records:
            messages = consumer.consume(min(10_000, records - seen), READ_TIMEOUT_S)
            if not messages:
                raise RuntimeError(f"only {seen} of {records} records came within {READ_TIMEOUT_S:g} s")
            for message in messages:
                _ = (message.key(), message.value(), message.offset(), message.timestamp())
            seen += len(messages)
        return (seen - first) / (time.perf_counter() - started)
    finally:
        consumer.close()


def rates(readers: dict[str, Callable[[], int]], rounds: int) -> dict[str, float]:
    """Return each reader's median rows per second over interleaved rounds, after one to warm up."""
    found: dict[str, list[float]] = {name: [] for name in readers}
    for turn in range(rounds + 1):
        for name, read in readers.items():
            if turn > 3 and name == "memory_records":
                continue
            started = time.thread_time()
            rows = read()
            if turn:
                found[name].append(rows / (time.thread_time() - started))
    return {name: statistics.median(values) for name, values in found.items()}


def measure(kafka: LocalKafka, name: str, records: int, rounds: int) -> dict[str, float]:
    """Measure all readers on batches of one size."""
    topic = f"r100-{name.replace(' ', '').lower()}"
    write(kafka, topic, records, BATCHES[name])
    native, numpy = load_decoder("native"), load_decoder("numpy")
    pieces = record_sets(kafka, topic)
    for piece in pieces:
        ours = native.decode(piece, "topic", 0, 0, 1 << 62, columns=COLUMNS[:-1])
        if ours != numpy.decode(piece, "topic", 0, 0, 1 << 62, columns=COLUMNS[:-1]):
            raise RuntimeError("the decoders disagree")
    if decode_all(native, pieces) != records:
        raise RuntimeError(f"the segments of {topic} do not hold {records} records")
    targets = [(memoryview(bytearray(len(piece))), piece) for piece in pieces]

    def copy() -> int:
        for target, piece in targets:
            target[:] = piece
        return records

    found = rates(
        {
            "rows": lambda: decode_all(native, pieces),
            "value_only_rows": lambda: decode_all(native, pieces, ["value"]),
            "offset_only_rows": lambda: decode_all(native, pieces, ["offset"]),
            "memcpy_rows": copy,
            "memory_records_rows": lambda: read_memory_records(pieces),
            "numpy_rows": lambda: decode_all(numpy, pieces),
        },
        rounds,
    )
    found["confluent_rows"] = consume_rate(kafka, topic, records)
    line = " ".join(f"{key}_per_s={value:.0f}" for key, value in found.items())
    print(f"batches of {name}: {sum(map(len, pieces)) / records:.0f} B a record, {line}")
    return found


def main() -> int:
    """Measure, and print the summary last."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=400_000)
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args()
    try:
        load_decoder("native")
    except ImportError as error:
        print(f"bench-decoder: FAILED no compiled decoder ({error}): install a C compiler and kcoord again")
        return 1
    print(f"{platform.processor() or platform.machine()}, Python {platform.python_version()}")
    with tempfile.TemporaryDirectory() as directory, LocalKafka(Path(directory)) as kafka:
        found = {name: measure(kafka, name, arguments.records, arguments.rounds) for name in BATCHES}["16 KB"]
    order = (
        "rows",
        "memcpy_rows",
        "memory_records_rows",
        "confluent_rows",
        "numpy_rows",
        "value_only_rows",
        "offset_only_rows",
    )
    is_fast = found["rows"] >= BAR
    summary = " ".join(f"{name}_per_s={found[name]:.0f}" for name in order)
    print(f"bench-decoder: {'OK' if is_fast else 'FAILED'} {summary}")
    return 0 if is_fast else 1


if __name__ == "__main__":
    sys.exit(main())
