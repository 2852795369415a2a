"""The client with which one thread asks Kafka: made when it is needed, dropped when it failed or access has changed.

It is the thread's own, but for `interrupt`. It does not know what is asked, nor when to try a Kafka that is away again.
"""

import threading
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from structlog.typing import FilteringBoundLogger

from coordinator.runtime.kafka.access import PLAIN_ACCESS, KafkaAccess
from coordinator.runtime.security.reread import Reread


class Client(Protocol):
    """The part of a client of Kafka that is used here."""

    def interrupt(self) -> None:
        """Have the call in progress fail, and those that follow; any thread."""

    def close(self) -> None:
        """Close the connections; not while a call is in progress."""


_Client = TypeVar("_Client", bound=Client)


class KeptClient(Generic[_Client]):
    """A client that `make` connects, which raises KafkaAwayError; `access` says how, where that is not plainly."""

    def __init__(
        self,
        make: Callable[[KafkaAccess], _Client],
        log: FilteringBoundLogger,
        access: Reread[KafkaAccess] | None = None,
    ) -> None:
        self._make = make
        self._log = log
        self._access = access
        self._used_access = PLAIN_ACCESS
        self._lock = threading.Lock()  # guards what follows
        self._client: _Client | None = None
        self._is_interrupted = False

    def get(self) -> _Client:
        """Return the client, connected with the access of now; raises KafkaAwayError."""
        access = PLAIN_ACCESS if self._access is None else self._access.value
        if access is not self._used_access:
            self.drop()
        if self._client is None:
            self._used_access = access
            client = self._make(access)
            with self._lock:
                self._client = client
                is_interrupted = self._is_interrupted
            if is_interrupted:
                client.interrupt()
        return self._client

    def drop(self) -> None:
        """Close the client, if there is one; the next to be asked is another."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            try:
                client.close()
            except Exception:  # noqa: BLE001 - a client that cannot be closed is left alone
                self._log.critical("bug", why="a client of Kafka could not be closed", exc_info=True)

    def interrupt(self) -> None:
        """Have the call in progress fail, and all that follow; any thread."""
        with self._lock:
            self._is_interrupted = True
            client = self._client
        if client is not None:
            client.interrupt()
