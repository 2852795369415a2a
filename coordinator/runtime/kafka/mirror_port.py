"""The mirror's port: offsets that are to be written to Kafka's groups, on a thread and connections of its own.

So no question to Kafka that members wait for waits for a write, or a write for them. Writes are answered in the order
in which they came, each once, but those of a shard that is led here no longer: these are dropped, up to the moment at
which they are sent. A write that could not be sent soon is answered as failed, for it may be old by then. Does not
promise that Kafka has not taken what is answered as failed.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from structlog.typing import FilteringBoundLogger

from coordinator.config import KafkaSettings
from coordinator.core.effects import MirrorEnded, MirrorOffsets
from coordinator.core.mirror.events import MirrorAnswered, Outcome
from coordinator.runtime.kafka.access import KafkaAccess
from coordinator.runtime.kafka.client import KafkaAwayError
from coordinator.runtime.kafka.group_client import GroupClient, GroupWrite, Written
from coordinator.runtime.kafka.kept_client import KeptClient
from coordinator.runtime.security.reread import Reread

_AT_ONCE: Final = 64
"""Writes that are taken together, and answered together."""


@dataclass(slots=True, eq=False)
class _Waiting:
    write: MirrorOffsets
    came_s: float
    is_void: bool = False


class MirrorPort:
    """The thread that writes; `post` takes an event from any thread.

    `connect` makes the client that writes; it raises KafkaAwayError. `access` says how brokers are spoken to, where
    that is not plainly: once it has another value, the port connects anew.
    """

    def __init__(
        self,
        prefix: str,
        settings: KafkaSettings,
        post: Callable[[MirrorAnswered], None],
        log: FilteringBoundLogger,
        connect: Callable[[], GroupClient] | None = None,
        access: Reread[KafkaAccess] | None = None,
    ) -> None:
        self._prefix = prefix
        self._settings = settings
        self._post = post
        self._log = log
        self._connect = connect
        self._kept = KeptClient(self._new_client, log, access)
        self._patience_s = settings.request_timeout_ms / 1000
        self._thread = threading.Thread(target=self._run, name="kcoord-mirror", daemon=True)
        self._changed = threading.Condition()  # guards what follows
        self._queue: deque[_Waiting] = deque()
        self._under_way: Sequence[_Waiting] = ()
        self._is_closing = False

    def start(self) -> None:
        """Start writing."""
        self._thread.start()

    def write(self, write: MirrorOffsets) -> None:
        """Have offsets written soon, and post MirrorAnswered."""
        with self._changed:
            self._queue.append(_Waiting(write, time.monotonic()))
            self._changed.notify()

    def end(self, ended: MirrorEnded) -> None:
        """Send nothing more of what waits of a shard."""
        with self._changed:
            for waiting in (*self._under_way, *self._queue):
                waiting.is_void = waiting.is_void or waiting.write.shard == ended.shard

    def close(self, timeout_s: float = 5.0) -> None:
        """Stop writing; nothing is posted afterwards. Returns in time even when Kafka does not answer."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        self._kept.interrupt()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    # ---- the thread -------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while some := self._take():
                try:
                    answers = self._write(some)
                except KafkaAwayError as error:
                    self._kept.drop()
                    answers = [Written(Outcome.AWAY, str(error))] * len(some)
                except Exception as error:  # noqa: BLE001 - a bug here must not end the thread, nor the node
                    self._log.critical("bug", why="writing offsets to Kafka met a bug; it is tried anew", exc_info=True)
                    self._kept.drop()
                    why = f"writing met a bug of the coordinator's ({type(error).__name__})"
                    answers = [Written(Outcome.AWAY, why)] * len(some)
                self._answer(some, answers)
        finally:
            self._kept.drop()

    def _take(self) -> Sequence[_Waiting]:
        """Wait for writes, and return some; none means that the port is closing."""
        with self._changed:
            self._under_way = ()
            self._changed.wait_for(lambda: self._queue or self._is_closing)
            if self._is_closing:
                return ()
            self._under_way = [self._queue.popleft() for _ in range(min(_AT_ONCE, len(self._queue)))]
            return self._under_way

    def _write(self, some: Sequence[_Waiting]) -> Sequence[Written | None]:
        client = self._kept.get()
        answers = client.write(
            [
                GroupWrite(self._prefix + each.write.group_id, each.write, lambda each=each: self._is_wanted(each))  # type: ignore[misc]
                for each in some
            ]
        )
        if client.is_worn:
            self._kept.drop()
        return answers

    def _is_wanted(self, waiting: _Waiting) -> bool:
        return not waiting.is_void and time.monotonic() - waiting.came_s < self._patience_s

    def _answer(self, some: Sequence[_Waiting], answers: Sequence[Written | None]) -> None:
        with self._changed:
            if self._is_closing:
                return
            told = [(each.write, answer) for each, answer in zip(some, answers, strict=True) if not each.is_void]
        for write, written in told:
            answer = written or Written(Outcome.LATER, "a write waited for too long to be sent")
            self._post(
                MirrorAnswered(
                    write.shard,
                    write.group_id,
                    write.attempt,
                    answer.outcome,
                    answer.why,
                    answer.refused,
                    answer.unknown,
                )
            )

    def _new_client(self, access: KafkaAccess) -> GroupClient:
        if self._connect is not None:
            return self._connect()
        settings = self._settings
        return GroupClient(settings.bootstrap_servers, settings.request_timeout_ms, settings.connect_timeout_ms, access)
