"""Why Kafka could not be asked, in words that say what is: the library's errors and the system's, told to people.

A process without file descriptors cannot connect to anything, and a broker that is stopped or cut off keeps silent;
neither is the wrong address.
"""

import errno
import os
import resource
import ssl
from typing import Final

from kafka.errors import (
    GroupAuthorizationFailedError,
    IllegalSaslStateError,
    InvalidReceiveError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    RequestTimedOutError,
    SaslAuthenticationFailedError,
    TopicAuthorizationFailedError,
    UnsupportedSaslMechanismError,
)

from coordinator.client.tls_reasons import why_tls_failed

_MOST_CAUSES: Final = 5
_PLAIN_PORT: Final = frozenset({"UNEXPECTED_EOF_WHILE_READING", "WRONG_VERSION_NUMBER"})
_NONE_LEFT: Final = frozenset({errno.EMFILE, errno.ENFILE})


def say_failure(error: Exception, request_timeout_ms: int) -> str:
    """Return a failure of a call as a piece of a sentence."""
    if isinstance(error, RequestTimedOutError | KafkaTimeoutError):
        return (
            f"a broker that was asked said nothing for {request_timeout_ms} ms; it is stopped, overloaded or cut off "
            f"({type(error).__name__})"
        )
    if isinstance(error, SaslAuthenticationFailedError):
        said = _said(error).removeprefix("SaslAuthenticationFailedError: ")
        return f"the log-in of this node is refused: {said}; look at kafka.sasl_mechanism and what belongs to it"
    if isinstance(error, UnsupportedSaslMechanismError):
        return f"the broker does not offer kafka.sasl_mechanism: {_said(error)}"
    if isinstance(error, IllegalSaslStateError):
        return (
            "the broker asks for no log-in on this port and this node begins one, or the other way round: look at "
            "kafka.security_protocol and the port"
        )
    tls = _tls_error(error)
    if tls is not None:
        return say_tls_error(tls)
    if isinstance(error, KafkaConnectionError):
        return f"the connection to a broker broke: {_said(error)}"
    if isinstance(error, KafkaError):
        return f"{type(error).__name__}: {_said(error)}"
    if isinstance(error, OSError):
        return say_system_error(error)
    return str(error) or type(error).__name__


def say_not_entered(error: Exception, who: str, request_timeout_ms: int) -> str:
    """Return a failure to get in at a broker; `who` this node logs in as, empty for nobody in particular.

    A broker that does not want somebody, or does not understand, often just closes the connection, and where it gives
    a reason the library may notice the end of the connection first.
    """
    is_closed = isinstance(error, KafkaConnectionError | InvalidReceiveError) and _tls_error(error) is None
    if not is_closed:
        return say_failure(error, request_timeout_ms)
    if who:
        return (
            f"the broker closed the connection while this node logged in as {who}: the user, the password or token, or "
            "the mechanism is not one that it takes; look at kafka.sasl_mechanism and what belongs to it"
        )
    return (
        "the broker closed the connection at the first request: perhaps its port speaks TLS or asks for a log-in, and "
        "kafka.security_protocol is another one"
    )


def say_tls_error(error: ssl.SSLError) -> str:
    """Return a failure of TLS with a broker, and which setting to look at."""
    why = why_tls_failed(error)
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"{why}; look at kafka.trusted_certificates, and at the names in kafka.bootstrap_servers"
    if (error.reason or "") in _PLAIN_PORT:
        return f"{why}: perhaps its port speaks no TLS, and kafka.security_protocol is another one"
    return why


def say_topic_refused(code: type[KafkaError]) -> str:
    """Return why a topic or one of its partitions may not be looked at."""
    if code is TopicAuthorizationFailedError:
        return "Kafka does not let this node look at the topic: its log-in needs the ACL Describe on it"
    return code.description or code.__name__


def say_not_taken(code: type[KafkaError], group: str, *, deletes: bool) -> str:
    """Return why an offset may not be written to one of Kafka's groups, or not be deleted there."""
    if code is TopicAuthorizationFailedError:
        return "its log-in in Kafka needs the ACL Read on the topic"
    if code is GroupAuthorizationFailedError:
        return f"its log-in in Kafka needs the ACL {'Delete' if deletes else 'Read'} on group {group!r}"
    return code.description or code.__name__


def _tls_error(error: BaseException | None) -> ssl.SSLError | None:
    """Return the error of TLS that a library's error was made of, None for another one."""
    for _ in range(_MOST_CAUSES):
        if error is None or isinstance(error, ssl.SSLError):
            return error
        inner = error.args[0] if error.args and isinstance(error.args[0], ssl.SSLError) else None
        error = inner or error.__cause__ or error.__context__
    return None


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
