"""kcoord on each Spark that it says it runs on: `python -m tests.compat [WORD ...]`, WORDs choose places by name.

A place is a version of Spark, a version of Python and a kind of session, such as `spark-4.2.1 python-3.11 connect`.
Each has an environment of its own, and runs the same short suite against one broker and one coordinator. Prints a line
for each case and ends with `compat: OK versions=N cases=N failed=0 seconds=S`, or FAILED and exit code 1. A version of
Python that this machine does not have is passed over and named.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from coordinator.local.kafka.broker import LocalKafka
from coordinator.local.node import LocalCoordinator
from tests.compat.environments import PYTHONS, ROOT, EnvironmentMissingError, Wanted, environment, find_python
from tests.helpers.kafka_topics import produce_numbers
from tests.helpers.leaving_no_process import leaving_no_process

SPARKS = ("4.1.4", "4.2.1", "4.3.0")
"""The last release of each version that is promised."""
RECORDS = 200
TOPIC = "compat"
SUITE_TIMEOUT_S = 900.0
SHOWN = 6_000


@dataclass(frozen=True, slots=True)
class Place:
    """Where the suite runs."""

    wanted: Wanted
    kind: str

    @property
    def name(self) -> str:
        """Return the name, of whose words some choose it."""
        return f"spark-{self.wanted.spark} python-{self.wanted.python} {self.kind}"


def all_places() -> tuple[list[Place], list[str]]:
    """Return the places, and the versions of Python that are not here.

    Every Spark runs on this Python in both kinds of session, and the newest also on each other Python in a classic one.
    """
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    ours = [Wanted(spark, own, Path(sys.executable).resolve()) for spark in SPARKS]
    places = [Place(wanted, kind) for wanted in ours for kind in ("classic", "connect")]
    missing = []
    for version in PYTHONS:
        if version == own:
            continue
        interpreter = find_python(version)
        if interpreter is None:
            missing.append(version)
        else:
            places.append(Place(Wanted(SPARKS[-1], version, interpreter), "classic"))
    return places, missing


def main(words: Sequence[str]) -> int:
    """Run the suite in all places, or in those whose name has each word of `words`; return the exit code."""
    started = time.monotonic()
    places, missing = all_places()
    places = [place for place in places if all(word in place.name for word in words)]
    for version in missing:
        print(f"Python {version} is not on this machine and is not tried", flush=True)
    cases = failed = 0
    with tempfile.TemporaryDirectory(prefix="compat-") as name:
        folder = Path(name)
        with (
            LocalKafka(folder / "kafka") as kafka,
            LocalCoordinator(kafka.bootstrap_servers, folder / "coordinator") as coordinator,
        ):
            kafka.create_topic(TOPIC, 2)
            produce_numbers(kafka.bootstrap_servers, TOPIC, 2, 0, RECORDS)
            for number, place in enumerate(places):
                for case, seconds, why in results(place, folder / str(number), kafka, coordinator):
                    cases += 1
                    failed += why is not None
                    print(f"{'ok    ' if why is None else 'FAILED'} {seconds:5.1f} s  {place.name}  {case}", flush=True)
                    if why is not None:
                        print(why, flush=True)
    is_ok = failed == 0 and cases > 0
    versions = len({place.wanted.spark for place in places})
    seconds = time.monotonic() - started
    said = "OK" if is_ok else "FAILED"
    print(f"compat: {said} versions={versions} cases={cases} failed={failed} seconds={seconds:.0f}")
    return 0 if is_ok else 1


def results(
    place: Place, folder: Path, kafka: LocalKafka, coordinator: LocalCoordinator
) -> Iterator[tuple[str, float, str | None]]:
    """Run the suite in a place: yield each case with its seconds and why it failed, if it did."""
    folder.mkdir()
    began = time.monotonic()
    try:
        python = environment(place.wanted)
    except EnvironmentMissingError as error:
        yield "environment", time.monotonic() - began, str(error)
        return
    command = [str(python), "-m", "tests.compat.suite", "--kind", place.kind, "--kafka", kafka.bootstrap_servers]
    command += ["--coordinator", coordinator.address, "--topic", TOPIC, "--records", str(RECORDS)]
    command += ["--group", place.name.replace(" ", "-"), "--folder", str(folder)]
    began = time.monotonic()
    with (folder / "suite.log").open("wb") as log:
        suite = subprocess.Popen(
            command, cwd=folder, stdout=subprocess.PIPE, stderr=log, env=os.environ | {"PYTHONPATH": str(ROOT)}
        )
        assert suite.stdout is not None
        too_long = threading.Timer(SUITE_TIMEOUT_S, suite.kill)
        too_long.start()
        for line in suite.stdout:
            if line.startswith(b"{"):
                told = json.loads(line)
                yield told["case"], told["seconds"], told["why"]
        code = suite.wait()
        too_long.cancel()
    if code != 0:
        log_end = (folder / "suite.log").read_text(errors="replace")[-SHOWN:]
        yield "the suite", time.monotonic() - began, f"it ended with {code}: {log_end}"


if __name__ == "__main__":
    with leaving_no_process():
        code = main(sys.argv[1:])
    sys.exit(code)
