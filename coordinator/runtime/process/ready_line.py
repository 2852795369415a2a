"""The line on standard output by which a process says that it serves; whether anybody takes it changes nothing.

Standard output may be closed, a pipe that nobody reads any more or a file on a full disk. A process that serves goes on
then, as it does where its log lines are not taken.
"""

import os
import sys
from contextlib import suppress


def say_ready(line: str) -> None:
    """Write a line to standard output, if that takes it."""
    if sys.stdout is None:  # closed before the interpreter began
        return
    try:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
    except (OSError, ValueError):
        # What was not taken is kept, and the interpreter's end would try it again and fail.
        with suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, sys.stdout.fileno())
            os.close(nowhere)
