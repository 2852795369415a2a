"""The arguments of a client's calls, read into what travels; one that cannot be is a SettingError. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Literal, TypeAlias

from coordinator.client.operating.what_is_asked import nearest, parse_kind, parse_since, parse_timeout_s, parse_word
from coordinator.protocol.ids import MAX_OFFSET, TopicPartition, why_bad_id
from coordinator.protocol.parts import ResetTarget
from coordinator.protocol.text.durations import parse_duration_ms
from coordinator.protocol.text.scopes import parse_scope
from coordinator.protocol.vocabulary import EventKind, GroupStatus, ResetKind
from spark_kcoord.client.errors import SettingError

Duration: TypeAlias = str | float | timedelta
"""A text such as `10s`, `5m` or `500ms`, seconds, or a timedelta."""

Partitions: TypeAlias = str | Iterable[str | TopicPartition]
"""Texts `topic` (all that the group knows of it) or `topic:0,1`, or pairs `("topic", 0)`."""

ResetTo: TypeAlias = (
    Literal["earliest", "latest", "current"] | int | datetime | timedelta | Mapping[TopicPartition, int]
)
"""The place to which a reset leads: a word, an offset, a time, a while before now, or offsets by partition."""

_WORDS = (ResetKind.EARLIEST, ResetKind.LATEST, ResetKind.CURRENT)


def seconds_of_client(value: Duration) -> float:
    """Return a client's time-out in seconds, 0.1 s to 10 m."""
    try:
        return parse_timeout_s(_text_of(value))
    except ValueError as error:
        raise SettingError(f"'timeout' cannot be used: {error}.") from None


def seconds(name: str, value: Duration) -> float:
    """Return a duration in seconds."""
    try:
        return parse_duration_ms(_text_of(value), bare_unit="s") / 1000
    except ValueError as error:
        raise SettingError(f"'{name}' cannot be used: {error}.") from None


def _text_of(value: Duration) -> str:
    if isinstance(value, str):
        return value
    number = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise ValueError(  # noqa: TRY004 - a SettingError, which is a ValueError, is made of it
            f"{number!r} is neither a number of seconds, nor a text such as 10s, nor a timedelta"
        )
    return f"{number:.3f}"


def group_id(value: str) -> str:
    """Return the id of a group as it is."""
    why = why_bad_id(value) if isinstance(value, str) else "it is no text"
    if why is not None:
        raise SettingError(f"'group' cannot be used: {why}.")
    return value


def scopes(partitions: Partitions | None) -> list[str] | None:
    """Return the texts that name partitions, None where none are named; an empty list is not taken for all."""
    if partitions is None:
        return None
    named = [partitions] if isinstance(partitions, str) else list(partitions)
    if not named:
        raise SettingError("'partitions' is empty: leave it out where all of the group's are meant.")
    return [_scope(each) for each in named]


def _scope(named: object) -> str:
    match named:
        case str():
            text = named
        case (str() as topic, int() as number) if not isinstance(number, bool):
            text = f"{topic}:{number}"
        case _:
            raise SettingError(f"'partitions' has {named!r}, which is neither 'topic', 'topic:0,1' nor ('topic', 0).")
    try:
        parse_scope(text)
    except ValueError as error:
        raise SettingError(f"'partitions' cannot be used: {error}.") from None
    return text


def since_ms(since: str | datetime | timedelta | None, now_ms: int) -> int | None:
    """Return the time in milliseconds since 1970 from which on events are wanted."""
    match since:
        case None:
            return None
        case datetime():
            return _time_ms("since", since)
        case timedelta():
            return max(0, now_ms - round(since.total_seconds() * 1000))
        case str():
            try:
                return parse_since(since, now_ms)
            except ValueError as error:
                raise SettingError(f"'since' cannot be used: {error}.") from None
    raise SettingError(f"'since' is {since!r}, which is neither a time nor a duration.")


