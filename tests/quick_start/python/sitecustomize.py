"""Read by each Python at its start: PySpark is imported from where it is installed, compiled, not from its zip file.

Spark puts that file in front of the path of its Python processes, each of which compiles what it imports from it.
"""

import sys
from os.path import isfile

if any(isfile(f"{folder}/pyspark/__init__.py") for folder in sys.path):  # noqa: PTH113 - before pathlib is imported
    sys.path[:] = [place for place in sys.path if not (place.endswith(".zip") and "/pyspark/python/lib/" in place)]
