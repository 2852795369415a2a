"""Queries with kcoord.commit=false: they write nothing to the group, and decide for nobody else where it starts."""

from collections import Counter

from tests.helpers.group_view import GroupView
from tests.helpers.kafka_topics import produce_numbers
from tests.helpers.parquet_stream import a_stream, to_parquet, values_in
from tests.promises.place import Place
from tests.promises.schedule import BrokenError, Schedule, must

RECORDS = 60
ENDS_S = 60.0


def _run(place: Place, topic: str, group: str, **options: str) -> Counter[int]:
    """Read what is there to its end as a member, and return what was read."""
    folder = place.folder("read-only")
    stream = a_stream(place.spark, place.coordinator, group, subscribe=topic, **options)
    query = to_parquet(stream, folder).trigger(availableNow=True).start()
    try:
        if not query.awaitTermination(ENDS_S):
            raise BrokenError("stuck", f"the query had not ended after {ENDS_S:g} s")
    finally:
        query.stop()
    return values_in(place.spark, folder)


def leaves_no_trace(place: Place) -> None:
    """Read by a policy of its own in a new group, and have another query begin by another policy."""
    topic, group = place.topic("reader", 2), place.name("reader")
    view = GroupView(place.coordinator.address, group)
    produce_numbers(place.kafka.bootstrap_servers, topic, 2, 0, RECORDS)
    read = _run(place, topic, group, startingOffsets="latest", **{"kcoord.commit": "false"})
    must(not read, f"it was to begin at the end and read {read.total()} records")
    offsets = [part.committed for part in view.describe().partitions if part.committed is not None]
    must(not offsets, f"it wrote the group's offsets {offsets}, and is never to commit")
    read = _run(place, topic, group, startingOffsets="earliest")
    lost = RECORDS - len(read)
    must(not lost, f"the query that commits was to begin at the beginning and lacks {lost} records", kind="lost")
    must(view.committed() == RECORDS, f"it read everything and the group is at {view.committed()}")


def reads_where_the_group_is(place: Place) -> None:
    """Read in a group that has offsets, and have the group go on where it was."""
    topic, group = place.topic("reader", 2), place.name("reader")
    view = GroupView(place.coordinator.address, group)
    produce_numbers(place.kafka.bootstrap_servers, topic, 2, 0, RECORDS)
    _run(place, topic, group, startingOffsets="earliest")
    produce_numbers(place.kafka.bootstrap_servers, topic, 2, RECORDS, RECORDS)
    news = Counter(range(RECORDS, 2 * RECORDS))
    for who, options in (("the reader", {"kcoord.commit": "false"}), ("the query that commits", {})):
        read = _run(place, topic, group, startingOffsets="earliest", **options)
        must(read == news, f"{who} was to read {RECORDS} records and read {read.total()}", kind="lost")
    must(view.committed() == 2 * RECORDS, f"the group is at {view.committed()}")


SCHEDULES = [
    Schedule("read-only-new-group", "kcoord.commit=false writes no offset and decides no start", leaves_no_trace, 180),
    Schedule(
        "read-only-known-group", "kcoord.commit=false leaves the group where it is", reads_where_the_group_is, 180
    ),
]
