"""The place of the console's files in an install, and the files of others among them."""

import re
from pathlib import Path
from typing import Final

ROOM: Final = Path(__file__).resolve().parents[1]
ASSETS: Final = ROOM / "assets"
_ROW: Final = re.compile(r"^\| (\S+) \| (\S+) \| (\S+) \| (\S+) \| ([0-9a-f]{64}) \|$", re.MULTILINE)


def files_of_others() -> dict[str, str]:
    """Return the files of others with the SHA-256 that each is to have, as the list beside them says."""
    return {found[1]: found[5] for found in _ROW.finditer((ASSETS / "LICENSES.md").read_text(encoding="utf-8"))}
