"""The small model of a replicated shard: three nodes with real replica values, ZooKeeper, and a wild network.

A state holds every message that was ever sent, so each may come late, twice, in any order, or never; those that can
change nothing any more are forgotten. A write to ZooKeeper may arrive after its outcome was given up as unknown. States
are equal up to the names of the nodes, and versions count back from the present one.

Invariants are checked in every state and step: StrongIsr, LeaderInIsr, ValidHighWatermark, MonotonicHighWatermark,
MonotonicEpochs, OneLeaderAnEpoch, NoCutBelowHighWatermark, LogMatching, CommittedForEver, SpokenIsCommitted, FreshRead,
IsrNotBelowMin, SentIsDropped (whoever is deposed ends what it had to say), TrueImage (a replica knows what is in its
log) and NoBug (no assertion of the product's fails).
"""

from collections.abc import Iterator
from itertools import combinations

from msgspec.structs import replace

from coordinator.core.replica import events as i
from coordinator.core.replica import leader as leading
from coordinator.core.replica.epochs import NO_EPOCH, ReplicaLog
from coordinator.core.replica.replica import NO_ROUND, Doubting, Follower, FollowerPhase, Leader, Offline, Replica
from tests.model.invariants import check_rest, check_state, extended
from tests.model.names import Renaming
from tests.model.node import (
    SHARD,
    BrokenInvariantError,
    Confirm,
    Node,
    Reaction,
    Said,
    one_version_later,
    react,
    restarted,
    settings_with,
)
from tests.model.state import (
    DONE,
    LOST,
    NODES,
    NOT_READY,
    REFUSED,
    SENT,
    Command,
    Left,
    Name,
    Read,
    Scope,
    State,
    Table,
    Write,
    in_order,
)


