"""The place of a data directory: which directory of which running machine it is, as no copy of it can be.

Whoever holds the lock of a directory knows that no other process runs in that place. A copy has another place, and so
has the same disk on another machine or after a reboot; of those nothing is known, and it is waited for the session.
"""

import hashlib
import socket
from pathlib import Path
from typing import Final

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


def place_of(directory: Path) -> str:
    """Return a directory's place, 16 hexadecimal digits; raises OSError for one that is not there."""
    try:
        machine = _BOOT_ID.read_text().strip()  # of this boot of this machine, which a clone of its disk does not share
    except OSError:
        machine = socket.gethostname()
    found = directory.stat()
    return hashlib.blake2b(f"{machine}/{found.st_dev}/{found.st_ino}".encode(), digest_size=8).hexdigest()
