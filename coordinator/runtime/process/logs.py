"""The log of the process: one line a fact on standard error, for eyes or as JSON.

A line is a kind (`member-expired`), a reason (`why`) and plain fields. Values under secret-looking names never leave
the process. A standard error that is closed, full or not read loses lines and nothing else: the node goes on.
"""

import contextlib
import io
import json
import logging
import re
import sys
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, TextIO

import msgspec
import structlog
from structlog.typing import EventDict, ExcInfo, FilteringBoundLogger, Processor, WrappedLogger

from coordinator.protocol.text.escaping import json_document, lines, one_line
from coordinator.runtime.figures.lines import LineFigures
from coordinator.runtime.process.log_lines import LineLimit, standard_error_lines

_CLOSE_S = 2.0
"""The time that the end of a node waits for its last lines to be read."""
_TRACEBACKS = structlog.processors.ExceptionRenderer(structlog.tracebacks.ExceptionDictTransformer(show_locals=False))
_PLAIN = frozenset({str, int, bool, type(None)})
_SECRET = re.compile(r"passw|secret|token|credential|private|api_?key|sasl_.*(user|plain)", re.IGNORECASE)


class Journal:
    """The log of a node: its logger, what bounds it, and the thread that writes it."""

    def __init__(self, form: str, level: str, most_per_minute: int) -> None:
        self._lines = standard_error_lines()
        self._limit = LineLimit(most_per_minute)
        self.figures = LineFigures()
        self.log = make_log(
            form,
            level,
            write=self._lines.write if self._lines is not None else None,
            first=(self.figures, self._limit),
        )

    def tell_left_out(self, *, is_last: bool = False) -> None:
        """Say, once a minute, how many lines of which kind were left out since it was last said."""
        for kind, count in sorted(self._limit.take_left_out(is_last=is_last).items()):
            why = f"... and {count} more like this ({kind}) came within a minute, and were left out"
            self.log.warning("lines-left-out", why=why, kind=kind, count=count)

    def close(self) -> None:
        """Write what waits, for a moment at most."""
        self.tell_left_out(is_last=True)
        if self._lines is not None:
            self._lines.close(_CLOSE_S)


def make_log(
    form: str, level: str, *, write: Callable[[str], None] | None = None, first: Sequence[Processor] = ()
) -> FilteringBoundLogger:
    """Return a logger of whole lines; `form` is auto, console or json.

    Lines go to `write`, or at once to standard error when it is None. What is `first` sees each line before
    it is written, and may drop it.

    Python's own logging keeps its warnings, except kafka-python's: they repeat, with tracebacks, what comes back to
    us as an exception and is said once.
    """
    logging.getLogger("kafka").setLevel(logging.CRITICAL + 1)
    is_terminal = sys.stderr.isatty()
    as_json = form == "json" or (form == "auto" and not is_terminal)
    render: list[Processor] = (
        [_TRACEBACKS, structlog.processors.JSONRenderer(_to_json, default=str)]
        if as_json
        else [
            escape_text,
            structlog.dev.ConsoleRenderer(colors=is_terminal, pad_event_to=20, exception_formatter=_write_traceback),
        ]
    )
    log: FilteringBoundLogger = structlog.wrap_logger(
        _Writer(write or _to_standard_error),
        processors=[
            *first,
            drop_secrets,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *render,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
    )
    return log


def drop_secrets(_log: WrappedLogger, _level: str, line: EventDict) -> EventDict:
    """Replace the values of secret-looking names (a structlog processor)."""
    return {key: "***" if _is_secret(key) else _without_secrets(value) for key, value in line.items()}


def escape_text(_log: WrappedLogger, _level: str, line: EventDict) -> EventDict:
    """Write what cannot be printed in texts as escapes (a structlog processor); other values are shown by `repr`."""
    return {one_line(key): one_line(value) if isinstance(value, str) else value for key, value in line.items()}


def _write_traceback(target: TextIO, exc_info: ExcInfo) -> None:
    plain = io.StringIO()
    structlog.dev.plain_traceback(plain, exc_info)
    target.write(lines(plain.getvalue()))


@lru_cache(maxsize=1_000)
def _is_secret(name: str) -> bool:
    return _SECRET.search(name) is not None


def _to_json(line: EventDict, *, default: Callable[[Any], Any]) -> str:
    """Encode a line as ASCII.

    Members come by the thousand, so a line of plain values goes through the faster encoder. Whatever is in a line that
    it cannot write, or would write out with all its fields, goes through Python's own.
    """
    if all(type(value) in _PLAIN for value in line.values()):
        with contextlib.suppress(ValueError, OverflowError):
            text = msgspec.json.encode(line).decode()
            if text.isascii():
                return json_document(text)
    return json_document(json.dumps(line, default=default, separators=(",", ":")))


def _without_secrets(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: "***" if isinstance(key, str) and _is_secret(key) else _without_secrets(part)
            for key, part in value.items()
        }
    return value


class _Writer:
    """The end of structlog's chain: one method a level, all alike."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self.debug = self.info = self.warning = self.error = self.critical = self.msg = write


def _to_standard_error(line: str) -> None:
    """Write a line; forgive a standard error that does not take it."""
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(line + "\n")
        sys.stderr.flush()
