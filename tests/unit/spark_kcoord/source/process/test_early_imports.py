"""The modules that a source's process needs are imported while it waits for Spark, and by one thread at a time."""

import subprocess
import sys
import threading

from spark_kcoord.source.process.early_imports import EarlyImports

PROGRAM = """
import sys
from spark_kcoord.options.source_options import parse_options
from spark_kcoord.source.stream_reader import BEFORE_OFFSETS, KcoordStreamReader

options = {"kcoord.bootstrap.servers": "127.0.0.1:1", "kcoord.group.id": "g", "subscribe": "t"}
reader = KcoordStreamReader(parse_options(options, "stream"))
before = {name for name in BEFORE_OFFSETS if name in sys.modules}
reader.getDefaultReadLimit()
reader._imports.wait()
known = {name for name in sys.modules if name.startswith(("spark_kcoord", "coordinator", "kafka"))}
reader.initialOffset()
try:
    reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
except Exception as error:
    print(type(error).__name__)
late = {name for name in sys.modules if name.startswith(("spark_kcoord", "coordinator", "kafka"))} - known
print(sorted(before), sorted(late))
"""


def test_a_reader_has_all_that_a_first_offset_needs_before_it_is_asked() -> None:
    told = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=False)
    assert told.stdout.splitlines()[-2:] == ["CoordinatorAwayError", "[] []"], told.stderr


def test_nothing_is_imported_before_it_is_begun_and_nothing_twice() -> None:
    imports = EarlyImports("json")
    imports.wait()
    before = set(threading.enumerate())
    imports.begin()
    imports.begin()
    imports.wait()
    assert set(threading.enumerate()) <= before


def test_a_module_that_is_not_there_is_left_to_whoever_needs_it() -> None:
    imports = EarlyImports("spark_kcoord.no_such_module", "wave")
    sys.modules.pop("wave", None)
    imports.begin()
    imports.wait()
    assert "wave" in sys.modules
