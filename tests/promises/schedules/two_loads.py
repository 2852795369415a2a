"""Two loads of one topic in one query: they see all of it, or the query fails and says what to do; never a part."""

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from pyspark.errors import StreamingQueryException

from tests.helpers.group_view import GroupView
from tests.helpers.kafka_topics import produce_numbers
from tests.helpers.parquet_stream import a_stream, to_parquet, values_in
from tests.helpers.waiting import wait_until
from tests.promises.place import Place
from tests.promises.schedule import BrokenError, Schedule, must

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

RECORDS = 60
ENDS_S = 60.0
Put = Callable[["DataFrame", "DataFrame"], "DataFrame"]


def _loads(place: Place, topic: str, groups: tuple[str, str]) -> "list[DataFrame]":
    return [
        a_stream(
            place.spark,
            place.coordinator,
            group,
            subscribe=topic,
            startingOffsets="earliest",
            **{"kcoord.session.timeout": "2s"},
        ).selectExpr("CAST(value AS STRING) AS value", "partition", "offset")
        for group in groups
    ]


def _kafka_loads(place: Place, topic: str) -> "list[DataFrame]":
    reader = place.spark.readStream.format("kafka").option("kafka.bootstrap.servers", place.kafka.bootstrap_servers)
    stream = reader.option("subscribe", topic).option("startingOffsets", "earliest")
    return [stream.load().selectExpr("CAST(value AS STRING) AS value", "partition", "offset") for _ in range(2)]


def _values(place: Place, loads: "list[DataFrame]", put: Put) -> Counter[int]:
    """Run a query over both loads to the end of what is there, and return how often each value came out."""
    folder = place.folder("two-loads")
    query = to_parquet(put(*loads), folder).trigger(availableNow=True).start()
    try:
        if not query.awaitTermination(ENDS_S):
            raise BrokenError("stuck", f"the query had not ended after {ENDS_S:g} s")
    finally:
        query.stop()
    return values_in(place.spark, folder)


def _all_or_an_error(place: Place, put: Put) -> None:
    topic, group = place.topic("loads", 4), place.name("loads")
    produce_numbers(place.kafka.bootstrap_servers, topic, 4, 0, RECORDS)
    expected = _values(place, _kafka_loads(place, topic), put)
    try:
        got = _values(place, _loads(place, topic, (group, group)), put)
    except StreamingQueryException as error:
        must("SECOND_MEMBER_OF_APPLICATION" in str(error), f"it fails with another error: {error}")
        must("load the topic once" in str(error), f"the error does not say what to do: {error}")
    else:
        lost = (expected - got).total()
        raise BrokenError("lost", f"it ends well with {got.total()} rows and lacks {lost} that format('kafka') has")
    two_groups = _values(place, _loads(place, topic, (f"{group}-a", f"{group}-b")), put)
    must(
        two_groups == expected, f"with two groups it has {two_groups.total()} rows, of {expected.total()}", kind="lost"
    )


def union(place: Place) -> None:
    """Put two loads one after the other."""
    _all_or_an_error(place, lambda one, another: one.union(another))


def join(place: Place) -> None:
    """Join two loads by partition and offset."""
    keys = ["partition", "offset"]
    _all_or_an_error(place, lambda one, another: one.join(another.select(*keys), keys))


def successor(place: Place) -> None:
    """Stop a query and start another one, with a new checkpoint, in the same group and the same application."""
    topic, group = place.topic("successor", 2), place.name("successor")
    for number in range(3):
        produce_numbers(place.kafka.bootstrap_servers, topic, 2, number * 20, 20)
        _read_up_to(place, topic, group, (number + 1) * 20)


def _read_up_to(place: Place, topic: str, group: str, count: int) -> None:
    view = GroupView(place.coordinator.address, group)
    stream = a_stream(place.spark, place.coordinator, group, subscribe=topic, startingOffsets="earliest")
    query = to_parquet(stream, place.folder("successor")).start()
    try:
        wait_until(lambda: view.committed() == count, timeout_s=40, query=query)
    except AssertionError as error:
        raise BrokenError("stuck", f"the query that is to read up to {count} does not get on: {error}") from error
    finally:
        query.stop()


SCHEDULES = [
    Schedule("two-loads-union", "a union of two loads of a topic in one group is refused, never half", union, 240),
    Schedule("two-loads-join", "a join of two loads of a topic in one group is refused, never empty", join, 240),
    Schedule("two-loads-successor", "a query that was stopped makes room for the next one", successor, 180),
]
