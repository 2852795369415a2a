"""States of the small model that differ in nothing but the names of the nodes, or the order of sets, as one."""

from itertools import permutations
from typing import Any

from tests.model.node import renamed, renamed_said, renamed_set
from tests.model.state import NODES, Command, Read, State, Table, Write, in_order, write_key

Names = tuple[int, ...]


class Renaming:
    """Gives every state a name for each node that does not depend on how it is called."""

    def __init__(self, nodes: Table, said: Table) -> None:
        self._nodes, self._said = nodes, said
        self._renamed: dict[tuple[int, Names], int] = {}
        self._renamed_said: dict[tuple[int, Names], int] = {}
        self._looks: dict[int, Any] = {}

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
                value.life,
                value.obeys_from,
                replica.log.number,
                replica.high_watermark,
                getattr(role, "fetch", -1),
                str(getattr(role, "phase", "")),
            )
        return (look, node in state.zookeeper.isr, node == state.zookeeper.leader)

    def _renamed_state(self, state: State, names: Names) -> State:
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
            in_order([_renamed_write(write, names) for write in state.writes]) if state.writes else (),
            tuple(sorted((names[node], end, number) for node, end, number in state.late)),
            state.committed,
            tuple(reads),
            state.left,
        )


def _renamed_write(write: Write, names: Names) -> Write:
    joining = tuple(sorted((names[node], life) for node, life in write.joining))
    return write._replace(writer=names[write.writer], members=renamed_set(write.members, names), joining=joining)


def _renamed_command(command: Command, names: Names) -> Command:
    return command._replace(leader=names[command.leader], isr=renamed_set(command.isr, names))


def _sortable(state: State) -> Any:
    return (
        state.nodes,
        state.zookeeper,
        state.commands,
        sorted(state.messages),
        [write_key(write) for write in state.writes],
        state.late,
        [read or () for read in state.reads],
    )
