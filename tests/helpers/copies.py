"""A copy of a directory as `cp -r` makes it while whoever owns it writes on."""

import shutil
from contextlib import suppress
from pathlib import Path


def copied_while_it_runs(source: Path, target: Path) -> None:
    """Copy a directory file by file; a file that is renamed or deleted meanwhile is missing in the copy."""
    target.mkdir(parents=True)
    for found in sorted(source.rglob("*")):
        to = target / found.relative_to(source)
        with suppress(FileNotFoundError):
            if found.is_dir():
                to.mkdir(parents=True, exist_ok=True)
            else:
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(found, to)
