"""The starts that members show, as they are looked up by partition while a group has partitions without one."""

from collections import Counter
from collections.abc import Iterable, Sequence

from coordinator.core.groups.partitions.in_topics import TopicHints, hint_at
from coordinator.core.groups.partitions.partition_table import TopicPartition
from coordinator.protocol.parts import StartHint


class Hints:
    """The starts that members show, to be looked up by partition; kept in the columns in which they came.

    A partition that one of these columns names has no others: `others` count for those that none names.
    """

    def __init__(self, topics: Iterable[TopicHints], others: "Hints | None" = None) -> None:
        self._others = others
        self._topics: dict[str, list[TopicHints]] = {}
        for each in topics:
            self._topics.setdefault(each.topic, []).append(each)
        self._places: dict[str, list[tuple[TopicHints, dict[int, int]]]] = {}
        """The place of a partition in the columns of its topic; of a topic that was looked up."""

    def get(self, partition: TopicPartition) -> list[StartHint]:
        """Return what is shown of a partition; empty where nothing is."""
        topic, number = partition
        places = self._places.get(topic)
        if places is None:
            places = [(each, layer) for each in self._topics.get(topic, ()) for layer in _layers(each.partitions)]
            self._places[topic] = places
        found = [hint_at(each, layer[number]) for each, layer in places if number in layer]
        return found if found or self._others is None else self._others.get(partition)


def _layers(numbers: Sequence[int]) -> list[dict[int, int]]:
    """Return the places of partitions, in one look-up where none is named twice."""
    once = dict(zip(numbers, range(len(numbers)), strict=True))
    if len(once) == len(numbers):
        return [once]
    layers: list[dict[int, int]] = []
    times: Counter[int] = Counter()
    for place, number in enumerate(numbers):
        if times[number] == len(layers):
            layers.append({})
        layers[times[number]][number] = place
        times[number] += 1
    return layers
