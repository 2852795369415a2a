"""A standard error that never fails a verb: what it does not take (a full disk, a closed pipe) is left out.

A sentence for people is no reason to stop half-way through several groups, nor to end with another exit code. It knows
nothing of what is written.
"""

import io
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class _Forgiving(io.FileIO):
    """A file that passes over what cannot be written."""

    def write(self, data: "ReadableBuffer", /) -> int:
        """Write as much as the system takes at once, or nothing, which counts as written."""
        size = memoryview(data).nbytes
        try:
            written = super().write(data)
        except OSError:
            return size
        return size if written is None else written


def forgive_standard_error() -> None:
    """Let nothing that this process writes to standard error fail from now on; its descriptor is the same."""
    stream = sys.stderr
    if not isinstance(stream, io.TextIOWrapper):
        return
    try:
        number = stream.fileno()
    except OSError:  # one in memory, which takes everything
        return
    sys.stderr = io.TextIOWrapper(
        io.BufferedWriter(_Forgiving(number, "w", closefd=False)),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=True,
    )
