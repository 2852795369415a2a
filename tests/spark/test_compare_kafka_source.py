"""A few of the cases of `make compare-kafka-source`, so that a difference shows before all of them are run."""

import pytest
from pyspark.sql import SparkSession

from coordinator.local.kafka.broker import LocalKafka
from coordinator.local.node import LocalCoordinator
from tests.compare.cases import all_cases
from tests.compare.corpus import Place, write_topic
from tests.compare.runs import Comparison

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

PREFIX = "small-compare"
KINDS = ("shapes", "timed", "transactions", "trimmed")
CASES = {case.name: case for case in all_cases()}
CHOSEN = (
    "whole topic shapes, headers=true, read_committed",
    "whole topic transactions, headers=false, read_uncommitted",
    "whole topic transactions, headers=true, read_committed",
    "times go before offsets",
    "a time after the last record is refused",
    "a deleted start is passed over",
    "stream of transactions, headers=true, read_committed",
    "stream in batches of a share of the backlog",
)


@pytest.fixture(scope="module")
def comparison(
    spark: SparkSession, kafka: LocalKafka, coordinator: LocalCoordinator, tmp_path_factory: pytest.TempPathFactory
) -> Comparison:
    for kind in KINDS:
        write_topic(Place(spark, kafka), kind, PREFIX)
    return Comparison(spark, kafka, coordinator, PREFIX, tmp_path_factory.mktemp("compare"))


@pytest.mark.parametrize("name", CHOSEN)
def test_source_reads_what_spark_sql_kafka_reads(comparison: Comparison, name: str) -> None:
    why = comparison.why_unequal(CASES[name], CHOSEN.index(name))
    assert why is None, why
