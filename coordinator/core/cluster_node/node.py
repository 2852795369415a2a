"""A node of a cluster as one pure machine: events in, effects out.

It joins the rooms of the cluster, the replicas and the coordinator. A node registers, learns who lives, is in contact
with them, and leads and follows as the controller, which may be itself, tells it. It knows no sockets, files, clocks or
chance. Effects are to be performed in their order; `JoinedCluster`, `Remember` and `RememberSeen` are durable before
the next one is.
"""

from collections.abc import Iterable, Iterator, Mapping
from operator import is_
from typing import Final, assert_never

from coordinator.core import effects as done
from coordinator.core import events
from coordinator.core.cluster.effects import (
    JoinedCluster,
    LeftOffice,
    LifeBegan,
    MayNotJoin,
    Published,
    RememberSeen,
    ShardLeader,
    ShardState,
    Stuck,
    TellNode,
    TookOffice,
    WishRefused,
)
from coordinator.core.cluster.events import (
    NodeAnswered,
    NodeRefused,
    Obeyed,
    PeerLost,
    PeerReached,
    Registered,
    Remembered,
    StateWanted,
)
from coordinator.core.cluster.identity import Identity, why_behind
from coordinator.core.cluster.image import Image
from coordinator.core.cluster.registration import waits_for
from coordinator.core.cluster.troubles import too_few_nodes
from coordinator.core.cluster.znodes import Cluster, NodeState
from coordinator.core.cluster.zookeeper import ZkChanged, ZkMulti, ZkMultiDone, ZkRead, ZkReadDone, ZkSession
from coordinator.core.cluster_node.answers.description import MEMBERS_ADDRESS as MEMBERS_ADDRESS
from coordinator.core.cluster_node.answers.description import Known, describe
from coordinator.core.cluster_node.answers.draining import HandOver, hand_over
from coordinator.core.cluster_node.answers.neighbours import neighbours, peers_of
from coordinator.core.cluster_node.answers.notices import isr_written, published, set_aside
from coordinator.core.cluster_node.answers.operators import answer_operator
from coordinator.core.cluster_node.answers.surveying import survey_cluster
from coordinator.core.cluster_node.effects import Effect
from coordinator.core.cluster_node.events import (
    Event,
    LogCut,
    LogInstalled,
    LogOpened,
    LogRead,
    LogSynced,
    PieceWritten,
    SnapshotRead,
    TurnEnded,
    is_of_members,
)
from coordinator.core.cluster_node.replication import Replication
from coordinator.core.cluster_node.rooms import RoomEffect, Rooms
from coordinator.core.cluster_node.settings import ClusterSettings
from coordinator.core.cluster_node.wakes import Wakes
from coordinator.core.groups.assignment.assignors import ASSIGNORS
from coordinator.core.groups.assignment.assignors.assignor import Assignor
from coordinator.core.limits import Limits
from coordinator.core.node import Node
from coordinator.core.peers.control_words import (
    answer_in,
    commands_of,
    step_down_in,
    step_down_of,
    told,
    told_of,
)
from coordinator.core.peers.effects import ConnectPeers, EndContact, PeerAddress, SayToPeer
from coordinator.core.peers.events import ContactBegan, ContactEnded, PeerPinged, PeerRefused, PeerSaid
from coordinator.core.peers.words import PeerError
from coordinator.core.replica import effects as wanted
from coordinator.core.replica import events as said
from coordinator.core.replica.replica import Leader
from coordinator.core.replica.replicas import Replicas
from coordinator.core.requests.survey import Seen
from coordinator.core.security.authorizer import Authorizer
from coordinator.protocol import peer_messages as wire
from coordinator.protocol.messages import DescribeCluster, DrainNode, ElectLeaders, ReassignShards
from coordinator.protocol.parts import NodeAddress

MOST_ROUNDS_OF_A_STEP: Final = 1_000
"""So often, at most, one room's wishes lead to another's in one step; more is a bug."""


