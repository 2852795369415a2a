"""Fuzzes every target, guided by coverage, for some minutes in all; the last line says what was found.

    make fuzz MINUTES=10 SEED=0 TARGETS="rules tls"

Inputs that lead further are kept in `.fuzz/TARGET`, from where the next run goes on. An input that ends in anything but
a declared refusal, that takes longer than 30 s or 2 GiB, is a finding: it is put into `tests/fuzz/found/TARGET`, and
`make test` has every target read these from then on. Ends with `fuzz: OK targets=N executions=N crashes=0 minutes=N`.
"""

import argparse
import hashlib
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz.target import LARGEST_INPUT
from tests.fuzz.targets import TARGETS
from tests.helpers.leaving_no_process import leaving_no_process

ROOT = Path(__file__).parents[2]
FOUND = ROOT / "tests" / "fuzz" / "found"
KEPT = ROOT / ".fuzz"
_EXECUTED = re.compile(r"stat::number_of_executed_units: (\d+)")


@dataclass(frozen=True)
class Outcome:
    """What one target has shown: how often it was executed, and the files of inputs that it did not take."""

    executions: int
    found: tuple[Path, ...]
    said: str
    exit_code: int


def fuzz(name: str, seconds: float, seed: int, found: Path = FOUND, kept: Path = KEPT) -> Outcome:
    """Fuzz one target for so long, or until the first finding."""
    corpus = kept / name
    corpus.mkdir(parents=True, exist_ok=True)
    for data in TARGETS[name].seeds():
        (corpus / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)
    with tempfile.TemporaryDirectory() as folder:
        flags = {
            "max_total_time": max(1, round(seconds)),
            "max_len": LARGEST_INPUT,
            "timeout": 30,
            "rss_limit_mb": 2048,
            "seed": seed + 1,  # 0 is a seed of its own choice
            "print_final_stats": 1,
            "verbosity": 1,
            "artifact_prefix": f"{folder}/",
        }
        command = [sys.executable, "-m", "tests.fuzz.child", name, *(f"-{key}={text}" for key, text in flags.items())]
        ran = subprocess.run(
            [*command, str(corpus)],
            cwd=ROOT,
            env=os.environ | {"PYTHONWARNINGS": "ignore"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=seconds + 300,
            check=False,
        )
        said = ran.stdout.decode(errors="replace")
        inputs = []
        for artifact in sorted(Path(folder).iterdir()):
            place = found / name / hashlib.sha256(artifact.read_bytes()).hexdigest()[:16]
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(artifact.read_bytes())
            inputs.append(place)
    executed = _EXECUTED.search(said)
    return Outcome(int(executed[1]) if executed else 0, tuple(inputs), said, ran.returncode)


def main() -> int:
    """Fuzz, and say how it went; return the exit code."""
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="how long in all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"some of {', '.join(TARGETS)}; else all")
    asked = parser.parse_args()
    unknown = [name for name in asked.targets if name not in TARGETS]
    if unknown:
        parser.error(f"there is no target {unknown[0]}; there are {', '.join(TARGETS)}")
    names = asked.targets or list(TARGETS)
    began_s, executions, crashes = time.monotonic(), 0, 0
    with leaving_no_process():
        for name in names:
            outcome = fuzz(name, asked.minutes * 60 / len(names), asked.seed)
            executions += outcome.executions
            is_fine = outcome.exit_code == 0 and not outcome.found and outcome.executions > 0
            crashes += not is_fine
            sys.stderr.write(f"fuzz: {name} executions={outcome.executions} {'ok' if is_fine else 'FAILED'}\n")
            if not is_fine:
                places = ", ".join(path.relative_to(ROOT).as_posix() for path in outcome.found) or "no input"
                sys.stdout.write(f"{outcome.said[-4000:]}\nfuzz: {name}: kept in {places}\n")
    result = "FAILED" if crashes else "OK"
    minutes = (time.monotonic() - began_s) / 60
    sys.stdout.write(
        f"fuzz: {result} targets={len(names)} executions={executions} crashes={crashes} minutes={minutes:.1f}\n"
    )
    return int(result != "OK")


if __name__ == "__main__":
    sys.exit(main())
