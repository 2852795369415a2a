"""The small model of a replicated shard: three nodes with real replica values, ZooKeeper, and a wild network.

A state holds every message that was ever sent, so each may come late, twice, in any order, or never; those that can
change nothing any more are forgotten. A write to ZooKeeper may arrive after its outcome was given up as unknown. States
are equal up to the names of the nodes, and versions count back from the present one.

Invariants are checked in every state and step: StrongIsr, LeaderInIsr, ValidHighWatermark, MonotonicHighWatermark,
MonotonicEpochs, OneLeaderAnEpoch, NoCutBelowHighWatermark, LogMatching, CommittedForEver, SpokenIsCommitted, FreshRead,
IsrNotBelowMin, TrueImage (a replica knows what is in its log) and NoBug (no assertion of the product's fails).
"""

from collections.abc import Iterator
from itertools import combinations, permutations
from typing import Any

from coordinator.core.replica import events as i
from coordinator.core.replica.epochs import NO_EPOCH, ReplicaLog
from coordinator.core.replica.replica import Follower, FollowerPhase, Leader, Offline, Replica
from tests.model.node import (
    MIN_INSYNC,
    SETTINGS,
    SHARD,
    BrokenInvariantError,
    Confirm,
    Node,
    Reaction,
    Said,
    one_version_later,
    react,
    renamed,
    renamed_said,
    renamed_set,
)
from tests.model.state import DONE, LOST, NODES, REFUSED, SENT, Command, Name, Read, Scope, State, Table, Write


