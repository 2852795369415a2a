"""Batches that always outlast the rebalance time-out: 35 fences were seen in 40 s, and nothing was committed."""

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from coordinator.protocol.parts import Claim, ClaimState, ResetPolicy
from coordinator.protocol.text.addresses import parse_address
from kcoord import Consumer
from spark_kcoord.member.client import MemberClient
from spark_kcoord.member.settings import MemberSettings
from tests.helpers.group_view import GroupView
from tests.helpers.kafka_topics import produce_numbers
from tests.helpers.parquet_stream import a_stream
from tests.helpers.polled import polled
from tests.promises.schedule import BrokenError, Schedule, must, must_have

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import StreamingQuery

    from tests.promises.place import Place

PARTITIONS, RECORDS = 2, 80
TIMEOUT_MS, BATCH_S = 1_000, 2.5
LONGEST_S = 60.0


class _SlowReader(threading.Thread):
    """A consumer whose every batch takes longer than it has to let go of a partition."""

    def __init__(self, place: "Place", name: str, is_over: threading.Event) -> None:
        super().__init__(daemon=True)
        self.numbers: set[int] = set()
        self.has_read = threading.Event()
        self.error: Exception | None = None
        self._is_over = is_over
        self._consumer = partial(
            Consumer,
            name,
            coordinators=place.coordinator.address,
            group_id=name,
            auto_offset_reset="earliest",
            rebalance_timeout_ms=TIMEOUT_MS,
            max_poll_records=20,
        )

    def run(self) -> None:
        try:
            with self._consumer() as consumer:
                while not self._is_over.is_set():
                    records = polled(consumer)
                    if records:
                        self.numbers |= {int(record.value) for record in records}
                        self.has_read.set()
                        self._is_over.wait(BATCH_S)
        except Exception as error:  # noqa: BLE001 - told to the schedule, which ends with it
            self.error = error


def _until(holds: Callable[[], bool], longest_s: float = LONGEST_S) -> bool:
    """Wait until something is so, and say whether it became so."""
    clock, until_s = threading.Event(), time.monotonic() + longest_s
    while not holds():
        if time.monotonic() >= until_s:
            return False
        clock.wait(0.05)
    return True


def _must_be_committed(view: GroupView, records: int) -> None:
    """Wait until the group has committed all, and every partition on the way to that."""
    if not _until(lambda: view.committed() == records):
        raise BrokenError("stuck", f"{view.committed()} of {records} records are committed after {LONGEST_S:g} s")
    unmoved = [part.partition for part in view.describe().partitions if not part.committed]
    must(unmoved == [], f"partitions {unmoved} are committed up to nothing", kind="stuck")


def _is_read(view: GroupView) -> bool:
    """Say whether a micro-batch is being read of every partition."""
    states = [part.claim_state for part in view.describe().partitions]
    return len(states) == PARTITIONS and set(states) == {ClaimState.RUNNING}


def _must_be_calm(view: GroupView) -> None:
    """Hold that partitions were taken, seldom, and that nobody was put out."""
    takings = sum(len(event.partitions) for event in view.events("taken-late"))
    must(1 <= takings <= PARTITIONS * 2, f"partitions were taken {takings} times")
    out = [event.why for event in view.events("member-expired")]
    must(out == [], f"a member that lived was put out: {out}")


def two_consumers(place: "Place") -> None:
    """Have a second consumer join while the first is in a batch that outlasts the time-out, as all of them do."""
    name = place.topic("slow-batches", PARTITIONS)
    produce_numbers(place.kafka.bootstrap_servers, name, PARTITIONS, 0, RECORDS)
    view, is_over = GroupView(place.coordinator.address, name), threading.Event()
    readers = [_SlowReader(place, name, is_over) for _ in range(2)]
    try:
        readers[0].start()
        must(readers[0].has_read.wait(LONGEST_S), "the first consumer read nothing", kind="stuck")
        readers[1].start()
        _must_be_committed(view, RECORDS)
    finally:
        is_over.set()
        for reader in readers:
            if reader.is_alive():
                reader.join(LONGEST_S)
    for reader in readers:
        must(reader.error is None, f"a consumer failed: {reader.error}")
    must_have(set(range(RECORDS)), readers[0].numbers | readers[1].numbers, what="both consumers")
    must(readers[1].numbers != set(), "the second consumer read nothing", kind="stuck")
    _must_be_calm(view)


