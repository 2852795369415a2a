"""No request of legal size, whatever it says, makes an assertion or a limit of the log fail."""

from random import Random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coordinator.core.effects import Append, Respond, SendPush
from coordinator.core.groups.hard.pieces import MAX_RECORD_BYTES
from coordinator.core.limits import Limits
from coordinator.protocol.codec import encode_message
from coordinator.protocol.messages import RegisterConsumer, Request
from tests.helpers.node_member import Member
from tests.helpers.node_world import NodeWorld
from tests.helpers.wild_requests import Known, WildRequests

MOST_BYTES_OF_A_STEP = 32 * 1024 * 1024
"""The most that one step may append: the disk holds as much beside it before members have to wait."""


class WildWorld:
    """A node whose every bug fails the test, with connections that say anything."""

    def __init__(self, dice: Random) -> None:
        self.dice = dice
        self.world = NodeWorld(
            {"t": 4, "u": 3, "x" * 249: 2},
            limits=Limits(snapshot_interval_records=dice.choice((20, 200_000)), slice_partitions=dice.choice((2, 500))),
        )
        self.known = Known(["g", "h"], dict(self.world.kafka.topics))
        self.requests = WildRequests(dice, self.known)
        self.connections: list[Member] = []

    def act(self) -> None:
        dice, world = self.dice, self.world
        before = len(world.effects)
        match dice.randrange(14):
            case 0:
                world.advance(dice.choice((0, 50, 100, 3_000, 20_000)))
            case 1:
                world.poll_topics()
            case 2 if len(self.connections) > 2:
                self.connections.pop(dice.randrange(len(self.connections))).close()
            case 3:
                member = world.joining(f"w{dice.randrange(4)}-{len(world.members)}", topics=("t", "u"))
                assert member.registration is not None
                member.send(member.registration)
                self.connections.append(member)
            case 4:
                world.kafka.is_away = dice.random() < 0.3
            case 5 if dice.random() < 0.1:
                world.restart()
                self.connections.clear()
            case _:
                self.ask()
        self.check(before)

    def ask(self, request: Request | None = None) -> None:
        living = [one for one in self.connections if one.closed_why is None]
        connection = self.dice.choice(living) if living and self.dice.random() < 0.8 else self.world.connect()
        if connection not in self.connections:
            self.connections.append(connection)
        request = request or self.requests.any(is_member=bool(connection.member_id))
        if isinstance(request, RegisterConsumer):
            connection.registration = request
        connection.send(request)

    def check(self, before: int) -> None:
        for effect in self.world.effects[before:]:
            match effect:
                case Append(records=records):
                    assert max(map(len, records)) <= MAX_RECORD_BYTES
                    assert sum(map(len, records)) <= MOST_BYTES_OF_A_STEP
                case Respond(response=said) | SendPush(push=said):
                    self.known.learn(said)
                    encode_message(said)
        del self.world.effects[:]


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 2**32))
def test_no_wild_request_meets_a_bug(seed: int) -> None:
    wild = WildWorld(Random(seed))
    for _ in range(60):
        wild.act()


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 2**32))
def test_no_large_request_meets_a_bug(seed: int) -> None:
    wild = WildWorld(Random(seed))
    for _ in range(10):
        wild.act()
    for _ in range(3):
        before = len(wild.world.effects)
        wild.ask(wild.requests.large())
        wild.check(before)
        wild.act()
