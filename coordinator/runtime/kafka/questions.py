"""Questions to Kafka of which one may be bad: the others are asked without it.

A question that the library cannot even write, or stumbles over, says nothing about Kafka or the questions beside it. So
it is found by halves, answered as failed, and everything else is asked. Whoever asks brings a new client after each
failure. That Kafka is away is no bad question, and ends the asking.
"""

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from coordinator.runtime.kafka.client import ClusterView, KafkaAwayError

MOST_TRIES: Final = 60
"""Failures after which the rest of a question is given up: some four bad items are found among a thousand."""

Item = TypeVar("Item")
Answer = TypeVar("Answer")


def ask_apart(
    items: Sequence[Item],
    ask: Callable[[Sequence[Item]], Answer],
    give_up: Callable[[Sequence[Item], Exception], Answer],
) -> list[Answer]:
    """Return the answers about all items, in their order; `give_up` answers for those that cannot be asked about.

    Raises KafkaAwayError.
    """
    answers: list[Answer] = []
    waiting = [items]
    failures = 0
    while waiting:
        some = waiting.pop()
        try:
            answers.append(ask(some))
        except KafkaAwayError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever the library stumbles over costs one question
            failures += 1
            if len(some) <= 1 or failures >= MOST_TRIES:
                answers.append(give_up(some, error))
            else:
                half = len(some) // 2
                waiting += [some[half:], some[:half]]
    return answers


def merged(views: Sequence[ClusterView]) -> ClusterView:
    """Return what several answers say of their topics as one; of the cluster the newest counts that says anything."""
    if len(views) == 1:
        return views[0]
    known = [view for view in views if view.brokers] or [ClusterView({}, frozenset(), {}, {}, None)]
    return ClusterView(
        {name: topic for view in views for name, topic in view.topics.items()},
        frozenset(name for view in views for name in view.absent),
        {name: why for view in views for name, why in view.refused.items()},
        known[-1].brokers,
        known[-1].cluster_id,
    )
