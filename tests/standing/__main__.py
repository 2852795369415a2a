"""A node that stays up, on real processes: `python -m tests.standing [NAME ...]`, NAMEs choose cases by a part of it.

Runs each case of `tests/standing/cases` on a real node over a real broker, with a good client beside it that pings and
commits all the time. Prints a line a case and ends with `standing: OK cases=N stopped=0 lost=0 slow=0 wrong=0
seconds=S`, or FAILED and exit code 1.
"""

import importlib
import logging
import pkgutil
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from coordinator.local.kafka import LocalKafka
from tests.helpers.leaving_no_process import leaving_no_process
from tests.standing import cases
from tests.standing.case import BrokenError, Case
from tests.standing.trial import Trial

KINDS = ("stopped", "lost", "slow", "wrong")


def all_cases() -> list[Case]:
    """Return the cases of every file of the folder; two of one name are a mistake."""
    found: list[Case] = []
    for module in sorted(each.name for each in pkgutil.iter_modules(cases.__path__)):
        found += importlib.import_module(f"{cases.__name__}.{module}").CASES
    twice = [name for name, count in Counter(each.name for each in found).items() if count > 1]
    assert not twice, f"cases have one name: {twice}"
    return found


def main(words: Sequence[str]) -> int:
    """Run all cases, or those whose name has one of the words; return the exit code."""
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    chosen = [each for each in all_cases() if not words or any(word in each.name for word in words)]
    with tempfile.TemporaryDirectory(prefix="standing-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with LocalKafka(folder / "kafka") as kafka, echo() as address:
            return run(chosen, folder, kafka, address)


def run(chosen: Iterable[Case], folder: Path, kafka: LocalKafka, echo_address: str) -> int:
    """Run cases one after another, tell of each, and return the exit code."""
    began = time.monotonic()
    broken: Counter[str] = Counter()
    count = 0
    for case in chosen:
        count += 1
        started = time.monotonic()
        print(f"..... {case.name}: {case.promise}", flush=True)
        result = outcome(case, Trial(case.name, folder / case.name, kafka, echo_address))
        seconds = time.monotonic() - started
        if isinstance(result, str):
            print(f"held  {case.name}, {seconds:.1f} s: {result}", flush=True)
            continue
        kind = result.kind if isinstance(result, BrokenError) else "wrong"
        broken[kind] += 1
        print(f"{kind.upper()} {case.name}, {seconds:.1f} s: {result}", flush=True)
        if not isinstance(result, BrokenError):
            traceback.print_exception(result)
    result_word = "OK" if count and not broken else "FAILED"
    figures = " ".join(f"{kind}={broken[kind]}" for kind in KINDS)
    print(f"standing: {result_word} cases={count} {figures} seconds={time.monotonic() - began:.0f}", flush=True)
    return 0 if result_word == "OK" else 1


def outcome(case: Case, trial: Trial) -> str | BaseException:
    """Run a case on a thread of its own, which is left behind when it does not end; return its figures or its error."""
    told: list[str | BaseException] = []

    def run_it() -> None:
        try:
            case.run(trial)
            told.append(trial.verdict())
        except BaseException as error:  # noqa: BLE001 - whatever ends a case is its result
            told.append(error)

    with trial:
        thread = threading.Thread(target=run_it, name=case.name, daemon=True)
        thread.start()
        thread.join(case.timeout_s)
        if thread.is_alive():
            return BrokenError("wrong", f"it had not ended after {case.timeout_s:g} s")
        why_stopped = trial.why_stopped()
        if isinstance(told[0], BaseException) and why_stopped is not None:
            return BrokenError("stopped", f"{why_stopped}\n    {told[0]!r}")
        return told[0]


@contextmanager
def echo() -> Iterator[str]:
    """Yield the address of the process that is the base line."""
    with subprocess.Popen([sys.executable, "-m", "tests.standing.echo"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


if __name__ == "__main__":
    with leaving_no_process():
        code = main(sys.argv[1:])
    sys.exit(code)
