"""Exit codes of the command line; scripts rely on them, so a number never changes its meaning.

Usage errors (2) are raised by the command line library.
"""

import errno
import io
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

import typer

from coordinator.cli.parts.notes import DocCode, Notes
from coordinator.cli.parts.standard_error import forgive_standard_error
from coordinator.client.operating.refusal_kinds import NOT_FOUND, REFUSED_BY_STATE, TIMED_OUT, UNAUTHORISED
from coordinator.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator.client.refusals import Refusal
    from coordinator.protocol.messages import Response

notes: Final = Notes()
"""The writer of everything that is not data."""


class ExitCode(IntEnum):
    """The end of a command."""

    OK = 0
    ERROR = 1
    USAGE = 2
    NOT_FOUND = 3
    REFUSED_BY_STATE = 4
    UNAUTHORISED = 5
    TIMEOUT = 6
    LAG_TOO_HIGH = 7
    INTERRUPTED = 130


EXIT_OF_REFUSAL: Final = {
    code: exit_code
    for kind, exit_code in (
        (NOT_FOUND, ExitCode.NOT_FOUND),
        (REFUSED_BY_STATE, ExitCode.REFUSED_BY_STATE),
        (TIMED_OUT, ExitCode.TIMEOUT),
        (UNAUTHORISED, ExitCode.UNAUTHORISED),
    )
    for code in kind
}
"""Exit codes of the refusals that are not simply errors."""


_NOT_WRITTEN: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF, errno.EPIPE})


@contextmanager
def output_errors_as_text() -> Iterator[None]:
    """Exit with ERROR where standard output takes no data, and say so.

    Whoever has closed a pipe wants no more of it: the process ends by SIGPIPE, without a word, as other programs do. An
    output that was closed before the start is one that nobody reads. Letters that its encoding does not have are
    written as escapes, which in a JSON document read back as they were. A standard error that takes no data changes
    nothing.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - for as long as the process is
    forgive_standard_error()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except SystemExit as error:
        if _is_of_closed_pipe(error.__context__):  # the libraries that parse and print make their own end of it
            _end_by_closed_pipe()
        raise
    except OSError as error:
        if error.errno not in _NOT_WRITTEN or error.filename is not None:
            raise
        if _is_of_closed_pipe(error):
            _end_by_closed_pipe()
        with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())  # Python tries once more at its end
        why = f"standard output cannot be written: {error.strerror}"
        notes.error(f"{why}; what was to be changed is changed all the same", DocCode.OUTPUT)
        raise SystemExit(ExitCode.ERROR) from None


def _is_of_closed_pipe(error: BaseException | None) -> bool:
    return isinstance(error, OSError) and error.errno == errno.EPIPE and error.filename is None


def _end_by_closed_pipe() -> NoReturn:
    """End the process as the system ends one that writes where nobody reads: its shell shows 141."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGPIPE})
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGPIPE)
    raise AssertionError("a process does not outlive the default of SIGPIPE")


@contextmanager
def tool_errors_as_text() -> Iterator[None]:
    """Show a `RequestError` as its text on standard error and exit with its code."""
    from coordinator.client.request import LogInFailedError, RequestError, RequestTimeoutError  # a node asks nobody

    try:
        yield
    except LogInFailedError as error:
        notes.error(str(error), DocCode.NOT_LET_IN)
        raise typer.Exit(ExitCode.UNAUTHORISED) from error
    except RequestError as error:
        notes.error(
            f"{error}; --coordinator or KCOORD_COORDINATOR names another",
            DocCode.LATE if isinstance(error, RequestTimeoutError) else DocCode.NO_ANSWER,
        )
        raise typer.Exit(ExitCode.TIMEOUT if isinstance(error, RequestTimeoutError) else ExitCode.ERROR) from error


def must_not_be_refused(response: "Response", group_id: str = "") -> None:
    """Show why a coordinator refused and exit with the code that belongs to it; return when it did not."""
    from coordinator.client.refusals import refusal_of

    refusal = refusal_of(response)
    if refusal is not None:
        end_with_refusal(refusal, group_id)


def end_with_refusal(refusal: "Refusal", group_id: str = "") -> NoReturn:
    """Show a refusal and exit with the code that belongs to it."""
    code, why = refusal
    if code is ErrorCode.GROUP_ID_NOT_FOUND:
        notes.print(f"Consumer group '{group_id}' does not exist.")
    else:
        notes.error(f"the coordinator refused: {why or 'it gave no reason'} ({code.name})", code.doc_code)
    raise typer.Exit(EXIT_OF_REFUSAL.get(code, ExitCode.ERROR))
