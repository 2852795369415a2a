"""The replicas of a node: which controller and which commands it obeys, and which replica an event is for.

A controller epoch below the greatest ever seen is that of a controller which was replaced, and a greater one is durable
before it is obeyed. A command for a former life of this node is void: what that life held may be gone. A full list
names every shard that is to be here. What it does not name is moved aside, but for what the controller could not read.
"""

from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from coordinator.core.replica.effects import DropReplica, Effect, Remember
from coordinator.core.replica.events import (
    Event,
    LeaderAndIsr,
    NodeRegistered,
    PeerDown,
    PeerDraining,
    PeerUp,
    StopReplica,
    Ticked,
)
from coordinator.core.replica.replica import Follower, Leader, Replica, Settings
from coordinator.core.replica.step import step


class Commands(msgspec.Struct, frozen=True):
    """The commands of a controller to a node; with `is_init` the whole list of shards that are to be there.

    Shards of a bucket that could not be read are `unreadable`, and are left as they are.
    """

    now_ms: int
    controller_epoch: int
    node_epoch: int
    commands: tuple[LeaderAndIsr, ...]
    stops: tuple[StopReplica, ...] = ()
    is_init: bool = False
    unreadable: frozenset[int] = frozenset()


class Replicas:
    """The replicas of one process, registered under `node_epoch`; each is a value that a step replaces.

    `on_disk` are the shards of which there is a log, whether or not a command has named them yet.
    """

    def __init__(
        self, node: int, node_epoch: int, settings: Settings, controller_epoch: int, on_disk: Iterable[int] = ()
    ) -> None:
        self._node = node
        self._node_epoch = node_epoch
        self._settings = settings
        self._replicas: dict[int, Replica] = {}
        self._not_opened = set(on_disk)
        self.controller_epoch = controller_epoch
        """The greatest controller epoch ever seen, as kept on disk."""

    def __getitem__(self, shard: int) -> Replica:
        """Return the replica of a shard, an absent one where there is none."""
        found = self._replicas.get(shard)
        return Replica(shard, self._node, self._settings) if found is None else found

    def step(self, shard: int, event: Event) -> list[Effect]:
        """Have the replica of one shard take in an event."""
        self._replicas[shard], effects = step(self[shard], event)
        if isinstance(event, LeaderAndIsr) and effects:
            self._not_opened.discard(shard)
        elif isinstance(event, StopReplica):
            if shard in self._not_opened and not effects:
                effects = [DropReplica(shard, event.deletes)]
            self._not_opened = self._not_opened - {shard} if event.deletes else self._not_opened | {shard}
        return effects

    def registered(self, now_ms: int, node_epoch: int) -> list[Effect]:
        """Live on under another node epoch: what the former one is told is void, and fetches are asked under this."""
        assert node_epoch > self._node_epoch, "node epochs only grow"
        self._node_epoch = node_epoch
        return self.step_all(NodeRegistered(now_ms))

    def step_all(self, event: PeerUp | PeerDown | PeerDraining | NodeRegistered | Ticked) -> list[Effect]:
        """Have every replica take in what concerns all of them."""
        effects: list[Effect] = []
        for shard in sorted(self._replicas):
            effects += self.step(shard, event)
        return effects

    def obey(self, told: Commands) -> list[Effect]:
        """Do what a controller commands, unless it was replaced or means a former life of this node."""
        if told.controller_epoch < self.controller_epoch or told.node_epoch != self._node_epoch:
            return []
        effects: list[Effect] = []
        if told.controller_epoch > self.controller_epoch:
            self.controller_epoch = told.controller_epoch
            effects.append(Remember(told.controller_epoch))
        for command in told.commands:
            effects += self.step(command.shard, self._without_former_life(command))
        for stop in told.stops:
            effects += self.step(stop.shard, stop)
        if told.is_init:
            named = {command.shard for command in told.commands} | told.unreadable
            for shard in sorted((self._replicas.keys() | self._not_opened) - named):
                leader_epoch = self[shard].leader_epoch
                effects += self.step(shard, StopReplica(told.now_ms, shard, leader_epoch, deletes=True))
        return effects

    def _without_former_life(self, command: LeaderAndIsr) -> LeaderAndIsr:
        """Return a command that has nobody lead where a former life of this node was to: another will be elected."""
        is_void = command.leader == self._node and command.leader_node_epoch != self._node_epoch
        return replace(command, leader=None) if is_void else command

    @property
    def shards(self) -> tuple[int, ...]:
        """Return the shards of which a command or a peer has spoken."""
        return tuple(sorted(self._replicas))

    @property
    def led(self) -> tuple[int, ...]:
        """Return the shards that this node leads."""
        return tuple(shard for shard, replica in sorted(self._replicas.items()) if isinstance(replica.role, Leader))

    def confirmed(self, leader: int) -> tuple[tuple[int, int, int], ...]:
        """Return shard, leader epoch and fetch of all that a peer's round is confirmed for: what it is followed in."""
        return tuple(
            (shard, replica.leader_epoch, replica.role.fetch)
            for shard, replica in sorted(self._replicas.items())
            if isinstance(replica.role, Follower) and replica.confirms(leader, replica.leader_epoch)
        )
