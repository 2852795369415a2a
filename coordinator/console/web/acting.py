"""Acts as they are asked for, by the API and by pages: whether they are allowed, asked in portions, and answered."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from coordinator.console import acts
from coordinator.console.documents import Act, ActResult
from coordinator.console.web.reading import (
    NotAllowedError,
    NotHeardError,
    Reader,
    RefusedError,
    in_turn,
)
from coordinator.protocol.messages import DescribeGroup, DescribeGroupResponse, Response
from coordinator.protocol.text.counts import counted

ACTS_AT_ONCE: Final = 2
SHOWN_OTHERWISE: Final = (
    "nothing is changed: positions or owners of the partitions have changed since this was shown, by another act, by "
    "members that go on or with a topic that was made again; look at it anew. A shift of partitions that are read "
    "needs a pause of them first"
)
CHANGES_ARE_OFF: Final = "changes are off: start the console with --allow-changes"


class ShownOtherwiseError(Exception):
    """An act that was confirmed as it was shown, where that is not so any more; the text says so."""


class PerhapsDoneError(Exception):
    """An act of which no coordinator says whether it is done; the text says so, and why."""


class Actor:
    """Does acts. Its calls block, for as long as coordinators may take, and come from any thread."""

    def __init__(self) -> None:
        self._turn = threading.Semaphore(ACTS_AT_ONCE)
        self._lock = threading.Lock()
        self._moving: set[str] = set()

    def act(self, reader: Reader, group: str, name: str, act: Act) -> ActResult:
        """Do an act for whom a reader answers, or say what it would do.

        Raises NotAllowedError, BadQueryError, NotKnownError, RefusedError, ShownOtherwiseError, PerhapsDoneError and
        NotHeardError.
        """
        if not reader.settings.allow_changes:
            raise NotAllowedError(CHANGES_ARE_OFF)
        kind = acts.kind_of(name)
        acts.check(kind, group, act)
        if kind.loses_position and not act.dry_run:
            with self._alone(group):
                return self._act(reader, group, kind, act)
        return self._act(reader, group, kind, act)

    def _act(self, reader: Reader, group: str, kind: acts.Kind, act: Act) -> ActResult:
        described = None
        is_compared = kind.loses_position and (act.dry_run or bool(act.shown))
        if is_compared or acts.needs_description(kind, act):
            described = reader.answer_of(self._turn, group, DescribeGroup(group), DescribeGroupResponse)
        # Of before the dry run: what changes while that is answered is not taken for what it shows.
        shown = acts.shown_of(kind, act, described) if is_compared and described is not None else ""
        if act.shown and not act.dry_run and act.shown != shown:
            raise ShownOtherwiseError(SHOWN_OTHERWISE)
        requests = acts.requests_of(kind, group, act, described, reader.who)
        answers: list[Response] = []
        for request in requests:
            try:
                answers.append(self._ask(reader, group, request))
            except (NotHeardError, RefusedError) as error:
                if act.dry_run:
                    raise
                so_far = f"; {_count_of_done(kind, group, act, answers)} done all the same" if answers else ""
                if isinstance(error, NotHeardError) and error.may_be_done:
                    what = "the rest" if answers else "it"
                    raise PerhapsDoneError(f"{what} may be done all the same: {error}{so_far}") from error
                if answers:
                    raise RefusedError(f"{error}{so_far}") from error
                raise
        return acts.result_of(kind, group, act, answers, shown if act.dry_run else "")

    @contextmanager
    def _alone(self, group: str) -> Iterator[None]:
        """Keep others from moving positions of a group between the look at them and the act; raises RefusedError."""
        with self._lock:
            if group in self._moving:
                raise RefusedError("another act moves positions of this group now: wait for it, and look at it anew")
            self._moving.add(group)
        try:
            yield
        finally:
            with self._lock:
                self._moving.discard(group)

    def _ask(self, reader: Reader, group: str, request: acts.Change) -> Response:
        turns, timeout_s = (*reader.own_turns, self._turn), reader.settings.timeout_s
        with in_turn(turns, timeout_s, "too much is being changed now; try again"):
            return reader.asked(group, request, timeout_s)


def _count_of_done(kind: acts.Kind, group: str, act: Act, answers: list[Response]) -> str:
    so_far = acts.result_of(kind, group, act, answers)
    return counted(len(so_far.rows) - so_far.refused + so_far.left_out, "partition is", "partitions are")