def kinds_of_events(kinds: str | Iterable[str] | None) -> tuple[EventKind, ...]:
    """Return the kinds of events that are wanted, each once; none for all."""
    named = [kinds] if isinstance(kinds, str) else list(kinds or ())
    try:
        return tuple(dict.fromkeys(parse_kind(kind) for kind in named))
    except ValueError as error:
        raise SettingError(f"'kinds' cannot be used: {error}.") from None


def states_of_groups(states: str | Iterable[str] | None) -> frozenset[str]:
    """Return the states of groups that are wanted; none for all."""
    named = [states] if isinstance(states, str) else list(states or ())
    return frozenset(_state("states", state) for state in named)


def state_of_group(state: str | None) -> GroupStatus | None:
    """Return the state that a group is to have."""
    return None if state is None else _state("state", state)


def _state(name: str, text: str) -> GroupStatus:
    try:
        return parse_word(text, GroupStatus, "is no state of a group")
    except ValueError as error:
        raise SettingError(f"'{name}' cannot be used: {error}.") from None


def at_least(name: str, value: int | None, least: int) -> int | None:
    """Return a number that is not below the least, and that a message holds."""
    if value is not None and (
        isinstance(value, bool) or not isinstance(value, int) or not least <= value <= MAX_OFFSET
    ):
        raise SettingError(f"'{name}' is {value!r} and has to be a number from {least} to {MAX_OFFSET}.")
    return value


def reset_to(to: ResetTo | None, shift_by: int | None) -> tuple[ResetKind, int | None] | Mapping[TopicPartition, int]:
    """Return where a reset leads: to a place, or offsets by partition."""
    if (to is None) == (shift_by is None):
        raise SettingError("Say where a reset leads by one of 'to' and 'shift_by'.")
    if shift_by is not None:
        if isinstance(shift_by, bool) or not isinstance(shift_by, int) or abs(shift_by) > MAX_OFFSET:
            raise SettingError(f"'shift_by' is {shift_by!r} and has to be a number of records, negative to go back.")
        return ResetKind.SHIFT, shift_by
    match to:
        case str():
            kind = next((word for word in _WORDS if word == to.strip().lower()), None)
            if kind is None:
                raise SettingError(f"'to' leads to no '{to}'; {nearest(to.strip().lower(), _WORDS)}.")
            return kind, None
        case datetime():
            return ResetKind.TIMESTAMP, _time_ms("to", to)
        case timedelta():
            if to < timedelta(0):
                raise SettingError("'to' is a negative duration: it goes back from now, so write it without the sign.")
            return ResetKind.DURATION, round(to.total_seconds() * 1000)
        case Mapping():
            if not to:
                raise SettingError("'to' names no partition.")
            return to
        case int() if not isinstance(to, bool):
            return ResetKind.OFFSET, _offset(to)
    raise SettingError(f"'to' is {to!r}, which is no word, offset, time, duration or mapping.")


def targets_by_partition(offsets: Mapping[TopicPartition, int]) -> tuple[ResetTarget, ...]:
    """Return a target a partition for offsets that are given one by one."""
    targets = []
    for named, offset in offsets.items():
        (topic, numbers) = parse_scope(_scope(named))
        if numbers is None or len(numbers) != 1:
            raise SettingError(f"'to' has {named!r} in the place of a partition such as ('topic', 0).")
        targets.append(ResetTarget(topic, numbers[0], ResetKind.OFFSET, _offset(offset)))
    return tuple(targets)


def _offset(value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_OFFSET:
        raise SettingError(f"'to' has {value!r} in the place of an offset, which is a number from 0 on.")
    return value


def _time_ms(name: str, at: datetime) -> int:
    if at.tzinfo is None:
        raise SettingError(f"'{name}' is {at!r}, which has no time zone: say which, as with tzinfo=UTC.")
    at_ms = round(at.timestamp() * 1000)
    if at_ms < 0:
        raise SettingError(f"'{name}' is {at!r}, which is before 1970.")
    return at_ms
