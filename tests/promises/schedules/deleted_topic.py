"""Topics that are deleted, or deleted and made again, while a running query writes a micro-batch of them."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafka import KafkaAdminClient

from coordinator.local.node import LocalCoordinator
from tests.helpers.group_view import GroupView
from tests.helpers.kafka_topics import produce_numbers
from tests.helpers.spark_application import SparkApplication
from tests.helpers.stream_application import NumberedStream
from tests.helpers.waiting import wait_until
from tests.promises.schedule import BrokenError, Schedule, must, must_have

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tests.promises.place import Place

OLD, UNREAD, NEW = 40, 20, 100
"""Records of the topic that the micro-batch holds, that come while it is written, and of the topic that is made again,
which has more than the old one: only its id tells it from the old one."""
OTHER, MORE, AS_MANY = 1_000, 2_000, 10
"""Where the numbers begin of another topic, before and after."""
MADE_AGAIN = 10_000
"""Where the numbers begin of the topic that is made again."""
PATIENCE_S = 40.0
NOTICE_S = 15.0
"""So soon after its micro-batch a query has to notice."""


class KafkaStream(NumberedStream):
    """The same query by format("kafka")."""

    __slots__ = ()

    def frame(self, spark: "SparkSession") -> "DataFrame":
        """Return what is read; the field `coordinator` holds the brokers."""
        self.folder.mkdir(parents=True, exist_ok=True)
        options = dict(option.split("=", 1) for option in self.options)
        known = {"kafka.bootstrap.servers": self.coordinator, "subscribe": self.topic, "startingOffsets": "earliest"}
        return spark.readStream.format("kafka").options(**known, **options).load()


@dataclass(frozen=True)
class Topics:
    """The topic that is to be lost and another one, of which a query reads both."""

    place: "Place"
    node: LocalCoordinator
    lost: str
    other: str

    def stream(self, word: str, *, fails: bool) -> NumberedStream:
        """Return a query of both topics."""
        name, options = self.place.name(word), (f"failOnDataLoss={str(fails).lower()}", PASSED_OVER_SOON)
        return NumberedStream(
            self.place.folder(word), self.node.address, name, f"{self.lost},{self.other}", (*options, QUICK)
        )

    def kafka_stream(self, *, fails: bool) -> NumberedStream:
        """Return the same query by format("kafka")."""
        options = (f"failOnDataLoss={str(fails).lower()}",)
        servers = self.place.kafka.bootstrap_servers
        return KafkaStream(self.place.folder("theirs"), servers, "", f"{self.lost},{self.other}", options)

    def lose(self, *, is_made_again: bool) -> None:
        """Write what nobody reads any more, delete the topic, and make it again with more records."""
        servers = self.place.kafka.bootstrap_servers
        produce_numbers(servers, self.lost, 2, OLD, UNREAD)
        with KafkaAdminClient(bootstrap_servers=servers) as admin:
            admin.delete_topics([self.lost])
            wait_until(lambda: self.lost not in admin.list_topics(), timeout_s=20, what="the end of the topic")
        if is_made_again:
            self.place.kafka.create_topic(self.lost, 2)
            produce_numbers(servers, self.lost, 2, MADE_AGAIN, NEW)
        produce_numbers(servers, self.other, 1, MORE, AS_MANY)

    def is_lost_in(self, group: str) -> bool:
        """Say whether the coordinator has taken note: it wants the partitions back, or has them already."""
        partitions = GroupView(self.node.address, group).describe().partitions
        return all(one.is_stopping or one.member_id is None for one in partitions if one.topic == self.lost)


QUICK = "kcoord.session.timeout=3s"
PASSED_OVER_SOON = "kafkaConsumer.pollTimeoutMs=10000"
"""What is lost is passed over when the time without progress is over, and not before."""


@contextmanager
def topics(place: "Place") -> Iterator[Topics]:
    """Start a node that looks at topics often, and write the records."""
    servers, lost, other = place.kafka.bootstrap_servers, place.topic("lost", 2), place.topic("other")
    produce_numbers(servers, lost, 2, 0, OLD)
    produce_numbers(servers, other, 1, OTHER, AS_MANY)
    settings = {"kafka.topics_poll_ms": 200}
    with LocalCoordinator(servers, place.folder("deleted-node"), settings=settings) as node:
        yield Topics(place, node, lost, other)


def why_failed(place: "Place", stream: NumberedStream, lose: Callable[[], None], patience_s: float) -> str | None:
    """Run a query, lose the topic while it writes its first micro-batch, and return why it failed; None if it did not.

    Micro-batches of the other topic may come before it is noticed.
    """
    stream.folder.mkdir(exist_ok=True)
    (stream.folder / "hold").touch()
    query = stream.start(place.spark)
    try:
        wait_until(lambda: (stream.folder / "holding-0").exists(), query=query, what="the first micro-batch")
        lose()
        (stream.folder / "hold").unlink()
        until_s = time.monotonic() + patience_s
        while (error := query.exception()) is None and time.monotonic() < until_s:
            must(query.isActive or query.exception() is not None, "the query ended well")
            time.sleep(0.05)
        return None if error is None else str(error)
    finally:
        (stream.folder / "hold").unlink(missing_ok=True)
        query.stop()


def must_fail(place: "Place", *, is_made_again: bool, is_noticed: bool) -> None:
    """Run a query with failOnDataLoss=true; with `is_noticed` the micro-batch lasts until the coordinator knows."""
    with topics(place) as both:
        stream = both.stream("fails", fails=True)

        def lose() -> None:
            both.lose(is_made_again=is_made_again)
            if is_noticed:
                wait_until(lambda: both.is_lost_in(stream.group), timeout_s=20, what="the coordinator's notice")

        why = why_failed(place, stream, lose, NOTICE_S)
        if why is None:
            raise BrokenError("lost", f"{UNREAD} records of a topic that is gone were lost without an error")
        must(both.lost in why, f"the error does not name topic {both.lost}: {why}")
        must("failOnDataLoss" in why, f"the error does not say what to do: {why}")
        must(not is_noticed or MORE not in stream.rows(), "a micro-batch of the other topic came before the error")


def must_go_on(place: "Place", *, is_made_again: bool) -> None:
    """Run an application with failOnDataLoss=false: it says what is lost, and reads what is there."""
    with topics(place) as both, SparkApplication(stream := both.stream("goes-on", fails=False)) as application:
        application.hold()
        application.start()
        application.wait_for("holding-0")
        both.lose(is_made_again=is_made_again)
        wait_until(lambda: both.is_lost_in(stream.group), timeout_s=20, what="the coordinator's notice")
        application.let_go()
        expected = {*range(OLD), *range(OTHER, OTHER + AS_MANY), *range(MORE, MORE + AS_MANY)}
        expected |= set(range(MADE_AGAIN, MADE_AGAIN + NEW)) if is_made_again else set()
        until_s = time.monotonic() + PATIENCE_S
        while not expected <= stream.rows().keys() and time.monotonic() < until_s:
            application.wait_for("batch-*")
        must_have(expected, set(stream.rows()), what="with failOnDataLoss=false")
        while not is_said(application, both.lost):
            must(time.monotonic() < until_s, f"nobody says that {both.lost} is gone: {application.log_tail()}")
            application.wait_for("batch-*")


def is_said(application: SparkApplication, topic: str) -> bool:
    """Say whether an application warns that a topic is gone."""
    said = (application.folder / "log").read_text(errors="replace").splitlines()
    return any(topic in line and "failOnDataLoss is false" in line for line in said)


def deleted(place: "Place") -> None:
    """Delete the topic, before the coordinator knows and after it, beside format("kafka")."""
    for is_noticed in (False, True):
        must_fail(place, is_made_again=False, is_noticed=is_noticed)
    with topics(place) as both:
        theirs = both.kafka_stream(fails=True)
        why = why_failed(place, theirs, lambda: both.lose(is_made_again=False), NOTICE_S)
        must(why is not None, "format('kafka') goes on: the promise is stricter than it needs to be")


def made_again(place: "Place") -> None:
    """Delete the topic and make it again with more records, before the coordinator knows and after it."""
    for is_noticed in (False, True):
        must_fail(place, is_made_again=True, is_noticed=is_noticed)


SCHEDULES = [
    Schedule(
        "topic-deleted-fails",
        'a topic that is deleted during a micro-batch fails the query, which names it, as with format("kafka")',
        deleted,
        timeout_s=170,
    ),
    Schedule(
        "topic-made-again-fails",
        "a topic that is deleted and made again during a micro-batch fails the query, which names it",
        made_again,
        timeout_s=170,
    ),
    Schedule(
        "topic-deleted-goes-on",
        "with failOnDataLoss=false a topic that is deleted during a micro-batch is said, and the query goes on",
        lambda place: must_go_on(place, is_made_again=False),
    ),
    Schedule(
        "topic-made-again-goes-on",
        "with failOnDataLoss=false a topic that is made again during a micro-batch is said, and read from its start",
        lambda place: must_go_on(place, is_made_again=True),
    ),
]
