"""spark-sql-kafka and kcoord over the same topics: `python -m tests.compare [WORD ...]`, WORDs choose cases by name.

Prints one line a case and ends with `compare-kafka-source: OK cases=N unequal=0 seconds=S`, or FAILED and exit code 1.
"""

import logging
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from coordinator.local.kafka.broker import LocalKafka
from coordinator.local.node import LocalCoordinator
from tests.compare.cases import all_cases
from tests.compare.corpus import OLD, SETTINGS, Place, write_topic
from tests.compare.runs import Comparison
from tests.helpers.leaving_no_process import leaving_no_process
from tests.helpers.old_logs import serve_old_logs
from tests.helpers.spark_session import start_session

LEAST_CASES = 40
PREFIX = "compare"


def main(words: Sequence[str]) -> int:
    """Compare all cases, or those whose name has a word of `words`; return the exit code."""
    started = time.monotonic()
    logging.getLogger("spark_kcoord").setLevel(logging.ERROR)
    cases = [case for case in all_cases() if not words or any(word in case.name for word in words)]
    unequal = 0
    with tempfile.TemporaryDirectory(prefix="compare-") as folder_name, _services(Path(folder_name)) as comparison:
        for number, case in enumerate(cases):
            began = time.monotonic()
            why = comparison.why_unequal(case, number)
            said = "equal  " if why is None else "UNEQUAL"
            print(f"{said} {time.monotonic() - began:5.1f} s  {case.name}", flush=True)
            if why is not None:
                unequal += 1
                print(why, flush=True)
    is_ok = unequal == 0 and (len(cases) >= LEAST_CASES or bool(words))
    seconds = time.monotonic() - started
    said = "OK" if is_ok else "FAILED"
    print(f"compare-kafka-source: {said} cases={len(cases)} unequal={unequal} seconds={seconds:.0f}")
    return 0 if is_ok else 1


@contextmanager
def _services(folder: Path) -> Iterator[Comparison]:
    """Run Spark, a broker that compacts soon and a coordinator, and fill the topics."""
    with (
        _spark(folder) as spark,
        _kafka(folder / "kafka") as kafka,
        LocalCoordinator(kafka.bootstrap_servers, folder / "coordinator") as coordinator,
    ):
        for kind in SETTINGS:
            write_topic(Place(spark, kafka), kind, PREFIX)
        yield Comparison(spark, kafka, coordinator, PREFIX, folder / "streams")


@contextmanager
def _kafka(folder: Path) -> Iterator[LocalKafka]:
    """Run the broker, which serves old logs already when anybody sees it."""
    cleaning = {"log.cleaner.backoff.ms": "200", "log.cleaner.threads": "1"}
    with LocalKafka(folder, config=cleaning) as kafka:
        serve_old_logs(kafka, [f"{PREFIX}-{OLD}"])
        yield kafka


@contextmanager
def _spark(folder: Path) -> Iterator[SparkSession]:
    spark = start_session("compare-kafka-source", folder, logs="OFF")
    try:
        yield spark
    finally:
        spark.stop()


if __name__ == "__main__":
    with leaving_no_process():
        code = main(sys.argv[1:])
    sys.exit(code)
