"""The replicas of a node joined to its coordinator and to its peers.

What a replica wants is done here, or handed on: to the coordinator as an event, to a peer as a message, to the disk as
an effect. What ends a turn sends followers what was appended, asks for rounds that no record carries, and reports to
leaders. An append is told to its replica before anything else that concerns the shard. Nothing here knows ZooKeeper:
the changes of in-sync sets and the wish to be replaced are for the rooms of the cluster.
"""

from collections.abc import Iterable
from typing import Final, TypeAlias, assert_never

from msgspec.structs import replace

from coordinator.core import effects as done
from coordinator.core import events
from coordinator.core.cluster.events import NodeAnswered
from coordinator.core.cluster.znodes import Cluster
from coordinator.core.cluster_node.confirmations import Confirmations
from coordinator.core.cluster_node.effects import Effect, LoadLog, ReadLog, ReadSnapshot
from coordinator.core.cluster_node.events import (
    DiskEvent,
    LogCut,
    LogInstalled,
    LogOpened,
    LogRead,
    LogSynced,
    PieceWritten,
    SnapshotRead,
)
from coordinator.core.cluster_node.installs import Failed, Installs
from coordinator.core.cluster_node.settings import ClusterSettings
from coordinator.core.cluster_node.standby.feeds import OWN_STANDBY
from coordinator.core.cluster_node.standby.keeping import StandbyKeeping
from coordinator.core.cluster_node.stream.streams import Streams
from coordinator.core.cluster_node.stream.tail import Tails
from coordinator.core.log.entry import Batch
from coordinator.core.node import Node
from coordinator.core.peers import words
from coordinator.core.peers.effects import SayToPeer
from coordinator.core.peers.events import PeerSaid
from coordinator.core.replica import effects as wanted
from coordinator.core.replica import events as said
from coordinator.core.replica import leader as leading
from coordinator.core.replica.replica import NOT_MATCHED, Follower, Leader
from coordinator.core.replica.replicas import Commands, Replicas
from coordinator.core.replica.step import Ticks, due_ms
from coordinator.core.shards.loads import MOST_FAILED_LOADS
from coordinator.protocol import peer_messages as wire

Upward: TypeAlias = wanted.ChangeIsr | wanted.ReadIsr | wanted.StepDown | wanted.HaltNode | wanted.Resign | NodeAnswered
"""Wishes for the rooms of the cluster; a leader that resigns has made its last change."""
_OF_A_SHARD: Final = (
    said.FetchAsked,
    said.FetchEnded,
    said.ProgressMade,
    said.CutRefused,
    said.FetchAnswered,
    said.RecordsPushed,
)


