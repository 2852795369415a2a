"""A node that stays up, on real processes: `python -m tests.standing [NAME ...]`, NAMEs choose cases by a part of it.

Runs each case of `tests/standing/cases` on a real node over a real broker, with a good client beside it that pings and
commits all the time. Prints a line a case and ends with `standing: OK cases=N stopped=0 lost=0 slow=0 wrong=0
seconds=S`, or FAILED and exit code 1.
"""

import logging
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from coordinator.local.kafka.broker import LocalKafka
from tests.helpers.leaving_no_process import leaving_no_process
from tests.helpers.named_cases import NotEndedError, gathered, outcome_of
from tests.standing import cases
from tests.standing.case import BrokenError, Case
from tests.standing.trial import Trial

KINDS = ("stopped", "lost", "slow", "wrong")


def all_cases() -> list[Case]:
    """Return the cases of every file of the folder; two of one name are a mistake."""
    return gathered(cases, "CASES")


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

    def run_it() -> str:
        case.run(trial)
        return trial.verdict()

    with trial:
        result = outcome_of(run_it, name=case.name, timeout_s=case.timeout_s)
        if isinstance(result, NotEndedError):
            return BrokenError("wrong", str(result))
        why_stopped = trial.why_stopped()
        if isinstance(result, BaseException) and why_stopped is not None:
            return BrokenError("stopped", f"{why_stopped}\n    {result!r}")
        return result


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
