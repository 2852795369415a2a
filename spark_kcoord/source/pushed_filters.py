"""Filters that Spark pushes into a batch read: which ranges they leave, and which of them Spark still has to apply.

Topics, partitions and offsets are what a range is made of, so comparisons with them are applied here whole. A lower
bound of the timestamp only narrows, since the records after the first that is as late can be earlier again; an upper
bound does not even that, for the same reason. Everything else goes back to Spark. Opens nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from spark_kcoord.planning.narrowing import Narrowing

__all__ = ["take_filters"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MS: Final = timedelta(milliseconds=1)
_NEVER_NULL: Final = ("topic", "partition", "offset")


def take_filters(filters: Iterable[Filter]) -> tuple[Narrowing, list[Filter]]:
    """Return what the filters leave of a read, and those that Spark has to apply all the same."""
    narrowing = Narrowing()
    left = []
    for one in filters:
        taken = _take(narrowing, one)
        if taken is None:
            left.append(one)
            continue
        narrowing, is_whole = taken
        if not is_whole:
            left.append(one)
    return narrowing, left


def _take(narrowing: Narrowing, one: Filter) -> tuple[Narrowing, bool] | None:
    """Return the narrowing with a filter applied and whether that is all of it, or None for one of no use here."""
    column: tuple[str, ...] = getattr(one, "attribute", ())
    name = column[0] if len(column) == 1 else ""
    value: Any = getattr(one, "value", None)
    match one:
        case IsNotNull() if name in _NEVER_NULL:
            return narrowing, True
        case EqualTo() | EqualNullSafe() if name == "topic" and isinstance(value, str):
            return narrowing.only_topics({value}), True
        case In() if name == "topic" and _is_all(value, str):
            return narrowing.only_topics(value), True
    if name == "partition":
        return _take_partition(narrowing, one, value)
    if name == "offset":
        return _take_offset(narrowing, one, value)
    if name == "timestamp":
        return _take_time(narrowing, one, value)
    return None


def _take_partition(narrowing: Narrowing, one: Filter, value: Any) -> tuple[Narrowing, bool] | None:
    if isinstance(one, In):
        return (narrowing.only_partitions(value), True) if _is_all(value, int) else None
    bounds = _bounds(one, value)
    return None if bounds is None else (narrowing.partitions_between(*bounds), True)


def _take_offset(narrowing: Narrowing, one: Filter, value: Any) -> tuple[Narrowing, bool] | None:
    if isinstance(one, In):
        return (narrowing.offsets_between(min(value), max(value)), False) if _is_all(value, int) else None
    bounds = _bounds(one, value)
    return None if bounds is None else (narrowing.offsets_between(*bounds), True)


def _take_time(narrowing: Narrowing, one: Filter, value: Any) -> tuple[Narrowing, bool] | None:
    if isinstance(one, In):
        return _since(narrowing, min(value)) if _is_all(value, datetime) else None
    is_lower_bound = isinstance(one, EqualTo | EqualNullSafe | GreaterThan | GreaterThanOrEqual)
    return _since(narrowing, value) if is_lower_bound and isinstance(value, datetime) else None


def _since(narrowing: Narrowing, time: datetime) -> tuple[Narrowing, bool] | None:
    if time.tzinfo is None:
        return None
    time_ms = (time - _EPOCH) // _MS
    # Kafka gives times before 1970 another meaning.
    return None if time_ms < 0 else (replace(narrowing, since_ms=max(time_ms, narrowing.since_ms or 0)), False)


def _bounds(one: Filter, value: Any) -> tuple[int | None, int | None] | None:
    """Return the least and the greatest number that passes a filter, None for none, or None for another filter."""
    if not _is_all([value], int):
        return None
    match one:
        case EqualTo() | EqualNullSafe():
            return value, value
        case GreaterThan():
            return value + 1, None
        case GreaterThanOrEqual():
            return value, None
        case LessThan():
            return None, value - 1
        case LessThanOrEqual():
            return None, value
    return None


def _is_all(values: Any, kind: type) -> bool:
    """Say whether there are values and each is of this very type: a boolean is no number, a null is nothing."""
    return bool(values) and all(isinstance(value, kind) and not isinstance(value, bool) for value in values)
