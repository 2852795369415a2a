"""The cases: one set of options for both sources, so that each case is also a change of format and nothing else.

`{}` in a value stands for the prefix of the topics' names.
"""

import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tests.compare.corpus import FIRST_MS, OLD, SETTINGS, STEP_MS
from tests.helpers.old_logs import FIRST_MS as OLD_FIRST_MS
from tests.helpers.old_logs import OLD_LOGS

ISOLATION = "kafka.isolation.level"
COMMITTED_ONLY = {ISOLATION: "read_committed"}
HEADERS = {"includeHeaders": "true"}


@dataclass(frozen=True)
class Case:
    """One read by both sources: of the rows of a stream, also how many each micro-batch has must be equal."""

    name: str
    is_stream: bool
    options: Mapping[str, str]
    refusal: str = ""
    """What kcoord says of a read that both must refuse."""
    later: Literal["", "more", "deleted"] = ""
    """A stream that is run again, after its topic has got more records and another partition, or after records that it
    has not read were deleted."""
    refusal_later: str = ""


def named(kind: str) -> str:
    """Return the placeholder of a topic's name."""
    return "{}-" + kind


def by_partition(kind: str, values: Mapping[int, Any]) -> str:
    """Return JSON with a value for each partition of a topic."""
    return json.dumps({named(kind): {str(number): value for number, value in values.items()}})


def whole(kinds: tuple[str, ...]) -> Iterator[Case]:
    """Read each topic as it is, with and without headers, in both isolation levels."""
    for kind, (headers, isolation) in itertools.product(
        kinds, itertools.product(("true", "false"), ("read_committed", "read_uncommitted"))
    ):
        if (headers == "true") == (isolation == "read_committed") or kind in ("shapes", "transactions"):
            options = {"subscribe": named(kind), "includeHeaders": headers, ISOLATION: isolation}
            yield Case(f"whole topic {kind}, headers={headers}, {isolation}", False, options)


def subscriptions() -> Iterator[Case]:
    """Name topics in every way."""
    several = ("shapes", "sparse", "timed", "appended")
    yield Case("several topics", False, {"subscribe": ", ".join(map(named, several))} | HEADERS)
    yield Case("a pattern", False, {"subscribePattern": "{}-(s.*|timed)"})
    yield Case("a pattern that matches nothing", False, {"subscribePattern": "{}-nothing.*"})
    assigned = json.dumps({named("shapes"): [2, 0], named("sparse"): [3]})
    yield Case("assigned partitions", False, {"assign": assigned} | HEADERS)


def starts_and_ends() -> Iterator[Case]:
    """Start and end in every way that a batch knows."""
    timed = {"subscribe": named("timed")}
    offsets = by_partition("timed", {0: 10, 1: -2, 2: -2})
    ends = by_partition("timed", {0: 60, 1: -1, 2: -1})
    time_10, time_30, time_50 = (str(FIRST_MS + number * STEP_MS) for number in (10, 30, 50))
    between = str(FIRST_MS + 20 * STEP_MS + 1)
    starting_times = by_partition("timed", {0: int(time_10), 1: int(time_30), 2: 0})
    ending_times = by_partition("timed", {0: int(time_50), 1: int(time_50), 2: 0})
    latest = {"startingOffsetsByTimestampStrategy": "latest"}
    for name, options in {
        "from earliest": {"startingOffsets": "earliest"},
        "to latest": {"endingOffsets": "latest"},
        "from offsets": {"startingOffsets": offsets},
        "to offsets": {"endingOffsets": ends},
        "from offsets to offsets": {"startingOffsets": offsets, "endingOffsets": ends},
        "an empty range": {
            "startingOffsets": by_partition("timed", {0: 10, 1: 5, 2: 0}),
            "endingOffsets": by_partition("timed", {0: 10, 1: 5, 2: 0}),
        },
        "from a time, late partitions at their end": {"startingTimestamp": time_50} | latest,
        "from a time in between": {"startingTimestamp": between} | latest,
        "from a time before everything": {"startingTimestamp": "0"} | latest,
        "to a time": {"endingTimestamp": time_30},
        "to a time in between": {"endingTimestamp": between},
        "to a time after everything": {"endingTimestamp": str(FIRST_MS * 2)},
        "from a time to a time": {"startingTimestamp": time_10, "endingTimestamp": time_50} | latest,
        "from times": {"startingOffsetsByTimestamp": starting_times} | latest,
        "to times": {"endingOffsetsByTimestamp": ending_times},
        "from times to times": {
            "startingOffsetsByTimestamp": starting_times,
            "endingOffsetsByTimestamp": ending_times,
            **latest,
        },
        "a time goes before times and offsets": {
            "startingTimestamp": time_30,
            "startingOffsetsByTimestamp": starting_times,
            "startingOffsets": offsets,
            "endingTimestamp": time_50,
            "endingOffsetsByTimestamp": ending_times,
            "endingOffsets": ends,
            **latest,
        },
        "times go before offsets": {
            "startingOffsetsByTimestamp": starting_times,
            "startingOffsets": offsets,
            "endingOffsetsByTimestamp": ending_times,
            "endingOffsets": ends,
            **latest,
        },
        "from times to offsets": {"startingOffsetsByTimestamp": starting_times, "endingOffsets": ends, **latest},
    }.items():
        yield Case(name, False, timed | options)
    for isolation in ("read_committed", "read_uncommitted"):
        options = {"subscribe": named("transactions"), ISOLATION: isolation}
        yield Case(
            f"to a time among transactions, {isolation}", False, options | {"endingTimestamp": str(FIRST_MS + 3)}
        )
        within = by_partition("transactions", {0: 5, 1: 3})
        yield Case(f"from offsets among transactions, {isolation}", False, options | {"startingOffsets": within})


