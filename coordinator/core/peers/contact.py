"""A contact of two nodes: which two connections it is made of, when it begins and when it is over.

Each node opens a connection to the other and speaks on that alone, so it takes two of them to hear each other. Where
one ends, what was said on it may be lost, and what is said on the other one cannot be answered. So both end together,
and the next contact is made of two other connections. Whatever is lost, both ends hear of it.

Both nodes have to mean the same two. So the one with the smaller id calls: it opens a connection and says its number.
The other one answers: it opens a connection that names the number of the call. One that was not called opens a
connection too, to see whether anybody is there and to be called: a knock, which names no call. A connection that is
older than the one there is tells nothing; a newer one says that the peer has done with whatever was before. One that
ends without a contact costs nothing else. Nothing here knows sockets or time.
"""

from typing import Final, TypeAlias

import msgspec

KNOCK: Final = 0
"""The call that a connection names which answers none."""


class Line(msgspec.Struct, frozen=True):
    """A connection on which both hellos were heard, by its number here, and the life of the node at its other end.

    `call` is the number that the calling node has given to its connection, KNOCK if there is none. `age` is the number
    that whoever opened this connection has given to it: it grows with each.
    """

    number: int
    node_epoch: int
    call: int
    age: int


class Begins(msgspec.Struct, frozen=True):
    """The contact begins, with this life of the peer."""

    node_epoch: int


class Ends(msgspec.Struct, frozen=True):
    """The contact is over."""

    node_epoch: int


class Closes(msgspec.Struct, frozen=True):
    """A connection is of no use any more and is to be closed; nothing is to be heard of it again."""

    number: int


Change: TypeAlias = Begins | Ends | Closes


class Contact(msgspec.Struct, frozen=True):
    """The state of a contact with one peer: the connection opened `to` it, and the one it opened, `of` it."""

    to: Line | None = None
    of: Line | None = None

    @property
    def is_there(self) -> bool:
        """Return whether the two nodes hear each other."""
        return self.to is not None and self.of is not None and self.to.call == self.of.call

    @property
    def call(self) -> int:
        """Return the call that a node which was called has to answer, KNOCK if it was not."""
        return KNOCK if self.of is None else self.of.call

    def opened_to(self, line: Line, *, is_caller: bool) -> "tuple[Contact, tuple[Change, ...]]":
        """Take in a connection that was opened to the peer, of which there is none yet."""
        assert self.to is None, "a peer is connected to once"
        of = self.of
        changes: tuple[Change, ...] = ()
        if of is not None and of.node_epoch != line.node_epoch:
            changes, of = (Closes(of.number),), None
        if is_caller:
            if of is not None and of.call not in (KNOCK, line.call):
                changes, of = (Closes(of.number),), None
        elif line.call != (KNOCK if of is None else of.call):
            return Contact(None, of), (*changes, Closes(line.number))  # it answers what is over, or was called since
        return _begun(Contact(line, of), changes)

    def opened_of(self, line: Line, *, is_caller: bool) -> "tuple[Contact, tuple[Change, ...]]":
        """Take in a connection that the peer has opened, unless it is older than the one there is."""
        if self.of is not None and (line.node_epoch, line.age) < (self.of.node_epoch, self.of.age):
            return self, (Closes(line.number),)
        to = self.to
        changes: tuple[Change, ...] = ()
        is_of_another_life = to is not None and to.node_epoch != line.node_epoch
        is_late = to is not None and line.call not in (KNOCK, to.call)
        if is_caller and is_late and not is_of_another_life:
            return self, (Closes(line.number),)  # it answers a call that is over
        rest = self
        if self.is_there:
            rest, changes = self.ended()
        elif self.of is not None:
            changes = (Closes(self.of.number),)
        to = rest.to
        if to is not None and (is_of_another_life or (not is_caller and to.call != line.call)):
            changes, to = (*changes, Closes(to.number)), None
        return _begun(Contact(to, line), changes)

    def closed(self, number: int) -> "tuple[Contact, tuple[Change, ...]]":
        """Take note that a connection has ended; nothing if it is not one of these."""
        is_to = self.to is not None and self.to.number == number
        is_of = self.of is not None and self.of.number == number
        if not is_to and not is_of:
            return self, ()
        if not self.is_there:
            return Contact(None if is_to else self.to, None if is_of else self.of), ()
        rest, changes = self.ended()
        return rest, tuple(change for change in changes if change != Closes(number))

    def ended(self) -> "tuple[Contact, tuple[Change, ...]]":
        """Have done with whatever there is."""
        changes: list[Change] = []
        if self.is_there and self.of is not None:
            changes.append(Ends(self.of.node_epoch))
        changes += [Closes(line.number) for line in (self.to, self.of) if line is not None]
        return NO_CONTACT, tuple(changes)


NO_CONTACT: Final = Contact()


def _begun(contact: Contact, changes: tuple[Change, ...]) -> tuple[Contact, tuple[Change, ...]]:
    if not contact.is_there or contact.of is None:
        return contact, changes
    return contact, (*changes, Begins(contact.of.node_epoch))
