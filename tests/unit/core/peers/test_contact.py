"""Two nodes that meet, in every order of what their connections do; and single steps of one end."""

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from coordinator.core.peers.contact import KNOCK, NO_CONTACT, Begins, Change, Closes, Contact, Ends, Line

A, B = 0, 1


class Wire(NamedTuple):
    """A connection: who opened it, in which life, and for each end whether it has heard the hello and still has it."""

    number: int
    opener: int
    lives: tuple[int, int]
    call: int
    heard: tuple[bool, bool] = (False, False)
    has: tuple[bool, bool] = (True, True)


class World(NamedTuple):
    """Both ends' contacts and lives, the connections that an end has still to hear of, and what may yet go wrong."""

    contacts: tuple[Contact, Contact] = (NO_CONTACT, NO_CONTACT)
    lives: tuple[int, int] = (1, 1)
    wires: tuple[Wire, ...] = ()
    opened: int = 0
    breaks: int = 2
    restarts: int = 1
    used: tuple[frozenset[int], frozenset[int]] = (frozenset(), frozenset())
    """The connections that were in a contact of each end."""

    @property
    def is_settled(self) -> bool:
        one, other = self.contacts
        if one.to is None or one.of is None or other.to is None or other.of is None:
            return False
        return (one.to.number, one.of.number) == (other.of.number, other.to.number)


def with_(pair: tuple, at: int, value: object) -> tuple:
    return (value, pair[1]) if at == A else (pair[0], value)


def steps(world: World) -> Iterator[World]:
    """Yield every world that may come next."""
    for end in (A, B):
        if world.contacts[end].to is None and not any(
            wire.opener == end and wire.has[end] and not wire.heard[end] for wire in world.wires
        ):
            number = world.opened + 1
            wire = Wire(number, end, world.lives, number if end == A else world.contacts[B].call)
            yield world._replace(wires=(*world.wires, wire), opened=world.opened + 1)
        if world.restarts:
            yield restarted(world, end)
    for wire in world.wires:
        for end in (A, B):
            if wire.has[end] and not wire.heard[end]:
                yield greeted(world, wire, end)
            if wire.has[end] and not wire.has[1 - end]:
                yield changed(without(world, wire, end), end, world.contacts[end].closed(wire.number))
            if wire.has[end] and wire.has[1 - end] and world.breaks:
                broken = without(world._replace(breaks=world.breaks - 1), wire, end)
                yield changed(broken, end, world.contacts[end].closed(wire.number))


def without(world: World, wire: Wire, end: int) -> World:
    """Return the world in which an end has a connection no longer."""
    has = with_(wire.has, end, False)
    wires = tuple(
        each._replace(has=has) if each.number == wire.number else each
        for each in world.wires
        if each.number != wire.number or any(has)
    )
    return world._replace(wires=wires)


def greeted(world: World, wire: Wire, end: int) -> World:
    """Have an end hear the other one's hello, which it refuses if it knows a later life of it."""
    known = max((line.node_epoch for line in (world.contacts[end].to, world.contacts[end].of) if line), default=0)
    if wire.lives[1 - end] < known:
        return without(world, wire, end)
    wires = tuple(
        each._replace(heard=with_(wire.heard, end, True)) if each.number == wire.number else each
        for each in world.wires
    )
    line = Line(wire.number, wire.lives[1 - end], wire.call, wire.number)
    contact, is_caller = world.contacts[end], end == A
    is_to = wire.opener == end
    after = contact.opened_to(line, is_caller=is_caller) if is_to else contact.opened_of(line, is_caller=is_caller)
    return changed(world._replace(wires=wires), end, after)


def changed(world: World, end: int, after: tuple[Contact, tuple[Change, ...]]) -> World:
    contact, changes = after
    was_there = world.contacts[end].is_there
    for change in changes:
        match change:
            case Closes(number):
                wire = next((each for each in world.wires if each.number == number), None)
                assert wire is not None, "it is closed once"
                assert wire.has[end], "it is closed once"
                world = without(world, wire, end)
            case Begins():
                assert not was_there, "a contact begins where there is none"
                was_there = True
                assert contact.to is not None
                assert contact.of is not None
                numbers = {contact.to.number, contact.of.number}
                assert not numbers & world.used[end], "a connection is of one contact"
                assert contact.to.node_epoch == contact.of.node_epoch, "a contact is with one life"
                world = world._replace(used=with_(world.used, end, world.used[end] | numbers))
            case Ends():
                assert was_there, "a contact ends where there is one"
                was_there = False
    assert was_there is contact.is_there, "it is told of every begin and end"
    return world._replace(contacts=with_(world.contacts, end, contact))


def restarted(world: World, end: int) -> World:
    """Have a node die and live again, in its next life."""
    for wire in world.wires:
        world = without(world, wire, end) if wire.has[end] else world
    return world._replace(
        contacts=with_(world.contacts, end, NO_CONTACT),
        lives=with_(world.lives, end, world.lives[end] + 1),
        restarts=world.restarts - 1,
        used=with_(world.used, end, frozenset()),
    )


