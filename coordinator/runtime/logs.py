"""What the process says: one line a fact on standard error, for eyes or as JSON.

A line is a kind (`member-expired`), a reason (`why`) and plain fields. Values under secret-looking names never leave
the process. A standard error that is closed or full loses lines and nothing else: the node goes on.
"""

import contextlib
import json
import logging
import re
import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import msgspec
import structlog
from structlog.typing import EventDict, FilteringBoundLogger, Processor, WrappedLogger

_TRACEBACKS = structlog.processors.ExceptionRenderer(structlog.tracebacks.ExceptionDictTransformer(show_locals=False))
_PLAIN = frozenset({str, int, bool, type(None)})
_SECRET = re.compile(r"passw|secret|token|credential|private|api_?key|sasl_.*(user|plain)", re.IGNORECASE)


def make_log(form: str, level: str) -> FilteringBoundLogger:
    """Return the logger of the process; `form` is auto, console or json.

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
            structlog.dev.ConsoleRenderer(
                colors=is_terminal, pad_event_to=20, exception_formatter=structlog.dev.plain_traceback
            )
        ]
    )
    log: FilteringBoundLogger = structlog.wrap_logger(
        _StandardError(),
        processors=[
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
                return text
    return json.dumps(line, default=default, separators=(",", ":"))


def _without_secrets(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: "***" if isinstance(key, str) and _is_secret(key) else _without_secrets(part)
            for key, part in value.items()
        }
    return value


class _StandardError:
    """Writes lines; forgives a standard error that does not take them."""

    def msg(self, line: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write(line + "\n")
            sys.stderr.flush()

    debug = info = warning = error = critical = msg
