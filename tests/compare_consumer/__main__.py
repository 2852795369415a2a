"""kafka-python's KafkaConsumer and kcoord's Consumer in the same small programs: `make compare-kafka-python`.

Words choose cases by name. Every case runs with both on one broker, and what it notes is compared; a case that is
documented to differ has to differ, and its row has to be in the page. The last line is one line for scripts.
"""

import logging
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kafka import KafkaProducer

from coordinator.local.kafka.broker import LocalKafka
from coordinator.local.node import LocalCoordinator
from tests.compare_consumer.cases import CASES, Case
from tests.compare_consumer.side import Corpus, Side
from tests.helpers.kafka_topics import produce_numbers

PAGE = Path(__file__).resolve().parents[2] / "docs" / "CONSUMER.md"
LEAST_CASES = 80


class Comparison:
    """Runs cases on one broker with one coordinator, both running."""

    def __init__(self, kafka: LocalKafka, coordinator: str, prefix: str = "compare") -> None:
        self._kafka = kafka
        self._coordinator = coordinator
        self._corpus = Corpus(f"{prefix}-one", f"{prefix}-two", f"{prefix}-none")
        self._page = PAGE.read_text(encoding="utf-8")
        for topic, partitions, records in ((self._corpus.one, 1, 10), (self._corpus.two, 2, 20)):
            kafka.create_topic(topic, partitions)
            produce_numbers(kafka.bootstrap_servers, topic, partitions, 0, records)
        kafka.create_topic(self._corpus.none, 1)
        self._producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, linger_ms=0)

    def close(self) -> None:
        """Close what was opened."""
        self._producer.close()

    def why_unequal(self, case: Case) -> str | None:
        """Run a case with both consumers; return what is not as it should be, None when all is."""
        theirs, ours = self._noted(case, None), self._noted(case, self._coordinator)
        shown = f"    kafka-python: {theirs}\n    kcoord:       {ours}"
        if not case.documented:
            return None if theirs == ours else shown
        if f"| {case.documented} |" not in self._page:
            return f"    the page has no row '{case.documented}'"
        return None if theirs != ours else f"    documented to differ, and it does not\n{shown}"

    def _noted(self, case: Case, coordinator: str | None) -> Any:
        with warnings.catch_warnings(), Side(self._kafka, coordinator, self._corpus, self._producer) as side:
            # The library warns of what it will not do for ever; that is no difference.
            warnings.simplefilter("ignore", DeprecationWarning)
            return side.raised(lambda: case.run(side))


def main(words: Sequence[str]) -> int:
    """Compare all cases, or those whose name has a word of `words`; return the exit code."""
    logging.disable(logging.CRITICAL)
    cases = [case for case in CASES if not words or any(word in case.name for word in words)]
    unequal = documented = 0
    with _comparison() as comparison:
        for case in cases:
            began = time.monotonic()
            why = comparison.why_unequal(case)
            said = "UNEQUAL" if why is not None else "documented" if case.documented else "equal"
            print(f"{said:10} {time.monotonic() - began:5.1f} s  {case.name}", flush=True)
            if why is not None:
                unequal += 1
                print(why, flush=True)
            elif case.documented:
                documented += 1
    is_ok = unequal == 0 and (len(cases) >= LEAST_CASES or bool(words))
    equal = len(cases) - documented - unequal
    print(
        f"compare-kafka-python: {'OK' if is_ok else 'FAILED'} cases={len(cases)} equal={equal} documented={documented} "
        f"unequal={unequal}"
    )
    return 0 if is_ok else 1


@contextmanager
def _comparison() -> Iterator[Comparison]:
    with (
        tempfile.TemporaryDirectory(prefix="kcoord-compare-") as made,
        LocalKafka(Path(made) / "kafka") as kafka,
        LocalCoordinator(kafka.bootstrap_servers, Path(made) / "node") as node,
    ):
        comparison = Comparison(kafka, node.address)
        try:
            yield comparison
        finally:
            comparison.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
