"""The in-sync set of a shard as its leader knows it, with the one change that may be under way.

What is in ZooKeeper is not known while a write has not ended, and not after an end that was not heard of: the old write
may still arrive. So everything that is committed is held by the maximal ISR, the union of what may be true. A write
names the version it expects, hence a write is settled by any version above that, whoever made it, and by nothing else.
"""

import msgspec
from msgspec.structs import replace


class IsrChange(msgspec.Struct, frozen=True):
    """A write of the ISR that has not been settled; what may still arrive of it are the same members.

    With `is_refused` the bucket had another version, so the write cannot arrive any more unless it had before: the
    bucket is being read.
    """

    members: tuple[int, ...]
    joining: tuple[tuple[int, int], ...]
    request: int
    is_refused: bool = False


class Isr(msgspec.Struct, frozen=True):
    """The members as last known in ZooKeeper, under `version` of their bucket; all tuples are sorted."""

    members: tuple[int, ...]
    version: int
    pending: IsrChange | None = None
    requests: int = 0

    @property
    def maximal(self) -> tuple[int, ...]:
        """Return every node that is in the ISR or may be, since a write of it is not settled."""
        if self.pending is None:
            return self.members
        return tuple(sorted({*self.members, *self.pending.members}))

    def smallest(self) -> int:
        """Return how many members the smallest ISR has that may be the true one."""
        if self.pending is None:
            return len(self.members)
        return min(len(self.members), len(self.pending.members))

    def changing_to(self, members: tuple[int, ...], joining: tuple[tuple[int, int], ...]) -> "Isr":
        """Return it with a write of `members` under way."""
        assert self.pending is None, "one change of an ISR is under way at a time"
        request = self.requests + 1
        return replace(self, pending=IsrChange(tuple(sorted(members)), joining, request), requests=request)

    def asked_again(self) -> "Isr":
        """Return it with the same write once more, whose end tells about the one before."""
        assert self.pending is not None, "there is a write to be settled"
        request = self.requests + 1
        return replace(self, pending=replace(self.pending, request=request), requests=request)

    def done(self) -> "Isr":
        """Return it after the write: nothing else can have happened at the version it named."""
        assert self.pending is not None, "there is a write that was done"
        return replace(self, members=self.pending.members, version=self.version + 1, pending=None)

    def given_up(self) -> "Isr":
        """Return it without a write that was refused for what it joined: that registration never comes again."""
        return replace(self, pending=None)

    def refused(self) -> "Isr":
        """Return it after a write that met another version."""
        assert self.pending is not None, "there is a write that was refused"
        return replace(self, pending=replace(self.pending, is_refused=True))

    def is_settled_by(self, version: int) -> bool:
        """Return whether what was read under a version is news, after which no write under way can arrive."""
        return version > self.version

    def seen(self, version: int, members: tuple[int, ...]) -> "Isr":
        """Return what was read under a version that settles it."""
        return replace(self, members=tuple(sorted(members)), version=version, pending=None)