class Replication:
    """The replicas of one node and all that they need; `out` is what is to be done, in its order."""

    def __init__(self, coordinator: Node, replicas: Replicas, settings: ClusterSettings, cluster: Cluster) -> None:
        self.coordinator = coordinator
        self.replicas = replicas
        self.out: list[Effect | Upward] = []
        self.led: frozenset[int] = frozenset()
        """The shards that are led here, loaded or not."""
        self.draining: frozenset[int] = frozenset()
        """The nodes that are being drained, as far as is known."""
        self.cluster = cluster
        """The cluster as this node has registered in it."""
        self._now_ms = 0
        self._contacts: dict[int, int] = {}
        self._appended: dict[int, tuple[int, int]] = {}
        self._tails = Tails(settings.tail_bytes, settings.tails_bytes)
        self._loading: dict[int, int] = {}
        self._stalled: set[int] = set()
        self._told: dict[tuple[int, int], int] = {}
        """By follower and shard: the high watermark that it was told last."""
        self._ticks = Ticks()
        """By shard: its replica as it was looked at last, and when a tick may change it."""
        self._streams = Streams(settings.window_bytes, settings.peer_window_bytes)
        self._confirmations = Confirmations(settings.confirm_linger_ms)
        self._installs = Installs()
        self._standbys = StandbyKeeping(coordinator, replicas, settings.tails_bytes, self.coordinate)
        coordinator.gates.next_round = self._confirmations.next_round

    def at(self, now_ms: int) -> None:
        """Take note of the time of the events that follow."""
        self._now_ms = now_ms

    # ---- the coordinator --------------------------------------------------------------------------------------------

    def coordinate(self, event: events.Event) -> None:
        """Have the coordinator take in an event; what it appends is the replica's at the end of the turn."""
        for effect in self.coordinator.step(event, self._now_ms):
            match effect:
                case done.Append(shard, base_offset, leader_epoch, records):
                    batch = Batch(base_offset, leader_epoch, records)
                    self._tails.add(shard, batch)
                    self._appended[shard] = leader_epoch, batch.end
                    self.out.append(effect)
                case done.LoadShard(shard, leader_epoch, after_ms, failed):
                    end = self._appended[shard][1] if shard in self._appended else self.replicas[shard].log.end
                    self.out.append(LoadLog(shard, leader_epoch, end, after_ms))
                    if failed >= MOST_FAILED_LOADS:
                        why = f"its log could not be loaded here, {failed} times"
                        self.out.append(wanted.StepDown(shard, leader_epoch, why, cannot_load=True))
                case _:
                    self.out.append(effect)
        if self._loading:
            self._note_loaded()

    def _note_loaded(self) -> None:
        for shard, leader_epoch in sorted(self._loading.items()):
            if self.coordinator.is_loaded(shard):
                del self._loading[shard]
                self.step(shard, said.ShardLoaded(self._now_ms, shard, leader_epoch))

    # ---- replicas ---------------------------------------------------------------------------------------------------

    def step(self, shard: int, event: said.Event) -> None:
        """Have the replica of a shard take in an event."""
        self._tell_appended(shard)
        led = self.led
        self._perform(self.replicas.step(shard, event))
        self._look_at_gate(shard)
        if self.led > led:  # it leads from now on, by a follower's word
            for peer in sorted(self.draining):
                self.step(shard, said.PeerDraining(self._now_ms, peer, is_draining=True))

    def append_refused(self, event: events.AppendRefused) -> None:
        """Have a replica know that its log did not take what it counts; who leads it leaves its epoch."""
        why = f"the log of shard {event.shard} did not take records from {event.end_offset} on; its epoch is over"
        self.out.append(done.BugMet(why, event.error))
        self.step(event.shard, said.AppendRefused(self._now_ms, event.shard, event.end_offset))

    def step_all(self, event: said.PeerUp | said.PeerDown | said.PeerDraining) -> None:
        """Have every replica take in what concerns all of them."""
        self._tell_all_appended()
        self._perform(self.replicas.step_all(event))
        self._look_at_gates()

    def registered(self, node_epoch: int) -> None:
        """Live on under another node epoch."""
        self._tell_all_appended()
        self._perform(self.replicas.registered(self._now_ms, node_epoch))
        self._look_at_gates()

    def obey(self, told: Commands) -> None:
        """Do what a controller commands."""
        self._tell_all_appended()
        self._perform(self.replicas.obey(told))
        self._look_at_gates()
        for shard in sorted(self.led):
            for peer in sorted(self.draining):
                self.step(shard, said.PeerDraining(self._now_ms, peer, is_draining=True))

    def drain(self, draining: frozenset[int]) -> None:
        """Take note of which nodes are being drained."""
        changed, self.draining = draining ^ self.draining, draining
        for peer in sorted(changed):
            self.step_all(said.PeerDraining(self._now_ms, peer, is_draining=peer in draining))

    def _tell_appended(self, shard: int) -> None:
        appended = self._appended.pop(shard, None)
        if appended is not None:
            self._perform(self.replicas.step(shard, said.Appended(self._now_ms, shard, *appended)))
            self._look_at_gate(shard)

    def _tell_all_appended(self) -> None:
        for shard in sorted(self._appended):
            self._tell_appended(shard)

    def _look_at_gates(self) -> None:
        for shard in self.led:
            self._look_at_gate(shard)

    def _look_at_gate(self, shard: int) -> None:
        """Have what is decided from now on wait for a round, or not."""
        replica = self.replicas[shard]
        if isinstance(replica.role, Leader):
            has_others = leading.has_others(replica, replica.role)
            self.coordinator.gates.ask_others(shard, has_others=has_others)

    def _perform(self, effects: Iterable[wanted.Effect]) -> None:
        for effect in effects:
            match effect:
                case wanted.PushRecords():
                    self._streams.push(effect)
                case wanted.ReportProgress():
                    self._confirmations.report(effect)
                case wanted.GateMoved(shard, leader_epoch, high_watermark, confirmed_round):
                    self.coordinate(events.GateMoved(shard, leader_epoch, high_watermark, confirmed_round))
                case wanted.AnswerFetch():
                    self._told.pop((effect.follower, effect.shard), None)
                    self._say(effect.follower, words.answer_of(effect))
                case wanted.AskFetch():
                    self._standbys.note(effect)
                    self._say(effect.leader, words.fetch_of(effect))
                case wanted.EndFetch():
                    self._confirmations.withdraw(effect.leader, effect.shard)
                    self._say(effect.leader, words.stop_of(effect))
                case wanted.RefuseCut():
                    self._say(effect.leader, words.refusal_of(effect))
                case wanted.InstallSnapshot():
                    self._install(effect)
                case wanted.DropReplica():
                    self._installs.ended(effect.shard)
                    self._standbys.drop(effect.shard)
                    self.out.append(effect)
                case wanted.AppendBatches() | wanted.TruncateLog():
                    self._standbys.note(effect)
                    self.out.append(effect)
                case wanted.OpenReplica() | wanted.Remember():
                    self.out.append(effect)
                case wanted.ChangeIsr() | wanted.ReadIsr() | wanted.StepDown() | wanted.HaltNode():
                    self.out.append(effect)
                case wanted.BeginEpoch() | wanted.Resign() | wanted.BecomeServing() | wanted.BecomeStalled():
                    self._lead(effect)
                case wanted.GoesOnInDoubt(shard, leader_epoch, why):
                    self.out.append(_goes_on_in_doubt(shard, leader_epoch, why))
                case wanted.CommittedTo():
                    self._standbys.note(effect)
                case wanted.LoadShard():
                    pass  # the coordinator asks for its load itself
                case _:
                    assert_never(effect)

    def _lead(self, effect: wanted.BeginEpoch | wanted.Resign | wanted.BecomeServing | wanted.BecomeStalled) -> None:
        """Have the coordinator lead a shard, or not any more, or decide nothing for a while."""
        shard = effect.shard
        match effect:
            case wanted.BeginEpoch(_, leader_epoch, base_offset, goes_on, unclean_epoch):
                self.led |= {shard}
                self._standbys.lead(shard)
                self._streams.end_shard(shard)  # fetches begin anew in each epoch
                if goes_on:
                    self.coordinate(events.LeadershipGoesOn(shard, leader_epoch, base_offset))
                else:
                    self._loading[shard] = leader_epoch
                    self._stalled.discard(shard)
                    self.coordinate(events.LeadershipGiven(shard, leader_epoch, base_offset, unclean_epoch))
            case wanted.Resign():
                self.led -= {shard}
                self._stalled.discard(shard)
                self._loading.pop(shard, None)
                self._appended.pop(shard, None)
                self._tails.drop(shard)
                self._streams.end_shard(shard)
                self.coordinate(events.LeadershipTaken(shard, "its replica has left the epoch"))
                self.out.append(effect)
            case wanted.BecomeServing():
                if shard in self._stalled:
                    self._stalled.discard(shard)
                    self.out.append(done.Notice("shard-unstalled", f"what shard {shard} has decided has left"))
                    self.coordinate(events.ShardServes(shard))
            case wanted.BecomeStalled():
                self._stalled.add(shard)
                why = f"shard {shard} decides nothing more: what it has decided does not leave"
                self.out.append(done.Notice("shard-stalled", why, is_warning=True))
                self.coordinate(events.ShardStalled(shard))
            case _:
                assert_never(effect)

    # ---- the disk ---------------------------------------------------------------------------------------------------

    def disk(self, event: DiskEvent) -> None:
        """Take in what the disk has done."""
        now_ms, shard = self._now_ms, event.shard
        match event:
            case LogOpened():
                self.step(shard, said.ReplicaOpened(now_ms, shard, event.log))
            case LogSynced():
                self.step(shard, said.LogSynced(now_ms, shard, event.log_number, event.end))
            case LogCut():
                self.step(shard, said.LogCut(now_ms, shard, event.log_number))
            case LogInstalled():
                self._installs.ended(shard)
                self.step(shard, said.SnapshotInstalled(now_ms, shard, event.log_number, event.end, event.last_epoch))
            case PieceWritten():
                self.coordinate(events.SnapshotWritten(shard, event.end_offset, event.is_whole))
                if event.is_whole:
                    self.step(shard, said.LogStartMoved(now_ms, shard, event.log_number, event.end_offset))
            case LogRead() | SnapshotRead() if event.follower == OWN_STANDBY:
                self.out.append(self._standbys.was_read(event, now_ms))
            case LogRead():
                if event.batches is None:
                    self._perform(self._streams.skip(event, self.replicas[shard].log.start))
                else:
                    self._streams.was_read(event)
            case SnapshotRead():
                self._send_piece(event)
            case _:
                assert_never(event)

    # ---- snapshots --------------------------------------------------------------------------------------------------

    def _install(self, effect: wanted.InstallSnapshot) -> None:
        self._standbys.drop(effect.shard)
        if effect.leader in self._contacts:
            self._installs.begin(effect)
        else:
            self.step(effect.shard, said.SnapshotFailed(self._now_ms, effect.shard, effect.log_number))

    def _failed(self, failed: Failed) -> None:
        give_up, event = failed
        self.out.append(give_up)
        self.step(event.shard, event)

    def _read_snapshot(self, peer: int, asked: wire.FetchSnapshot) -> None:
        replica = self.replicas[asked.shard]
        if isinstance(replica.role, Leader) and replica.leader_epoch == asked.leader_epoch:
            self.out.append(
                ReadSnapshot(asked.shard, peer, asked.leader_epoch, asked.log_number, asked.end, asked.position)
            )
        else:
            why = f"shard {asked.shard} is not led in epoch {asked.leader_epoch} here"
            self._say(peer, wire.SnapshotRefused(asked.shard, asked.leader_epoch, asked.log_number, why))

    def _send_piece(self, read: SnapshotRead) -> None:
        piece, to = read.piece, read.follower
        if piece is None:
            why = "there is no such snapshot any more"
            self._say(to, wire.SnapshotRefused(read.shard, read.leader_epoch, read.log_number, why))
            return
        self._say(to, words.piece_of(read.shard, read.leader_epoch, read.log_number, piece, read.next_position))

    # ---- peers ------------------------------------------------------------------------------------------------------

    def _say(self, peer: int, message: wire.PeerMessage) -> None:
        if peer in self._contacts:
            self.out.append(SayToPeer(peer, message))

    def contact_began(self, peer: int, node_epoch: int) -> None:
        """Be in contact with a peer."""
        self._contacts[peer] = node_epoch
        self.step_all(said.PeerUp(self._now_ms, peer))

    def contact_ended(self, peer: int) -> None:
        """Forget what was under way to a peer, or awaited of it."""
        self._contacts.pop(peer, None)
        self._confirmations.disconnected(peer)
        self._streams.end_peer(peer)
        self._told = {key: told for key, told in self._told.items() if key[0] != peer}
        for failed in self._installs.end_peer(peer, self._now_ms):
            self._failed(failed)
        self.step_all(said.PeerDown(self._now_ms, peer))

    def hear(self, heard: PeerSaid) -> None:
        """Take in what a peer says about a shard, or a round."""
        peer, message = heard.peer, heard.message
        match message:
            case wire.Confirm(round_):
                self._confirmations.asked(peer, round_, answers_with_sync=False)
            case wire.ReplicaRecords():
                before = len(self.out)
                self._hear_all(heard)
                answers_with_sync = any(isinstance(each, wanted.AppendBatches) for each in self.out[before:])
                self._confirmations.asked(peer, message.round, answers_with_sync=answers_with_sync)
            case wire.ReplicaProgress():
                for shard in message.shards:
                    progress = shard.shard, shard.leader_epoch, shard.fetch, shard.durable_end
                    self._streams.progressed(peer, *progress)
                round_ = self._confirmations.answered(peer, message.round)
                if round_ != message.round:  # it was not asked for that one
                    heard = replace(heard, message=wire.ReplicaProgress(round_, message.shards))
                self._hear_all(heard)
                self._confirmed(peer, round_)
            case wire.FetchSnapshot():
                if message.shard < self.cluster.shards:
                    self._read_snapshot(peer, message)
            case wire.SnapshotPiece():
                self.out += self._installs.came(peer, message)
            case wire.SnapshotRefused():
                failed = self._installs.refused(peer, message, self._now_ms)
                if failed is not None:
                    self._failed(failed)
            case _:
                self._hear_all(heard)

    def _hear_all(self, heard: PeerSaid) -> None:
        for event in words.heard(heard, self._now_ms):
            assert isinstance(event, _OF_A_SHARD), "a peer speaks of shards"
            of_leader = isinstance(event, said.FetchAnswered | said.RecordsPushed)
            if event.shard >= self.cluster.shards or (of_leader and not self._follows(event.shard, heard.peer)):
                continue
            self.step(event.shard, event)
            if isinstance(event, said.FetchAnswered) and (again_ms := due_ms(self.replicas[event.shard])) is not None:
                self.out.append(done.WakeAt(again_ms))

    def _follows(self, shard: int, peer: int) -> bool:
        """Return whether a peer is the leader here: its epoch and fetch are easily named by another."""
        role = self.replicas[shard].role
        return isinstance(role, Follower) and role.leader == peer

    def _confirmed(self, peer: int, round_: int) -> None:
        """Count a round for every fetch of the peer that is open: it has ended those that it has left.

        Where nothing waits for a round none is counted: a later one will be asked for.
        """
        for shard, _ in self.coordinator.gates.wanted_rounds():
            role = self.replicas[shard].role
            for fetch in role.fetches if isinstance(role, Leader) else ():
                if fetch.node == peer and fetch.is_open and fetch.round < round_:
                    life, epoch = fetch.node_epoch, self.replicas[shard].leader_epoch
                    self.step(
                        shard,
                        said.ProgressMade(self._now_ms, shard, peer, life, epoch, fetch.fetch, NOT_MATCHED, round_),
                    )

    # ---- time -------------------------------------------------------------------------------------------------------

    def tick(self, event: events.Ticked) -> None:
        """Let time pass for the coordinator and for every replica that it may matter to."""
        self.coordinate(event)
        gates, now_ms = self.coordinator.gates, self._now_ms
        for shard in self.replicas.shards:
            since_ms = gates.waiting_since(shard, now_ms) if shard in self.led else None
            if shard in self._appended or self._ticks.matters(shard, self.replicas[shard], since_ms, now_ms):
                self.step(shard, said.Ticked(now_ms, since_ms))
        self.out += self._standbys.go_on(self._now_ms)
        self._confirmations.owe_all()
        self._tell_high_watermarks()

    def _tell_high_watermarks(self) -> None:
        """Tell followers what is committed, in case no records come that would."""
        pushes: dict[int, list[tuple[wanted.PushRecords, tuple[Batch, ...]]]] = {}
        for shard in sorted(self.led):
            replica = self.replicas[shard]
            for fetch in replica.role.fetches if isinstance(replica.role, Leader) else ():
                if self._told.get((fetch.node, shard)) == replica.high_watermark or fetch.node not in self._contacts:
                    continue
                push = leading.told_high_watermark(replica, fetch.node)
                if push is not None:
                    self._told[fetch.node, shard] = replica.high_watermark
                    pushes.setdefault(fetch.node, []).append((push, ()))
        for peer, its in sorted(pushes.items()):
            for message in words.records_of(0, its):
                self._say(peer, message)

    # ---- the end of a turn ------------------------------------------------------------------------------------------

    def end_turn(self) -> None:
        """Send followers what was appended, ask for the rounds that are waited for, and report to leaders."""
        self._tell_all_appended()
        self.out += self._installs.due()
        self._send_records()
        if awaited := self.coordinator.gates.wanted_rounds():
            self._ask_for_rounds(awaited)
        for leader, round_, reports in self._confirmations.take_answers():
            self._say(leader, words.progress_of(round_, reports))

    def _send_records(self) -> None:
        pushes: dict[int, list[tuple[wanted.PushRecords, tuple[Batch, ...]]]] = {}
        for stream in self._streams.due():
            shard, peer = stream.push.shard, stream.push.follower
            replica = self.replicas[shard]
            taken = self._streams.take(stream, self._tails[shard], replica.log.durable_end)
            if isinstance(taken, ReadLog):
                self.out.append(taken)
            elif taken is not None:
                high_watermark = replica.high_watermark
                push = replace(
                    stream.push, begin=taken[0].base_offset, end=taken[-1].end, high_watermark=high_watermark
                )
                pushes.setdefault(peer, []).append((push, taken))
        for peer, its in sorted(pushes.items()):
            round_ = self._confirmations.with_records(peer, self._now_ms)
            for message in words.records_of(round_, its):
                self._say(peer, message)
        self.coordinator.gates.next_round = self._confirmations.next_round

    def _ask_for_rounds(self, awaited: Iterable[tuple[int, int]]) -> None:
        """Ask peers whether they follow, for what waits for a round that nothing under way brings."""
        peers: set[int] = set()
        for shard, round_ in awaited:
            replica = self.replicas[shard]
            if not isinstance(replica.role, Leader):
                continue
            behind = {fetch.node for fetch in replica.role.fetches if fetch.is_open and fetch.round < round_}
            if behind:
                peers |= behind.intersection(replica.role.isr.maximal) & self._contacts.keys()
        for peer in sorted(peers):
            if (asked := self._confirmations.alone(peer, self._now_ms)) is not None:
                self._say(peer, wire.Confirm(asked))
            elif (again_ms := self._confirmations.again_ms(peer)) is not None:
                self.out.append(done.WakeAt(again_ms))
        self.coordinator.gates.next_round = self._confirmations.next_round


def _goes_on_in_doubt(shard: int, leader_epoch: int, why: str) -> done.Notice:
    text = (
        f"shard {shard} goes on in epoch {leader_epoch} with the log that is on this node's disk, for {why}: if this "
        "directory was put back from a copy, what was acknowledged after it is lost"
    )
    return done.Notice("leads-in-doubt", text, is_warning=True)
