"""The topics that fresh metadata leaves out: how often, and for how long, until one counts as unknown.

Metadata is what one broker knows, and a broker that was just started may not know a topic yet. Pure.
"""

from __future__ import annotations

from collections.abc import Collection
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

__all__ = ["ABSENCE_S", "Absences"]

ABSENCE_S: Final = 3.0
"""The time for which a topic is absent before a query believes it that has read the topic; less than a question has."""
_TIMES: Final = 2
_FORGOTTEN_AFTER_S: Final = 60.0
"""An absence that is older says nothing of one that is seen now."""


@dataclass(slots=True)
class _Absence:
    times: int
    since: float
    last_at: float


class Absences:
    """The topics that are absent, each seen at least twice and for `lasting_s` before it counts; times are monotonic.

    A topic stays absent until it is seen again, so that one that is gone is not waited for with each question.
    """

    def __init__(self, lasting_s: float = 0.0) -> None:
        self._lasting_s = lasting_s
        self._absent: dict[str, _Absence] = {}

    def note(self, names: Collection[str], there: AbstractSet[str], now: float) -> None:
        """Take note of an answer about `names`, of which these are `there`."""
        for name in names:
            known = self._absent.get(name)
            if name in there:
                self._absent.pop(name, None)
            elif known is None or now - known.last_at > _FORGOTTEN_AFTER_S:
                self._absent[name] = _Absence(1, now, now)
            else:
                known.times += 1
                known.last_at = now

    def proven(self, names: Collection[str], now: float, *, is_last: bool) -> set[str]:
        """Return which of the names are unknown; where nothing has to last, one absence is enough for the last look."""
        least = 1 if is_last and not self._lasting_s else _TIMES
        absent = ((name, self._absent[name]) for name in names if name in self._absent)
        return {name for name, one in absent if one.times >= least and now - one.since >= self._lasting_s}