class Model:
    """The steps of the model; it remembers what each node does upon each event, so one is kept for many states."""

    def __init__(self, scope: Scope, *, forgets: bool = True) -> None:
        self.scope = scope
        self._forgets = forgets
        self._nodes, self._said = Table(), Table()
        self._reactions: dict[tuple[int, i.Event | int], tuple[int, Reaction]] = {}
        self._void: dict[tuple[int, int], bool] = {}
        self._later: dict[int, int] = {}
        self.canonical = Renaming(self._nodes, self._said).canonical

    def first(self) -> State:
        """Return the state in which nothing has happened but that epoch 1 was published."""
        log = ReplicaLog()
        settings = settings_with(self.scope.min_insync)
        nodes = [Node(Replica(SHARD, node, settings, log, 0, 0, Offline()), ()) for node in NODES]
        command = Command(1, 0, NODES, 0)
        scope = self.scope
        cold = State(
            tuple(self._nodes.number(node) for node in nodes),
            command,
            (command,),
            frozenset(),
            (),
            (),
            (),
            (None, None, None),
            Left(scope.records, scope.unknown, scope.reads, scope.changes, scope.restarts, scope.wiped, scope.put_back),
        )

        return self._warmed(cold) if scope.warm else cold

    def _warmed(self, state: State) -> State:
        told = i.LeaderAndIsr(0, SHARD, 1, 0, NODES, NODES, 0)
        for node in NODES:
            state = self._stepped(state, node, told)
        for node in NODES[1 : self.scope.warm]:
            asked = i.FetchAsked(0, SHARD, node, 0, 1, 1, 0, NO_EPOCH)
            state = self._stepped(state, 0, asked)
        for kind in (i.FetchAnswered, i.RecordsPushed, i.LogSynced, i.ProgressMade):
            for node in NODES[: self.scope.warm] if kind is i.LogSynced else ():
                state = self._stepped(state, node, i.LogSynced(0, SHARD, 0, 1))
            for to, said in sorted(state.messages):
                if isinstance(self._said.values[said], kind):
                    state = self._stepped(state, to, said)
        assert state.committed == ((1,) if self.scope.warm == len(NODES) else ())
        return state

    def node(self, state: State, node: int) -> Node:
        """Return a node of a state."""
        value: Node = self._nodes.values[state.nodes[node]]
        return value

    def check(self, state: State) -> None:
        """Raise BrokenInvariantError unless every invariant holds in a state."""
        check_state(self.scope, state, [self._nodes.values[number] for number in state.nodes])

    def check_rest(self, state: State) -> None:
        """Raise BrokenInvariantError unless all is well in a state of which all steps are optional."""
        check_rest(self.scope, state, [self._nodes.values[number] for number in state.nodes])

    # ---- steps ------------------------------------------------------------------------------------------------------

    def successors(self, state: State) -> Iterator[tuple[Name, State]]:
        """Yield every step that can be taken, with its name and the state it leads to."""
        for node in NODES:
            value = self.node(state, node)
            replica = value.replica
            for command in state.commands:
                if command.epoch < value.obeys_from:
                    continue
                event = i.LeaderAndIsr(0, SHARD, command.epoch, command.leader, command.isr, NODES, command.version)
                told = self._stepped(state, node, event)
                if told is not state:
                    yield (node, "is told", command), told
            if value.synced < replica.log.end:
                synced = i.LogSynced(0, SHARD, replica.log.number, replica.log.end)
                yield (node, "syncs"), self._stepped(state, node, synced)
            if isinstance(replica.role, Leader):
                yield from self._led(state, node, replica, replica.role)
            elif self.scope.in_order and isinstance(replica.role, Follower):
                yield from self._fetched(state, node, replica, replica.role)
            if state.left.restarts:
                yield (node, "restarts"), self._restarted(state, node, is_wiped=False)
            if state.left.wiped and node != state.zookeeper.leader:
                yield (node, "is wiped"), self._restarted(state, node, is_wiped=True)
            for end in range(value.synced) if state.left.put_back else ():
                yield (node, "is put back", end), self._put_back(state, node, end)
        for to, said in state.messages:
            if self.scope.in_order and self._is_early(state, to, said):
                continue
            after = self._stepped(state, to, said)
            if after is not state:
                yield (to, "gets", self._said.values[said]), after
        for node, end, number in state.late:
            after = self._stepped(state, node, i.LogSynced(0, SHARD, number, end))
            if after is not state:
                yield (node, "hears late of", end, "in log", number), after
        for at, write in enumerate(state.writes):
            yield from self._write_ends(state, at, write)
        if state.zookeeper.epoch < self.scope.epochs:
            yield from self._elections(state)

    def _led(self, state: State, node: int, replica: Replica, role: Leader) -> Iterator[tuple[Name, State]]:
        left = state.left
        if left.records:
            spent = state._replace(left=left._replace(records=left.records - 1))
            event = i.Appended(0, SHARD, replica.leader_epoch, replica.log.end + 1)
            yield (node, "appends"), self._stepped(spent, node, event)
        if role.isr.pending is None:
            ticked = self._stepped(state, node, i.Ticked(0))
            if ticked is not state:
                yield (node, "sees who is late"), ticked
        if replica.leader_epoch == state.zookeeper.epoch and role.isr.version < 0:
            yield (node, "sees the ISR"), self._seen(state, node)
        if left.reads and state.reads[node] is None:
            records_there = self.node(state, node).records
            if records_there[: len(state.committed)] == state.committed and len(records_there) >= len(state.committed):
                return  # what it knows is fresh, so that its reply may leave whenever it does
            has_others = leading.has_others(replica, role)
            round_ = 1 + max(fetch.round for fetch in role.fetches) if has_others else NO_ROUND
            confirms = {
                (peer, self._said.number(Confirm(node, replica.leader_epoch, round_)))
                for peer in NODES
                if peer != node and has_others
            }
            stale = [*state.reads]
            stale[node] = Read(replica.leader_epoch, replica.log.end, round_)
            asked = state._replace(
                reads=tuple(stale), left=left._replace(reads=left.reads - 1), messages=state.messages | confirms
            )
            yield (node, "decides a stale reply"), self._checked_reads(asked, node)

    def _fetched(self, state: State, node: int, replica: Replica, role: Follower) -> Iterator[tuple[Name, State]]:
        """Have a follower's fetch asked and answered, if its leader leads already."""
        leader, log = self.node(state, role.leader).replica, replica.log
        if role.phase is not FollowerPhase.MATCHING or leader.leader_epoch < replica.leader_epoch:
            return
        life = self.node(state, node).life
        asked = i.FetchAsked(0, SHARD, node, life, replica.leader_epoch, role.fetch, log.end, log.last_epoch)
        after = self._stepped(state, role.leader, asked)
        answers = [
            (to, said)
            for to, said in after.messages
            if to == node and isinstance(self._said.values[said], i.FetchAnswered) and (to, said) not in state.messages
        ]
        if not answers and after is not state:
            yield (node, "is heard by", role.leader), after
        for answer in answers:
            answered = self._stepped(after._replace(messages=after.messages - {answer}), *answer)
            yield (node, "is told", self._said.values[answer[1]]), answered

    def _is_early(self, state: State, to: int, said: int) -> bool:
        message, replica = self._said.values[said], self.node(state, to).replica
        return isinstance(message, i.RecordsPushed) and message.batches[0].base_offset > replica.log.end

    def _write_ends(self, state: State, at: int, write: Write) -> Iterator[tuple[Name, State]]:
        others = state.writes[:at] + state.writes[at + 1 :]
        if write.status in (SENT, LOST):
            is_expected = write.expected is None or write.expected == 0
            is_ready = all(self.node(state, joins).life == life for joins, life in write.joining)
            end = REFUSED if not is_expected else DONE if is_ready else NOT_READY
            ended = () if write.status is LOST else (write._replace(status=end),)
            after = state._replace(writes=others + ended)
            if end is DONE:
                after = self._later_version(after)
                after = after._replace(zookeeper=after.zookeeper._replace(isr=write.members))
            yield (write, "arrives"), self._tidy(after)
        else:
            heard = i.IsrWritten(0, SHARD, int(write.is_current), _OUTCOMES[write.status])
            told = self._stepped(state._replace(writes=others), write.writer, heard)
            yield (write.writer, "hears of", write), told
        if state.left.unknown and write.status is not LOST:
            rest = (write._replace(status=LOST),) if write.status is SENT else ()
            left = state.left._replace(unknown=state.left.unknown - 1)
            lost = state._replace(writes=others + rest, left=left)
            event = i.IsrWritten(0, SHARD, int(write.is_current), i.WriteOutcome.UNKNOWN)
            yield (write.writer, "does not hear of", write), self._stepped(lost, write.writer, event)

    def _elections(self, state: State) -> Iterator[tuple[Name, State]]:
        isr = state.zookeeper.isr
        for leader in isr:
            rest = [node for node in isr if node != leader]
            for kept in range(min(self.scope.min_insync - 1, len(rest)), len(rest) + 1):
                for others in combinations(rest, kept):
                    after = self._later_version(state)
                    command = Command(state.zookeeper.epoch + 1, leader, tuple(sorted((leader, *others))), 0)
                    after = after._replace(zookeeper=command, commands=(*after.commands, command))
                    yield ("elected:", command), self._tidy(after)

    def _seen(self, state: State, node: int) -> State:
        """Have a leader see its ISR as it is; the ends of its writes that it has not heard of tell it nothing more."""
        writes = tuple(
            write._replace(is_current=False) if write.writer == node and write.status is not LOST else write
            for write in state.writes
        )
        zookeeper = state.zookeeper
        seen = i.IsrSeen(0, SHARD, zookeeper.epoch, 0, zookeeper.isr)
        return self._stepped(state._replace(writes=in_order([*writes])), node, seen)

    def _put_back(self, state: State, node: int, end: int) -> State:
        """Return the state in which a node lives anew with the begin of its log, and neither it nor others know."""
        left = state.left._replace(put_back=state.left.put_back - 1)
        former = self.node(state, node)
        copy = restarted(former, former.records[:end], 0, is_copy=True)
        return self._begun(state._replace(left=left), node, copy, state.zookeeper)

    def _restarted(self, state: State, node: int, *, is_wiped: bool) -> State:
        """Return the state in which a node lives anew with what is on its disk, and is told what is in ZooKeeper.

        A node with nothing on it leaves the ISR.
        """
        left, zookeeper, former = state.left, state.zookeeper, self.node(state, node)
        left = left._replace(wiped=left.wiped - 1) if is_wiped else left._replace(restarts=left.restarts - 1)
        if is_wiped and node in zookeeper.isr:
            state = self._later_version(state)
            zookeeper = zookeeper._replace(isr=tuple(member for member in zookeeper.isr if member != node))
        records = () if is_wiped else former.records[: former.synced]
        return self._begun(state._replace(left=left), node, restarted(former, records, 0), zookeeper)

    def _begun(self, state: State, node: int, fresh: Node, zookeeper: Command) -> State:
        """Return the state in which a node has begun a life; what it led in its former one it does not lead."""
        fresh = replace(fresh, obeys_from=zookeeper.epoch + (node == zookeeper.leader))
        nodes, reads = [*state.nodes], [*state.reads]
        nodes[node], reads[node] = self._nodes.number(fresh), None
        is_told = any(command.epoch == zookeeper.epoch for command in state.commands)
        begun = self._tidy(
            state._replace(
                nodes=tuple(nodes),
                zookeeper=zookeeper,
                commands=state.commands if is_told else (*state.commands, zookeeper),
                messages=frozenset(each for each in state.messages if each[0] != node),
                late=tuple(each for each in state.late if each[0] != node),
                reads=tuple(reads),
            )
        )
        # Its connections have ended with its former life, and who doubts has forgotten what was asked over them.
        for other in NODES:
            if isinstance(self.node(begun, other).replica.role, Doubting):
                begun = self._stepped(begun, other, i.PeerDown(0, node))
        return begun

    def _later_version(self, state: State) -> State:
        """Return the state under the next version of the bucket."""
        nodes = []
        for number in state.nodes:
            if number not in self._later:
                self._later[number] = self._nodes.number(one_version_later(self._nodes.values[number]))
            nodes.append(self._later[number])
        return state._replace(
            nodes=tuple(nodes),
            commands=tuple(command._replace(version=max(command.version - 1, -2)) for command in state.commands),
            writes=tuple(
                write if write.expected is None else write._replace(expected=max(write.expected - 1, -2))
                for write in state.writes
            ),
        )

    def _stepped(self, state: State, node: int, event: i.Event | int) -> State:
        """Return the state after a node has taken in an event, or a message by its number."""
        number, reaction = self._reaction(state.nodes[node], event)
        is_quiet = not (reaction.messages or reaction.writes or reaction.late) and reaction.reads_above is None
        if is_quiet and number == state.nodes[node] and reaction.committed is None:
            return state
        nodes = [*state.nodes]
        nodes[node] = number
        messages = self._sent(state.messages, reaction.messages)
        writes, left = state.writes, state.left
        if reaction.writes and left.changes:
            left = left._replace(changes=left.changes - 1)
            writes += tuple(
                Write(node, write.leader_epoch, write.expected_version, write.isr, write.joining, SENT)
                for write in reaction.writes
            )
        late = state.late + tuple((node, end, log) for end, log in reaction.late)
        committed = state.committed
        if reaction.committed is not None:
            committed = extended(committed, reaction.committed)
        reads = state.reads
        if any(reads):
            reads, confirms = self._reads_after(reads, node, number, reaction)
            messages |= confirms
        after = state._replace(
            reads=reads, nodes=tuple(nodes), messages=messages, writes=writes, late=late, committed=committed, left=left
        )
        if reaction.reads_above is not None and reaction.reads_above < 0:
            zookeeper = state.zookeeper
            seen = i.IsrSeen(0, SHARD, zookeeper.epoch, 0, zookeeper.isr)
            return self._stepped(after, node, seen)
        return self._tidy(self._checked_reads(after, node))

    def _reads_after(
        self, reads: tuple[Read | None, ...], node: int, number: int, reaction: Reaction
    ) -> tuple[tuple[Read | None, ...], frozenset[tuple[int, int]]]:
        """Return the reads after a step of a node, and what it asks again for one that goes on into the next epoch."""
        read, replica = reads[node], self._nodes.values[number].replica
        if read is None:
            return reads, frozenset()
        confirms: frozenset[tuple[int, int]] = frozenset()
        if reaction.resigns:
            read = None
        else:
            if reaction.needs_no_round:
                read = read._replace(round=NO_ROUND)
            if isinstance(replica.role, Leader) and replica.leader_epoch != read.epoch:
                read = read._replace(epoch=replica.leader_epoch)
                question = self._said.number(Confirm(node, replica.leader_epoch, read.round))
                confirms = frozenset((peer, question) for peer in NODES if peer != node)
        return (*reads[:node], read, *reads[node + 1 :]), confirms

    def _sent(self, messages: frozenset[tuple[int, int]], new: list[tuple[int, Said]]) -> frozenset[tuple[int, int]]:
        if not self.scope.in_order:
            return messages.union((to, self._said.number(said)) for to, said in new)
        for to, said in new:
            if isinstance(said, i.FetchAsked):
                continue
            if isinstance(said, i.ProgressMade) and not said.round:
                messages = frozenset(each for each in messages if not self._is_overtaken(each, to, said))
            messages |= {(to, self._said.number(said))}
        return messages

    def _is_overtaken(self, sent: tuple[int, int], to: int, progress: i.ProgressMade) -> bool:
        said = self._said.values[sent[1]]
        return (
            sent[0] == to
            and isinstance(said, i.ProgressMade)
            and not said.round
            and said.follower == progress.follower
            and said.leader_epoch == progress.leader_epoch
            and (said.node_epoch, said.fetch) == (progress.node_epoch, progress.fetch)
        )

    def _reaction(self, node: int, event: i.Event | int) -> tuple[int, Reaction]:
        found = self._reactions.get((node, event))
        if found is None:
            said: Said = self._said.values[event] if isinstance(event, int) else event
            reaction = react(self._nodes.values[node], said)
            found = self._reactions[node, event] = self._nodes.number(reaction.node), reaction
        return found

    # ---- what can change nothing any more ---------------------------------------------------------------------------

    def _tidy(self, state: State) -> State:
        messages, nodes = state.messages, state.nodes
        kept = frozenset(each for each in messages if not self._is_void(nodes[each[0]], each[1]))
        replicas = [self._nodes.values[number].replica for number in nodes]
        oldest = min(
            max(self._nodes.values[number].replica.leader_epoch, self._nodes.values[number].obeys_from - 1)
            for number in nodes
        )
        commands = tuple(command for command in state.commands if command.epoch > oldest)
        writes: list[Write] = []
        for write in state.writes:
            writer = replicas[write.writer]
            is_heard = isinstance(writer.role, Leader) and writer.leader_epoch == write.epoch
            status = write.status if is_heard else LOST if write.status is SENT else write.status
            if not is_heard and status in _OUTCOMES:
                continue
            is_over = write.expected is not None and write.expected < 0
            if is_over and (status is LOST or (status is SENT and not write.is_current)):
                continue
            if status is LOST and any(self._nodes.values[nodes[joins]].life != life for joins, life in write.joining):
                continue
            writes.append(write._replace(status=status))
        late = state.late
        if self._forgets and late:
            late = tuple(each for each in late if each[2] == replicas[each[0]].log.number)
        reads = state.reads
        if any(reads):
            reads = tuple(
                read
                if read is not None and isinstance(replica.role, Leader) and replica.leader_epoch == read.epoch
                else None
                for read, replica in zip(reads, replicas, strict=True)
            )
        return state._replace(commands=commands, messages=kept, writes=in_order(writes), late=late, reads=reads)

    def _is_void(self, node: int, said: int) -> bool:
        """Return whether a message changes nothing at a node, now or ever: epochs, fetches and ends only grow."""
        key = node, said
        found = self._void.get(key)
        if found is None:
            found = self._void[key] = self._forgets and self._changes_nothing(node, said)
        return found

    def _changes_nothing(self, node: int, said: int) -> bool:
        number, reaction = self._reaction(node, said)
        if number != node or reaction.messages or reaction.writes or reaction.committed is not None:
            return False
        replica, message = self._nodes.values[node].replica, self._said.values[said]
        if message.leader_epoch != replica.leader_epoch:
            return bool(message.leader_epoch < replica.leader_epoch)
        match message:
            case Confirm():
                return True  # it was answered, or will never be
            case i.FetchAsked() | i.ProgressMade() if isinstance(replica.role, Leader):
                fetch = next(f for f in replica.role.fetches if f.node == message.follower)
                is_known = (message.node_epoch, message.fetch) <= (fetch.node_epoch, fetch.fetch)
                return isinstance(message, i.FetchAsked) or is_known
            case i.RecordsPushed() if isinstance(replica.role, Follower):
                is_over = message.fetch < replica.role.fetch or message.batches == ()
                return is_over or message.batches[-1].end <= replica.log.end
            case _:
                return True

    def _checked_reads(self, state: State, node: int) -> State:
        read, replica = state.reads[node], self.node(state, node).replica
        if read is None or not isinstance(replica.role, Leader) or replica.leader_epoch != read.epoch:
            return state
        if replica.high_watermark >= read.end and replica.role.confirmed_round >= read.round:
            raise BrokenInvariantError(
                f"FreshRead: {node} answers in epoch {read.epoch} what was older when it was decided"
            )
        return state


_OUTCOMES = {
    DONE: i.WriteOutcome.DONE,
    REFUSED: i.WriteOutcome.VERSION_MISMATCH,
    NOT_READY: i.WriteOutcome.NOT_REGISTERED,
}
