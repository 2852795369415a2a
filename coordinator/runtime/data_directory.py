"""The test of a directory that is to be a node's data directory: it is one of ours, or nothing is in it.

A wrong path would otherwise be a new cluster, in which no group is known, without a word. It is looked at before
anything is written into it.
"""

import re
from pathlib import Path

from coordinator.runtime.files import DiskError, Files, explained

META, MAKING = "meta.json", "making"
_OURS = re.compile(r"(meta\.json|making)(\.tmp)?|lock|shard-\d{5}")
"""The names of everything that a node puts into its directory."""
_OF_FILE_SYSTEMS = frozenset({"lost+found", "System Volume Information"})
"""The entries of a file system's root in which nothing is; other such names begin with a dot."""
_MOST_NAMED = 5
_MOST_LOOKED_INTO = 1_000


def refuse_what_is_not_ours(files: Files, data_dir: Path) -> None:
    """Raise DiskError for a directory that holds something and was not made by a node."""
    with explained("read", data_dir):
        names = files.names(data_dir)
    if META in names:
        return
    foreign = [name for name in names if not _is_expected(name)]
    if not foreign:
        return
    shown = ", ".join(foreign[:_MOST_NAMED])
    more = f" and {len(foreign) - _MOST_NAMED} more" if len(foreign) > _MOST_NAMED else ""
    inner = [name for name in foreign[:_MOST_LOOKED_INTO] if _is_ours(files, data_dir / name)]
    meant = "".join(f"; {data_dir / name} does: is it the one that was meant?" for name in inner[:_MOST_NAMED])
    raise DiskError(
        f"it holds {shown}{more}, but no {META}, which every data directory has{meant or '.'} A node takes its own "
        "data directory, or an empty one for groups that begin anew: look at --data (node.data_dir). Nothing was "
        "changed"
    )


def _is_expected(name: str) -> bool:
    return name.startswith(".") or name in _OF_FILE_SYSTEMS or _OURS.fullmatch(name) is not None


def _is_ours(files: Files, directory: Path) -> bool:
    try:
        return META in files.names(directory)
    except OSError:
        return False
