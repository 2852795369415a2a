"""What became of every record below a committed offset: read by an owner whose commit counted, or left out knowingly.

A position moves in two ways only. An owner that has read a range commits it; or somebody decides that it is elsewhere:
a start that was resolved, a reset, an operator's commit, an offset that Kafka no longer has. The second kind is kept
with its reason. In the end nothing below the position may be neither.
"""

from dataclasses import dataclass, field

PartitionOfTopic = tuple[str, str, int]
"""A topic's name, its id, and a partition: a topic that is made again is another one."""


@dataclass(slots=True)
class _Past:
    position: int | None = None
    spans: list[tuple[int, int, str]] = field(default_factory=list)


class History:
    """The past of the partitions of one group; it outlives the deletion of offsets."""

    def __init__(self) -> None:
        self._pasts: dict[PartitionOfTopic, _Past] = {}

    def read(self, key: PartitionOfTopic, from_offset: int, until_offset: int) -> None:
        """Note that an owner's commit of a range that it had read was accepted."""
        past = self._pasts.setdefault(key, _Past())
        past.position = until_offset
        _add(past.spans, from_offset, until_offset, "")

    def moved(self, key: PartitionOfTopic, offset: int, why: str) -> None:
        """Note that a position was set by decision: what it thereby passes over is left out knowingly."""
        past = self._pasts.setdefault(key, _Past())
        before = 0 if past.position is None else past.position
        if before < offset:
            _add(past.spans, before, offset, why)
        past.position = offset

    def gap(self) -> str | None:
        """Say which record below a position was neither read nor left out knowingly, if there is one."""
        for (topic, topic_id, partition), past in self._pasts.items():
            reached = 0
            for from_offset, until_offset, _ in sorted(past.spans):
                if from_offset > reached:
                    break
                reached = max(reached, until_offset)
            if past.position is not None and reached < past.position:
                return (
                    f"offset {reached} of {topic}-{partition} ({topic_id}) was never read, and {past.position} is "
                    f"committed; known are {past.spans[-5:]}"
                )
        return None


def _add(spans: list[tuple[int, int, str]], from_offset: int, until_offset: int, why: str) -> None:
    if spans and spans[-1][1] == from_offset and spans[-1][2] == why:
        spans[-1] = (spans[-1][0], until_offset, why)
    else:
        spans.append((from_offset, until_offset, why))
