"""A Spark that lacks something is refused in one sentence with the version that is needed."""

import sys

import pyspark
import pyspark.sql.datasource
import pytest

from spark_kcoord.errors import KcoordError
from spark_kcoord.source.data_source import KcoordDataSource
from spark_kcoord.source.process.spark_versions import batch_lack, parse_version, stream_lack

OPTIONS = {"kcoord.bootstrap.servers": "127.0.0.1:1", "kcoord.group.id": "g", "subscribe": "t"}


@pytest.fixture
def spark_4_1(monkeypatch):
    """A pyspark without what came in 4.2."""
    monkeypatch.setattr(pyspark, "__version__", "4.1.4")
    monkeypatch.setitem(sys.modules, "pyspark.sql.streaming.datasource", None)
    monkeypatch.delitem(sys.modules, "spark_kcoord.source.refused_reader", raising=False)
    monkeypatch.delitem(sys.modules, "spark_kcoord.source.stream_reader", raising=False)


def test_this_spark_lacks_nothing():
    assert (batch_lack(), stream_lack()) == (None, None)


def test_a_spark_without_filters_is_refused_at_load(monkeypatch):
    monkeypatch.setattr(pyspark, "__version__", "4.0.5")
    monkeypatch.delattr(pyspark.sql.datasource, "Filter")
    with pytest.raises(
        KcoordError, match=r"needs Spark 4\.1 or newer for batch reads and 4\.2 .* this is Spark 4\.0\.5"
    ):
        KcoordDataSource(OPTIONS).schema()


@pytest.mark.usefixtures("spark_4_1")
def test_a_spark_of_batches_alone_loads_and_refuses_a_stream():
    source = KcoordDataSource(OPTIONS)
    schema = source.schema()
    source.reader(schema)
    refused = source.streamReader(schema)
    for ask in (refused.initialOffset, refused.latestOffset, lambda: refused.partitions({}, {})):
        with pytest.raises(
            KcoordError, match=r"needs Spark 4\.2 or newer, and this is Spark 4\.1\.4, which can only read"
        ):
            ask()


def test_a_version_is_its_first_two_numbers():
    assert [parse_version(text) for text in ("4.2.1", "4.10", "4.3.0.dev1")] == [(4, 2), (4, 10), (4, 3)]
