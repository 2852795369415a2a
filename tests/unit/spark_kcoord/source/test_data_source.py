"""The format itself: what it refuses before anything is read."""

from collections.abc import Callable
from typing import Any

import pytest

from spark_kcoord.errors import KcoordError, OptionError
from spark_kcoord.source.data_source import KcoordDataSource


@pytest.mark.parametrize("kind", ["writer", "streamWriter"])
def test_writing_is_refused_with_the_format_that_writes(kind: str) -> None:
    source = KcoordDataSource({"kafka.bootstrap.servers": "h:1", "topic": "t"})
    with pytest.raises(KcoordError, match=r"reads Kafka and does not write to it: write with format\('kafka'\)"):
        getattr(source, kind)(None, False)


RIGHT = {"kcoord.bootstrap.servers": "c:1", "kcoord.group.id": "g", "subscribe": "t"}
WRONG_IN_BOTH = [
    ({"minPartitions": "0"}, "minPartitions", "a whole number from 1"),
    ({"kcoord.bootstrap.servers": "here"}, "kcoord.bootstrap.servers", "is not HOST:PORT"),
    ({"subscribe": "a/b"}, "subscribe", "is not a topic name"),
]
WRONG_IN_A_STREAM = [
    ({"maxOffsetsPerTrigger": "many"}, "maxOffsetsPerTrigger", "a whole number from 1"),
    ({"startingOffsets": "sometimes"}, "startingOffsets", "'earliest', 'latest', 'committed' or JSON"),
    ({"kcoord.session.timeout": "1d"}, "kcoord.session.timeout", "from 1s to 30m"),
]
FIRST: dict[str, Callable[[Any], object]] = {
    "initialOffset": lambda reader: reader.initialOffset(),
    "getDefaultReadLimit": lambda reader: reader.getDefaultReadLimit(),
    "prepareForTriggerAvailableNow": lambda reader: reader.prepareForTriggerAvailableNow(),
    "latestOffset": lambda reader: reader.latestOffset({}, None),
    "latestOffset, before Spark 4.2": lambda reader: reader.latestOffset(),
    "partitions": lambda reader: reader.partitions({}, {}),
}
"""What Spark may ask of a stream reader first, of which no test in a real Spark has all."""


@pytest.mark.parametrize("first", FIRST)
@pytest.mark.parametrize(("wrong", "option", "said"), WRONG_IN_BOTH + WRONG_IN_A_STREAM)
def test_a_wrong_option_of_a_stream_is_the_answer_to_what_spark_asks_first(
    wrong: dict[str, str], option: str, said: str, first: str
) -> None:
    source = KcoordDataSource(RIGHT | wrong)
    reader = source.streamReader(source.schema())
    with pytest.raises(KcoordError) as raised:
        FIRST[first](reader)
    assert isinstance(raised.value, OptionError)
    assert option in str(raised.value)
    assert said in str(raised.value)


@pytest.mark.parametrize(("wrong", "option", "said"), WRONG_IN_BOTH)
def test_a_wrong_option_of_a_batch_is_refused_when_spark_plans_it(
    wrong: dict[str, str], option: str, said: str
) -> None:
    source = KcoordDataSource(RIGHT | wrong)
    with pytest.raises(OptionError) as raised:
        source.reader(source.schema())
    assert option in str(raised.value)
    assert said in str(raised.value)


def test_filters_that_scans_would_share_are_refused_when_it_is_loaded() -> None:
    with pytest.raises(OptionError, match=r"would read wrong rows without an error; give 'one-scan'"):
        KcoordDataSource(RIGHT | {"kcoord.push.filters": "true"}).schema()
    with pytest.raises(OptionError, match="Allowed: one-scan, false"):
        KcoordDataSource(RIGHT | {"kcoord.push.filters": "yes"}).schema()
    assert KcoordDataSource(RIGHT | {"kcoord.push.filters": "one-scan"}).schema() == KcoordDataSource(RIGHT).schema()


def test_a_misspelt_option_is_refused_when_it_is_loaded() -> None:
    with pytest.raises(OptionError, match=r"'kcoord\.group' is unknown\. Did you mean 'kcoord\.group\.id'\?"):
        KcoordDataSource(RIGHT | {"kcoord.group": "g"}).schema()
