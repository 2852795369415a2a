"""Why Kafka could not be asked, in words that say what is: the library's errors and the system's, told to people.

A process without file descriptors cannot connect to anything, and a broker that is stopped or cut off keeps silent;
neither is the wrong address.
"""

import errno
import os
import resource
from typing import Final

from kafka.errors import KafkaConnectionError, KafkaError, KafkaTimeoutError, RequestTimedOutError

_NONE_LEFT: Final = frozenset({errno.EMFILE, errno.ENFILE})


def say_failure(error: Exception, request_timeout_ms: int) -> str:
    """Return a failure of a call as a piece of a sentence."""
    if isinstance(error, RequestTimedOutError | KafkaTimeoutError):
        return (
            f"a broker that was asked said nothing for {request_timeout_ms} ms; it is stopped, overloaded or cut off "
            f"({type(error).__name__})"
        )
    if isinstance(error, KafkaConnectionError):
        return f"the connection to a broker broke: {_said(error)}"
    if isinstance(error, KafkaError):
        return f"{type(error).__name__}: {_said(error)}"
    if isinstance(error, OSError):
        return say_system_error(error)
    return str(error) or type(error).__name__


def say_system_error(error: OSError) -> str:
    """Return the operating system's words for an error, or what to do where no descriptor is left."""
    return _say_none_left() if error.errno in _NONE_LEFT else error.strerror or str(error)


def why_no_descriptor() -> str | None:
    """Say that this process can open nothing more, or return None; the library does not tell it from silence."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        return say_system_error(error)
    return None


def _say_none_left() -> str:
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return (
        f"this process has no file descriptor left for a connection (its limit is {limit}); raise the limit with "
        "`ulimit -n` or LimitNOFILE= and start it again"
    )


def _said(error: KafkaError) -> str:
    said = ": ".join(str(argument) for argument in error.args) or getattr(error, "description", "")
    return said.rstrip(".") or type(error).__name__
