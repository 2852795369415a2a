"""kcoord on each Spark that it says it runs on: `python -m tests.compat [WORD ...]`, WORDs choose places by name.

A place is a version of Spark, a version of Python and a kind of session, such as `spark-4.2.1 python-3.11 connect`.
Each has an environment of its own, and runs the same short suite against one broker and one coordinator. Prints a line
for each case and ends with `compat: OK versions=N cases=N failed=0 seconds=S`, or FAILED and exit code 1. A version of
Python that this machine does not have is passed over and named. A case that met Spark's own time-out for a Python
process was tried again, and its line says so; one that met it in every try has failed.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from uuid import uuid4

from coordinator.local.kafka.broker import LocalKafka
from coordinator.local.node import LocalCoordinator
from tests.compat.environments import PYTHONS, ROOT, EnvironmentMissingError, Wanted, environment, find_python
from tests.helpers.kafka_topics import produce_numbers
from tests.helpers.leaving_no_process import kill_marked, leaving_no_process

SPARKS = ("4.1.4", "4.2.1", "4.3.0")
"""The last release of each version that is promised."""
RECORDS = 200
TOPIC = "compat"
START_TIMEOUT_S = 600.0
SILENCE_S = 3_600.0
"""A suite that ends no case for so long hangs: each of a case's waits has an end before."""
MARK = "KCOORD_COMPAT_SUITE"
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
            LocalKafka(folder / "kafka", start_timeout_s=START_TIMEOUT_S) as kafka,
            LocalCoordinator(
                kafka.bootstrap_servers, folder / "coordinator", start_timeout_s=START_TIMEOUT_S
            ) as coordinator,
        ):
            kafka.create_topic(TOPIC, 2)
            produce_numbers(kafka.bootstrap_servers, TOPIC, 2, 0, RECORDS)
            for number, place in enumerate(places):
                for result in results(place, folder / str(number), kafka, coordinator):
                    cases += 1
                    failed += result.why is not None
                    print(result.line(place), flush=True)
    is_ok = failed == 0 and cases > 0
    versions = len({place.wanted.spark for place in places})
    seconds = time.monotonic() - started
    said = "OK" if is_ok else "FAILED"
    print(f"compat: {said} versions={versions} cases={cases} failed={failed} seconds={seconds:.0f}")
    return 0 if is_ok else 1


@dataclass(frozen=True, slots=True)
class Result:
    """One case: ``why`` it failed, if it did, and ``met``, how often Spark's own time-out came between, in words."""

    case: str
    seconds: float
    why: str | None
    met: str = ""

    def line(self, place: Place) -> str:
        """Return it for people."""
        said = f"{'ok    ' if self.why is None else 'FAILED'} {self.seconds:5.1f} s  {place.name}  {self.case}"
        return "\n".join([f"{said}: {self.met}" if self.met else said, *([] if self.why is None else [self.why])])


def results(place: Place, folder: Path, kafka: LocalKafka, coordinator: LocalCoordinator) -> Iterator[Result]:
    """Run the suite in a place and yield what came of each case."""
    folder.mkdir()
    began = time.monotonic()
    try:
        python = environment(place.wanted)
    except EnvironmentMissingError as error:
        yield Result("environment", time.monotonic() - began, str(error))
        return
    command = [str(python), "-m", "tests.compat.suite", "--kind", place.kind, "--kafka", kafka.bootstrap_servers]
    command += ["--coordinator", coordinator.address, "--topic", TOPIC, "--records", str(RECORDS)]
    command += ["--group", place.name.replace(" ", "-"), "--folder", str(folder)]
    began = time.monotonic()
    mark = uuid4().hex
    environ = os.environ | {"PYTHONPATH": str(ROOT), MARK: mark}
    with (folder / "suite.log").open("wb") as log:
        suite = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=log, env=environ)
        assert suite.stdout is not None
        silence = Silence(SILENCE_S, partial(kill_marked, mark, MARK))
        for line in suite.stdout:
            silence.broken()
            if line.startswith(b"{"):
                told = json.loads(line)
                yield Result(told["case"], told["seconds"], told["why"], told["met"])
        code = suite.wait()
        silence.over()
    kill_marked(mark, MARK)  # what it may have left would take the processor from the next
    if code != 0:
        log_end = (folder / "suite.log").read_text(errors="replace")[-SHOWN:]
        end = f"it ended no case in {SILENCE_S:g} s and was killed" if silence.is_too_long else f"it ended with {code}"
        yield Result("the suite", time.monotonic() - began, f"{end}: {log_end}")


class Silence:
    """Acts when nothing was heard for a while; `broken` says that something was, `over` that nothing is awaited."""

    def __init__(self, limit_s: float, act: Callable[[], None]) -> None:
        self._limit_s = limit_s
        self._act = act
        self.is_too_long = False
        self._timer = self._start()

    def broken(self) -> None:
        """Begin to wait anew."""
        self._timer.cancel()
        self._timer = self._start()

    def over(self) -> None:
        """Wait no more."""
        self._timer.cancel()

    def _start(self) -> threading.Timer:
        timer = threading.Timer(self._limit_s, self._end)
        timer.daemon = True
        timer.start()
        return timer

    def _end(self) -> None:
        self.is_too_long = True
        self._act()


if __name__ == "__main__":
    with leaving_no_process():
        code = main(sys.argv[1:])
    sys.exit(code)
