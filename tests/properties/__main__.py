"""Every property on examples drawn anew, again and again: `python -m tests.properties --runs N --jobs N`.

`make test` tries the same examples each time, so that a run tells of the change and not of its luck. Here each run
draws others. What fails is shown with the example, shrunk, which goes into the test as one of its own (`@example`).
Ends with `properties: OK runs=N tests=N failed=0 seconds=S`, or FAILED and exit code 1.
"""

import argparse
import re
import subprocess
import sys
import time
from pathlib import Path

from tests.helpers.examples import DRAWN_ANEW

ROOT = Path(__file__).parents[2]


def run_all(jobs: int) -> tuple[int, int]:
    """Run each property once, on new examples; return how many were tried and how many failed."""
    pytest = [sys.executable, "-m", "pytest", "-q", "-m", "hypothesis", "-p", "no:cacheprovider", "--tb=short"]
    command = [*pytest, "--hypothesis-profile", DRAWN_ANEW, "--numprocesses", str(jobs)]
    ran = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=False)
    passed, failed = (sum(int(count) for count in re.findall(rf"(\d+) {word}", ran.stdout)) for word in _ENDS)
    if ran.returncode:
        print(ran.stdout, flush=True)
    return passed + failed, failed or int(ran.returncode != 0)


_ENDS = ("passed", "(?:failed|error)")


def main() -> int:
    """Run the properties as often as asked for and say how it went."""
    parser = argparse.ArgumentParser(prog="python -m tests.properties", description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    began, tests, failed = time.monotonic(), 0, 0
    for run in range(1, given.runs + 1):
        tried, fell = run_all(given.jobs)
        tests, failed = max(tests, tried), failed + fell
        print(f"run {run} of {given.runs}: {tried} properties, {fell} failed", file=sys.stderr, flush=True)
    result = "FAILED" if failed or not tests else "OK"
    seconds = time.monotonic() - began
    print(f"properties: {result} runs={given.runs} tests={tests} failed={failed} seconds={seconds:.0f}")
    return int(result != "OK")


if __name__ == "__main__":
    raise SystemExit(main())
