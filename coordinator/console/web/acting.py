"""Acts as they are asked for, by the API and by pages: whether they are allowed, asked in portions, and answered."""

import threading
from typing import Final

from coordinator.console import acts
from coordinator.console.documents import Act, ActResult
from coordinator.console.web.reading import NotHeardError, Reader, RefusedError, answer_of, ask_in_turn
from coordinator.protocol.messages import DescribeGroup, DescribeGroupResponse, Response

ACTS_AT_ONCE: Final = 2
CHANGES_ARE_OFF: Final = "changes are off: start the console with --allow-changes"


class NotAllowedError(Exception):
    """An act that this console does not do; the text says why."""


class Actor:
    """Does acts. Its calls block, for as long as coordinators may take, and come from any thread."""

    def __init__(self, reader: Reader) -> None:
        self._settings = reader.settings
        self._turn = threading.Semaphore(ACTS_AT_ONCE)

    def act(self, group: str, name: str, act: Act) -> ActResult:
        """Do an act, or say what it would do.

        Raises NotAllowedError, BadQueryError, NotKnownError, RefusedError and NotHeardError.
        """
        if not self._settings.allow_changes:
            raise NotAllowedError(CHANGES_ARE_OFF)
        kind = acts.kind_of(name)
        acts.check(kind, group, act)
        described = None
        if acts.needs_description(kind, act):
            described = answer_of(self._settings, self._turn, group, DescribeGroup(group), DescribeGroupResponse)
        requests = acts.requests_of(kind, group, act, described, self._settings.who)
        answers: list[Response] = []
        for request in requests:
            try:
                answers.append(ask_in_turn(self._settings, self._turn, self._settings.timeout_s, group, request))
            except (NotHeardError, RefusedError) as error:
                if answers and not act.dry_run:
                    done = sum(len(one.rows) for one in [acts.result_of(kind, group, act, answers)])
                    raise RefusedError(f"{error}; {done} partitions are done all the same") from error
                raise
        return acts.result_of(kind, group, act, answers)
