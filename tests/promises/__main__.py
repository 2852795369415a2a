"""The promises on real services: `python -m tests.promises [WORD ...]`, WORDs choose schedules by name.

Runs each schedule of `tests/promises/schedules` on a real broker, a real node and, where it needs one, a real Spark.
Prints a line a schedule and ends with `promises: OK schedules=N lost=0 stuck=0 wrong=0 seconds=S`, or FAILED and exit
code 1.
"""

import logging
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.helpers.leaving_no_process import leaving_no_process
from tests.helpers.named_cases import NotEndedError, gathered, outcome_of
from tests.promises import schedules
from tests.promises.place import Place
from tests.promises.schedule import BrokenError, Schedule


def all_schedules() -> list[Schedule]:
    """Return the schedules of every file of the folder; two of one name are a mistake."""
    return gathered(schedules, "SCHEDULES")


def main(words: Sequence[str]) -> int:
    """Run all schedules, or those whose name has one of the words; return the exit code."""
    logging.getLogger("spark_kcoord").setLevel(logging.ERROR)
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    chosen = [each for each in all_schedules() if not words or any(word in each.name for word in words)]
    with (
        tempfile.TemporaryDirectory(prefix="promises-", ignore_cleanup_errors=True) as name,
        Place(Path(name)) as place,
    ):
        return run(chosen, place)


def run(chosen: Iterable[Schedule], place: Place) -> int:
    """Run schedules one after another, tell of each, and return the exit code."""
    began = time.monotonic()
    broken: Counter[str] = Counter()
    count = 0
    for schedule in chosen:
        count += 1
        started = time.monotonic()
        error = _error_of(schedule, place)
        seconds = time.monotonic() - started
        if error is None:
            print(f"kept   {seconds:6.1f} s  {schedule.name}: {schedule.promise}", flush=True)
            continue
        kind = error.kind if isinstance(error, BrokenError) else "wrong"
        broken[kind] += 1
        print(f"{kind.upper():6} {seconds:6.1f} s  {schedule.name}: {schedule.promise}\n    {error}", flush=True)
        if not isinstance(error, BrokenError):
            traceback.print_exception(error)
    result = "OK" if count and not broken else "FAILED"
    figures = " ".join(f"{kind}={broken[kind]}" for kind in ("lost", "stuck", "wrong"))
    print(f"promises: {result} schedules={count} {figures} seconds={time.monotonic() - began:.0f}", flush=True)
    return 0 if result == "OK" else 1


def _error_of(schedule: Schedule, place: Place) -> BaseException | None:
    """Run a schedule on a thread of its own, which is left behind when it does not end in time."""
    result = outcome_of(lambda: schedule.run(place), name=schedule.name, timeout_s=schedule.timeout_s)
    return BrokenError("stuck", str(result)) if isinstance(result, NotEndedError) else result


if __name__ == "__main__":
    with leaving_no_process():
        code = main(sys.argv[1:])
    sys.exit(code)
