"""The others on a full node: they take all the room that there is, in a group of their own, and ask for more.

They commit offsets with ever less metadata until there is not room for one more, have some room made now and then, and
take it again. In the end nothing of theirs is left, and a node without room for a member even so is given more by its
operator. What members of the group that is looked at may rely on meanwhile is `room`'s.
"""

from typing import TYPE_CHECKING

from coordinator.protocol.columns import OffsetToCommit, in_columns
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import CommitOffsets, Response
from coordinator.protocol.messages.operators import DeleteGroup, DeleteOffsets
from tests.sim.group_operator import OTHER_GROUP

if TYPE_CHECKING:
    from tests.sim.world import World

SIZES = (2_000, 300, 20, 0)
"""Bytes of metadata of each offset, by and by less."""
AT_ONCE = 5
EVERY_MS = 100
STAYS_FULL_MS = (300, 2_000, 6_000)
EXPECTED_ENDS = ("STATE_LIMIT_REACHED",)
"""Words of the errors that a process may end with in such a world."""


class Crowd:
    """Everybody else on a full node; nobody on any other."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._size = 0
        self._next = 0

    def begin(self) -> None:
        """Come before the members of the group, amid them or after them."""
        world = self._world
        if world.mix.is_full:
            world.checker.coverage["world full"] += 1
            world.schedule.after(world.dice.choice((0, 200, 4_000)), self._act)

    def _act(self) -> None:
        """Take some more room, or make some; in the end all of it, until it is there."""
        world = self._world
        pause_ms = world.dice.randint(1, 2 * EVERY_MS)
        if world.is_healing:
            world.operator.ask(DeleteGroup(OTHER_GROUP, "ann", "nobody needs it", is_dry_run=False), self._last_made)
        elif self._size < len(SIZES):
            numbers = range(self._next, self._next + AT_ONCE)
            metadata = "m" * SIZES[self._size]
            wishes = [OffsetToCommit("crowd", number, 1, metadata=metadata) for number in numbers]
            self._next += AT_ONCE
            world.operator.ask(CommitOffsets(OTHER_GROUP, in_columns(wishes)), self._taken)
        else:
            pause_ms = world.dice.choice(STAYS_FULL_MS)
            if world.dice.random() < 0.6:
                world.schedule.after(pause_ms, self._make_room)
            self._size = world.dice.randrange(len(SIZES))
        world.schedule.after(pause_ms, self._act)

    def _taken(self, response: Response) -> None:
        refused = getattr(response, "refused", ())
        if any(result.error is ErrorCode.STATE_LIMIT_REACHED for result in refused):
            self._world.checker.coverage["room refused to an offset"] += len(refused)
            self._size += 1

    def _make_room(self) -> None:
        world = self._world
        if world.dice.random() < 0.5:
            request = DeleteGroup(OTHER_GROUP, "ann", "nobody needs it", is_dry_run=False)
            world.operator.ask(request, self._made)
        else:
            first = world.dice.randint(0, self._next)
            named = tuple(("crowd", number) for number in range(first, first + AT_ONCE))
            world.operator.ask(DeleteOffsets(OTHER_GROUP, named, "ann", "old ones", is_dry_run=False), self._made)

    def _last_made(self, response: Response) -> None:
        """Have the node given more room when that of others is all free, and the group looked at fills it alone."""
        self._made(response)
        world = self._world
        is_gone = getattr(response, "error", ErrorCode.NONE) is ErrorCode.GROUP_ID_NOT_FOUND
        if is_gone and not world.coordinator.has_room():
            world.schedule.after(1, self._raise_room)

    def _raise_room(self) -> None:
        if not self._world.coordinator.has_room():
            self._world.coordinator.raise_room()

    def _made(self, response: Response) -> None:
        results = getattr(response, "results", ())
        is_done = getattr(response, "error", ErrorCode.NONE) is ErrorCode.NONE
        if is_done and (not results or any(result.error is ErrorCode.NONE for result in results)):
            self._world.checker.coverage["room made"] += 1