class ClusterNode:
    """One node of a cluster: `start` once, then `step` for each event.

    Members are let in once it has registered (`is_in_cluster`); before that nothing of them may come. After a step that
    halts nothing is done any more.
    """

    def __init__(
        self,
        identity: Identity,
        settings: ClusterSettings,
        limits: Limits,
        self_address: NodeAddress,
        kafka_bootstrap: tuple[str, ...],
        on_disk: Iterable[int],
        incarnation: str,
        assignors: Mapping[str, Assignor] = ASSIGNORS,
        authorizer: Authorizer | None = None,
    ) -> None:
        self._identity, self._authorizer = identity, authorizer
        self._assignors = assignors
        self._settings = settings
        self._limits = limits
        self._address = self_address
        self._kafka_bootstrap = kafka_bootstrap
        self._on_disk = tuple(on_disk)
        self._incarnation = incarnation
        self._rooms = Rooms(identity, settings)
        self.replication: Replication | None = None
        """The replicas, from the first registration on."""
        self._now_ms = 0
        self._wall_offset_ms = 0
        self._node_epoch = -1
        self._peers: dict[int, PeerAddress] = {}
        self._connected: ConnectPeers | None = None
        self._lives: dict[int, int] = {}
        """Peer and node epoch of each contact."""
        self._leaders: dict[int, tuple[int, int | None]] = {}
        """By shard: the leader epoch and the leader, as the controller told it last."""
        self._replicas_of: dict[int, tuple[int, ...]] = {}
        """The replicas of each shard that has one here, as the controller told it last."""
        self._controller: int | None = None
        """The controller whose words were obeyed last."""
        self._seen: tuple[Image, frozenset[int], bool] | None = None
        self._wakes = Wakes()
        self._out: list[Effect] = []
        self.is_halted = False

    @property
    def is_in_cluster(self) -> bool:
        """Return whether this node has registered at least once."""
        return self.replication is not None

    @property
    def node_epoch(self) -> int:
        """Return the node epoch under which this node has registered last, -1 before it has."""
        return self._node_epoch

    @property
    def has_office(self) -> bool:
        """Return whether this node is the controller, as far as it knows."""
        return self._rooms.has_office

    @property
    def waits_for(self) -> str:
        """Return what this node waits for, for people: to be registered, or for shards to be led; empty if nothing."""
        why, cluster = waits_for(self._rooms.registration), self.cluster
        return why if why or self._leaders or cluster is None else too_few_nodes(self._rooms.image, cluster)

    @property
    def hands_over(self) -> HandOver:
        """Return what this node leads yet, for whoever has it drained."""
        return hand_over(self.replication, self._rooms, self._identity.node_id, self._replicas_of)

    @property
    def cluster(self) -> Cluster | None:
        """Return the cluster that this node is in, even if ZooKeeper has lost it; before that, as it was read."""
        if self.replication is not None:
            return self.replication.cluster
        known = self._rooms.registration.observer.image.cluster
        return None if known is None else known.value

    def survey(self) -> Iterator[Seen]:
        """Yield what is known of the cluster, and the shards and groups that are led here, a little at a time."""
        return survey_cluster(self._rooms, self.replication, self._replicas_of)

    def start(self, now_ms: int, wall_ms: int) -> None:
        """Begin to live; ZooKeeper's first session is the first event."""
        self._now_ms, self._wall_offset_ms = now_ms, wall_ms - now_ms

    def step(self, event: Event, now_ms: int) -> list[Effect]:
        """Take in one event that happens at `now_ms` (monotonic) and return what is to be done, in order."""
        if self.is_halted:
            return []
        self._now_ms = now_ms = max(self._now_ms, now_ms)
        if self.replication is not None:
            self.replication.at(now_ms)
        self._take(event)
        self._settle()
        effects, self._out = self._out, []
        return self._wakes.in_one(effects, now_ms, is_tick=isinstance(event, events.Ticked))

    def _take(self, event: Event) -> None:
        now_ms, replication = self._now_ms, self.replication
        match event:
            case _ if replication is not None and is_of_members(event):
                replication.coordinate(event)
            case ZkSession() | ZkChanged():
                self._do(self._rooms.zookeeper(event, now_ms))
            case ZkReadDone() | ZkMultiDone():
                effects, ended = self._rooms.answered(event, now_ms)
                self._isr_written(ended)
                self._do(effects)
            case Remembered() | StateWanted():
                self._seen = None
                self._do(self._rooms.register(event, now_ms))
            case events.Ticked():
                self._wall_offset_ms = event.wall_ms - now_ms
                self._do(self._rooms.tick(now_ms))
                if replication is not None:
                    replication.tick(event)
            case events.RulesChanged(acl) if self._authorizer is not None:
                self._authorizer.change(acl)
            case events.DiskFailed() if replication is None:
                self._halt(event.halts_for)
            case _ if replication is None:
                pass  # a contact or a report of what a node that is not registered has not asked for
            case events.RequestArrived(request=DescribeCluster()) if replication.coordinator.may(event):
                self._describe(event, replication)
            case events.RequestArrived(request=ReassignShards() | ElectLeaders() | DrainNode() as request) if (
                replication.coordinator.may(event)
            ):
                self._do_as_told(event, request)
            case TurnEnded():
                replication.end_turn()
            case ContactBegan():
                self._lives[event.peer] = event.node_epoch
                self._seen = None
                replication.contact_began(event.peer, event.node_epoch)
                self._do(self._rooms.decide(PeerReached(event.peer, event.node_epoch), now_ms))
                self._out += replication.coordinator.hear(event.peer, now_ms)
            case ContactEnded():
                self._lives.pop(event.peer, None)
                self._seen = None
                replication.contact_ended(event.peer)
                self._do(self._rooms.decide(PeerLost(event.peer, event.node_epoch), now_ms))
            case PeerRefused():
                self._do(self._rooms.decide(NodeRefused(event.peer, event.node_epoch), now_ms))
            case PeerPinged() | PeerSaid():
                self._hear(event)
            case LogOpened() | LogSynced() | LogCut() | LogInstalled() | PieceWritten() | LogRead() | SnapshotRead():
                replication.disk(event)
            case events.AppendRefused():
                replication.append_refused(event)
            case _:
                replication.coordinate(event)

    # ---- the rooms of the cluster -----------------------------------------------------------------------------------

    def _do(self, effects: Iterable[RoomEffect]) -> None:
        for effect in effects:
            match effect:
                case ZkRead() | ZkMulti() | JoinedCluster() | RememberSeen():
                    self._out.append(effect)
                case LifeBegan(node_epoch):
                    self._live(node_epoch)
                case MayNotJoin(why):
                    self._halt(why)
                case TellNode():
                    self._tell(effect)
                case TookOffice(controller_epoch):
                    self._notice("office-taken", f"this node is the controller, in epoch {controller_epoch}")
                case LeftOffice(why):
                    self._notice("office-left", f"this node is the controller no longer: {why}")
                case Published(shards):
                    self._out += published(shards)
                case Stuck(whys):
                    for why in whys:
                        self._notice("stuck", why, is_warning=True)
                case WishRefused(shard, why):
                    self._notice("wish-refused", f"shard {shard}: {why}", is_warning=True)
                case _:
                    assert_never(effect)

    def _notice(self, kind: str, why: str, *, is_warning: bool = False) -> None:
        self._out.append(done.Notice(kind, why, is_warning=is_warning))

    def _halt(self, why: str) -> None:
        self.is_halted = True
        self._out.append(done.Halt(why))

    def _live(self, node_epoch: int) -> None:
        """Live under a node epoch: the first one of this process, or the next after its session was over."""
        self._node_epoch = node_epoch
        if self.replication is None:
            self.replication = self._first_life(node_epoch)
            if self._rooms.registration.has_lost_all and self._on_disk:
                self._notice("older-data-directory", why_behind(self._identity), is_warning=True)
        else:
            self.replication.registered(node_epoch)
        self._notice("registered", f"this node is registered, under node epoch {node_epoch}")
        self._do(self._rooms.decide(Registered(node_epoch), self._now_ms))
        self._do(self._rooms.read_anew(self._now_ms))

    def _first_life(self, node_epoch: int) -> Replication:
        cluster, settings = self.cluster, self._settings
        assert cluster is not None, "a node registers in a cluster"
        coordinator = Node(
            self._limits, cluster.shards, self._address, self._kafka_bootstrap, self._assignors, self._authorizer
        )
        coordinator.join(self._now_ms, self._now_ms + self._wall_offset_ms, self._incarnation, settings.find_hold_ms)
        replicas = Replicas(
            self._identity.node_id,
            node_epoch,
            settings.of_replicas(cluster.min_insync_replicas),
            self._identity.controller_epoch,
            self._on_disk,
        )
        replication = Replication(coordinator, replicas, settings, cluster)
        replication.at(self._now_ms)
        return replication

    # ---- what is told -----------------------------------------------------------------------------------------------

    def _tell(self, effect: TellNode) -> None:
        """Say to a node what the controller here has to tell it, this one among them."""
        if effect.node_id != self._identity.node_id:
            self._out.append(SayToPeer(effect.node_id, told_of(effect)))
            return
        self._obey(effect, NodeAnswered(effect.node_id, effect.node_epoch, effect.number))

    def _obey(self, told_here: TellNode, answer: NodeAnswered | SayToPeer) -> None:
        """Do what a controller tells, and answer after it, unless it was replaced or means a former life."""
        replication = self.replication
        assert replication is not None
        is_new = told_here.controller_epoch >= replication.replicas.controller_epoch
        if not is_new or told_here.node_epoch != self._node_epoch:
            return
        replication.obey(commands_of(told_here, self._now_ms))
        if told_here.is_init:  # nothing else has a replica here, but for what could not be read
            self._replicas_of = {it: self._replicas_of[it] for it in told_here.unreadable if it in self._replicas_of}
        self._replicas_of |= {each.shard: each.replicas for each in told_here.states}
        for stopped in told_here.stops:
            self._replicas_of.pop(stopped.shard, None)
        led: tuple[ShardState | ShardLeader, ...] = (*told_here.states, *told_here.leaders)
        for each in led:
            if each.leader_epoch >= self._leaders.get(each.shard, (0, None))[0]:
                self._leaders[each.shard] = each.leader_epoch, each.leader
        self._seen = None
        replication.out.append(answer)
        self._controller = told_here.controller_id

    def _describe(self, asked: events.RequestArrived, replication: Replication) -> None:
        """Answer who asks about the cluster, from what is known now."""
        known = Known(
            self._identity.node_id,
            self._controller,
            replication.replicas.controller_epoch,
            self._leaders,
            self._replicas_of,
            frozenset(self._lives),
            frozenset(self._peers),
        )
        told = describe(known, self._rooms, replication, self._now_ms + self._wall_offset_ms)
        self._out.append(done.Respond(asked.connection_id, asked.correlation_id, told))

    def _do_as_told(self, asked: events.RequestArrived, request: ReassignShards | ElectLeaders | DrainNode) -> None:
        """Answer an operator who wants something changed, and begin it."""
        rooms, now_ms, me = self._rooms, self._now_ms, self._identity.node_id
        answer = answer_operator(request, me, rooms, self._controller, self.hands_over, now_ms)
        if answer.recorded:
            self._notice("operator", answer.recorded)
        self._out.append(done.Respond(asked.connection_id, asked.correlation_id, answer.response))
        self._seen = None
        for wish in answer.begins:
            self._do(rooms.register(wish, now_ms) if isinstance(wish, StateWanted) else rooms.decide(wish, now_ms))

    def _hear(self, heard: PeerPinged | PeerSaid) -> None:
        replication = self.replication
        assert replication is not None
        if self._lives.get(heard.peer) != heard.node_epoch:
            return
        self._out += replication.coordinator.hear(heard.peer, self._now_ms)
        if isinstance(heard, PeerPinged):
            return
        message = heard.message
        try:
            match message:
                case wire.TellNode():
                    answer = wire.NodeAnswered(message.controller_epoch, message.number)
                    self._obey(told(message, self._identity.node_id), SayToPeer(heard.peer, answer))
                case wire.NodeAnswered():
                    office = self._rooms.controller.office
                    answered = None if office is None else answer_in(heard, office.controller_epoch)
                    if answered is not None:
                        self._do(self._rooms.decide(answered, self._now_ms))
                case wire.StepDown():
                    self._do(self._rooms.decide(step_down_in(message, heard.peer, heard.node_epoch), self._now_ms))
                case _:
                    replication.hear(heard)
        except PeerError as error:
            self._out.append(EndContact(heard.peer, str(error)))

    def _step_down(self, effect: wanted.StepDown) -> None:
        """Ask the controller for another leader; it is asked again from time to time, so that no answer is awaited."""
        self._notice("step-down", f"shard {effect.shard} wants another leader: {effect.why}", is_warning=True)
        message = step_down_of(effect)
        if self._rooms.has_office:
            asked = step_down_in(message, self._identity.node_id, self._node_epoch)
            self._do(self._rooms.decide(asked, self._now_ms))
        elif self._controller in self._lives:
            self._out.append(SayToPeer(self._controller, message))

    # ---- what follows -----------------------------------------------------------------------------------------------

    def _isr_written(self, ended: Iterable[said.IsrWritten]) -> None:
        if self.replication is not None:
            self._out += isr_written(self.replication, ended)

    def _settle(self) -> None:
        """Let what one room wants be taken in by the others, until nothing is left."""
        for _ in range(MOST_ROUNDS_OF_A_STEP):
            if self.is_halted or not (self._take_out() or self._look_at_cluster() or self._write_isr()):
                return
        raise AssertionError("the rooms of a node do not come to rest")

    def _take_out(self) -> bool:
        """Take what the replicas want done; True if there was something."""
        replication = self.replication
        if replication is None or not replication.out:
            return False
        out, replication.out = replication.out, []
        for effect in out:
            match effect:
                case done.Respond() | done.SendPush():  # there is one for every request
                    self._out.append(effect)
                case wanted.ChangeIsr():
                    self._rooms.writes.want(effect)
                case wanted.ReadIsr():
                    self._do(self._rooms.read_anew(self._now_ms))
                case wanted.Remember(controller_epoch):
                    self._out.append(effect)
                    self._do(self._rooms.register(Obeyed(controller_epoch), self._now_ms))
                case wanted.Resign():
                    self._rooms.writes.forget(effect.shard)
                case wanted.StepDown():
                    self._step_down(effect)
                case wanted.DropReplica():
                    self._out += [effect, *set_aside(effect)]
                case NodeAnswered():
                    self._do(self._rooms.decide(effect, self._now_ms))
                case wanted.HaltNode(why) | done.Halt(why):
                    self._halt(why)
                    return True
                case _:
                    self._out.append(effect)
        return True

    def _look_at_cluster(self) -> bool:
        """Take in what is new of those who live and of the in-sync sets of what is led here; True if something is."""
        replication, image = self.replication, self._rooms.image
        if replication is None:
            return False
        if self._seen is not None and all(map(is_, self._seen, (image, replication.led, self._rooms.is_certain))):
            return False
        if self._seen is None or self._seen[1] is not replication.led:
            # A node that is to be emptied looks at its other replicas too, to know when it is missed nowhere.
            is_ready = self._rooms.registration.state is NodeState.READY
            observed = replication.led if is_ready else replication.led | self._replicas_of.keys()
            self._do(self._rooms.observe_led(observed, self._now_ms))
        is_certain = self._rooms.is_certain
        self._seen = image, replication.led, is_certain
        for shard in sorted(replication.led):
            self._see_isr(replication, shard, image)
        if is_certain:
            lives = ((node, live.value.state) for node, live in image.live.items() if live.owner)
            replication.drain(frozenset(node for node, state in lives if state is NodeState.DRAINING))
            self._connect(image)
        self._out += replication.coordinator.know(
            neighbours(self._address, image, self._leaders, self._replicas_of, self._lives.keys()), self._now_ms
        )
        return True

    def _see_isr(self, replication: Replication, shard: int, image: Image) -> None:
        role, bucket, entry = replication.replicas[shard].role, image.bucket(shard), image.shard(shard)
        if bucket is None or entry is None or not isinstance(role, Leader) or bucket.version <= role.isr.version:
            return
        replication.step(shard, said.IsrSeen(self._now_ms, shard, entry.leader_epoch, bucket.version, tuple(entry.isr)))

    def _connect(self, image: Image) -> None:
        """Be in contact with all who live, and with those who lived until they come back in another life."""
        self._peers = peers_of(self._identity.node_id, image, self._peers)
        connected = ConnectPeers(self._node_epoch, self._peers)
        if connected != self._connected:
            self._connected = connected
            self._out.append(connected)

    def _write_isr(self) -> bool:
        """Make the changes of in-sync sets that can be made; True if something came of it."""
        effects, ended = self._rooms.write(self._now_ms)
        self._do(effects)
        self._isr_written(ended)
        return bool(effects or ended)
