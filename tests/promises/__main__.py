"""The promises on real services: `python -m tests.promises [WORD ...]`, WORDs choose schedules by name.

Runs each schedule of `tests/promises/schedules` on a real broker, a real node and, where it needs one, a real Spark.
Prints a line a schedule and ends with `promises: OK schedules=N lost=0 stuck=0 wrong=0 seconds=S`, or FAILED and exit
code 1.
"""

import importlib
import logging
import pkgutil
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.helpers.leaving_no_process import leaving_no_process
from tests.promises import schedules
from tests.promises.place import Place
from tests.promises.schedule import BrokenError, Schedule


def all_schedules() -> list[Schedule]:
    """Return the schedules of every file of the folder; two of one name are a mistake."""
    found: list[Schedule] = []
    for module in sorted(each.name for each in pkgutil.iter_modules(schedules.__path__)):
        found += importlib.import_module(f"{schedules.__name__}.{module}").SCHEDULES
    twice = [name for name, count in Counter(each.name for each in found).items() if count > 1]
    assert not twice, f"schedules have one name: {twice}"
    return found


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
    failed: list[BaseException] = []

    def run_it() -> None:
        try:
            schedule.run(place)
        except BaseException as error:  # noqa: BLE001 - whatever ends a schedule is its result
            failed.append(error)

    thread = threading.Thread(target=run_it, name=schedule.name, daemon=True)
    thread.start()
    thread.join(schedule.timeout_s)
    if thread.is_alive():
        return BrokenError("stuck", f"it had not ended after {schedule.timeout_s:g} s")
    return failed[0] if failed else None


if __name__ == "__main__":
    with leaving_no_process():
        code = main(sys.argv[1:])
    sys.exit(code)
