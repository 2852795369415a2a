"""The topics that patterns match: found a bounded number of names in each step, and remembered.

The cost of a name is counted in instructions of RE2 times characters, which it takes at worst: a pattern of 2,500
instructions and a name of 249 characters are 1.3 ms. None as an answer has to be asked for again in a later step, with
what was found before. Of a listing that changes only the new names are matched. Nothing here knows members or groups.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

import re2

from coordinator.core.meter import Meter

_EACH: Final = 750
"""The cost of any name, of whatever length."""
_COMPILING: Final = 100
"""The cost of an instruction of a pattern that is read."""
KEPT_PATTERNS: Final = 1_000
KEPT_TOPICS: Final = 1_000_000
KEPT_NAMES: Final = 500_000
"""The patterns whose topics are remembered, the topics of all of them, and the names of all listings on which they were
found, but for the last ones and those not through; patterns asked for longest ago go first."""

_PATTERN_BYTES: Final = 1 << 20


@lru_cache(maxsize=1_000)
def compiled(pattern: str) -> Any:
    """Return a pattern as RE2 reads it; raises re2.error."""
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _PATTERN_BYTES
    options.never_capture = True  # which group matched what is never asked, and costs twice the time
    return re2.compile(pattern, options)


class Names:
    """Names that a pattern is held against, one after the other."""

    def __init__(self, pattern: str, names: Iterator[str], meter: Meter) -> None:
        self._regexp = compiled(pattern)
        self._size: int = self._regexp.programsize
        self._names = names
        self._meter = meter
        self.are_through = False
        meter.match(_COMPILING * self._size)

    def matching(self) -> Iterator[str]:
        """Yield the next names that match, until they are through or this step has matched enough."""
        meter, fullmatch = self._meter, self._regexp.fullmatch
        while meter.may_match:
            name = next(self._names, None)
            if name is None:
                self.are_through = True
                return
            meter.match(_EACH + self._size * len(name))
            if fullmatch(name):
                yield name


@dataclass(slots=True)
class _Matched:
    """The names that a pattern is being held against, and what was found among them so far."""

    names: frozenset[str]
    left: Names
    found: list[str] = field(default_factory=list)
    topics: tuple[str, ...] | None = None
    """All of them in order, once none is left."""

    def go_on(self) -> bool:
        """Match more of what is left, and return whether all is matched."""
        if self.topics is None:
            self.found += self.left.matching()
            if self.left.are_through:
                self.topics = tuple(sorted(self.found))
        return self.topics is not None


class Matching:
    """The topics that the patterns of a node match."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._matched: dict[str, _Matched] = {}
        """By pattern; the one asked for last is the last."""
        self._count = 0
        self._listings: dict[int, int] = {}
        """The number of patterns that were asked for last on each listing, by its identity."""
        self._names = 0
        """The names of all these listings."""
        self._in_order: tuple[frozenset[str], tuple[str, ...]] = (frozenset(), ())
        self._news: tuple[frozenset[str], frozenset[str], tuple[str, ...]] = (frozenset(), frozenset(), ())

    def topics(self, pattern: str, names: frozenset[str]) -> tuple[str, ...] | None:
        """Return the names that a pattern matches whole, in order; None when they are to be asked for once more."""
        matched = self._matched.get(pattern)
        if not self._meter.may_match and (matched is None or matched.topics is None or matched.names is not names):
            return None
        if matched is None:
            matched = _Matched(names, Names(pattern, iter(self._sorted(names)), self._meter))
            self._note(names, 1)
        else:
            self._count -= len(matched.found)
            del self._matched[pattern]
        self._matched[pattern] = matched
        is_through = matched.go_on()
        if is_through and matched.names is not names:
            # The listing that was begun with is ended first: one that changes all the time does not begin it anew.
            news = self._new_names(matched.names, names)
            matched.found = [name for name in matched.found if name in names]
            self._meter.match(len(matched.found))
            self._note(names, 1)
            self._note(matched.names, -1)
            matched.names, matched.topics = names, None
            matched.left = Names(pattern, iter(news), self._meter)
            is_through = matched.go_on()
        self._count += len(matched.found)
        while len(self._matched) > 1 and (len(self._matched) > KEPT_PATTERNS or self._count > KEPT_TOPICS):
            self._forget(next(iter(self._matched)))
        if self._names > KEPT_NAMES:
            self._forget_listings(names)
        return matched.topics if is_through else None

    def _forget(self, pattern: str) -> None:
        matched = self._matched.pop(pattern)
        self._count -= len(matched.found)
        self._note(matched.names, -1)

    def _forget_listings(self, newest: frozenset[str]) -> None:
        """Forget old listings while there are too many, but for those that patterns are being held against.

        Of these each shard may have one, and they would have each other begin anew for ever.
        """
        through = [pattern for pattern, each in self._matched.items() if each.topics is not None]
        for pattern in through:
            if self._names <= KEPT_NAMES or len(self._listings) <= 2:
                return
            if self._matched[pattern].names is not newest:
                self._forget(pattern)

    def _note(self, names: frozenset[str], patterns: int) -> None:
        """Count the patterns of a listing, which is kept as long as there is one."""
        key = id(names)
        before = self._listings.get(key, 0)
        if before == 0:
            self._names += len(names)
        self._listings[key] = before + patterns
        if self._listings[key] == 0:
            del self._listings[key]
            self._names -= len(names)

    def _sorted(self, names: frozenset[str]) -> tuple[str, ...]:
        if self._in_order[0] is not names:
            self._in_order = names, tuple(sorted(names))
        return self._in_order[1]

    def _new_names(self, before: frozenset[str], names: frozenset[str]) -> tuple[str, ...]:
        if self._news[0] is not before or self._news[1] is not names:
            self._news = before, names, tuple(sorted(names - before))
        return self._news[2]
