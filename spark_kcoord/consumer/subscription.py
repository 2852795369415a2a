"""The subscription of a consumer, checked when it is said: topics, a pattern, partitions of its own, or by hand.

A subscription is one of four kinds; what does not go together is refused here, before anybody is asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from spark_kcoord.consumer.errors import SubscriptionNotValidError
from spark_kcoord.consumer.values import TopicPartition
from spark_kcoord.options.kinds import parse_topic
from spark_kcoord.options.topic_patterns import why_bad_pattern

__all__ = ["NOTHING", "Subscription", "by_hand", "must_be_offset", "must_be_partitions", "must_be_time", "of_group"]

_LARGEST: Final = 2**63 - 1
"""The largest offset and time that Kafka has."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """Topics or partitions that are read. `by_hand` says that partitions were assigned, each with its start or None."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    partitions: tuple[tuple[str, int], ...] = ()
    exclude: tuple[str, ...] = ()
    by_hand: Mapping[tuple[str, int], int | None] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """True when nothing is read."""
        return not (self.topics or self.pattern or self.partitions or self.by_hand)

    def names(self) -> set[str]:
        """Return the topics that it names."""
        return {*self.topics, *(topic for topic, _ in (*self.partitions, *self.by_hand))}


NOTHING = Subscription()


def of_group(
    before: Subscription,
    topics: Any,
    pattern: Any,
    exclude: Any,
    partitions: Any,
    *,
    add: bool,
) -> Subscription:
    """Return the subscription that `subscribe` asks for; raises SubscriptionNotValidError."""
    if before.by_hand:
        raise SubscriptionNotValidError(
            "This consumer has partitions assigned by hand; call unassign() before subscribe()."
        )
    made = Subscription(_topics(topics), _pattern(pattern), _own(partitions), _topics(exclude))
    if add and not before.is_empty:
        made = replace(
            made,
            topics=tuple(dict.fromkeys((*before.topics, *made.topics))),
            pattern=made.pattern or before.pattern,
            partitions=tuple(dict.fromkeys((*before.partitions, *made.partitions))),
            exclude=tuple(dict.fromkeys((*before.exclude, *made.exclude))),
        )
    kinds = [bool(made.topics), made.pattern is not None, bool(made.partitions)].count(True)
    if kinds != 1:
        what = "nothing" if not kinds else "more than one kind"
        raise SubscriptionNotValidError(
            f"A subscription is of topics, or a pattern, or partitions of its own; {what} was given."
        )
    return made


def by_hand(before: Subscription, partitions: Any, *, add: bool) -> Subscription:
    """Return the subscription that `assign` asks for; raises SubscriptionNotValidError."""
    if not before.is_empty and not before.by_hand:
        raise SubscriptionNotValidError("This consumer has subscribed; call unsubscribe() before assign().")
    if isinstance(partitions, Mapping):
        starts = dict(partitions)
        for partition, offset in starts.items():
            must_be_partitions((partition,))
            must_be_offset(offset)
    else:
        starts = dict.fromkeys(must_be_partitions(partitions))
    given = {tuple(partition): offset for partition, offset in starts.items()}
    return Subscription(by_hand={**dict.fromkeys(before.by_hand), **given} if add else given)


def must_be_partitions(partitions: Any) -> tuple[TopicPartition, ...]:
    """Return partitions as a tuple; raises TypeError for what is no TopicPartition, ValueError for a bad one."""
    found = tuple(partitions)
    for partition in found:
        if not isinstance(partition, TopicPartition):
            raise TypeError(f"partitions must be TopicPartition, not {partition!r}")
        number = partition.partition
        if not isinstance(partition.topic, str) or not isinstance(number, int) or number < 0:
            raise ValueError(f"{partition!r} is no partition: its topic is a text and its number from 0 on")
    return found


def must_be_offset(offset: Any) -> int:
    """Return an offset; raises ValueError for what is none."""
    if not isinstance(offset, int) or isinstance(offset, bool) or not 0 <= offset <= _LARGEST:
        raise ValueError(f"an offset is a whole number from 0 on, of 63 bits at most, not {offset!r}")
    return offset


def must_be_time(partition: TopicPartition, time_ms: Any) -> int:
    """Return the time in ms since 1970 that is asked for; raises TypeError, ValueError for what is none."""
    if not isinstance(time_ms, int) or isinstance(time_ms, bool):
        raise TypeError(f"the time for {partition} is a whole number of milliseconds since 1970, not {time_ms!r}")
    if not 0 <= time_ms <= _LARGEST:
        raise ValueError(f"the time for {partition} is {time_ms} and must not be negative, and of 63 bits at most")
    return time_ms


def _topics(topics: Any) -> tuple[str, ...]:
    if isinstance(topics, str):
        topics = (topics,)
    found = tuple(dict.fromkeys(topics or ()))
    for topic in found:
        try:
            parse_topic(topic)
        except (ValueError, TypeError):
            raise SubscriptionNotValidError(f"{topic!r} is no name of a topic.") from None
    return found


def _pattern(pattern: Any) -> str | None:
    if pattern is None:
        return None
    text = getattr(pattern, "pattern", pattern)
    if not isinstance(text, str) or not text:
        raise SubscriptionNotValidError(f"a pattern is a text, not {pattern!r}")
    why = why_bad_pattern(text)
    if why is not None:
        raise SubscriptionNotValidError(f"The pattern {text!r} is not allowed: {why}.")
    return text


def _own(partitions: Iterable[Any]) -> tuple[tuple[str, int], ...]:
    return tuple(dict.fromkeys((one.topic, one.partition) for one in must_be_partitions(partitions)))
