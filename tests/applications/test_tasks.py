"""Tasks that fail, executors that die and copies of slow tasks, on a cluster of two machines' names."""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from coordinator.local.kafka.broker import LocalKafka
from coordinator.local.node import LocalCoordinator
from tests.helpers.cluster_application import UnluckyStream
from tests.helpers.group_view import GroupView
from tests.helpers.kafka_topics import produce_numbers
from tests.helpers.mishaps import DIE, FAIL, STALL, attempts
from tests.helpers.spark_application import SparkApplication
from tests.helpers.standalone_cluster import StandaloneCluster
from tests.helpers.waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

TWO_HOSTS = ("127.0.0.1", "127.0.0.2")
"""Spark copies a slow task to another host only."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[StandaloneCluster]:
    """Return a running cluster with a worker on each of the hosts."""
    with StandaloneCluster(tmp_path / "cluster", hosts=TWO_HOSTS, cores=1) as running:
        yield running


def test_tasks_that_fail_stall_or_lose_their_executor_change_nothing_of_a_micro_batch(
    kafka: LocalKafka,
    coordinator: LocalCoordinator,
    topic: Callable[..., str],
    tmp_path: Path,
    cluster: StandaloneCluster,
) -> None:
    name = topic(2)
    view = GroupView(coordinator.address, name)
    folder = tmp_path / "query"
    # One micro-batch for each 20 records, and a task for each partition.
    stream = UnluckyStream(folder, coordinator.address, name, name, ("minPartitions=2", "minOffsetsPerTrigger=20"))
    produce_numbers(kafka.bootstrap_servers, name, 2, 0, 20)
    with SparkApplication(stream, master=cluster.url) as application:
        application.start()
        application.wait_for("batch-0.json")
        wait_until(lambda: len(cluster.executors()) == len(TWO_HOSTS), timeout_s=60)
        for number, mishap in enumerate((FAIL, STALL, DIE), start=1):
            (folder / mishap).touch()
            produce_numbers(kafka.bootstrap_servers, name, 2, 20 * number, 20)
            expected = Counter(range(20 * number + 20))
            wait_until(lambda expected=expected: stream.rows() == expected, timeout_s=90, what=application.log_tail())
            first, *again = attempts(folder, mishap)
            assert len(first) == 10, mishap
            assert again, mishap
            assert all(read == first for read in again), mishap
        wait_until(lambda: view.committed() == 80)
    assert view.events("claim-skipped", "taken-over", "taken-late") == []
