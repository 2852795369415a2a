"""Fixtures shared by all tests, and the rule that a run with a skipped test or an expected failure fails."""

import gc
import secrets
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from coordinator.runtime.process.starting import leave_out_of_rounds, without_rounds
from tests.helpers.examples import DRAWN_ANEW
from tests.helpers.spark_limits import NO_WORKER, TRIES

if TYPE_CHECKING:
    from coordinator.local.kafka.broker import LocalKafka
    from coordinator.local.node import LocalCoordinator
    from coordinator.local.zookeeper import LocalZooKeeper

NOT_RUN = ("skipped", "xfailed", "xpassed")

# How long an example takes to draw or to run says something of the machine, and nothing of the code. A run of all tests
# tries the same examples each time: one that fails by luck tells nothing of the change.
_any_machine = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None)
settings.register_profile("any machine", _any_machine, derandomize=True)
settings.register_profile(DRAWN_ANEW, _any_machine, derandomize=False)
settings.load_profile("any machine")


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator["LocalKafka"]:
    """Return the running broker that all tests share; a test makes its own topics and never stops it."""
    from coordinator.local.kafka.broker import LocalKafka

    with LocalKafka(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


@pytest.fixture(scope="session")
def coordinator(kafka: "LocalKafka", tmp_path_factory: pytest.TempPathFactory) -> Iterator["LocalCoordinator"]:
    """Return the running coordinator that tests share; a test uses groups of its own and never stops it."""
    from coordinator.local.node import LocalCoordinator

    with LocalCoordinator(kafka.bootstrap_servers, tmp_path_factory.mktemp("coordinator")) as node:
        yield node


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator["LocalZooKeeper"]:
    """Return the running ZooKeeper that tests share, one after another.

    A test has a path of its own in it. It may kill, restart and wipe it, and leaves it running.
    """
    from coordinator.local.zookeeper import LocalZooKeeper

    with LocalZooKeeper(tmp_path_factory.mktemp("zookeeper"), tick_ms=200) as server:
        yield server


@pytest.fixture
def own_coordinator(kafka: "LocalKafka", tmp_path: Path) -> Iterator["LocalCoordinator"]:
    """Return a running coordinator that one test has for itself, to kill and restart."""
    from coordinator.local.node import LocalCoordinator

    with LocalCoordinator(kafka.bootstrap_servers, tmp_path / "coordinator") as node:
        yield node


@pytest.fixture(params=["asyncio", "uvloop"])
def each_event_loop(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a test run once on each event loop, through `tests.helpers.event_loops.run`."""
    from tests.helpers import event_loops

    monkeypatch.setattr(event_loops, "turn", request.param)


@pytest.fixture
def topic_name(request: pytest.FixtureRequest) -> Callable[[], str]:
    """Return a maker of topic names that no other test and no other call gets."""
    test = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)[:80].strip("-")
    return lambda: f"{test}-{secrets.token_hex(4)}"


@pytest.fixture
def topic(kafka: "LocalKafka", topic_name: Callable[[], str]) -> Callable[..., str]:
    """Return a maker of topics on the shared broker: `topic(partitions=1, config=None)` returns the name."""

    def make(partitions: int = 1, config: dict[str, str] | None = None) -> str:
        name = topic_name()
        kafka.create_topic(name, partitions, config)
        return name

    return make


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Leave what is imported for all tests out of the collector's rounds: it stays, and is most of what they go over.

    What was garbage by then is found before, so that no test is told of it.
    """
    with without_rounds():
        collected = yield
        gc.collect()
        leave_out_of_rounds()
    return collected


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Have a test run again that Spark's own time-out has ended, which no setting changes and a busy machine meets."""
    for item in items:
        if item.get_closest_marker("spark"):
            item.add_marker(pytest.mark.flaky(reruns=TRIES - 1, only_rerun=[NO_WORKER]))


def _not_run(config: pytest.Config) -> list[str]:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    return [f"{kind} {report.nodeid}" for kind in NOT_RUN for report in reporter.stats.get(kind, [])]


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if session.exitstatus == pytest.ExitCode.OK and _not_run(session.config):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for line in _not_run(config):
        terminalreporter.write_line(f"FAILED: every test must run and pass, but this one was {line}", red=True)
