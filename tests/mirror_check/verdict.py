"""The verdict on a mirror: offsets seen in Kafka held against those committed here, as both were over time."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(slots=True)
class Verdict:
    """Feed it with what is seen, in the order of time; times are seconds of one clock.

    The delay of a look at Kafka is the age of the oldest commit that Kafka lacks then. Time in which Kafka or the
    coordinator was down does not count: it begins when both are there again.
    """

    checks: int = 0
    ahead: int = 0
    examples: list[str] = field(default_factory=list)
    delays_ms: list[int] = field(default_factory=list)
    _here: dict[int, list[tuple[float, int]]] = field(default_factory=dict)
    """By partition: each committed offset and when it was seen first, oldest first."""
    _up_s: float = 0.0

    def committed(self, at_s: float, offsets: Mapping[int, int]) -> None:
        """Take note of what is committed here."""
        for partition, offset in offsets.items():
            seen = self._here.setdefault(partition, [])
            if not seen or offset > seen[-1][1]:
                seen.append((at_s, offset))

    def is_up(self, at_s: float) -> None:
        """Take note that an outage has ended."""
        self._up_s = at_s

    def check(
        self, asked_s: float, there: Mapping[int, int], committed_after: Mapping[int, int], *, is_up: bool = True
    ) -> None:
        """Hold what a tool said of Kafka against what was committed here after it had said it.

        During an outage there is no delay.
        """
        self.checks += 1
        for partition, offset in there.items():
            if offset > committed_after.get(partition, 0):
                self.ahead += 1
                known = committed_after.get(partition)
                self.examples.append(f"partition {partition} is at {offset} in Kafka, {known} is committed here")
        if not is_up:
            return
        lacking = [
            next((at_s for at_s, offset in seen if offset > there.get(partition, 0)), asked_s)
            for partition, seen in self._here.items()
        ]
        oldest_s = max(self._up_s, min(lacking, default=asked_s))
        self.delays_ms.append(max(0, round((asked_s - oldest_s) * 1000)))

    @property
    def delay_p99_ms(self) -> int:
        """The delay that one look in a hundred is above."""
        return sorted(self.delays_ms)[-(len(self.delays_ms) // 100) - 1] if self.delays_ms else 0
