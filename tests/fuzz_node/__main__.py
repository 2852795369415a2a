"""Fuzzes a node process of its own over a Kafka of its own; the last line says what was found.

make fuzz-node FRAMES=300000 SEED=0
"""

import argparse
import sys
import tempfile
from pathlib import Path

from coordinator.local.kafka.broker import LocalKafka
from coordinator.local.node import LocalCoordinator
from tests.fuzz_node.fuzz import fuzz
from tests.helpers.leaving_no_process import leaving_no_process


def tell(line: str) -> None:
    """Say how far it is."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def main() -> int:
    """Run; return the exit code."""
    parser = argparse.ArgumentParser(prog="fuzz-node")
    parser.add_argument("--frames", type=int, default=300_000, help="how many requests are sent")
    parser.add_argument("--seed", type=int, default=0, help="what they are made of")
    asked = parser.parse_args()
    with leaving_no_process(), tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        with LocalKafka(place / "kafka") as kafka, LocalCoordinator(kafka.bootstrap_servers, place / "node") as node:
            verdict = fuzz(kafka, node, seed=asked.seed, frames=asked.frames, tell=tell)
    for line in verdict.said:
        sys.stdout.write(f"{line}\n")
    sys.stdout.write(f"{verdict}\n")
    return 0 if verdict.is_fine else 1


if __name__ == "__main__":
    sys.exit(main())