def splits() -> Iterator[Case]:
    """Read in more or smaller tasks."""
    timed = {"subscribe": named("timed")}
    yield Case("minPartitions", False, timed | {"minPartitions": "7"})
    yield Case("maxRecordsPerPartition", False, timed | {"maxRecordsPerPartition": "13"})
    yield Case("both", False, timed | {"maxRecordsPerPartition": "30", "minPartitions": "9"})
    yield Case("both in a stream", True, timed | {"minPartitions": "9", "startingOffsets": "earliest"})


def old_formats() -> Iterator[Case]:
    """Read messages of formats 0 and 1, whole and in part: times and offsets lie within compressed sets too."""
    old = {"subscribe": named(OLD)}
    parts = len(OLD_LOGS)
    for isolation in ("read_committed", "read_uncommitted"):
        yield Case(f"old formats, {isolation}", False, old | HEADERS | {ISOLATION: isolation})
    starts = by_partition(OLD, {number: 45 + 7 * number for number in range(parts)})
    ends = by_partition(OLD, {number: 190 - 5 * number for number in range(parts)})
    yield Case("old formats from offsets to offsets", False, old | {"startingOffsets": starts, "endingOffsets": ends})
    latest = {"startingOffsetsByTimestampStrategy": "latest"}
    for at in (41, 118, 200):
        time_at = str(OLD_FIRST_MS + at * STEP_MS)
        yield Case(f"old formats from the time of offset {at}", False, old | {"startingTimestamp": time_at} | latest)
        yield Case(f"old formats to the time of offset {at}", False, old | {"endingTimestamp": time_at})
    yield Case("old formats in many tasks", False, old | {"minPartitions": "40"})
    yield Case("old formats in small tasks", False, old | {"maxRecordsPerPartition": "17"})
    start = {"startingOffsets": "earliest"}
    yield Case("stream of old formats", True, old | HEADERS | start)
    yield Case("stream of old formats in batches", True, old | start | {"maxOffsetsPerTrigger": "311"})


def losses() -> Iterator[Case]:
    """Ask for records that were deleted."""
    gone = {"subscribe": named("trimmed"), "startingOffsets": by_partition("trimmed", {0: 5, 1: 7})}
    yield Case("a deleted start fails", False, gone, refusal="offset 5 of [5, 50) is gone")
    yield Case("a deleted start is passed over", False, gone | {"failOnDataLoss": "false"})
    part = {"startingOffsets": by_partition("trimmed", {0: 25, 1: 50})}
    yield Case("a start after what was deleted", False, {"subscribe": named("trimmed")} | part)


