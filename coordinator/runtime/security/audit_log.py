"""The audit log of a node as it is written: lines wait in memory, and a thread of its own has them synced.

The loop never waits for it. While the disk takes no lines they are kept, up to a number, and tried again; those beyond
it are lost and counted, and the node is told by an event, if changes are to be refused meanwhile. Lines about the same
refused attempt are bounded in a minute, and the rest is one line that counts them.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
from structlog.typing import FilteringBoundLogger

from coordinator.config import AuditSettings
from coordinator.core.effects import Audited
from coordinator.core.events import AuditLogFailed, AuditLogWorks
from coordinator.protocol.text.escaping import json_document
from coordinator.runtime.security.audit_files import AuditFileError, AuditFiles

MINUTE_S: Final = 60.0
MOST_KINDS: Final = 10_000
"""Refused attempts that are told apart in one minute; of more only all together are counted."""
LOOK_S: Final = 1.0
"""Time between two looks whether a minute is over."""
AGAIN_S: Final = 1.0
"""Time between two tries to write what could not be written."""
CLOSE_S: Final = 5.0
_OTHERS: Final = ("", "", "", "")


def line_of(audited: Audited, node_id: int, more_like_this: int = 0) -> bytes:
    """Return a line as it is written, with its end; what is empty is left out."""
    fields: dict[str, Any] = {
        "time_ms": audited.wall_ms,
        "node": node_id,
        "request_id": audited.request_id,
        "principal": audited.principal,
        "address": audited.address,
        "verb": audited.verb,
        "outcome": audited.outcome,
    }
    more = {
        "group": audited.group_id,
        "who": audited.who,
        "why": audited.why,
        "error": audited.error,
        "message": audited.message,
        "before": audited.before,
        "after": audited.after,
        "refused": audited.refused,
        "more_like_this": more_like_this,
    }
    fields |= {name: value for name, value in more.items() if value}
    return json_document(msgspec.json.encode(fields).decode()).encode() + b"\n"


@dataclass(slots=True)
class _Repeated:
    """One kind of refused attempt in this minute, with the last of it."""

    count: int
    last: Audited


class RefusedLimit:
    """Counts refused attempts of one kind beyond a number in a minute, instead of a line for each."""

    def __init__(self, most_per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most_per_minute
        self._clock = clock
        self._began_s = clock()
        self._seen: dict[tuple[str, str, str, str], _Repeated] = {}

    def takes(self, audited: Audited) -> bool:
        """Return whether a line is to be written; else it is counted."""
        if audited.outcome != "refused":
            return True
        key = (audited.principal, audited.address, audited.verb, audited.error)
        if key not in self._seen and len(self._seen) >= MOST_KINDS:
            key = _OTHERS
        seen = self._seen.setdefault(key, _Repeated(0, audited))
        seen.count, seen.last = seen.count + 1, audited
        return seen.count <= self._most

    def take_repeated(self, *, is_last: bool = False) -> list[tuple[Audited, int]]:
        """Begin a new minute when one is over; returns what was counted in it, each as the last with its number."""
        if not is_last and self._clock() - self._began_s < MINUTE_S:
            return []
        counted = [(seen.last, seen.count - self._most) for seen in self._seen.values() if seen.count > self._most]
        self._seen.clear()
        self._began_s = self._clock()
        return counted


class AuditLog:
    """The audit log of one node."""

    def __init__(
        self,
        settings: AuditSettings,
        node_id: int,
        post: Callable[[AuditLogFailed | AuditLogWorks], None],
        log: FilteringBoundLogger,
    ) -> None:
        """Open the file; raises AuditFileError."""
        self._settings = settings
        self._node_id = node_id
        self._post = post
        self._log = log
        self._limit = RefusedLimit(settings.refused_per_minute)
        self._files = AuditFiles(Path(settings.file), file_bytes=settings.file_bytes, files_max=settings.files_max)
        self._changed = threading.Condition()  # guards what follows
        self._waiting: list[bytes] = []
        self._lost = 0
        self._is_failing = False
        self._is_closing = False
        self._thread = threading.Thread(target=self._run, name="kcoord-audit", daemon=True)
        self._thread.start()

    def add(self, audited: Audited) -> None:
        """Have a line written soon."""
        with self._changed:
            if self._limit.takes(audited):
                self._put(line_of(audited, self._node_id))

    def close(self) -> bool:
        """Write what waits, for a moment at most; returns whether all of it is written."""
        with self._changed:
            self._put_repeated(is_last=True)
            self._is_closing = True
            self._changed.notify_all()
        self._thread.join(CLOSE_S)
        is_written = not self._thread.is_alive() and not self._waiting
        if not is_written:
            self._log.error("audit-log", why=f"{len(self._waiting)} lines of the audit log could not be written")
        return is_written

    def _put_repeated(self, *, is_last: bool) -> None:
        for audited, count in self._limit.take_repeated(is_last=is_last):
            self._put(line_of(audited, self._node_id, more_like_this=count))

    def _put(self, line: bytes) -> None:
        if len(self._waiting) < self._settings.waiting_max:
            self._waiting.append(line)
            self._changed.notify_all()
            return
        self._lost += 1
        self._fail(f"{self._settings.waiting_max} lines wait for the disk")

    # ---- the thread -------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._is_closing, LOOK_S)
                self._put_repeated(is_last=False)
                lines = list(self._waiting)
            if lines and not self._write(lines):
                with self._changed:
                    self._changed.wait_for(lambda: self._is_closing, AGAIN_S)
            with self._changed:
                if self._is_closing and (not self._waiting or self._is_failing):
                    self._files.close()
                    return

    def _write(self, lines: list[bytes]) -> bool:
        try:
            self._files.write(lines)
        except AuditFileError as error:
            self._fail(str(error))
            return False
        with self._changed:
            del self._waiting[: len(lines)]
            lost, self._lost = self._lost, 0
            was_failing, self._is_failing = self._is_failing, False
        if was_failing:
            self._log.warning("audit-log", why=f"the audit log is written again; {lost} lines of it are lost")
            self._post(AuditLogWorks())
        return True

    def _fail(self, why: str) -> None:
        with self._changed:
            if self._is_failing:
                return
            self._is_failing = True
        if self._settings.when_full == "refuse":
            said = f"{why}; nothing may be changed until it is written again (audit.when_full)"
            self._post(AuditLogFailed(said))
        else:
            said = f"{why}; changes go on, and those beyond {self._settings.waiting_max} lines are in no audit log"
        self._log.error("audit-log", why=said)
