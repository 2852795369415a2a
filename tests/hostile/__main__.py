"""Has hostile peers attack a node process over a Kafka of its own; the last line says how it and a good client fared.

make hostile FRAMES=1000000 SCALE=1
"""

import argparse
import logging
import sys
import tempfile
from pathlib import Path

from coordinator.local.kafka.broker import LocalKafka
from tests.helpers.leaving_no_process import leaving_no_process
from tests.hostile.siege import Scale, under_siege
from tests.hostile.stranger import raise_file_limit
from tests.standing.__main__ import echo


def tell(line: str) -> None:
    """Say how far it is."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def main() -> int:
    """Run; return the exit code."""
    parser = argparse.ArgumentParser(prog="hostile")
    parser.add_argument("--frames", type=int, default=0, help="hostile frames; 0 is a million by scale")
    parser.add_argument("--scale", type=float, default=1.0, help="part of every other attack's size")
    parser.add_argument("--seed", type=int, default=0, help="what the frames are made of")
    asked = parser.parse_args()
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    raise_file_limit()
    scale = Scale(asked.frames or round(1_000_000 * asked.scale), asked.scale)
    with leaving_no_process(), tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with LocalKafka(folder / "kafka") as kafka, echo() as address:
            verdict, lines = under_siege(kafka, folder, address, scale, asked.seed, tell)
    for line in [*lines, *verdict.missed()]:
        sys.stdout.write(f"{line}\n")
    sys.stdout.write(f"{verdict}\n")
    return 1 if verdict.missed() else 0


if __name__ == "__main__":
    sys.exit(main())
