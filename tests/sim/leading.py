"""Which shards the simulated node leads, and in which epochs: now and then some shard is led no longer, and led again.

So would an operator or a replica of the shard have it. What is read for a load comes late sometimes, also when its
epoch is over.
"""

from functools import partial
from typing import TYPE_CHECKING

from coordinator.core import effects as e
from coordinator.core import events
from coordinator.runtime.disk.files import DiskError
from tests.helpers.loading import read_shard

if TYPE_CHECKING:
    from tests.sim.coordinator import Coordinator


MOST_TRIES = 500
"""So often, a millisecond apart, it is looked whether somebody waits for an answer of the shard to be resigned."""


class Leading:
    """The leaderships of one process, which begins with all of them."""

    def __init__(self, coordinator: "Coordinator", epochs: list[int]) -> None:
        self._coordinator = coordinator
        self._epochs = epochs
        """The epoch in which each shard is led, or was led last."""
        self._resigned: set[int] = set()
        """The shards that are not led."""
        self._loading: set[int] = set()
        """The shards that are being read."""
        self._is_over = False

    def resign_some(self, away_ms: int) -> bool:
        """Have some shard led no longer, and led again after a while; most often amid something that is asked of it."""
        coordinator = self._coordinator
        if not coordinator.is_up or coordinator.is_paused:
            return False
        shard = coordinator.dice.randrange(len(self._epochs))
        if shard in self._resigned:
            return False
        self._resign(shard, away_ms, coordinator.dice.choice((0, MOST_TRIES, MOST_TRIES)))
        return True

    def _resign(self, shard: int, away_ms: int, tries: int) -> None:
        coordinator = self._coordinator
        if shard in self._resigned or self._is_over:
            return
        if tries and not coordinator.checker.is_asked(shard):
            coordinator.later(1, partial(self._resign, shard, away_ms, tries - 1))
            return
        coordinator.schedule.tell("coordinator", f"resigns shard {shard} for {away_ms} ms")
        coordinator.checker.coverage["resigned while it was loaded"] += shard in self._loading
        self._resigned.add(shard)
        coordinator.checker.resigned(shard)
        coordinator.step(events.LeadershipTaken(shard, "somebody wanted it"))
        coordinator.later(away_ms, partial(self._lead, shard))

    def lead_all(self) -> None:
        """Have every shard led, to the end."""
        self._is_over = True
        for shard in sorted(self._resigned):
            self._coordinator.do(partial(self._lead, shard))

    def _lead(self, shard: int) -> None:
        coordinator = self._coordinator
        if shard in self._resigned:
            self._resigned.discard(shard)
            self._epochs[shard] += coordinator.dice.choice((1, 1, 7))
            coordinator.schedule.tell("coordinator", f"leads shard {shard} in epoch {self._epochs[shard]}")
            coordinator.checker.coverage["led again" + (" while it was loaded" if shard in self._loading else "")] += 1
            coordinator.step(events.LeadershipGiven(shard, self._epochs[shard]))

    def load(self, effect: e.LoadShard) -> None:
        """Read a shard for the node, after the pause that it wants."""
        coordinator = self._coordinator
        coordinator.schedule.tell("coordinator", f"is to load shard {effect.shard} in {effect.after_ms} ms")
        self._loading.add(effect.shard)
        coordinator.later(effect.after_ms + coordinator.dice.choice((0, 1, 40)), partial(self._read, effect))

    def _read(self, effect: e.LoadShard) -> None:
        """Read a shard once nothing of it is being written, as the product's disk does, unless nobody wants it."""
        coordinator, shard, leader_epoch = self._coordinator, effect.shard, effect.leader_epoch
        if leader_epoch != self._epochs[shard]:
            return
        if coordinator.is_disk_busy:
            coordinator.later(1, partial(self._read, effect))
            return
        try:
            found = read_shard(coordinator.disk, shard)
        except DiskError as error:
            coordinator.step(events.ShardUnreadable(shard, leader_epoch, str(error)))
            return
        coordinator.checker.read_again(shard, found.shard.log_end_offset)
        pieces = [] if found.snapshot is None else [(True, *found.snapshot)]
        batches = [(False, base_offset, records) for base_offset, records in found.batches]
        recovered = events.ShardRecovered(shard, leader_epoch, found.shard.leader_epoch, [*pieces, *batches])
        coordinator.later(coordinator.dice.choice((0, 0, 30)), partial(self._has_read, recovered))

    def _has_read(self, event: events.ShardRecovered) -> None:
        if event.leader_epoch == self._epochs[event.shard]:
            self._loading.discard(event.shard)
        self._coordinator.step(event)
