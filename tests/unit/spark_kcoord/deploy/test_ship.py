"""The libraries in the archive for a driver: all that our modules in it import, and all that those need in turn."""

import ast
import importlib.metadata
import re
from pathlib import Path

from spark_kcoord.deploy.ship import DRIVER_LIBRARIES, EXECUTOR_LIBRARIES

ROOT = Path(__file__).parents[4]
OF_THE_CLUSTER = {"kcoord", "pyspark", "pyspark-client", "py4j", "pyarrow", "numpy"}
OF_THE_PROGRAM = {"opentelemetry-api", "opentelemetry-sdk", "opentelemetry-semantic-conventions"}
"""What a consumer takes that is asked for spans: a program without Spark, which brings it."""
SHIPPED = {*EXECUTOR_LIBRARIES, *DRIVER_LIBRARIES}


def imported(source: str) -> set[str]:
    """Return the top packages that a module imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found


def test_driver_in_the_cluster_finds_every_library_that_our_modules_import() -> None:
    folders = (ROOT / "spark_kcoord", ROOT / "coordinator" / "client", ROOT / "coordinator" / "protocol")
    names = set().union(*(imported(path.read_text()) for folder in folders for path in folder.rglob("*.py")))
    libraries = importlib.metadata.packages_distributions()
    needed = {library.lower() for name in names for library in libraries.get(name, ())}
    assert "msgspec" in needed
    assert needed - OF_THE_CLUSTER - OF_THE_PROGRAM <= SHIPPED


def test_what_a_library_in_the_archive_needs_is_in_the_archive() -> None:
    needed = {
        re.split(r"[^\w.-]", wanted, maxsplit=1)[0]
        for library in SHIPPED
        for wanted in importlib.metadata.requires(library) or ()
        if "extra" not in wanted and "python_version" not in wanted
    }
    assert needed <= SHIPPED
