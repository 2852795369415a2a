"""Runs that end by themselves, and lose their coordinator between latestOffset and partitions."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.errors import StreamingQueryException

from coordinator.local.node import LocalCoordinator
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import AdvanceResponse, Push, Response, StartFetcher
from coordinator.protocol.parts import Outcomes
from tests.helpers.answer_cutter import answer_cutter
from tests.helpers.group_view import GroupView
from tests.helpers.kafka_topics import produce_numbers
from tests.helpers.loopback_proxy import LoopbackProxy
from tests.helpers.parquet_stream import to_parquet, values_in
from tests.promises.schedule import BrokenError, Schedule, must, must_have

if TYPE_CHECKING:
    from tests.promises.place import Place

RECORDS, A_BATCH = 200, 40
PATIENCE_S = 60.0
COORDINATOR_TIMEOUT_S = 3


class Offers:
    """Counts the answers with which claims are accepted, and the owner epochs that are granted."""

    def __init__(self, is_cut: Callable[[int], bool]) -> None:
        self.count = 0
        self.owner_epochs: set[int] = set()
        self.cut = threading.Event()
        self._is_cut = is_cut

    def cuts_after(self, said: Response | Push) -> bool:
        """Say whether the connection is reset behind this answer: the member has its claims then, Spark no plan."""
        if isinstance(said, StartFetcher):
            self.owner_epochs.update(one.owner_epoch for one in said.partitions)
        if not isinstance(said, AdvanceResponse) or not _accepts_claims(said.claims):
            return False
        self.count += 1
        if not self._is_cut(self.count):
            return False
        self.cut.set()
        return True


def _accepts_claims(claims: Outcomes) -> bool:
    return claims.as_asked > 0 or any(one.error is ErrorCode.NONE for one in claims.others)


@dataclass(frozen=True)
class Behind:
    """A topic with records, a node behind a proxy, and a folder for the query."""

    place: "Place"
    node: LocalCoordinator
    proxy: LoopbackProxy
    offers: Offers
    name: str
    folder: Path

    def run_once(self) -> None:
        """Run the query with AvailableNow and return when it has ended; raises StreamingQueryException."""
        stream = self.place.spark.readStream.format("kcoord").options(
            **{
                "kcoord.bootstrap.servers": self.proxy.address,
                "kcoord.group.id": self.name,
                "kcoord.coordinator.timeout": f"{COORDINATOR_TIMEOUT_S}s",
                "subscribe": self.name,
                "startingOffsets": "earliest",
                "maxOffsetsPerTrigger": str(A_BATCH),
            }
        )
        query = to_parquet(stream.load(), self.folder).trigger(availableNow=True).start()
        must(bool(query.awaitTermination(PATIENCE_S)), "the run did not end", kind="stuck")

    def must_be_read(self, what: str) -> None:
        """Raise BrokenError unless every record is in the output and committed."""
        must_have(set(range(RECORDS)), set(values_in(self.place.spark, self.folder)), what=what)
        committed = GroupView(self.node.address, self.name).committed()
        # The last micro-batch of a run is committed by the next one.
        must(RECORDS - A_BATCH <= committed <= RECORDS, f"{committed} of {RECORDS} records are committed")


@contextmanager
def behind_proxy(place: "Place", word: str, is_cut: Callable[[int], bool]) -> Iterator[Behind]:
    """Start a node that members reach through a proxy alone, and write the records."""
    name, folder, offers = place.topic(word, 2), place.folder(word), Offers(is_cut)
    produce_numbers(place.kafka.bootstrap_servers, name, 2, 0, RECORDS)
    with LoopbackProxy(cutter=answer_cutter(offers.cuts_after)) as proxy:
        settings = {"node.advertised": proxy.address}
        with LocalCoordinator(place.kafka.bootstrap_servers, folder / "node", settings=settings) as node:
            proxy.lead_to(node.port)
            yield Behind(place, node, proxy, offers, name, folder)


def reset_once(place: "Place") -> None:
    """Reset the connection once, after the claims of the second micro-batch were accepted."""
    with behind_proxy(place, "reset-once", lambda count: count == 2) as where:
        where.run_once()
        must(len(where.offers.owner_epochs) > 1, f"no owner epoch has changed: {where.offers.owner_epochs}")
        where.must_be_read("a run whose connection was reset once")


def reset_again_and_again(place: "Place") -> None:
    """Reset the connection after each second micro-batch's claims were accepted, the first one's as well."""
    with behind_proxy(place, "reset-again", lambda count: count % 2 == 1) as where:
        where.run_once()
        must(where.proxy.cuts > 2, f"the connection was reset {where.proxy.cuts} times only")
        where.must_be_read("a run whose connection was reset again and again")


def coordinator_never_back(place: "Place") -> None:
    """Take the coordinator away after the claims of the second micro-batch, and let a later run read the rest."""
    with behind_proxy(place, "never-back", lambda count: count == 2) as where:
        waiting = threading.Thread(target=_close_when_cut, args=(where,), daemon=True)
        waiting.start()
        try:
            where.run_once()
        except StreamingQueryException as error:
            must("kcoord.coordinator.timeout" in str(error), f"the run failed without saying why: {error}")
        else:
            got = len(values_in(place.spark, where.folder))
            raise BrokenError("lost", f"a run that read {got} of {RECORDS} records ended well")
        waiting.join(PATIENCE_S)
        where.proxy.lead_to(where.node.port)
        where.run_once()
        where.must_be_read("a run after one that failed")


def _close_when_cut(where: Behind) -> None:
    where.offers.cut.wait(PATIENCE_S)
    where.proxy.lead_to(None)
    where.proxy.cut()


SCHEDULES = [
    Schedule(
        "available-now-reset-once",
        "a run with AvailableNow whose connection is reset between latestOffset and partitions reads to its ends",
        reset_once,
    ),
    Schedule(
        "available-now-reset-again-and-again",
        "a run with AvailableNow whose connection is reset in every second micro-batch reads to its ends",
        reset_again_and_again,
    ),
    Schedule(
        "available-now-coordinator-lost",
        "a run with AvailableNow whose coordinator does not come back fails, and the next one reads the rest",
        coordinator_never_back,
    ),
]
