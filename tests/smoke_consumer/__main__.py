"""The README's consumer in an environment that has `kcoord[consumer]` alone: `make smoke-consumer`.

A virtual environment is made anew, the source tree installed into it as a package, and it is seen that it has neither
PySpark nor this tree on its path. Then the README's example and the page's asyncio one run there, against a broker and
a coordinator of this environment, until they have shown every record. The last line is one line for scripts.
"""

import re
import signal
import subprocess
import sys
import tempfile
import threading
import venv
from pathlib import Path

from coordinator.local.kafka.broker import LocalKafka
from coordinator.local.node import LocalCoordinator
from tests.helpers.kafka_topics import produce_numbers

ROOT = Path(__file__).resolve().parents[2]
RECORDS = 1_000
INSTALL_TIMEOUT_S = 900.0
RUN_TIMEOUT_S = 120.0
LOOK = """
import importlib.util, sys
import kcoord, spark_kcoord
assert importlib.util.find_spec("pyspark") is None, "there is a PySpark"
assert sys.prefix in kcoord.__file__ and sys.prefix in spark_kcoord.__file__, kcoord.__file__
kcoord.Consumer, kcoord.AsyncConsumer
print("has", *sorted(name for name in ("pyarrow", "numpy", "kafka") if importlib.util.find_spec(name)))
"""


class SmokeError(Exception):
    """Something is not as a newcomer has to find it; the text says what."""


def main() -> int:
    """Make the environment, run the examples and return the exit code."""
    with tempfile.TemporaryDirectory(prefix="kcoord-smoke-") as made:
        try:
            python = _environment(Path(made) / "environment")
            shown = _run_examples(python, Path(made))
        except (SmokeError, subprocess.SubprocessError) as error:
            print(f"smoke-consumer: FAILED {error}")
            return 1
    print(f"smoke-consumer: OK records={shown}")
    return 0


def examples() -> dict[str, str]:
    """Return the programs that are run, as they stand in the documents, by where they stand."""
    found = {}
    for page, word in (("README.md", "import Consumer"), ("docs/CONSUMER.md", "AsyncConsumer(")):
        blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)
        found[page] = next(block for block in blocks if word in block)
    return found


def _environment(home: Path) -> Path:
    print(f"smoke-consumer: making {home} with kcoord[consumer]", flush=True)
    venv.create(home, with_pip=True)
    python = home / "bin" / "python"
    _checked([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", f"{ROOT}[consumer]"])
    print("smoke-consumer:", _checked([python, "-I", "-c", LOOK]).strip(), flush=True)
    return python


def _checked(command: list[str | Path]) -> str:
    run = subprocess.run(command, cwd="/", capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S, check=False)
    if run.returncode:
        raise SmokeError(f"{' '.join(str(word) for word in command[:4])} ended with {run.returncode}:\n{run.stderr}")
    return run.stdout


def _run_examples(python: Path, work: Path) -> int:
    with LocalKafka(work / "kafka") as kafka, LocalCoordinator(kafka.bootstrap_servers, work / "node") as node:
        kafka.create_topic("events", 3)
        produce_numbers(kafka.bootstrap_servers, "events", 3, 0, RECORDS)
        shown = 0
        for page, program in examples().items():
            here = program.replace("127.0.0.1:9292", node.address)
            shown += _shown_by(python, here, page)
            print(f"smoke-consumer: the example of {page} has shown {RECORDS} records", flush=True)
        return shown


def _shown_by(python: Path, program: str, page: str) -> int:
    """Run a program until it has shown every record, end it by Ctrl-C where it does not end, and return how many."""
    process = subprocess.Popen(
        [python, "-I", "-u", "-c", f"import signal\nsignal.signal(2, signal.default_int_handler)\n{program}"],
        cwd="/",
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    timer = threading.Timer(RUN_TIMEOUT_S, process.kill)
    timer.start()
    try:
        assert process.stdout is not None
        values = set()
        for line in process.stdout:
            values.add(line.split()[2])
            if len(values) == RECORDS:
                break
        process.send_signal(signal.SIGINT)
        _, said = process.communicate()
    finally:
        timer.cancel()
        process.kill()
        process.wait()
    if len(values) != RECORDS:
        raise SmokeError(f"the example of {page} has shown {len(values)} of {RECORDS} records:\n{said}")
    return len(values)


if __name__ == "__main__":
    sys.exit(main())
