"""The rooms of the cluster on one node: its registration, its part in the office, and what it observes for itself.

Every node observes who lives, to be connected with them, and the buckets of the shards that it leads, to write their
in-sync sets. ZooKeeper's events go to each room that is concerned; its answers to the one that asked.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeAlias

from coordinator.core.cluster import observer as observing
from coordinator.core.cluster import registration as registering
from coordinator.core.cluster.effects import ControllerEffect, RegistrationEffect
from coordinator.core.cluster.events import (
    ControllerEvent,
    ObserverEvent,
    ReadAnew,
    RegistrationEvent,
    Scope,
    ShardWish,
    Ticked,
    Written,
)
from coordinator.core.cluster.identity import Identity
from coordinator.core.cluster.image import Image
from coordinator.core.cluster.observer import Observer
from coordinator.core.cluster.office import controller as office
from coordinator.core.cluster.office.controller import Controller
from coordinator.core.cluster.znodes import CLUSTER, NODES_LIVE, bucket_of, bucket_path
from coordinator.core.cluster.zookeeper import (
    ZkApplied,
    ZkChanged,
    ZkMulti,
    ZkMultiDone,
    ZkNode,
    ZkRead,
    ZkReadDone,
    ZkSession,
    ZkSet,
    ZkState,
)
from coordinator.core.cluster_node.isr_writes import IsrWrites
from coordinator.core.cluster_node.settings import ClusterSettings
from coordinator.core.cluster_node.zk_requests import Room, ZkRequests
from coordinator.core.replica.events import IsrWritten

RoomEffect: TypeAlias = RegistrationEffect | ControllerEffect


class Rooms:
    """The rooms, and what they want done; what they ask of ZooKeeper has numbers of the node's."""

    def __init__(self, identity: Identity, settings: ClusterSettings) -> None:
        self._requests = ZkRequests()
        self._writes = IsrWrites(identity.node_id)
        self._observer = Observer(Scope((CLUSTER,), (NODES_LIVE,)))
        self._connected: ZkSession | None = None
        """That ZooKeeper is connected, until the others than the registration are told."""
        self.registration = registering.begin(identity, settings.zookeeper_session_timeout_ms)
        self.controller = Controller(identity.node_id, settings.controller)

    @property
    def image(self) -> Image:
        """Return what this node has seen of the cluster: who lives, and the buckets of what it leads."""
        return self._observer.image

    @property
    def is_certain(self) -> bool:
        """Return whether all of that has been read since ZooKeeper was last connected."""
        return self._observer.is_whole

    @property
    def has_office(self) -> bool:
        """Return whether this node is the controller."""
        return self.controller.office is not None

    @property
    def knows_shards(self) -> bool:
        """Return whether this node is the controller and has read every shard's entry, as one that begins has not."""
        held = self.controller.office
        return held is not None and held.told is not None and self.controller.observer.image.cluster is not None

    @property
    def stuck(self) -> tuple[str, ...]:
        """Return what this node waits for a person to put right in ZooKeeper."""
        return (*self.registration.stuck, *self.controller.stuck)

    # ---- ZooKeeper --------------------------------------------------------------------------------------------------

    def zookeeper(self, event: ZkSession | ZkChanged, now_ms: int) -> list[RoomEffect]:
        """Have every room take in what concerns all of them.

        ZooKeeper may be another one whenever it is connected: nobody acts before the registration has found it to be
        of this node's time.
        """
        if isinstance(event, ZkSession):
            is_connected = event.state is ZkState.CONNECTED
            self._connected = event if is_connected else None
            if is_connected:
                return self.register(event, now_ms)
        return [*self.register(event, now_ms), *self._tell_others(event, now_ms)]

    def _tell_others(self, event: ZkSession | ZkChanged, now_ms: int) -> list[RoomEffect]:
        return [*self.decide(event, now_ms), *self._observe(event, now_ms)]

    def answered(self, done: ZkReadDone | ZkMultiDone, now_ms: int) -> tuple[list[RoomEffect], list[IsrWritten]]:
        """Have the room that asked take in an answer."""
        found = self._requests.answered(done)
        if found is None:
            return [], []
        room, its_own = found
        match room, its_own:
            case Room.REGISTRATION, _:
                return self.register(its_own, now_ms), []
            case Room.CONTROLLER, _:
                return self.decide(its_own, now_ms), []
            case Room.OBSERVER, ZkReadDone():
                return self._observe(its_own, now_ms), []
            case Room.ISR_WRITES, ZkMultiDone():
                return self._written(its_own, now_ms)
        raise AssertionError(f"{room} has not asked for {its_own}")

    def _written(self, done: ZkMultiDone, now_ms: int) -> tuple[list[RoomEffect], list[IsrWritten]]:
        ended, multi = self._writes.done(done, now_ms)
        effects: list[RoomEffect] = []
        if multi is not None and isinstance(done.outcome, ZkApplied):
            bucket, version = multi.operations[0], done.outcome.versions[0]
            assert isinstance(bucket, ZkSet)
            assert version is not None
            effects += self._observe(Written(bucket.path, ZkNode(bucket.data, version)), now_ms)
        return effects, [] if ended is None else [ended]

    def tick(self, now_ms: int) -> list[RoomEffect]:
        """Let time pass."""
        return [
            *self.register(Ticked(), now_ms),
            *self.decide(Ticked(), now_ms),
            *self._observe(Ticked(), now_ms),
        ]

    # ---- the rooms --------------------------------------------------------------------------------------------------

    def register(self, event: RegistrationEvent, now_ms: int) -> list[RoomEffect]:
        """Have the registration take in an event."""
        self.registration, effects = registering.step(self.registration, event, now_ms)
        done = self._numbered(Room.REGISTRATION, effects)
        if self._connected is not None and registering.is_of_our_time(self.registration):
            connected, self._connected = self._connected, None
            done += self._tell_others(connected, now_ms)
        return done

    def decide(self, event: ControllerEvent, now_ms: int) -> list[RoomEffect]:
        """Have the controller take in an event; every node has one, whether or not it holds the office.

        One that takes the office knows from the registration which leader epochs and which cluster there have been.
        """
        if not self.has_office:
            self.controller = office.having_seen(self.controller, self.registration.observer.image)
        self.controller, effects = office.step(self.controller, event, now_ms)
        return self._numbered(Room.CONTROLLER, effects)

    def why_not(self, now_ms: int, wish: ShardWish) -> str:
        """Say why the controller here does not do what a person wants; empty if it does."""
        return office.why_not(self.controller, wish, now_ms)

    def _observe(self, event: ObserverEvent, now_ms: int) -> list[RoomEffect]:
        made = self.registration.observer.image.made
        if self._observer.image.made is not made:
            self._observer = replace(self._observer, image=replace(self._observer.image, made=made))
        self._observer, reads = observing.step(self._observer, event, now_ms)
        return self._numbered(Room.OBSERVER, reads)

    def _numbered(self, room: Room, effects: Iterable[RoomEffect]) -> list[RoomEffect]:
        return [
            self._requests.ask(room, effect) if isinstance(effect, ZkRead | ZkMulti) else effect for effect in effects
        ]

    # ---- what this node leads ---------------------------------------------------------------------------------------

    @property
    def writes(self) -> IsrWrites:
        """Return the writes of in-sync sets."""
        return self._writes

    def read_anew(self, now_ms: int) -> list[RoomEffect]:
        """Read everything that is observed: something was seen to be old."""
        return self._observe(ReadAnew(), now_ms)

    def observe_led(self, led: Iterable[int], now_ms: int) -> list[RoomEffect]:
        """Observe the buckets of the shards that are led now, besides who lives."""
        cluster = self.registration.observer.image.joined
        if cluster is None:
            return []
        buckets = sorted({bucket_path(bucket_of(shard, cluster.buckets)) for shard in led})
        scope = Scope((CLUSTER, *buckets), (NODES_LIVE,))
        return [] if scope == self._observer.scope else self._observe(ReadAnew(scope), now_ms)

    def write(self, now_ms: int) -> tuple[list[RoomEffect], list[IsrWritten]]:
        """Make the writes that can be made, and report what has ended without one."""
        writes = self._writes
        if not writes.has_work:
            return [], []
        observer = self._observer
        is_able = observer.is_connected and observer.is_whole and observer.asked is None
        if not is_able or self.registration.node_epoch is None:
            return [], []
        multis, ended = writes.go_on(observer.image, observer.session, now_ms)
        effects = self._numbered(Room.ISR_WRITES, multis)
        if writes.needs_read:
            writes.needs_read = False
            effects += self.read_anew(now_ms)
        return effects, ended
