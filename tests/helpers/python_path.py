"""The path on which the Python of a child process looks for modules."""

import os
from pathlib import Path


def python_path(folder: Path) -> str:
    """Return the value of PYTHONPATH that puts a folder before what this process was given."""
    return os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