class _SlowStream:
    """A query whose every micro-batch takes longer than it has to let go of a partition."""

    def __init__(self, place: "Place", name: str, word: str) -> None:
        self._rows: dict[int, set[int]] = {}
        self.may_end = threading.Event()
        """Set when a micro-batch may end that has lasted for long enough."""
        stream = a_stream(
            place.spark,
            place.coordinator,
            name,
            **{
                "subscribe": name,
                "startingOffsets": "earliest",
                "maxOffsetsPerTrigger": "20",
                "kcoord.rebalance.timeout": f"{TIMEOUT_MS}ms",
                "kcoord.share.within.application": "true",
            },
        )
        checkpoint = str(place.folder(word) / "checkpoint")
        writer = stream.writeStream.foreachBatch(self._write).option("checkpointLocation", checkpoint)
        self.query: StreamingQuery = writer.start()

    @property
    def numbers(self) -> set[int]:
        return set().union(*list(self._rows.values()))

    def stop(self) -> None:
        """Let the micro-batch that is under way end, and stop."""
        self.may_end.set()
        self.query.stop()

    def _write(self, batch: "DataFrame", number: int) -> None:
        rows = {int(bytes(row.value)) for row in batch.select("value").collect()}
        threading.Event().wait(BATCH_S)
        self.may_end.wait(LONGEST_S)
        self._rows[number] = rows


def two_streams(place: "Place") -> None:
    """Start a second query of one application while the first is in a micro-batch, all of which are too slow."""
    name = place.topic("slow-streams", PARTITIONS)
    produce_numbers(place.kafka.bootstrap_servers, name, PARTITIONS, 0, RECORDS)
    view = GroupView(place.coordinator.address, name)
    streams = [_SlowStream(place, name, "slow-one")]
    try:
        must(_until(lambda: _is_read(view)), "the first query read nothing", kind="stuck")
        streams.append(_SlowStream(place, name, "slow-other"))
        must(_until(lambda: bool(view.events("taken-late"))), "nothing is taken from a late query", kind="stuck")
        for stream in streams:
            stream.may_end.set()
        must(
            _until(lambda: sorted(view.owners().values()) == [1, 1]), "the queries do not share the topic", kind="stuck"
        )
        produce_numbers(place.kafka.bootstrap_servers, name, PARTITIONS, RECORDS, RECORDS)
        _must_be_committed(view, 2 * RECORDS)
        failures = [stream.query.exception() for stream in streams]
        must(failures == [None, None], f"a query failed: {failures}")
        _must_be_calm(view)
    finally:
        for stream in streams:
            stream.stop()
    must_have(set(range(2 * RECORDS)), streams[0].numbers | streams[1].numbers, what="both sinks")
    must(streams[1].numbers != set(), "the second query read nothing", kind="stuck")


def _a_member(place: "Place", name: str) -> MemberClient:
    """Return a member as a query has one, with a minute to let go of what it reads."""
    return MemberClient(
        MemberSettings(
            coordinators=(parse_address(place.coordinator.address),),
            group_id=name,
            client_id="waits",
            topics=(name,),
            reset_policy=ResetPolicy("earliest"),
            rebalance_timeout_ms=60_000,
        )
    )


def offered_and_wanted_back(place: "Place") -> None:
    """Have a query wait between latestOffset and partitions while another one joins."""
    name = place.topic("offered", PARTITIONS)
    produce_numbers(place.kafka.bootstrap_servers, name, PARTITIONS, 0, RECORDS)
    waiting, joining = _a_member(place, name), _a_member(place, name)
    try:
        waiting.join()
        owned = waiting.wait_for_assignment(complete=True, timeout_s=LONGEST_S).partitions
        must(len(owned) == PARTITIONS, f"the first member has {owned}", kind="stuck")
        claims = [Claim(p.topic, p.topic_id, p.partition, p.owner_epoch, p.position, p.position + 10) for p in owned]
        outcome = waiting.advance((), claims)
        joining.join()
        is_let_go = _until(lambda: bool(joining.assignment().partitions), 1.0)
        must(is_let_go, f"no partition was let go within a second: {outcome}", kind="stuck")
        states = sorted(status.state.name for status in waiting.confirm_claims(claims))
        must(states == ["CLOSED", "RUNNING"], f"the first member may read {states}")
    finally:
        joining.close()
        waiting.close()


SCHEDULES = (
    Schedule(
        "slow-batches-and-a-join",
        "batches that always outlast the rebalance time-out are committed, and no member that lives is put out",
        two_consumers,
        timeout_s=150.0,
    ),
    Schedule(
        "slow-streams-and-a-join",
        "micro-batches of two queries that outlast the time-out reach the sinks and are committed",
        two_streams,
        timeout_s=170.0,
    ),
    Schedule(
        "offered-and-wanted-back",
        "a query that waits between latestOffset and partitions lets a partition go without a trigger",
        offered_and_wanted_back,
        timeout_s=100.0,
    ),
)
