"""A program without PySpark fetches from Kafka and consumes in a group: what it imports never asks for PySpark."""

import subprocess
import sys

import pytest

BLOCKED = """
import importlib, sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pyspark", "py4j"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
"""


@pytest.mark.parametrize(
    "use",
    [
        "from kcoord import Consumer, TopicPartition, errors; "
        "Consumer('t', coordinators='127.0.0.1:1', group_id='g').close(); "
        "from spark_kcoord import Consumer as Same; assert Consumer is Same",
        "from spark_kcoord.fetch.ranges import read_ranges",
        "from spark_kcoord.fetch.offsets import KafkaLookup",
        "from spark_kcoord.microbatch.planner import BatchPlanner",
    ],
)
def test_program_without_pyspark_fetches_and_consumes(use: str) -> None:
    subprocess.run([sys.executable, "-c", BLOCKED + use], check=True, timeout=60)


def test_import_of_pyspark_is_what_is_blocked() -> None:
    run = subprocess.run(
        [sys.executable, "-c", BLOCKED + "import spark_kcoord.source.data_source"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "ModuleNotFoundError: No module named 'pyspark" in run.stderr
