"""Mistakes of consumers by hand, whose topics are made again or grow: planted by `tests/sim/mutants.py`."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from msgspec import structs

from spark_kcoord.consumer.conduct.committing import Committer
from spark_kcoord.consumer.conduct.growth import Growth
from spark_kcoord.consumer.core.held import Held
from spark_kcoord.consumer.core.machine import ConsumerMachine
from spark_kcoord.fetch.tailing.fetched import Fetched, Resolved, Wanted

Patches = list[tuple[Any, str, Any]]


def _position_of_any_topic() -> Patches:
    wanted = Held.wanted

    def of_any(self: Held) -> Wanted:
        return replace(wanted(self), named_id=None)

    return [(Held, "wanted", of_any)]


def _offset_of_any_topic() -> Patches:
    fetch = Committer._fetch_committed

    def without_ids(self: Committer, keys: Sequence[Any] | None, timeout_s: float) -> Any:
        return {key: structs.replace(one, topic_id="") for key, one in fetch(self, keys, timeout_s).items()}

    return [(Committer, "_fetch_committed", without_ids)]


def _growth_forgotten() -> Patches:
    look_soon = Growth.look_soon

    def forget_and_look(self: Growth) -> None:
        self.forget()
        look_soon(self)

    return [(Growth, "look_soon", forget_and_look)]


def _missing_forgotten() -> Patches:
    return [(Growth, "missing", lambda *_: [])]


def _start_of_any_topic() -> Patches:
    receive = ConsumerMachine.receive

    def receive_without_ids(self: ConsumerMachine, fetched: Iterable[Fetched]) -> None:
        receive(self, [replace(one, topic_id=None) if isinstance(one, Resolved) else one for one in fetched])

    return [(ConsumerMachine, "receive", receive_without_ids)]


def _bound_of_old_topic() -> Patches:
    return [(Held, "be_of", lambda self, topic_id: setattr(self, "named_id", topic_id))]


def _end_of_old_topic() -> Patches:
    return [(Held, "_forget_topic", lambda self: setattr(self, "committed", None))]


def _old_position_committed() -> Patches:
    return [(Held, "is_of_old_topic", property(lambda _: False))]


MISTAKES: Mapping[str, tuple[str, Callable[[], Patches]]] = {
    "hand-position-of-any-topic": (
        "a position by hand is one of whatever topic has the name when it is fetched again",
        _position_of_any_topic,
    ),
    "hand-offset-of-any-topic": (
        "the group's offset of a deleted topic is one of its successor where partitions are assigned by hand",
        _offset_of_any_topic,
    ),
    "hand-growth-forgotten": (
        "without a group each subscription has all partitions begin by the policy, also those that have come",
        _growth_forgotten,
    ),
    "hand-missing-forgotten": ("without a group a topic is forgotten that one look does not find", _missing_forgotten),
    "hand-start-of-any-topic": ("a beginning or end that was asked for is of any topic", _start_of_any_topic),
    "hand-bound-of-old-topic": ("an offset of a deleted topic bounds commits of its successor", _bound_of_old_topic),
    "hand-end-of-old-topic": ("the lag in a topic is measured by the end of a deleted one", _end_of_old_topic),
    "hand-told-of-nothing-new": ("a new topic is taken for a position that Kafka lost", _old_position_committed),
}
"""Each by name: what is wrong, and where it is planted."""