def canonical(world: World) -> World:
    """Return a world with its connections numbered anew, and without those that nobody has."""
    numbers = {each for wire in world.wires for each in (wire.number, wire.call)} - {KNOCK}
    names = {number: index + 1 for index, number in enumerate(sorted(numbers))}

    def call(number: int) -> int:
        return KNOCK if number == KNOCK else names[number]

    def line(of: Line | None) -> Line | None:
        return None if of is None else Line(names[of.number], of.node_epoch, call(of.call), names[of.number])

    return world._replace(
        contacts=tuple(Contact(line(each.to), line(each.of)) for each in world.contacts),  # type: ignore[arg-type]
        wires=tuple(wire._replace(number=names[wire.number], call=call(wire.call)) for wire in sorted(world.wires)),
        opened=len(names),
        used=tuple(frozenset(names[it] for it in each if it in names) for each in world.used),  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(("breaks", "restarts"), [(1, 0), (0, 1)])
def test_two_nodes_meet_whatever_the_order_and_are_left_alone_then(breaks: int, restarts: int) -> None:
    first = World(breaks=breaks, restarts=restarts)
    followers: dict[World, list[World]] = {}
    waiting = [first]
    while waiting:
        world = waiting.pop()
        if world in followers:
            continue
        followers[world] = [canonical(after) for after in steps(world)]
        waiting += followers[world]
    quiet = {world for world in followers if not world.breaks and not world.restarts}
    ends = {world for world in quiet if not followers[world]}
    assert ends
    assert all(world.is_settled for world in ends), "all that is left to do was done, and they do not hear each other"
    # A node that was called tries to answer until it hears that the call is over: nothing comes of that meanwhile.
    restless = [world for world in not_ending(quiet, followers) if any(each.is_there for each in world.contacts)]
    assert restless == [], "they disturb each other without an end"


def not_ending(quiet: set[World], followers: dict[World, list[World]]) -> set[World]:
    """Return the worlds that may come again and again without an end, nothing going wrong any more."""
    after = {world: {each for each in followers[world] if each in quiet} for world in quiet}
    before: dict[World, set[World]] = {world: set() for world in quiet}
    for world, nexts in after.items():
        for each in nexts:
            before[each].add(world)
    for these, those in ((after, before), (before, after)):  # first away what ends, then what nothing leads back to
        gone = [world for world, others in these.items() if not others]
        while gone:
            world = gone.pop()
            for other in those.pop(world):
                these[other].discard(world)
                if not these[other]:
                    gone.append(other)
            del these[world]
    return set(after)


# ---- single steps ----------------------------------------------------------------------------------------------------


def line(number: int, *, call: int = 7, life: int = 5, age: int | None = None) -> Line:
    return Line(number, life, call, number if age is None else age)


THERE = Contact(line(1), line(2))


@pytest.mark.parametrize("is_caller", [True, False])
def test_a_contact_begins_with_the_answer_to_a_call(is_caller: bool) -> None:
    assert Contact(line(1), None).opened_of(line(2), is_caller=is_caller) == (THERE, (Begins(5),))
    assert Contact(None, line(2)).opened_to(line(1), is_caller=is_caller) == (THERE, (Begins(5),))


def test_a_contact_ends_with_either_connection_and_the_other_one_is_closed() -> None:
    assert THERE.closed(1) == (NO_CONTACT, (Ends(5), Closes(2)))
    assert THERE.closed(2) == (NO_CONTACT, (Ends(5), Closes(1)))
    assert THERE.closed(3) == (THERE, ())
    assert THERE.ended() == (NO_CONTACT, (Ends(5), Closes(1), Closes(2)))


def test_a_connection_that_ends_without_a_contact_takes_no_other_with_it() -> None:
    knocked = Contact(line(1), line(2, call=KNOCK))
    assert knocked.closed(1) == (Contact(None, line(2, call=KNOCK)), ())
    assert knocked.closed(2) == (Contact(line(1), None), ())


def test_a_newer_call_ends_the_contact_and_waits_for_its_answer() -> None:
    newer = line(3, call=8)
    assert THERE.opened_of(newer, is_caller=False) == (Contact(None, newer), (Ends(5), Closes(1), Closes(2)))
    assert Contact(line(1, call=KNOCK), None).opened_of(newer, is_caller=False) == (Contact(None, newer), (Closes(1),))


def test_a_knock_says_that_the_contact_is_over_unless_it_is_older() -> None:
    knock, late = line(3, call=KNOCK), line(4, call=KNOCK, age=1)
    assert THERE.opened_of(knock, is_caller=True) == (Contact(None, knock), (Ends(5), Closes(1), Closes(2)))
    assert THERE.opened_of(late, is_caller=True) == (THERE, (Closes(4),))


def test_a_knock_waits_beside_a_call_for_the_answer_to_take_its_place() -> None:
    knock = line(3, call=KNOCK)
    assert Contact(line(1), None).opened_of(knock, is_caller=True) == (Contact(line(1), knock), ())
    assert Contact(line(1), knock).opened_of(line(4), is_caller=True) == (
        Contact(line(1), line(4)),
        (Closes(3), Begins(5)),
    )


def test_an_answer_to_a_call_that_is_over_changes_nothing() -> None:
    assert THERE.opened_of(line(3, call=6), is_caller=True) == (THERE, (Closes(3),))
    assert Contact(None, line(2)).opened_to(line(3, call=8), is_caller=True) == (Contact(line(3, call=8)), (Closes(2),))
    assert Contact(None, line(2)).opened_to(line(3, call=6), is_caller=False) == (Contact(None, line(2)), (Closes(3),))
    assert NO_CONTACT.opened_to(line(3, call=6), is_caller=False) == (NO_CONTACT, (Closes(3),))


@pytest.mark.parametrize("is_caller", [True, False])
def test_a_connection_to_a_former_life_is_closed_when_the_next_one_is_heard_of(is_caller: bool) -> None:
    newer = line(3, life=6, call=KNOCK if is_caller else 1, age=1)
    assert Contact(line(1), None).opened_of(newer, is_caller=is_caller) == (Contact(None, newer), (Closes(1),))
    assert THERE.opened_of(newer, is_caller=is_caller) == (Contact(None, newer), (Ends(5), Closes(1), Closes(2)))
    assert Contact(None, line(2)).opened_to(line(3, life=6, call=8), is_caller=True) == (
        Contact(line(3, life=6, call=8)),
        (Closes(2),),
    )