def refusals() -> Iterator[Case]:
    """Ask for what both refuse."""
    timed = {"subscribe": named("timed")}
    missing = by_partition("timed", {0: 1})
    strange = by_partition("timed", {0: 1, 1: 1, 2: 1, 9: 1})
    backwards = {
        "startingOffsets": by_partition("timed", {0: 9, 1: 0, 2: 0}),
        "endingOffsets": by_partition("timed", {0: 5, 1: 0, 2: 0}),
    }
    for name, options, refusal in (
        ("a batch from latest", timed | {"startingOffsets": "latest"}, "Option 'startingOffsets' is 'latest'"),
        ("a batch to earliest", timed | {"endingOffsets": "earliest"}, "Option 'endingOffsets' is 'earliest'"),
        ("offsets that leave out a partition", timed | {"startingOffsets": missing}, "leaves out 1, 2"),
        ("offsets of a partition that does not exist", timed | {"endingOffsets": strange}, "names 9"),
        ("an end before the start", timed | backwards, "the start 9 lies after the end 5"),
        (
            "a time after the last record",
            timed | {"startingTimestamp": str(FIRST_MS + 50 * STEP_MS)},
            "Option 'startingTimestamp' gives a time after the last record",
        ),
        ("two subscriptions", timed | {"subscribePattern": ".*"}, "only one of them"),
        ("no subscription", {}, "Option 'subscribe' is missing"),
        ("an unknown topic", {"subscribe": named("unknown")}, "has no topic"),
        ("a deserializer", timed | {"kafka.value.deserializer": "x"}, "'kafka.value.deserializer' is not supported"),
        (
            "an offset reset",
            timed | {"kafka.auto.offset.reset": "latest"},
            "'kafka.auto.offset.reset' is not supported",
        ),
    ):
        yield Case(f"{name} is refused", False, options, refusal=refusal)
    ended = timed | {"endingOffsets": "latest"}
    yield Case("an end of a stream is refused", True, ended, refusal="'endingOffsets' is for batch reads")


def streams() -> Iterator[Case]:
    """Read streams to their end with AvailableNow."""
    start = {"startingOffsets": "earliest"}
    timed = {"subscribe": named("timed")}
    for kind, headers, isolation in (
        ("codecs", "false", "read_uncommitted"),
        ("shapes", "true", "read_committed"),
        ("shapes", "false", "read_uncommitted"),
        ("transactions", "true", "read_committed"),
        ("transactions", "false", "read_uncommitted"),
        ("appended", "true", "read_uncommitted"),
        ("sparse", "false", "read_committed"),
        ("trimmed", "false", "read_uncommitted"),
        ("empty", "true", "read_committed"),
    ):
        options = {"subscribe": named(kind), "includeHeaders": headers, ISOLATION: isolation}
        yield Case(f"stream of {kind}, headers={headers}, {isolation}", True, options | start)
    offsets = by_partition("timed", {0: 90, 1: -2, 2: -1})
    times = by_partition("timed", {0: FIRST_MS + 50 * STEP_MS, 1: FIRST_MS, 2: 0})
    latest = {"startingOffsetsByTimestampStrategy": "latest"}
    for name, options in {
        "in batches of a share of the backlog": start | {"maxOffsetsPerTrigger": "37"},
        "from latest": {"startingOffsets": "latest"},
        "without a start": {},
        "from offsets": {"startingOffsets": offsets},
        "from offsets in small batches": {"startingOffsets": offsets, "maxOffsetsPerTrigger": "7"},
        "from a time": {"startingTimestamp": str(FIRST_MS + 30 * STEP_MS)} | latest,
        "from times": {"startingOffsetsByTimestamp": times} | latest,
    }.items():
        yield Case(f"stream {name}", True, timed | options)
    too_late = timed | {"startingTimestamp": str(FIRST_MS * 2)}
    yield Case(
        "stream from a time after the last record is refused", True, too_late, refusal="'startingTimestamp' gives"
    )
    several = {"subscribe": f"{named('sparse')},{named('timed')}"}
    yield Case("stream of several topics", True, several | start | {"maxOffsetsPerTrigger": "50"})
    pattern = {"subscribePattern": "{}-(sparse|timed)"}
    yield Case("stream of a pattern", True, pattern | start)
    assigned = json.dumps({named("timed"): [1], named("sparse"): [3, 0]})
    yield Case("stream of assigned partitions", True, {"assign": assigned} | start)
    lost = {"subscribe": named("lost-a")} | start
    yield Case(
        "stream whose records were deleted fails",
        True,
        lost,
        later="deleted",
        refusal_later="begins at offset 20 at the broker, after offset 15",
    )
    passing = lost | {"subscribe": named("lost-b"), "failOnDataLoss": "false"}
    yield Case("stream passes over deleted records", True, passing, later="deleted")
    without_policy = {name: text for name, text in passing.items() if name != "startingOffsets"}
    without_policy |= {"subscribe": named("lost-c"), "startingOffsets": "latest"}
    yield Case("stream from latest passes over deleted records", True, without_policy, later="deleted")
    growing = {"subscribe": named("growing-a")} | start
    yield Case("stream that goes on where it ended", True, growing, later="more")
    yield Case(
        "stream from latest that goes on",
        True,
        growing | {"subscribe": named("growing-b"), "startingOffsets": "latest"},
        later="more",
    )


def all_cases() -> list[Case]:
    """Return every case, in a fixed order."""
    return [
        *whole(tuple(SETTINGS)),
        *subscriptions(),
        *starts_and_ends(),
        *splits(),
        *old_formats(),
        *losses(),
        *refusals(),
        *streams(),
    ]
