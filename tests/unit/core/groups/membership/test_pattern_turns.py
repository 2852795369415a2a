"""Patterns are held against a bounded number of names in each step, whoever wants it, and all is matched in the end."""

from typing import Any

import pytest

from coordinator.core import matching, meter
from coordinator.core.events import Ticked
from coordinator.core.groups.assignment import subscriptions
from coordinator.core.limits import Limits
from coordinator.core.node import Node
from coordinator.core.security.acl import Acl, Matcher
from coordinator.core.security.acl_file import parse_rules
from coordinator.core.security.authorizer import Authorizer
from coordinator.core.security.principal import Principal
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import RegisterConsumerResponse
from coordinator.protocol.parts import Subscription
from tests.helpers.node_member import Member
from tests.helpers.node_world import NodeWorld

TOPICS = {f"f{number:02}": 1 for number in range(30)}
PATTERN = Subscription(pattern="f.*")
FEW = 3
RULES = """
allow User:* read group prefix g
allow User:* describe topic literal f00
allow User:* describe topic literal f-seen
"""


class Matches:
    """The names that were held against patterns, by step of a node."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.of_steps = [0]
        compiled, step = matching.compiled, Node.step
        matches = self

        class Counted:
            def __init__(self, pattern: str) -> None:
                self._regexp = compiled(pattern)
                self.programsize = self._regexp.programsize

            def fullmatch(self, name: str) -> Any:
                matches.of_steps[-1] += 1
                return self._regexp.fullmatch(name)

        def counted(self: Node, *arguments: Any) -> Any:
            matches.of_steps.append(0)
            return step(self, *arguments)

        monkeypatch.setattr(matching, "compiled", Counted)
        monkeypatch.setattr(Node, "step", counted)

    @property
    def most(self) -> int:
        """The most of one step so far, which are counted anew."""
        most = max(self.of_steps)
        self.of_steps = [0]
        return most


@pytest.fixture
def matches(monkeypatch: pytest.MonkeyPatch) -> Matches:
    # A name of three letters costs 750 and a little more for the pattern.
    monkeypatch.setattr(meter, "MATCHED_AT_ONCE", 750 * FEW)
    return Matches(monkeypatch)


def poll(world: NodeWorld) -> None:
    world.poll_topics()
    world.settle()


def registering(world: NodeWorld, member_id: str, **facts: object) -> tuple[Member, int]:
    member = world.joining(member_id, **facts)  # type: ignore[arg-type]
    assert member.registration is not None
    return member, member.send(member.registration)


def test_registration_waits_while_some_names_are_matched_in_each_step(matches: Matches) -> None:
    world = NodeWorld(TOPICS)
    m1 = world.join("m1", subscription=PATTERN)
    assert sorted(m1.owned) == [(topic, 0) for topic in TOPICS]
    assert matches.most <= FEW


def test_others_are_heard_between_two_steps_of_a_registration(matches: Matches) -> None:
    world = NodeWorld({**TOPICS, "t": 1})
    world.join("m0", group_id="g0", subscription=Subscription(pattern="t"))
    m1, number = registering(world, "m1", subscription=PATTERN)
    assert m1.answer(number) is None
    m2 = world.join("m2", group_id="g2", topics=("t",), is_settled=False)
    assert m1.answer(number) is None
    world.settle()
    assert (len(m1.owned), len(m2.owned)) == (30, 1)
    assert matches.most <= FEW


def test_pattern_that_matches_too_many_topics_is_refused_once_all_are_matched(matches: Matches) -> None:
    world = NodeWorld(TOPICS, limits=Limits(pattern_max_topics=20))
    world.join("m0", group_id="g0", subscription=Subscription(pattern="f00"))
    m1, number = registering(world, "m1", subscription=PATTERN)
    world.settle()
    response = m1.answer(number)
    assert isinstance(response, RegisterConsumerResponse)
    assert response.error is ErrorCode.INVALID_REQUEST
    assert "matches 30 topics and at most 20 are allowed" in response.message
    assert matches.most <= FEW


def test_registration_whose_connection_closes_is_waited_for_no_longer(matches: Matches) -> None:
    world = NodeWorld(TOPICS)
    world.join("m0", group_id="g", subscription=Subscription(pattern="f00"))
    m1, number = registering(world, "m1", subscription=PATTERN)
    m2, of_m2 = registering(world, "m2", subscription=Subscription(pattern="f.1"))
    m1.close()
    world.settle()
    response = m2.answer(of_m2)
    assert isinstance(response, RegisterConsumerResponse)
    assert (m1.answer(number), response.error) == (None, ErrorCode.NONE)
    assert world.group().members.keys() == {"m0", "m2"}
    assert not any(shard._membership.turns for shard in world.node._shards)


def test_kafkas_answers_are_not_kept_for_registrations_that_wait_for_a_turn(matches: Matches) -> None:
    world = NodeWorld(TOPICS, limits=Limits(slice_members=1))
    world.join("m0", group_id="g0", subscription=Subscription(pattern="f00"))
    waiting = [registering(world, f"m{n}", subscription=Subscription(pattern=f"f.*|{n}")) for n in range(1, 4)]
    for _ in range(5):
        world.poll_topics()
    assert [member.answer(number) for member, number in waiting] == [None, None, None]
    assert not any(shard.desk.known for shard in world.node._shards)
    world.settle()
    assert world.group().members.keys() == {"m1", "m2", "m3"}
    assert matches.most <= FEW


def test_topics_that_come_are_matched_for_all_groups_in_steps(matches: Matches) -> None:
    world = NodeWorld(TOPICS)
    members = [world.join("m", group_id=f"g{n}", subscription=Subscription(pattern=f"f.*|{n}")) for n in range(10)]
    assert matches.most <= FEW
    world.kafka.topics.update({"f-new-1": 1, "f-new-2": 1})
    poll(world)
    for member in members:
        assert sorted(member.owned) == [(topic, 0) for topic in sorted(world.kafka.topics)]
    assert matches.most <= FEW


def test_group_that_is_matched_anew_all_the_time_keeps_nobody_waiting(matches: Matches) -> None:
    world = NodeWorld(TOPICS, shards=1)
    members = [world.join(f"m{n}", subscription=Subscription(pattern=f"f.*|{n}")) for n in range(10)]
    newcomer, number = None, 0
    for poll_number in range(60):
        world.kafka.topics[f"f-new-{poll_number}"] = 1
        world.poll_topics()
        if newcomer is None:
            newcomer, number = registering(world, "n", group_id="other", subscription=Subscription(pattern="f0."))
        for _ in range(4):
            world.happen(Ticked(world.now_ms + world.wall_offset_ms, is_behind=False))
    assert newcomer is not None
    assert isinstance(newcomer.answer(number), RegisterConsumerResponse)
    world.settle()
    assert {topic for member in members for topic, _ in member.owned} == world.kafka.topics.keys()
    assert matches.most <= FEW


def test_members_of_one_pattern_are_matched_on_the_newest_listing_whenever_their_turn_was_begun(
    matches: Matches,
) -> None:
    world = NodeWorld(TOPICS, shards=1)
    members = [world.join(f"m{n}", subscription=PATTERN) for n in range(10)]
    for number in range(10):
        world.kafka.topics[f"f-new-{number}"] = 1
        world.poll_topics()
        world.happen(Ticked(world.now_ms + world.wall_offset_ms, is_behind=False))
    world.settle()
    found = {world.group().members[member.member_id].facts.topics for member in members}
    assert found == {tuple(sorted(world.kafka.topics))}
    assert matches.most <= FEW


def test_rights_on_topics_that_match_are_asked_for_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    world = NodeWorld(TOPICS, authorizer=Authorizer(Acl(parse_rules(RULES))))
    for number in range(10):
        who = Principal(f"u{number}")
        world.join("m", group_id=f"g{number}", subscription=Subscription(pattern="f.*"), principal=who)
    asked, allows, step = [0], Matcher.allows, Node.step

    def counted(self: Matcher, name: str) -> bool:
        asked[-1] += 1
        return allows(self, name)

    def stepped(self: Node, *arguments: Any) -> Any:
        asked.append(0)
        return step(self, *arguments)

    monkeypatch.setattr(Matcher, "allows", counted)
    monkeypatch.setattr(Node, "step", stepped)
    monkeypatch.setattr(meter, "MATCHED_AT_ONCE", 3_000)
    world.kafka.topics["f-seen"] = 1
    poll(world)
    assert [sorted(world.group(f"g{n}").members["m"].facts.topics) for n in range(10)] == [["f-seen", "f00"]] * 10
    assert 0 < max(asked) <= len(world.kafka.topics)


def test_members_of_one_group_with_other_patterns_are_matched_in_steps(matches: Matches) -> None:
    world = NodeWorld(TOPICS)
    for number in range(10):
        world.join(f"m{number}", subscription=Subscription(pattern=f"f{number % 3}.|f-{number}"))
    world.kafka.topics.update({f"f-{number}": 1 for number in range(10)})
    poll(world)
    group = world.group()
    for number in range(10):
        its = [name for name in TOPICS if name[1] == str(number % 3)]
        assert group.members[f"m{number}"].facts.topics == (f"f-{number}", *its)
    assert matches.most <= FEW


def test_member_that_goes_while_its_group_is_matched_holds_up_nobody(matches: Matches) -> None:
    world = NodeWorld(TOPICS)
    members = [world.join(f"m{n}", subscription=Subscription(pattern=f"f-{n}|f{n}.")) for n in range(3)]
    world.kafka.topics["f-2"] = 1
    world.poll_topics()
    members[0].leave()
    world.settle()
    assert world.group().members["m2"].facts.topics[0] == "f-2"
    assert matches.most <= FEW


def test_costly_pattern_in_a_log_is_matched_in_steps_after_a_restart(
    matches: Matches, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = NodeWorld(TOPICS)
    monkeypatch.setattr(subscriptions, "MAX_PATTERN_SIZE", 1_000_000)
    m1 = world.join("m1", subscription=Subscription(pattern="(.?){1000}"))
    monkeypatch.undo()
    monkeypatch.setattr(meter, "MATCHED_AT_ONCE", 750 * FEW)
    matches = Matches(monkeypatch)
    world.restart()
    world.kafka.topics["f-new"] = 1
    again = world.reconnect(m1)
    assert len(again.owned) >= 30, "it goes on with what it had"
    poll(world)
    assert len(again.owned) == 31
    assert matches.most == 1


def test_member_that_comes_back_with_its_pattern_does_not_wait_and_is_matched_later(matches: Matches) -> None:
    world = NodeWorld(TOPICS)
    world.join("m0", group_id="other", subscription=Subscription(pattern="f00"))
    m1 = world.join("m1", subscription=PATTERN)
    m1.close()
    world.kafka.topics["f-new"] = 1
    world.poll_topics()
    again = world.reconnect(m1)
    world.settle()
    assert len(again.owned) == 31
    assert matches.most <= FEW


def test_names_that_a_member_makes_up_are_held_against_the_others_pattern_in_steps(matches: Matches) -> None:
    world = NodeWorld({"t": 1})
    world.join("m1", subscription=Subscription(pattern=".*y"), application="app")
    names = tuple(f"n{number:03}" for number in range(100))
    m2, number = registering(world, "m2", subscription=Subscription(names), application="app", wait_for_topics=True)
    poll(world)
    response = m2.answer(number)
    assert isinstance(response, RegisterConsumerResponse)
    assert response.error is ErrorCode.NONE
    assert matches.most <= FEW


@pytest.mark.parametrize("is_by_pattern", [True, False])
def test_second_member_of_a_program_is_refused_for_a_topic_that_is_compared_last(
    matches: Matches, *, is_by_pattern: bool
) -> None:
    world = NodeWorld({"t": 1})
    names = Subscription(tuple(f"n{number:03}" for number in range(100)))
    pattern = Subscription(pattern="n099")
    one, another = (pattern, names) if is_by_pattern else (names, pattern)
    first = world.join("m1", subscription=one, application="app", wait_for_topics=True)
    m2, number = registering(world, "m2", subscription=another, application="app", wait_for_topics=True)
    poll(world)
    first.ping()
    response = m2.answer(number)
    assert isinstance(response, RegisterConsumerResponse)
    assert response.error is ErrorCode.SECOND_MEMBER_OF_APPLICATION
    assert matches.most <= FEW
