"""The subscription of a read: topics by name, by a pattern, or explicit partitions, less the exclusions.

Holds the values of `subscribe`, `subscribePattern`, `assign` and `kcoord.exclude` once they are checked: exactly one of
the first three is given. It says which topics they name, and nothing of which topics exist. Pure, stdlib only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from spark_kcoord.errors import OptionError
from spark_kcoord.options.kinds import Kind, parse_json, parse_topic
from spark_kcoord.options.topic_patterns import matching_topics

__all__ = ["ASSIGNMENT", "Subscription", "make_subscription"]

_FIELDS: Final = {"topics": "subscribe", "pattern": "subscribePattern", "assigned": "assign"}


@dataclass(frozen=True, slots=True)
class Subscription:
    """Topics, a pattern or partitions (the others are empty), less excluded topics."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    assigned: tuple[tuple[str, int], ...] = ()
    exclusions: tuple[str, ...] = ()

    @property
    def named_topics(self) -> tuple[str, ...] | None:
        """The topics it names, sorted and less the exclusions; None for a pattern, since only Kafka knows them."""
        if self.pattern is not None:
            return None
        names = {*self.topics, *(topic for topic, _ in self.assigned)}
        return tuple(sorted(names.difference(self.exclusions)))

    def reads(self, topic: str, partition: int) -> bool:
        """Say whether a partition is among what it asks for, whether it exists or not."""
        if self.assigned:
            return (topic, partition) in self.assigned
        if self.pattern is not None:
            return bool(matching_topics(self.pattern, self.exclusions, (topic,)))
        return topic in self.topics and topic not in self.exclusions

    @property
    def option(self) -> str:
        """The name of the option it was given by."""
        return next(option for field, option in _FIELDS.items() if getattr(self, field))


def make_subscription(values: Mapping[str, Any]) -> Subscription:
    """Return the subscription of parsed options; raises OptionError unless exactly one of the three is given."""
    given = [option for field, option in _FIELDS.items() if field in values]
    if not given:
        raise OptionError(
            "Option 'subscribe' is missing. Name the topics to read, separated by commas (or give 'subscribePattern' "
            "or 'assign')."
        )
    if len(given) > 1:
        named = " and ".join(f"'{option}'" for option in given)
        raise OptionError(f"Options {named} are given, and only one of them can say what to read. Remove the others.")
    subscription = Subscription(
        topics=values.get("topics", ()),
        pattern=values.get("pattern"),
        assigned=values.get("assigned", ()),
        exclusions=values.get("exclusions", ()),
    )
    if subscription.assigned and subscription.exclusions:
        raise OptionError(
            "Option 'kcoord.exclude' leaves out topics of 'subscribe' or 'subscribePattern', and 'assign' names single "
            "partitions. Leave those partitions out of 'assign'."
        )
    if subscription.named_topics == ():
        raise OptionError("Option 'kcoord.exclude' leaves out every topic of 'subscribe'. Leave at least one in.")
    return subscription


def _parse_assignment(text: str) -> tuple[tuple[str, int], ...]:
    document = parse_json(text)
    if not isinstance(document, dict) or not document:
        raise ValueError("it names no topic")
    found: list[tuple[str, int]] = []
    for topic, partitions in document.items():
        parse_topic(topic)
        if not isinstance(partitions, list) or not partitions:
            raise ValueError(f"topic {topic!r} has no list of partitions")
        for partition in partitions:
            if not isinstance(partition, int) or isinstance(partition, bool) or not 0 <= partition < 2**31:
                raise ValueError(f"{json.dumps(partition)} is no partition of {topic!r}")
            found.append((topic, partition))
    return tuple(sorted(set(found)))


ASSIGNMENT: Final = Kind("JSON", 'partitions by topic, such as {"topicA": [0, 1], "topicB": [2]}', _parse_assignment)
"""The kind of `assign`: read as sorted (topic, partition) pairs."""