class Model:
    """The steps of the model; it remembers what each node does upon each event, so one is kept for many states."""

    def __init__(self, scope: Scope, *, forgets: bool = True) -> None:
        self.scope = scope
        self._forgets = forgets
        self._nodes, self._said = Table(), Table()
        self._reactions: dict[tuple[int, i.Event | int], tuple[int, Reaction]] = {}
        self._void: dict[tuple[int, int], bool] = {}
        self._renamed: dict[tuple[int, tuple[int, ...]], int] = {}
        self._renamed_said: dict[tuple[int, tuple[int, ...]], int] = {}
        self._later: dict[int, int] = {}
        self._looks: dict[int, Any] = {}

    def first(self) -> State:
        """Return the state in which nothing has happened but that epoch 1 was published."""
        log = ReplicaLog()
        nodes = [Node(Replica(SHARD, node, SETTINGS, log, 0, 0, Offline()), ()) for node in NODES]
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
            (scope.records, scope.unknown, scope.reads, scope.changes),
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

    # ---- steps ------------------------------------------------------------------------------------------------------

    def successors(self, state: State) -> Iterator[tuple[Name, State]]:
        """Yield every step that can be taken, with its name and the state it leads to."""
        for node in NODES:
            replica = self.node(state, node).replica
            for command in state.commands:
                if command.epoch > replica.leader_epoch:
                    event = i.LeaderAndIsr(0, SHARD, command.epoch, command.leader, command.isr, NODES, command.version)
                    yield (node, "is told", command), self._stepped(state, node, event)
            if self.node(state, node).synced < replica.log.end:
                synced = i.LogSynced(0, SHARD, replica.log.number, replica.log.end)
                yield (node, "syncs"), self._stepped(state, node, synced)
            if isinstance(replica.role, Leader):
                yield from self._led(state, node, replica, replica.role)
            elif self.scope.in_order and isinstance(replica.role, Follower):
                yield from self._fetched(state, node, replica, replica.role)
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
        records, unknown, reads, changes = state.left
        if records:
            spent = state._replace(left=(records - 1, unknown, reads, changes))
            event = i.Appended(0, SHARD, replica.leader_epoch, replica.log.end + 1)
            yield (node, "appends"), self._stepped(spent, node, event)
        if role.isr.pending is None:
            ticked = self._stepped(state, node, i.Ticked(0))
            if ticked is not state:
                yield (node, "sees who is late"), ticked
        if reads and state.reads[node] is None:
            records_there = self.node(state, node).records
            if records_there[: len(state.committed)] == state.committed and len(records_there) >= len(state.committed):
                return  # what it knows is fresh, so that its reply may leave whenever it does
            round_ = 1 + max(fetch.round for fetch in role.fetches)
            confirms = {
                (peer, self._said.number(Confirm(node, replica.leader_epoch, round_))) for peer in NODES if peer != node
            }
            stale = [*state.reads]
            stale[node] = Read(replica.leader_epoch, replica.log.end, round_)
            asked = state._replace(
                reads=tuple(stale), left=(records, unknown, reads - 1, changes), messages=state.messages | confirms
            )
            yield (node, "decides a stale reply"), self._checked_reads(asked, node)

    def _fetched(self, state: State, node: int, replica: Replica, role: Follower) -> Iterator[tuple[Name, State]]:
        """Have a follower's fetch asked and answered, if its leader leads already."""
        leader, log = self.node(state, role.leader).replica, replica.log
        if role.phase is not FollowerPhase.MATCHING or leader.leader_epoch < replica.leader_epoch:
            return
        asked = i.FetchAsked(0, SHARD, node, 0, replica.leader_epoch, role.fetch, log.end, log.last_epoch)
        after = self._stepped(state, role.leader, asked)
        answers = [
            (to, said)
            for to, said in after.messages
            if to == node and isinstance(self._said.values[said], i.FetchAnswered) and (to, said) not in state.messages
        ]
        for answer in answers:
            answered = self._stepped(after._replace(messages=after.messages - {answer}), *answer)
            yield (node, "is told", self._said.values[answer[1]]), answered

    def _is_early(self, state: State, to: int, said: int) -> bool:
        message, replica = self._said.values[said], self.node(state, to).replica
        return isinstance(message, i.RecordsPushed) and message.batches[0].base_offset > replica.log.end

    def _write_ends(self, state: State, at: int, write: Write) -> Iterator[tuple[Name, State]]:
        records, unknown, reads, changes = state.left
        others = state.writes[:at] + state.writes[at + 1 :]
        if write.status in (SENT, LOST):
            is_expected = write.expected is None or write.expected == 0
            ended = () if write.status is LOST else (write._replace(status=DONE if is_expected else REFUSED),)
            after = state._replace(writes=others + ended)
            if is_expected:
                after = self._later_version(after)
                after = after._replace(zookeeper=after.zookeeper._replace(isr=write.members))
            yield (write, "arrives"), self._tidy(after)
        else:
            outcome = i.WriteOutcome.DONE if write.status is DONE else i.WriteOutcome.VERSION_MISMATCH
            told = self._stepped(state._replace(writes=others), write.writer, i.IsrWritten(0, SHARD, 1, outcome))
            yield (write.writer, "hears of", write), told
        if unknown and write.status is not LOST:
            rest = (write._replace(status=LOST),) if write.status is SENT else ()
            lost = state._replace(writes=others + rest, left=(records, unknown - 1, reads, changes))
            event = i.IsrWritten(0, SHARD, 1, i.WriteOutcome.UNKNOWN)
            yield (write.writer, "does not hear of", write), self._stepped(lost, write.writer, event)

    def _elections(self, state: State) -> Iterator[tuple[Name, State]]:
        isr = state.zookeeper.isr
        for leader in isr:
            rest = [node for node in isr if node != leader]
            for kept in range(max(0, MIN_INSYNC - 1), len(rest) + 1):
                for others in combinations(rest, kept):
                    after = self._later_version(state)
                    command = Command(state.zookeeper.epoch + 1, leader, tuple(sorted((leader, *others))), 0)
                    after = after._replace(zookeeper=command, commands=(*after.commands, command))
                    yield ("elected:", command), self._tidy(after)

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
        is_quiet = not (reaction.messages or reaction.writes or reaction.late or reaction.reads_isr)
        if is_quiet and number == state.nodes[node] and reaction.committed is None:
            return state
        nodes = [*state.nodes]
        nodes[node] = number
        messages = self._sent(state.messages, reaction.messages)
        writes, left = state.writes, state.left
        if reaction.writes and left[3]:
            left = (*left[:3], left[3] - 1)
            writes += tuple(
                Write(node, write.leader_epoch, write.expected_version, write.isr, SENT) for write in reaction.writes
            )
        late = state.late + tuple((node, end, log) for end, log in reaction.late)
        committed = state.committed
        if reaction.committed is not None:
            committed = _extended(committed, reaction.committed)
        after = state._replace(
            nodes=tuple(nodes), messages=messages, writes=writes, late=late, committed=committed, left=left
        )
        if reaction.reads_isr:
            zookeeper = state.zookeeper
            seen = i.IsrSeen(0, SHARD, zookeeper.epoch, 0, zookeeper.isr)
            return self._stepped(after, node, seen)
        return self._tidy(self._checked_reads(after, node))

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
        oldest = min(replica.leader_epoch for replica in replicas)
        commands = tuple(command for command in state.commands if command.epoch > oldest)
        writes: list[Write] = []
        for write in state.writes:
            writer = replicas[write.writer]
            is_heard = isinstance(writer.role, Leader) and writer.leader_epoch == write.epoch
            status = write.status if is_heard else LOST if write.status is SENT else write.status
            if not is_heard and status in (DONE, REFUSED):
                continue
            if status is LOST and write.expected is not None and write.expected < 0:
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
        return state._replace(commands=commands, messages=kept, writes=_in_order(writes), late=late, reads=reads)

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
                return isinstance(message, i.FetchAsked) or message.fetch <= fetch.fetch
            case i.RecordsPushed() if isinstance(replica.role, Follower):
                is_over = message.fetch < replica.role.fetch or message.batches == ()
                return is_over or message.batches[-1].end <= replica.log.end
            case _:
                return True

    # ---- invariants -------------------------------------------------------------------------------------------------

    def _checked_reads(self, state: State, node: int) -> State:
        read, replica = state.reads[node], self.node(state, node).replica
        if read is None or not isinstance(replica.role, Leader) or replica.leader_epoch != read.epoch:
            return state
        if replica.high_watermark >= read.end and replica.role.confirmed_round >= read.round:
            raise BrokenInvariantError(
                f"FreshRead: {node} answers in epoch {read.epoch} what was older when it was decided"
            )
        return state

    def check(self, state: State) -> None:
        """Raise BrokenInvariantError unless every invariant holds in a state."""
        nodes = [self._nodes.values[number] for number in state.nodes]
        committed, zookeeper = state.committed, state.zookeeper
        _require(zookeeper.leader in zookeeper.isr, "LeaderInIsr", zookeeper)
        _require(len(zookeeper.isr) >= MIN_INSYNC, "IsrNotBelowMin", zookeeper)
        leaders = [node.replica.leader_epoch for node in nodes if isinstance(node.replica.role, Leader)]
        _require(len(leaders) == len(set(leaders)), "OneLeaderAnEpoch", leaders)
        for member in zookeeper.isr:
            node = nodes[member]
            durable = node.records[: node.synced]
            _require(durable[: len(committed)] == committed, "StrongIsr", (member, node, committed))
        for node in nodes:
            replica, records = node.replica, node.records
            known = replica.high_watermark
            is_valid = known <= len(records) and records[:known] == committed[:known] and known <= len(committed)
            _require(is_valid, "ValidHighWatermark", (node, committed))
            if isinstance(replica.role, Leader):
                _require(replica.node in replica.role.isr.maximal, "LeaderInIsr", node)
                if replica.leader_epoch == zookeeper.epoch:
                    _require(records[: len(committed)] == committed, "CommittedForEver", (node, committed))
        for one, other in combinations(nodes, 2):
            _require(_match(one.records, other.records), "LogMatching", (one, other))

    # ---- states by other names --------------------------------------------------------------------------------------

    def canonical(self, state: State) -> State:
        """Return the same state for all that differ in nothing but the names of the nodes."""
        looks = [self._look(state, node) for node in NODES]
        ordered = sorted(NODES, key=looks.__getitem__)
        if looks[ordered[0]] != looks[ordered[1]] != looks[ordered[2]]:
            names = [0, 0, 0]
            for name, node in enumerate(ordered):
                names[node] = name
            return self._renamed_state(state, tuple(names))
        in_order = sorted(looks)
        candidates = []
        for order in permutations(NODES):
            if [looks[node] for node in order] == in_order:
                names = [0, 0, 0]
                for name, node in enumerate(order):
                    names[node] = name
                candidates.append(self._renamed_state(state, tuple(names)))
        return min(candidates, key=_sortable)

    def _look(self, state: State, node: int) -> Any:
        """Return what a node is without the names of others."""
        number = state.nodes[node]
        look = self._looks.get(number)
        if look is None:
            value = self._nodes.values[number]
            replica = value.replica
            role = replica.role
            look = self._looks[number] = (
                replica.leader_epoch,
                type(role).__name__,
                value.records,
                value.synced,
                replica.log.number,
                replica.high_watermark,
                getattr(role, "fetch", -1),
                str(getattr(role, "phase", "")),
            )
        return (look, node in state.zookeeper.isr, node == state.zookeeper.leader)

    def _renamed_state(self, state: State, names: tuple[int, ...]) -> State:
        if names == NODES:
            return state
        nodes = [0, 0, 0]
        for node, number in enumerate(state.nodes):
            key = number, names
            if key not in self._renamed:
                self._renamed[key] = self._nodes.number(renamed(self._nodes.values[number], names))
            nodes[names[node]] = self._renamed[key]
        messages = []
        for to, said in state.messages:
            key = said, names
            if key not in self._renamed_said:
                self._renamed_said[key] = self._said.number(renamed_said(self._said.values[said], names))
            messages.append((names[to], self._renamed_said[key]))
        reads: list[Read | None] = [None, None, None]
        for node, read in enumerate(state.reads):
            reads[names[node]] = read
        return State(
            tuple(nodes),
            _renamed_command(state.zookeeper, names),
            tuple(_renamed_command(command, names) for command in state.commands),
            frozenset(messages),
            tuple(
                sorted(
                    (
                        write._replace(writer=names[write.writer], members=renamed_set(write.members, names))
                        for write in state.writes
                    ),
                    key=repr,
                )
            )
            if state.writes
            else (),
            tuple(sorted((names[node], end, number) for node, end, number in state.late)),
            state.committed,
            tuple(reads),
            state.left,
        )


def _in_order(writes: list[Write]) -> tuple[Write, ...]:
    return tuple(sorted(set(writes), key=repr)) if len(writes) > 1 else tuple(writes)


def _renamed_command(command: Command, names: tuple[int, ...]) -> Command:
    return command._replace(leader=names[command.leader], isr=renamed_set(command.isr, names))


def _sortable(state: State) -> Any:
    return (
        state.nodes,
        state.zookeeper,
        state.commands,
        sorted(state.messages),
        repr(state.writes),
        state.late,
        repr(state.reads),
    )


def _extended(committed: tuple[int, ...], more: tuple[int, ...]) -> tuple[int, ...]:
    """Return the committed records with those of a leader's high watermark, which are the same as far as both go."""
    both = min(len(committed), len(more))
    _require(committed[:both] == more[:both], "CommittedForEver", (committed, more))
    return committed if both == len(more) else more


def _match(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Return whether two logs are equal up to the last offset at which they have a record of the same epoch."""
    for end in range(min(len(one), len(other)), 0, -1):
        if one[end - 1] == other[end - 1]:
            return one[:end] == other[:end]
    return True


def _require(holds: bool, invariant: str, what: object) -> None:
    if not holds:
        raise BrokenInvariantError(f"{invariant}: {what}")
