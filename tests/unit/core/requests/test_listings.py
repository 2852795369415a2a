"""What connections list before they register is bounded for all of them together; who goes no further makes room."""

from coordinator.core.groups.soft.sessions import Connection
from coordinator.core.limits import Limits
from coordinator.core.requests.listing import Listings, take_listed
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import ListClaims, ListClaimsResponse
from coordinator.protocol.parts import Claim, StartHint
from tests.helpers.node_member import Member
from tests.helpers.node_world import NodeWorld

HUNDRED = ListClaims(claims=tuple(Claim("t", "id-t", number, 7, 0, 5) for number in range(100)))
SIZE = 100 * (64 + len("t") + len("id-t"))


def make_world(rooms: int) -> NodeWorld:
    return NodeWorld({"t": 4}, limits=Limits(listed_total_bytes=rooms * SIZE))


def list_hundred(member: Member) -> Member:
    assert member.ask(HUNDRED, ListClaimsResponse).error is ErrorCode.NONE
    return member


def test_connection_that_listed_longest_ago_makes_room() -> None:
    world = make_world(3)
    listers = [list_hundred(world.connect()) for _ in range(5)]
    closed = [member.closed_why is not None for member in listers]
    assert closed == [True, True, False, False, False]
    assert listers[0].closed_why == (
        "it has listed claims and not registered with them, and others need the room; connect again"
    )


def test_connection_that_goes_on_listing_is_not_the_oldest() -> None:
    world = make_world(3)
    first, second = list_hundred(world.connect()), list_hundred(world.connect())
    list_hundred(first)
    third = list_hundred(world.connect())
    assert [member.closed_why is None for member in (first, second, third)] == [True, False, True]


def test_members_that_register_take_no_room_however_many_there_are() -> None:
    world = make_world(2)
    members = []
    for number in range(20):
        member = list_hundred(world.joining(f"m{number}"))
        assert member.register().error is ErrorCode.NONE
        members.append(member)
    assert all(member.closed_why is None for member in members)


def test_connections_that_are_gone_take_no_room() -> None:
    world = make_world(2)
    stays = list_hundred(world.connect())
    for _ in range(20):
        list_hundred(world.connect()).close()
    assert stays.closed_why is None


def test_one_connection_may_list_all_that_one_may() -> None:
    world = make_world(1)
    member = world.joining("m1")
    for _ in range(5):
        list_hundred(member)
    assert member.register().error is ErrorCode.NONE


def test_registrations_that_wait_for_kafka_hold_what_they_listed() -> None:
    world = make_world(3)
    world.kafka.is_away = True
    waiting = []
    for number in range(5):
        member = list_hundred(world.joining(f"m{number}", topics=("u",)))
        assert member.registration is not None
        member.send(member.registration)
        waiting.append(member)
    assert [member.closed_why is None for member in waiting] == [False, False, True, True, True]


def test_starts_are_counted_as_claims_are() -> None:
    world = make_world(2)
    hints = tuple(StartHint("t", "id-t", number, 5, from_checkpoint=True) for number in range(100))
    listers = [world.connect() for _ in range(3)]
    for member in listers:
        assert member.ask(ListClaims(hints=hints), ListClaimsResponse).error is ErrorCode.NONE
    assert [member.closed_why is None for member in listers] == [False, True, True]


def test_lists_of_nothing_are_not_known_however_many_connections_come_with_one() -> None:
    """They take no room that others need, so nothing ever made room for the next: each stayed for ever."""
    connections = {number: Connection(number, "10.0.0.1") for number in range(50)}
    listings = Listings(connections, SIZE)
    for connection in connections.values():
        take_listed(connection, ListClaims(), Limits())
        assert list(listings.note(connection)) == []
    assert len(listings) == 0
