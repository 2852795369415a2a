"""The real services that schedules share, each started when first asked for and stopped at the end.

A schedule makes topics and groups of its own and harms nothing that is shared: what it kills, starves or misconfigures
it starts for itself in a folder of its own.
"""

import secrets
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from coordinator.local.kafka.broker import LocalKafka
from coordinator.local.node import LocalCoordinator

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Place:
    """One broker, one coordinator and one Spark session with kcoord and spark-sql-kafka, for all schedules of a run."""

    def __init__(self, folder: Path) -> None:
        self._root = folder
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.close()

    @cached_property
    def kafka(self) -> LocalKafka:
        """The shared broker."""
        return self._stack.enter_context(LocalKafka(self._root / "kafka"))

    @cached_property
    def coordinator(self) -> LocalCoordinator:
        """The shared coordinator over the shared broker."""
        return self._stack.enter_context(LocalCoordinator(self.kafka.bootstrap_servers, self._root / "coordinator"))

    @cached_property
    def spark(self) -> "SparkSession":
        """A local Spark of two threads; queries that a schedule starts in it, it also stops."""
        from tests.helpers.spark_session import start_session

        session = start_session("kcoord-promises", self._root, logs="OFF")
        self._stack.callback(session.stop)
        return session

    def folder(self, word: str) -> Path:
        """Make and return a folder of a schedule's own."""
        folder = self._root / self.name(word)
        folder.mkdir(parents=True)
        return folder

    @staticmethod
    def name(word: str) -> str:
        """Return a name for a topic or a group that no other schedule has."""
        return f"{word}-{secrets.token_hex(4)}"

    def topic(self, word: str, partitions: int = 1, config: dict[str, str] | None = None) -> str:
        """Create a topic on the shared broker and return its name."""
        name = self.name(word)
        self.kafka.create_topic(name, partitions, config)
        return name
