"""The shards of one node: which is at work, which is being loaded again, and what a bug of ours costs.

A bug costs the request that meets it, and its shard a load. The shard's state may be half changed, so it is thrown away
with all that the step had decided there, of which nothing was handed out, and read again from the log. The connection
that asked is closed with the reason, and so are those that were owed something of what was thrown away and those of the
shard's members, who come back as after a restart. What was decided before still stands: its records are with the disk,
and it is said first. Other shards go on in the same step.
"""

from collections.abc import Callable, Sequence

from coordinator.core.effects import (
    BugMet,
    CloseConnection,
    Effect,
    Notice,
    ReloadShard,
    Respond,
    SendPush,
    WriteSnapshot,
)
from coordinator.core.events import AppendRefused, Event, RequestArrived, ShardRecovered, ShardUnreadable
from coordinator.core.groups.desk import Clock
from coordinator.core.groups.shard import Shard
from coordinator.core.groups.soft import Connection
from coordinator.core.limits import Limits
from coordinator.core.parking import Parking, Waits
from coordinator.core.reloads import Reloads
from coordinator.core.request_shape import shape_of, where_of
from coordinator.core.snapshots import Snapshots


class NotLoadedError(Exception):
    """A request is for a shard that is being loaded again."""

    def __init__(self, index: int) -> None:
        super().__init__(f"shard {index} is being loaded again after a bug; try again")


class ShardRack:
    """All shards of a node, each in service or being loaded again."""

    def __init__(
        self,
        make: Sequence[Callable[[], Shard]],
        shard_of: Callable[[str], int],
        clock: Clock,
        connections: dict[int, Connection],
        parking: Parking,
        limits: Limits,
    ) -> None:
        self._make = make
        self.shard_of = shard_of
        self._clock = clock
        self._connections = connections
        self._parking = parking
        self.shards = [make_one() for make_one in make]
        self.snapshots = Snapshots(limits, self.shards)
        self.reloads = Reloads(len(make))
        self._away = self.reloads.waiting
        self.working: int | None = None
        """The shard that is at work in this step, which is to blame for what goes wrong."""
        self.handed_out = [0] * len(make)
        """The end of each shard's records that were returned as effects, or loaded."""
        self.touched: set[int] = set()
        """The shards that did something in this step."""
        self.direct: list[Effect] = []
        """Effects of the step that wait for no record."""
        self.has_loaded = False
        """Some shard is served again since this step."""
        self.incarnation = ""
        """The name of this life of the node; a shard that is loaded again goes on under a name made from it."""
        self.lives = 0

    def at_work(self, group_id: str) -> Shard:
        """Return the shard of a group, which is at work from now on; raises NotLoadedError."""
        index = self.shard_of(group_id)
        if self._away and index in self._away:
            raise NotLoadedError(index)
        self.working = index
        self.touched.add(index)
        return self.shards[index]

    def require_all(self) -> None:
        """Raise NotLoadedError unless every shard is in service."""
        for index in range(len(self.shards)) if self._away else ():
            if index in self._away:
                raise NotLoadedError(index)

    def contained(self, index: int, event: Event | None, work: Callable[..., object], *arguments: object) -> object:
        """Have one of several shards do something, unless it is being loaded; what goes wrong there is its own."""
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
        sends = self.shards[index].desk.sends
        self.shards[index] = self._make[index]()
        self.snapshots.forget(index)
        why_closed = f"shard {index} is loaded again after a bug; connect again"
        closing: dict[int, str] = {}
        for effect in (*sends, *self._void(index)):
            if isinstance(effect, CloseConnection):
                closing[effect.connection_id] = effect.why
            elif isinstance(effect, Respond | SendPush):
                closing.setdefault(effect.connection_id, why_closed)
        for connection_id, connection in self._connections.items():
            is_its_member = connection.group_id is not None and self.shard_of(connection.group_id) == index
            if is_its_member:
                connection.unbind()
            if is_its_member or index in connection.may_wait_for:
                connection.is_registering = False
                if not connection.is_closing:
                    closing[connection_id] = why_closed
        if asker is not None:
            closing[asker] = why
        for connection_id, its_why in closing.items():
            closed = self._connections.get(connection_id)
            if closed is not None:
                closed.is_closing = True
                self._parking.park(CloseConnection(connection_id, its_why), ((index, self.handed_out[index]),))
        self._ask_reload(index)

    def _void(self, index: int) -> list[Effect]:
        """Take back what waits for records of a shard that were not handed out, and its snapshot on its way there."""

        def is_void(effect: Effect, waits: Waits) -> bool:
            if isinstance(effect, WriteSnapshot) and effect.shard == index:
                return True
            return any(shard == index and end > self.handed_out[index] for shard, end in waits)

        return self._parking.drop(is_void)

    def _ask_reload(self, index: int) -> None:
        self.direct.append(ReloadShard(index, self.reloads.begin(index, self._clock.now_ms)))

    # ---- loads ------------------------------------------------------------------------------------------------------

    def refused(self, event: AppendRefused) -> None:
        """Take back what was decided upon records that never reached the log: nobody has heard of it, or will."""
        index = event.shard
        self.direct.append(BugMet(f"the log of shard {index} did not take records; it is loaded again", event.error))
        self.handed_out[index] = min(self.handed_out[index], event.end_offset)
        if index not in self._away:
            self._drop(index, None, "")
            return
        for effect in self._void(index):
            if isinstance(effect, Respond | SendPush | CloseConnection):
                self._close(effect.connection_id, "what it asked for was lost to a bug; connect again")

    def unreadable(self, event: ShardUnreadable) -> None:
        """Try again, later each time, to read a log that could not be read."""
        if self.reloads.is_awaited(event.shard):
            why = f"shard {event.shard} is not served: {event.why}; trying again"
            self.direct.append(Notice("shard-unreadable", why, is_warning=True))
            self._ask_reload(event.shard)

    def recovered(self, event: ShardRecovered) -> None:
        """Begin to replay what was read."""
        index = event.shard
        if self.reloads.is_awaited(index):
            fresh = self._make[index]()
            self.reloads.go_on_with(index, fresh, fresh.desk.journal.loading(event.pieces))

    def load_slices(self, event: Event, most_bytes: int) -> None:
        """Replay about so many bytes more of each shard that is being loaded, and serve those that are whole."""
        for index in tuple(self.reloads.under_way):
            try:
                fresh = self.reloads.load_slice(index, most_bytes)
            except Exception as error:  # noqa: BLE001 - records that cannot be replayed keep one shard out of service
                why = f"shard {index} could not be loaded at {where_of(error)}; trying again"
                self.direct.append(BugMet(why, error))
                self._ask_reload(index)
                continue
            if fresh is not None:
                end_offset = fresh.desk.journal.log_end_offset
                self.shards[index] = fresh
                self.handed_out[index] = end_offset
                self.has_loaded = True
                self._parking.lift(index, end_offset)
                fresh.became_durable(end_offset)
                self.direct.append(Notice("shard-loaded", f"shard {index} is served again, to offset {end_offset}"))
                self.lives += 1
                # A life of the log's own: what a member was told of the one before ends where it did.
                self.contained(index, event, fresh.start, f"{self.incarnation}.{self.lives}")
