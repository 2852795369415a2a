"""The shards of one node: which it leads and in which epoch, which is at work, and what a bug of ours costs.

To begin to lead a shard its log is read and replayed slice by slice, a record of the epoch goes first, and what needs
not survive begins as after a start: time in which nobody led is not counted. Records that a standby has replayed are
passed over. To resign drops all of it in one step; hard state that is committed to its end becomes a standby's. Nothing
that waited is ever said: whoever was owed it is closed, since a refusal would say that nothing was decided. The shard's
members are closed too; whoever asks later is told that this node is not the coordinator.

A bug costs the request that meets it, and its shard a load. The shard's state may be half changed, so it is thrown away
with all that the step had decided there, of which nothing was handed out, and read again from the log. The connection
that asked is closed with the reason, and so are those that were owed something of what was thrown away and those of the
shard's members, who come back as after a restart. What was decided before still stands: its records are with the disk,
and it is said first. The epoch goes on. Other shards go on in the same step.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain

from coordinator.core.effects import Append, BugMet, CloseConnection, Effect, LoadShard, Notice, Respond, SendPush
from coordinator.core.events import (
    AppendRefused,
    Event,
    LeadershipGiven,
    LeadershipGoesOn,
    RequestArrived,
    ShardRecovered,
    ShardUnreadable,
    StandbyFed,
)
from coordinator.core.groups.desk import Clock
from coordinator.core.groups.hard.journal import Journal
from coordinator.core.groups.hard.life_records import LeaderBegan
from coordinator.core.groups.hard.records import encode_record
from coordinator.core.groups.shard import Shard
from coordinator.core.groups.soft.remains import Remains
from coordinator.core.groups.soft.sessions import Connection
from coordinator.core.limits import Limits
from coordinator.core.request_shape import shape_of, where_of
from coordinator.core.shards.gates import Gates
from coordinator.core.shards.loads import Loads
from coordinator.core.shards.snapshots import Snapshots
from coordinator.core.shards.standbys import Standbys
from coordinator.protocol.errors import ErrorCode


class NotServedError(Exception):
    """A request is for a shard that is not in service here; `code` is for who asked."""

    def __init__(self, index: int, *, is_led: bool) -> None:
        if is_led:
            self.code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            super().__init__(f"shard {index} is being loaded; try again")
        else:
            self.code = ErrorCode.NOT_COORDINATOR
            super().__init__(f"shard {index} is not led by this node")


class ShardRack:
    """All shards of a node: in service, being loaded, or not led here."""

    def __init__(
        self,
        make: Sequence[Callable[[], Shard]],
        shard_of: Callable[[str], int],
        node_id: int,
        clock: Clock,
        connections: dict[int, Connection],
        gates: Gates[Effect],
        limits: Limits,
    ) -> None:
        self._make = make
        self.shard_of = shard_of
        self._node_id = node_id
        self._clock = clock
        self._connections = connections
        self._gates = gates
        self.shards = [make_one() for make_one in make]
        """Each with its state while it is in service, else empty."""
        self.remains = Remains()
        """The state of shards that are not in service any more."""
        self.standbys = Standbys(make, self.remains)
        self.snapshots = Snapshots(limits, self.shards, self.standbys.shards)
        self.loads = Loads(len(make))
        self._away = self.loads.waiting
        self.leader_epochs = [0] * len(make)
        """The last epoch in which this node was to lead each shard."""
        self._unclean_epochs = [0] * len(make)
        """The epoch of the last unclean election of each shard that is led, 0 if there was none."""
        self.working: int | None = None
        """The shard that is at work in this step, which is to blame for what goes wrong."""
        self.handed_out = [0] * len(make)
        """The end of each shard's records that were returned as effects, or loaded."""
        self.touched: set[int] = set()
        """The shards that did something in this step."""
        self.direct: list[Effect] = []
        """Effects of the step that wait for no record."""
        self.has_loaded = False
        """Some shard is served since this step."""
        self.stalled: set[int] = set()
        """The shards that decide nothing for now, for what they have decided does not leave."""
        self.incarnation = ""
        """Random, and part of the name of each life of a log that begins here."""
        self._lives = 0

    def at_work(self, group_id: str) -> Shard:
        """Return the shard of a group, which is at work from now on; raises NotServedError."""
        index = self.shard_of(group_id)
        if self._away and index in self._away:
            raise NotServedError(index, is_led=self.is_led(index))
        if self.stalled and index in self.stalled:
            raise NotServedError(index, is_led=True)
        self.working = index
        self.touched.add(index)
        return self.shards[index]

    def require_all(self) -> None:
        """Raise NotServedError unless every shard is in service."""
        for index in range(len(self.shards)) if self._away or self.stalled else ():
            if index in self._away or index in self.stalled:
                raise NotServedError(index, is_led=self.is_led(index))

    def is_led(self, index: int) -> bool:
        """Return whether this node leads a shard, also while it is being loaded."""
        return index not in self.loads.not_led

    def is_served(self, index: int) -> bool:
        """Return whether requests about a shard are answered here: it is led, loaded and not stalled."""
        return index not in self._away and index not in self.stalled

    def contained(self, index: int, event: Event | None, work: Callable[..., object], *arguments: object) -> object:
        """Have one of several shards do something, unless it is away; what goes wrong there is its own."""
        if index in self._away:
            return None
        self.working = index
        self.touched.add(index)
        try:
            return work(*arguments)
        except Exception as error:  # noqa: BLE001 - a bug of ours costs one shard a load, whatever it is
            self.contain(error, event)
            return None
        finally:
            self.working = None

    # ---- leadership -------------------------------------------------------------------------------------------------

    def start(self, incarnation: str) -> None:
        """Lead every shard, as nobody has done before under this name: all are loaded, and all there is is committed.

        Each epoch is the one after the last in the shard's log: a node that is alone is every shard's only replica.
        """
        self.incarnation = incarnation
        for index, shard in enumerate(self.shards):
            journal = shard.desk.journal
            self._begin_epoch(index, journal.leader_epoch + 1, journal.log_end_offset)
            self._serve(index, shard)
            self.contained(index, None, _to_its_end, self._begin(index, shard, incarnation))

    def lead(self, event: LeadershipGiven) -> None:
        """Begin to lead a shard in an epoch: its log is read, and it is served once all of it is replayed.

        Where the end of its log is known, the record of the epoch goes there before it is read.
        """
        index, leader_epoch = event.shard, event.leader_epoch
        if leader_epoch <= self.leader_epochs[index]:
            return
        self.resign(index, f"this node leads it anew, in epoch {leader_epoch}")
        self._give_up_snapshot(index)
        # What is known to be committed is what waits for nothing: the epoch's own record comes after all of it.
        self._begin_epoch(index, leader_epoch, 0)
        self._unclean_epochs[index] = event.unclean_epoch
        self._load(index, event.log_end)

    def _load(self, index: int, log_end: int | None) -> None:
        """Have a shard read, with the record of its epoch where the log ends if that is known."""
        leader_epoch = self.leader_epochs[index]
        self.loads.begin(index)
        self.loads.failed[index] = 0
        if log_end is not None:
            self._append_began(index, log_end)
        self.direct.append(LoadShard(index, leader_epoch))

    def _append_began(self, index: int, log_end: int) -> bytes:
        """Append the record of a shard's epoch, which its replica counts already, whatever becomes of this step."""
        leader_epoch = self.leader_epochs[index]
        began = encode_record(LeaderBegan(leader_epoch, self._node_id, self._clock.wall_ms))
        self.direct.append(Append(index, log_end, leader_epoch, (began,)))
        self.handed_out[index] = log_end + 1
        return began

    def go_on(self, event: LeadershipGoesOn) -> None:
        """Lead a shard that is led here in the next epoch too; one that a bug took out of service is read again."""
        index, log_end = event.shard, event.log_end
        assert self.is_led(index), "only a leader goes on"
        self._begin_epoch(index, event.leader_epoch, 0)
        if index in self._away:
            self._load(index, log_end)
            return
        journal, began = self.shards[index].desk.journal, self._append_began(index, log_end)
        self.contained(index, event, journal.go_on, event.leader_epoch, log_end, began)

    # ---- standbys ---------------------------------------------------------------------------------------------------

    def feed(self, event: StandbyFed) -> None:
        """Have a standby replay records; a bug costs that standby, and the log is followed all the same."""
        index = event.shard
        try:
            self.standbys.feed(event)
        except Exception as error:  # noqa: BLE001 - records that cannot be replayed cost a shard its standby
            why = f"the standby of shard {index} met a bug at {where_of(error)}; it is followed without one"
            self.direct.append(BugMet(why, error))
            self.drop_standby(index)
            return
        self.snapshots.look_at(index)

    def drop_standby(self, index: int) -> None:
        """Forget a standby, and the snapshot that is made of it."""
        if index in self.standbys.shards:
            self.snapshots.forget(index)
            self.standbys.drop(index)

    def _give_up_snapshot(self, index: int) -> None:
        """Make no snapshot of a standby that is to be led: what goes on is the load."""
        if index in self.standbys.shards:
            self.snapshots.forget(index)
            self.standbys.shards[index].desk.journal.abandon_snapshot()

    # ---- epochs -----------------------------------------------------------------------------------------------------

    def stall(self, index: int) -> None:
        """Decide nothing about a shard for a while; a snapshot of it would keep those of all others waiting with it."""
        self.stalled.add(index)
        self.snapshots.forget(index)
        self.shards[index].desk.journal.abandon_snapshot()

    def _begin_epoch(self, index: int, leader_epoch: int, high_watermark: int) -> None:
        self.leader_epochs[index] = leader_epoch
        self._gates.begin(index, leader_epoch, high_watermark)

    def resign(self, index: int, why: str) -> None:
        """Lead a shard no longer, in this very step; one that is not led stays as it is."""
        if not self.is_led(index):
            return
        desk = self.shards[index].desk
        journal, committed = desk.journal, self._gates.high_watermark(index)
        is_kept = index not in self._away and journal.log_end_offset <= committed
        dropped = (*desk.sends, *self._gates.drop(index))
        if is_kept:
            desk.journal = Journal(index)  # what is thrown away is the rest
        self._throw_away(index)
        if is_kept:
            self.standbys.keep(index, journal)
        self.loads.give_up(index)
        why_closed = f"shard {index} is led by this node no longer: {why}"
        self.direct += [CloseConnection(connection_id, why_closed) for connection_id in self._owed(index, dropped)]
        said = "what was noted and not answered since its log was last on disk may not have happened"
        self.direct.append(Notice("shard-resigned", f"{why_closed}; {said}"))

    # ---- bugs -------------------------------------------------------------------------------------------------------

    def contain(self, error: Exception, event: Event | None) -> None:
        """Throw away what a bug may have left half done, have it read again, and close the connection that asked."""
        index, self.working = self.working, None
        asker = event.connection_id if isinstance(event, RequestArrived) else None
        about = shape_of(event.request) if isinstance(event, RequestArrived) else type(event).__name__
        where = "" if index is None else f"; shard {index} is loaded again from its log"
        self.direct.append(BugMet(f"{about} met a bug at {where_of(error)}{where}", error))
        why = f"{about} met a bug of the coordinator's, which is in its log; connect again"
        if index is not None:
            self._drop(index, asker, why)
        elif asker is not None:
            self._close(asker, why)

    def _close(self, connection_id: int, why: str) -> None:
        """Close a connection that a bug has cost its answer; its member is without it as with any that is lost."""
        connection = self._connections.get(connection_id)
        if connection is not None:
            connection.is_closing = True
            self.direct.append(CloseConnection(connection_id, why))

    def _drop(self, index: int, asker: int | None, why: str) -> None:
        """Take a shard out of service, close what it may owe an answer or a push, and have its log read."""
        dropped = (*self.shards[index].desk.sends, *self._gates.cut(index, self.handed_out[index]))
        self._throw_away(index)
        reasons = {effect.connection_id: effect.why for effect in dropped if isinstance(effect, CloseConnection)}
        why_closed = f"shard {index} is loaded again after a bug; connect again"
        closing = {owed: reasons.get(owed, why_closed) for owed in self._owed(index, dropped)}
        if asker is not None:
            closing[asker] = why
        closes: list[Effect] = []
        for connection_id, its_why in closing.items():
            closed = self._connections.get(connection_id)
            if closed is not None:
                closed.is_closing = True
                closes.append(CloseConnection(connection_id, its_why))
        self._gates.park(index, closes, self.handed_out[index])
        self._load_after_bug(index)

    def _throw_away(self, index: int) -> None:
        """Have a shard without any state in the place of one."""
        self.shards[index].leave(self.remains)
        self.shards[index] = self._make[index]()
        self.snapshots.forget(index)
        self.stalled.discard(index)
        self.touched.add(index)

    def _owed(self, index: int, dropped: Sequence[Effect]) -> list[int]:
        """Return the connections that get nothing more of a shard: its members', and who waits for it; none twice.

        Those of members are nobody's from now on.
        """
        owed: dict[int, None] = {}
        for effect in dropped:
            if isinstance(effect, Respond | SendPush | CloseConnection) and effect.connection_id in self._connections:
                owed[effect.connection_id] = None
        for connection_id, connection in self._connections.items():
            is_its_member = connection.group_id is not None and self.shard_of(connection.group_id) == index
            if is_its_member:
                connection.unbind()
            if is_its_member or index in connection.may_wait_for:
                connection.is_registering = False
                if not connection.is_closing:
                    owed[connection_id] = None
        for connection_id in owed:
            self._connections[connection_id].is_closing = True
        return list(owed)

    def _load_after_bug(self, index: int) -> None:
        after_ms = self.loads.begin_after_bug(index, self._clock.now_ms)
        self.direct.append(LoadShard(index, self.leader_epochs[index], after_ms, self.loads.failed[index]))

    def _load_after_failure(self, index: int) -> None:
        self.loads.failed[index] += 1
        self._load_after_bug(index)

    # ---- loads ------------------------------------------------------------------------------------------------------

    def refused(self, event: AppendRefused) -> None:
        """Take back what was decided upon records that never reached the log: nobody has heard of it, or will."""
        index = event.shard
        self.direct.append(BugMet(f"the log of shard {index} did not take records; it is loaded again", event.error))
        self.handed_out[index] = min(self.handed_out[index], event.end_offset)
        if index not in self._away:
            self._drop(index, None, "")
            return
        for effect in self._gates.cut(index, self.handed_out[index]):
            if isinstance(effect, Respond | SendPush | CloseConnection):
                self._close(effect.connection_id, "what it asked for was lost to a bug; connect again")

    def _is_awaited(self, event: ShardRecovered | ShardUnreadable) -> bool:
        """Return whether a load is the one that is waited for: that of an epoch which is over is void."""
        return event.leader_epoch == self.leader_epochs[event.shard] and self.loads.is_awaited(event.shard)

    def unreadable(self, event: ShardUnreadable) -> None:
        """Try again, later each time, to read a log that could not be read."""
        if self._is_awaited(event):
            why = f"shard {event.shard} is not served: {event.why}; trying again"
            self.direct.append(Notice("shard-unreadable", why, is_warning=True))
            self._load_after_failure(event.shard)

    def recovered(self, event: ShardRecovered) -> None:
        """Begin to replay what was read."""
        index = event.shard
        if self._is_awaited(event):
            fresh, pieces = self.standbys.take(index, event.pieces)
            journal = fresh.desk.journal
            journal.leader_epoch = event.last_epoch
            self._lives += 1
            # A life of the log's own: what a member was told of the one before ends where it did.
            begin = self._begin(index, fresh, f"{self.incarnation}.{self._lives}")
            self.loads.go_on_with(index, fresh, chain(journal.loading(pieces), begin))

    def load_slice(self, most_bytes: int) -> None:
        """Replay about so many bytes more of a shard that is being loaded, and serve it once it is whole and has begun.

        One shard comes after the other, so that no step is longer for many of them, and the first is soon served.
        """
        index = next(iter(self.loads.under_way), None)
        if index is None:
            return
        try:
            fresh = self.loads.load_slice(index, most_bytes)
        except Exception as error:  # noqa: BLE001 - records that cannot be replayed keep one shard out of service
            why = f"shard {index} could not be loaded at {where_of(error)}; trying again"
            self.direct.append(BugMet(why, error))
            self._load_after_failure(index)
            return
        if fresh is not None:
            why = f"shard {index} is served again, to offset {self.handed_out[index]}"
            self.direct.append(Notice("shard-loaded", why))
            self._serve(index, fresh)

    def _serve(self, index: int, shard: Shard) -> None:
        """Have a shard in service."""
        self.shards[index] = shard
        shard.became_durable(self._gates.high_watermark(index))
        self.loads.done(index)
        self.has_loaded = True
        self.touched.add(index)

    def _begin(self, index: int, shard: Shard, incarnation: str) -> Iterator[int]:
        """Begin to decide, bit by bit; the record of an epoch goes before all that is decided in it."""
        journal, leader_epoch = shard.desk.journal, self.leader_epochs[index]
        self.handed_out[index] = journal.log_end_offset
        if journal.leader_epoch != leader_epoch:
            journal.begin_epoch(leader_epoch, self._node_id, self._clock.wall_ms)
        yield from shard.start(incarnation, self._unclean_epochs[index])


def _to_its_end(work: Iterator[int]) -> None:
    for _ in work:
        pass
