"""Coordinators that are away under a query that has nothing to read, for too long or not."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from coordinator.local.node import LocalCoordinator
from tests.helpers.group_view import GroupView
from tests.helpers.kafka_topics import produce_numbers
from tests.helpers.stream_application import NumberedStream
from tests.promises.schedule import BrokenError, Schedule, must

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

    from tests.promises.place import Place

RECORDS = 20
SHORT_S, LONG_S = 3, 20
"""Times for which a coordinator may be away: one that is soon over, and one in which it is started again."""
ROUNDS = 3
PATIENCE_S = 60.0
LATE_S = 6.0
"""So much later than the time is over the error may come, on a machine that is busy."""


class Idle:
    """A running query that has read and committed all there is."""

    def __init__(self, place: "Place", node: LocalCoordinator, stream: NumberedStream, query: "StreamingQuery") -> None:
        self.node = node
        self._servers = place.kafka.bootstrap_servers
        self._stream = stream
        self._query = query
        self._written = 0

    def reads_more(self) -> None:
        """Write records and return when they are read and committed, each once."""
        produce_numbers(self._servers, self._stream.topic, 2, self._written, RECORDS)
        self._written += RECORDS
        view, until_s = GroupView(self.node.address, self._stream.group), time.monotonic() + PATIENCE_S
        while view.committed() < self._written:
            self._must_run()
            must(time.monotonic() < until_s, f"{view.committed()} of {self._written} are committed", kind="stuck")
            self._query.awaitTermination(0.1)
        self._must_run()
        wrong = {number: times for number, times in self._stream.rows().items() if times != 1}
        must(not wrong and len(self._stream.rows()) == self._written, f"the output is not as written: {wrong}")

    def fails_within(self, seconds: float) -> str:
        """Return why the query has failed, which it has to within so many seconds."""
        until_s = time.monotonic() + seconds
        while (error := self._query.exception()) is None:
            must(time.monotonic() < until_s, f"the query says nothing after {seconds:g} s", kind="stuck")
            must(self._query.isActive or self._query.exception() is not None, "the query ended well", kind="wrong")
            time.sleep(0.02)
        return str(error)

    def _must_run(self) -> None:
        error = self._query.exception()
        if error is not None:
            raise BrokenError("wrong", f"the query failed: {error}")


@contextmanager
def idle(place: "Place", word: str, timeout_s: int) -> Iterator[Idle]:
    """Start a node and a query that waits so long for it, and have the query read what there is."""
    servers, name, folder = place.kafka.bootstrap_servers, place.topic(word, 2), place.folder(word)
    with LocalCoordinator(servers, folder / "node") as node:
        waits = (f"kcoord.coordinator.timeout={timeout_s}s", "kcoord.session.timeout=3s")
        stream = NumberedStream(folder / "output", node.address, name, name, waits)
        query = stream.start(place.spark)
        try:
            found = Idle(place, node, stream, query)
            found.reads_more()
            yield found
        finally:
            query.stop()


def must_say_so(why: str) -> None:
    """Raise BrokenError unless an error says what happened and what to do."""
    for part in (f"has not answered for {SHORT_S} s", "kcoord.coordinator.timeout", "start the query again from"):
        must(part in why, f"the error does not say {part!r}: {why}")


def killed_for_good(place: "Place") -> None:
    """Kill the node under an idle query."""
    with idle(place, "killed", SHORT_S) as query:
        began_s = time.monotonic()
        query.node.kill()
        must_say_so(query.fails_within(SHORT_S + LATE_S))
        must(time.monotonic() - began_s >= SHORT_S - 0.5, "the query did not wait for its coordinator")


def hangs(place: "Place") -> None:
    """Stop the node's processes under an idle query, so that its connections stay open and nothing comes."""
    with idle(place, "hangs", SHORT_S) as query:
        os.killpg(query.node.process_group_id, signal.SIGSTOP)
        try:
            must_say_so(query.fails_within(2 * SHORT_S + LATE_S))
        finally:
            os.killpg(query.node.process_group_id, signal.SIGCONT)


def back_in_time(place: "Place") -> None:
    """Kill the node under an idle query and start it again, several times, and have the query read on."""
    with idle(place, "back", LONG_S) as query:
        for _ in range(ROUNDS):
            query.node.kill()
            query.node.start()
            query.reads_more()


SCHEDULES = [
    Schedule(
        "coordinator-killed-under-idle-query",
        "an idle query whose coordinator is gone fails after kcoord.coordinator.timeout and says why",
        killed_for_good,
    ),
    Schedule(
        "coordinator-hangs-under-idle-query",
        "an idle query whose coordinator is silent fails after the session's time and kcoord.coordinator.timeout",
        hangs,
    ),
    Schedule(
        "coordinator-back-in-time",
        "an idle query whose coordinator is back within kcoord.coordinator.timeout goes on, with nothing twice",
        back_in_time,
    ),
]
