"""Queries that read committed records only, beside a producer whose transaction is open."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kafka import KafkaProducer

from spark_kcoord.member.client import fetch_offsets
from spark_kcoord.options.source_options import host_ports
from tests.helpers.processes import eventually
from tests.promises.place import Place
from tests.promises.schedule import Schedule, must, must_have

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

PATIENCE_S = 60.0
BEFORE, OPEN, AFTER = range(3), range(3, 6), range(6, 8)


@contextmanager
def open_transaction(place: Place, topic: str) -> Iterator[Callable[[], None]]:
    """Have a topic with a few records and a transaction that is open; yields how to commit it."""
    producer = KafkaProducer(bootstrap_servers=place.kafka.bootstrap_servers, transactional_id=f"tx-{topic}")
    producer.init_transactions()
    try:
        producer.begin_transaction()
        send(producer, topic, BEFORE)
        producer.commit_transaction()
        producer.begin_transaction()
        send(producer, topic, OPEN)
        yield producer.commit_transaction
    finally:
        producer.close()


def send(producer: KafkaProducer, topic: str, values: range) -> None:
    for value in values:
        producer.send(topic, value=b"%d" % value, partition=0)
    producer.flush(20)


def send_after(place: Place, topic: str) -> None:
    """Write the last records, in no transaction."""
    producer = KafkaProducer(bootstrap_servers=place.kafka.bootstrap_servers)
    send(producer, topic, AFTER)
    producer.close()


def start(place: Place, topic: str, folder: Path, source: str = "kcoord", **options: str) -> "StreamingQuery":
    """Start a query that writes to a table called like its folder."""
    reader = place.spark.readStream.format(source).option("subscribe", topic)
    servers = {"kafka.bootstrap.servers": place.kafka.bootstrap_servers}
    if source == "kcoord":
        servers["kcoord.bootstrap.servers"] = place.coordinator.address
    rows = reader.options(**{**servers, **options}).load()
    writer = rows.selectExpr("CAST(CAST(value AS STRING) AS INT) AS value").writeStream.format("memory")
    name = table(folder)
    return writer.queryName(name).option("checkpointLocation", str(folder)).start()


def table(folder: Path) -> str:
    return folder.name.replace("-", "_")


def values(place: Place, folder: Path) -> list[int]:
    return [row.value for row in place.spark.table(table(folder)).collect()]


def committed(place: Place, group: str, topic: str) -> int | None:
    """Return the group's offset of the topic's partition."""
    offset: int | None = fetch_offsets(host_ports([place.coordinator.address]), group, timeout_s=30).get((topic, 0))
    return offset


def has_begun(query: "StreamingQuery") -> bool:
    """Say whether a query has looked for records, and raise what ended it."""
    if query.exception() is not None:
        must(False, f"the query died: {query.exception()}")
    return query.lastProgress is not None


def must_come(holds: Callable[[], bool]) -> None:
    must(eventually(holds, PATIENCE_S), "the queries did not get there in time", kind="stuck")


def starts_at_latest(place: Place, *, fails_on_data_loss: bool) -> None:
    """A new query starts at latest while a transaction is open, which is committed then; format("kafka") beside it."""
    topic, group = place.topic("transactions"), place.name("group")
    options = {
        "startingOffsets": "latest",
        "kafka.isolation.level": "read_committed",
        "failOnDataLoss": str(fails_on_data_loss).lower(),
    }
    folders = {source: place.folder(source) for source in ("kcoord", "kafka")}
    with open_transaction(place, topic) as commit:
        queries = [
            start(place, topic, folders["kcoord"], "kcoord", **options, **{"kcoord.group.id": group}),
            start(place, topic, folders["kafka"], "kafka", **options),
        ]
        try:
            must_come(lambda: all(has_begun(query) for query in queries))
            must_come(lambda: committed(place, group, topic) is not None)
            begun_at = committed(place, group, topic)
            commit()
            send_after(place, topic)
            expected = {*OPEN, *AFTER}

            def has_come() -> bool:
                alive = all(has_begun(query) for query in queries)
                return alive and all(expected <= set(values(place, folder)) for folder in folders.values())

            must_come(has_come)
            offset = committed(place, group, topic)
        finally:
            for query in queries:
                query.stop()
    for source, folder in folders.items():
        must_have(expected, set(values(place, folder)), what=f"{source} from latest beside an open transaction")
    must(sorted(values(place, folders["kcoord"])) == sorted(values(place, folders["kafka"])), "both sources are alike")
    # Three records and a marker lie before the open transaction.
    must(begun_at == len(BEFORE) + 1, f"the group started at {begun_at}")
    must(offset is not None and offset >= begun_at, f"the group's offset went from {begun_at} to {offset}")


def offset_never_falls(place: Place) -> None:
    """A member that reads everything commits behind the open transaction; the next one reads committed records only."""
    topic, group = place.topic("transactions"), place.name("group")
    options = {"startingOffsets": "earliest", "failOnDataLoss": "false", "kcoord.group.id": group}
    everything, only_committed = place.folder("everything"), place.folder("committed")
    end = len(BEFORE) + 1 + len(OPEN)
    with open_transaction(place, topic) as commit:
        query = start(place, topic, everything, **options)
        try:
            must_come(lambda: has_begun(query) and committed(place, group, topic) == end)
        finally:
            query.stop()
        level = {"kafka.isolation.level": "read_committed"}
        query = start(place, topic, only_committed, **options, **level)
        seen = set()
        try:
            must_come(lambda: has_begun(query))
            for _ in range(4):
                query.awaitTermination(1)
                seen.add(committed(place, group, topic))
            commit()
            send_after(place, topic)
            must_come(lambda: has_begun(query) and set(AFTER) <= set(values(place, only_committed)))
            seen.add(committed(place, group, topic))
        finally:
            query.stop()
    must(all(offset is not None and offset >= end for offset in seen), f"the group's offset was {seen}, after {end}")
    must_have({*BEFORE, *OPEN}, set(values(place, everything)), what="the member that reads everything")
    must_have(set(AFTER), set(values(place, only_committed)), what="the member that reads committed records")


SCHEDULES = (
    Schedule(
        "read_committed-latest",
        "a new query beside an open transaction starts before it and reads it when it is committed",
        partial(starts_at_latest, fails_on_data_loss=True),
    ),
    Schedule(
        "read_committed-latest-tolerant",
        "failOnDataLoss=false passes over no open transaction",
        partial(starts_at_latest, fails_on_data_loss=False),
    ),
    Schedule(
        "read_committed-mixed",
        "beside a member that reads everything the group's offset never falls",
        offset_never_falls,
    ),
)
