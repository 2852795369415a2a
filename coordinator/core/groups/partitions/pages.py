"""The next few of many things, in order, without putting all of them in order.

An answer about a large group is given in pages. Nothing is kept between two of them, so each finds its beginning anew:
that takes a pass over what there is at most, and for partitions, whose numbers lie close together, most often none.
"""

import heapq
from collections.abc import Collection, Container, Iterable
from typing import Final

_SORTED_SOONER: Final = 16
"""To sort so many times as many names as are wanted takes less than to look for these."""


def next_names(names: Collection[str], after: str, most: int) -> list[str]:
    """Return the first names behind one, in order: at most so many."""
    rest = [name for name in names if name > after]
    if len(rest) <= _SORTED_SOONER * most:
        rest.sort()
        return rest[:most]
    return heapq.nsmallest(most, rest)


def next_numbers(after: int, most: int, some: Collection[int], others: Collection[int], first: int) -> list[int]:
    """Return the first partition numbers behind one, in order, that are in either collection or below `first`."""
    begin = after + 1
    if len(some) + len(others) + first <= most:
        return sorted(number for number in {*some, *others, *range(first)} if number > after)
    found = list(_in_window(range(begin, begin + 2 * most), some, others, first))
    if len(found) >= most:
        return found[:most]
    rest = {number for number in some if number > after}
    rest.update(number for number in others if number > after)
    rest.update(range(begin, first))
    return heapq.nsmallest(most, rest)


def _in_window(window: range, some: Container[int], others: Container[int], first: int) -> Iterable[int]:
    return (number for number in window if number < first or number in some or number in others)
