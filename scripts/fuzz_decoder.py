"""Feeds mutated record batches to the compiled decoder, built with bounds checks and sanitizers.

    make fuzz-decoder         or: python scripts/fuzz_decoder.py [--seconds 60] [--seed N]

The decoder is compiled anew into a temporary directory and a child process runs it under AddressSanitizer, each
record set in memory of exactly its size, so that reading one byte too far ends the run with the place in the source.
Every case must be refused with a KcoordError or give valid Arrow data, the same as the NumPy decoder's; and the records
of its rows, of all and of some of them, must be those of plain Python.
"""

import argparse
import importlib.util
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
DIRECTORY = "KCOORD_FUZZ_DIRECTORY"
TARGET = "fuzz-decoder"
NUMBERS = (0, 1, 2, 0x0E, 0x7F, 0x80, 0xFE, 0xFF)


def run_checked(arguments: argparse.Namespace) -> int:
    """Compile the checked decoder and run this program again with the sanitizer's library before all others."""
    with tempfile.TemporaryDirectory() as directory:
        command = [sys.executable, str(ROOT / "hatch_build.py"), directory, "--checked"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        libraries = [
            subprocess.run(
                ["gcc", f"-print-file-name={name}"], check=True, capture_output=True, text=True
            ).stdout.strip()
            for name in ("libasan.so", "libubsan.so", "libstdc++.so.6")
        ]
        environment = os.environ | {
            DIRECTORY: directory,
            "LD_PRELOAD": ":".join(libraries),
            # Python's own allocations live to the end on purpose; every one of them is to be watched.
            "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=0:exitcode=70",
            "PYTHONMALLOC": "malloc",
            "ARROW_DEFAULT_MEMORY_POOL": "system",
        }
        command = [sys.executable, __file__, f"--seconds={arguments.seconds}", f"--seed={arguments.seed}"]
        done = subprocess.run(command, env=environment, cwd=ROOT, check=False, timeout=arguments.seconds + 300)
    if done.returncode not in (0, 1):
        print(f"{TARGET}: FAILED exit_code={done.returncode} seed={arguments.seed}")
        return 1
    return done.returncode


def load_checked(directory: str) -> Any:
    """Return the checked decoder's module."""
    (path,) = Path(directory).glob("_native.*")
    spec = importlib.util.spec_from_file_location("spark_kcoord.fetch.decoding._native", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def seeds() -> list[bytes]:
    """Return record sets with every codec, header, null and kind of batch."""
    from tests.helpers.record_batches import COMPRESS, TRANSACTIONAL, Row, end_marker, record_batch

    rows = [
        Row(b"k0", b"v0", 0, [("h", b"1"), ("empty", b""), ("none", None), ("ключ", b"\x00")]),
        Row(None, b"v1" * 40, 1_700_000_000_123),
        Row(b"", None, -1, [("", b"x" * 70)]),
    ]
    sets = [record_batch(rows * 3, base_offset=5, codec=codec) for codec in COMPRESS]
    aborted = record_batch(rows, base_offset=40, flags=TRANSACTIONAL, producer_id=7)
    sets.append(aborted + end_marker(43, 7, is_abort=True) + record_batch({50: rows[0]}, base_offset=44))
    sets.append(record_batch(rows, append_time=1_000, last_offset=9) + record_batch({}, base_offset=10, last_offset=12))
    sets.append(b"".join(record_batch(rows * 60, base_offset=at, codec="none") for at in range(0, 900, 180)))
    return sets


def mutated(seed: bytes, chance: random.Random) -> bytes:
    """Return the record set with some bytes changed, taken out or cut off."""
    data = bytearray(seed)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(min(len(data), chance.choice((61, 80, 140, len(data)))))
        kind = chance.random()
        if kind < 0.5:
            data[at] = chance.choice(NUMBERS)
        elif kind < 0.9:
            data[at] ^= 1 << chance.randrange(8)
        elif kind < 0.95:
            data[at : at + chance.randint(0, 9)] = chance.randbytes(chance.randint(0, 9))
        else:
            del data[at + 1 :]
    return bytes(data)


def fuzz(seconds: float, seed: int, directory: str) -> int:
    """Run cases until the time is over."""
    import numpy as np

    from spark_kcoord.consumer.values import ConsumerRecord
    from spark_kcoord.errors import KcoordError
    from spark_kcoord.fetch.decoding import decode_numpy
    from spark_kcoord.fetch.decoding.decode import COLUMNS, AbortedTransaction
    from spark_kcoord.fetch.records import plain

    checked = load_checked(directory)

    def outcome(decoder: Any, data: Any, **more: Any) -> Any:
        try:
            decoded = decoder.decode(data, "t", 0, 2, 400, columns=COLUMNS, check_crcs=False, **more)
        except KcoordError:
            return None
        decoded.rows.validate(full=True)
        return decoded.next_offset, decoded.rows

    def records(module: Any, rows: Any) -> Any:
        return module.records(rows, "t", 0, epochs, ConsumerRecord)

    chance = random.Random(seed)
    record_sets = seeds()
    epochs: tuple[tuple[int, int], ...] = ()
    cases = refused = 0
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        data = mutated(chance.choice(record_sets), chance)
        exact = np.array(bytearray(data), dtype=np.uint8)  # memory of its own without a byte behind it
        more = {
            "aborted": chance.choice((None, [], [AbortedTransaction(7, 0)])),
            "max_bytes": chance.choice((50, 1 << 24)),
        }
        decode_numpy._MANY_BATCHES = chance.choice((1, 128))
        found = outcome(checked, memoryview(exact), **more)
        if found != outcome(decode_numpy, data, **more):
            print(f"{TARGET}: FAILED the decoders disagree seed={seed} case={cases} data={data.hex()} {more}")
            return 1
        if found is not None:
            epochs = chance.choice(((), ((500, 4),), ((6, 1), (45, 2), (60, 7))))
            some = found[1].slice(chance.randint(0, found[1].num_rows), chance.randint(0, 9))
            for rows in (found[1], some):
                if records(checked, rows) != records(plain, rows):
                    print(f"{TARGET}: FAILED the records differ seed={seed} case={cases} data={data.hex()} {more}")
                    return 1
        cases += 1
        refused += found is None
    print(f"{TARGET}: OK cases={cases} refused={refused} seed={seed} seconds={seconds:g}")
    return 0


def main() -> int:
    """Compile and start the child, or be the child."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    arguments = parser.parse_args()
    directory = os.environ.get(DIRECTORY)
    if directory is None:
        return run_checked(arguments)
    sys.path.insert(0, str(ROOT))
    return fuzz(arguments.seconds, arguments.seed, directory)


if __name__ == "__main__":
    sys.exit(main())
