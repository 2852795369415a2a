"""kafka-python's own log: each connection and each retry at INFO, which is noise in the log of whoever uses it.

Where nobody has chosen a level for the library it is WARNING. Stdlib only.
"""

from __future__ import annotations

import logging
from typing import Final

__all__ = ["quieten"]

_LIBRARY: Final = "kafka"


def quieten() -> None:
    """Have the library log from WARNING on, unless a level was chosen for it."""
    log = logging.getLogger(_LIBRARY)
    if log.level == logging.NOTSET:
        log.setLevel(logging.WARNING)
