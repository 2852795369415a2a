"""Acts as they are asked for, by the API and by pages: whether they are allowed, asked in portions, and answered."""

import threading
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
CHANGES_ARE_OFF: Final = "changes are off: start the console with --allow-changes"


class Actor:
    """Does acts. Its calls block, for as long as coordinators may take, and come from any thread."""

    def __init__(self) -> None:
        self._turn = threading.Semaphore(ACTS_AT_ONCE)

    def act(self, reader: Reader, group: str, name: str, act: Act) -> ActResult:
        """Do an act for whom a reader answers, or say what it would do.

        Raises NotAllowedError, BadQueryError, NotKnownError, RefusedError and NotHeardError.
        """
        if not reader.settings.allow_changes:
            raise NotAllowedError(CHANGES_ARE_OFF)
        kind = acts.kind_of(name)
        acts.check(kind, group, act)
        described = None
        if acts.needs_description(kind, act):
            described = reader.answer_of(self._turn, group, DescribeGroup(group), DescribeGroupResponse)
        requests = acts.requests_of(kind, group, act, described, reader.who)
        answers: list[Response] = []
        for request in requests:
            try:
                answers.append(self._ask(reader, group, request))
            except (NotHeardError, RefusedError) as error:
                if answers and not act.dry_run:
                    so_far = acts.result_of(kind, group, act, answers)
                    done = len(so_far.rows) - so_far.refused + so_far.left_out
                    raise RefusedError(
                        f"{error}; {counted(done, 'partition is', 'partitions are')} done all the same"
                    ) from error
                raise
        return acts.result_of(kind, group, act, answers)

    def _ask(self, reader: Reader, group: str, request: acts.Change) -> Response:
        turns, timeout_s = (*reader.own_turns, self._turn), reader.settings.timeout_s
        with in_turn(turns, timeout_s, "too much is being changed now; try again"):
            return reader.asked(group, request, timeout_s)
