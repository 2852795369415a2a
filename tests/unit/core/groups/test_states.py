"""Every state of a member and of a group against every event that can come, as tables."""

import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path

import pytest

from coordinator.core.groups.status import GROUP_TRANSITIONS, MEMBER_TRANSITIONS, member_status
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    FetcherStarted,
    FetcherStartedResponse,
    RegisterConsumerResponse,
)
from coordinator.protocol.parts import OwnedPartition, StartHint
from coordinator.protocol.vocabulary import GroupStatus, MemberStatus
from tests.helpers.node_member import Member
from tests.helpers.node_world import NodeWorld

SESSION_MS = 10_000
GONE = "gone"
STABLE, UNREVOKED, UNRELEASED = (str(status) for status in MemberStatus)


# ---- members --------------------------------------------------------------------------------------------------------


def join(world: NodeWorld, member_id: str, **facts: object) -> Member:
    return world.join(member_id, session_timeout_ms=SESSION_MS, rebalance_timeout_ms=5_000, **facts)


def stable() -> tuple[NodeWorld, Member, Member]:
    world, m1, m2 = unrevoked()
    m1.stop_all()
    return world, m1, m2


def unrevoked() -> tuple[NodeWorld, Member, Member]:
    world = NodeWorld({"t": 4})
    return world, join(world, "m1"), join(world, "m2")


def unreleased() -> tuple[NodeWorld, Member, Member]:
    world = NodeWorld({"t": 4})
    m2 = join(world, "m2")
    return world, join(world, "m1"), m2


BUILDERS: dict[str, Callable[[], tuple[NodeWorld, Member, Member]]] = {
    STABLE: stable,
    UNREVOKED: unrevoked,
    UNRELEASED: unreleased,
}


def says_ping(world: NodeWorld, m1: Member, m2: Member) -> ErrorCode:
    return m1.ping().error


def says_started(world: NodeWorld, m1: Member, m2: Member) -> ErrorCode:
    owned = tuple(OwnedPartition(*partition, m1.epoch(partition)) for partition in m1.owned)
    results = m1.ask(FetcherStarted(owned), FetcherStartedResponse).refused
    return max((result.error for result in results), default=ErrorCode.NONE)


def lets_go_of_what_it_was_asked(world: NodeWorld, m1: Member, m2: Member) -> ErrorCode:
    m1.stop_all()
    return ErrorCode.NONE


def lets_go_of_all(world: NodeWorld, m1: Member, m2: Member) -> ErrorCode:
    return max((result.error for result in m1.stopped(*m1.owned).results), default=ErrorCode.NONE)


def commits(world: NodeWorld, m1: Member, m2: Member) -> ErrorCode:
    results = [m1.commit(partition, 150) for partition in sorted(m1.owned)]
    return max((result.error for result in results), default=ErrorCode.NONE)


def claims_all(world: NodeWorld, m1: Member, m2: Member) -> ErrorCode:
    response = m1.advance(claims=[m1.claim(partition, 100, 110) for partition in sorted(m1.owned)])
    return max((result.error for result in response.claims), default=ErrorCode.NONE)


def leaves(world: NodeWorld, m1: Member, m2: Member) -> ErrorCode:
    return m1.leave().error


def loses_its_connection(world: NodeWorld, m1: Member, m2: Member) -> None:
    m1.close()


def loses_its_connection_with_a_running_claim(world: NodeWorld, m1: Member, m2: Member) -> None:
    for partition in sorted(set(m1.owned) - set(m1.stopping))[:1]:
        m1.run(partition, 100, 110)
    m1.close()


def is_silent(world: NodeWorld, m1: Member, m2: Member) -> None:
    for _ in range(4):
        world.advance(SESSION_MS // 4)
        m2.ping()
        m2.stop_all()


def is_slow(world: NodeWorld, m1: Member, m2: Member) -> None:
    for _ in range(2):
        world.advance(2_500)
        for member in (m1, m2):
            member.ping()


def registers_again(world: NodeWorld, m1: Member, m2: Member) -> ErrorCode:
    assert m1.registration is not None
    again = world.connect()
    again.registration = m1.registration
    return again.register().error


def is_copied(world: NodeWorld, m1: Member, m2: Member) -> ErrorCode:
    copy = world.joining("m1", incarnation="a-copy")
    assert copy.registration is not None
    asked = copy.send(copy.registration)
    m1.ping()
    answer = copy.answer(asked)
    assert isinstance(answer, RegisterConsumerResponse)
    return answer.error


def sees_another_join(world: NodeWorld, m1: Member, m2: Member) -> None:
    join(world, "m3", streams=10)


def sees_another_leave(world: NodeWorld, m1: Member, m2: Member) -> None:
    m2.leave()
    world.settle()


def sees_another_let_go(world: NodeWorld, m1: Member, m2: Member) -> None:
    m2.stop_all()


def sees_the_topic_grow(world: NodeWorld, m1: Member, m2: Member) -> None:
    world.kafka.topics["t"] = 6
    world.poll_topics()
    world.settle()


def sees_the_coordinator_restart(world: NodeWorld, m1: Member, m2: Member) -> None:
    world.restart()


NONE = ErrorCode.NONE
SAID = {
    says_ping: (NONE, NONE, NONE),
    says_started: (NONE, NONE, NONE),
    lets_go_of_what_it_was_asked: (NONE, NONE, NONE),
    lets_go_of_all: (NONE, NONE, NONE),
    commits: (NONE, NONE, NONE),
    claims_all: (NONE, ErrorCode.REBALANCE_IN_PROGRESS, NONE),
    leaves: (NONE, NONE, NONE),
    loses_its_connection: (None, None, None),
    loses_its_connection_with_a_running_claim: (None, None, None),
    is_silent: (None, None, None),
    is_slow: (None, None, None),
    registers_again: (NONE, NONE, NONE),
    is_copied: (ErrorCode.MEMBER_ID_IN_USE, ErrorCode.MEMBER_ID_IN_USE, ErrorCode.MEMBER_ID_IN_USE),
    sees_another_join: (None, None, None),
    sees_another_leave: (None, None, None),
    sees_another_let_go: (None, None, None),
    sees_the_topic_grow: (None, None, None),
    sees_the_coordinator_restart: (None, None, None),
}
"""The answer to each event, by the state in the order of the columns below."""

LEADS_TO = {
    #                                             Stable       Unrevoked    Unreleased
    says_ping: (STABLE, UNREVOKED, UNRELEASED),
    says_started: (STABLE, UNREVOKED, UNRELEASED),
    lets_go_of_what_it_was_asked: (STABLE, STABLE, UNRELEASED),
    lets_go_of_all: (STABLE, STABLE, UNRELEASED),
    commits: (STABLE, UNREVOKED, UNRELEASED),
    claims_all: (STABLE, UNREVOKED, UNRELEASED),
    leaves: (GONE, GONE, GONE),
    loses_its_connection: (GONE, GONE, GONE),
    loses_its_connection_with_a_running_claim: (STABLE, UNREVOKED, GONE),
    is_silent: (GONE, GONE, GONE),
    is_slow: (STABLE, STABLE, STABLE),
    registers_again: (STABLE, UNREVOKED, UNRELEASED),
    is_copied: (STABLE, UNREVOKED, UNRELEASED),
    sees_another_join: (UNREVOKED, UNREVOKED, UNRELEASED),
    sees_another_leave: (STABLE, UNREVOKED, STABLE),
    sees_another_let_go: (STABLE, UNREVOKED, STABLE),
    sees_the_topic_grow: (STABLE, UNREVOKED, UNRELEASED),
    sees_the_coordinator_restart: (STABLE, UNREVOKED, UNRELEASED),
}
EVENTS = list(LEADS_TO)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.__name__)
@pytest.mark.parametrize("column", range(3), ids=[STABLE, UNREVOKED, UNRELEASED])
def test_member_in_every_state_meets_every_event(column: int, event: Callable[..., ErrorCode | None]) -> None:
    before = (STABLE, UNREVOKED, UNRELEASED)[column]
    world, m1, m2 = BUILDERS[before]()
    assert str(member_status(world.group(), "m1")) == before
    said = event(world, m1, m2)
    group = world.group()
    after = str(member_status(group, "m1")) if "m1" in group.members else GONE
    assert (after, said) == (LEADS_TO[event][column], SAID[event][column])


def test_table_of_member_states_holds_what_happens() -> None:
    seen: dict[str, set[str]] = {STABLE: set(), UNREVOKED: set(), UNRELEASED: set()}
    for following in LEADS_TO.values():
        for before, after in zip((STABLE, UNREVOKED, UNRELEASED), following, strict=True):
            seen[before].add(after)
    for before, after in seen.items():
        assert after - {GONE} <= {str(status) for status in MEMBER_TRANSITIONS[MemberStatus(before)]}


# ---- groups ---------------------------------------------------------------------------------------------------------

EMPTY, ASSIGNING, RECOVERING, RECONCILING, SETTLED = (str(status) for status in GroupStatus)


def empty_group() -> NodeWorld:
    world = NodeWorld({"t": 4})
    join(world, "m1").leave()
    world.settle()
    return world


def assigning_group() -> NodeWorld:
    world = NodeWorld({"t": 4})
    join(world, "m1")
    join(world, "m2", is_settled=False)
    return world


def recovering_group() -> NodeWorld:
    world = NodeWorld({"t": 4})
    join(world, "m1", hints=[StartHint("t", "id-t", 0, 50, from_checkpoint=True)])
    return world


def reconciling_group() -> NodeWorld:
    return unrevoked()[0]


def settled_group() -> NodeWorld:
    return stable()[0]


GROUPS = {
    EMPTY: empty_group,
    ASSIGNING: assigning_group,
    RECOVERING: recovering_group,
    RECONCILING: reconciling_group,
    SETTLED: settled_group,
}


def someone_joins(world: NodeWorld) -> None:
    join(world, "m9", is_settled=False)


def the_window_ends(world: NodeWorld) -> None:
    world.settle()


def all_let_go(world: NodeWorld) -> None:
    for member in list(world.members.values()):
        member.stop_all()


def everybody_leaves(world: NodeWorld) -> None:
    for member in [member for member in world.members.values() if member.member_id and member.owned]:
        member.leave()
    for member in [member for member in world.members.values() if member.member_id in world.group().members]:
        member.leave()


def the_topic_grows(world: NodeWorld) -> None:
    world.kafka.topics["t"] = 5
    world.poll_topics()


def the_coordinator_restarts(world: NodeWorld) -> None:
    world.restart()


GROUP_LEADS_TO = {
    #                         Empty    Assigning    Recovering  Reconciling  Stable
    someone_joins: (SETTLED, ASSIGNING, RECOVERING, ASSIGNING, ASSIGNING),
    the_window_ends: (EMPTY, RECONCILING, RECOVERING, RECONCILING, SETTLED),
    all_let_go: (EMPTY, ASSIGNING, RECOVERING, SETTLED, SETTLED),
    everybody_leaves: (EMPTY, EMPTY, EMPTY, EMPTY, EMPTY),
    the_topic_grows: (EMPTY, ASSIGNING, RECOVERING, ASSIGNING, ASSIGNING),
    the_coordinator_restarts: (EMPTY, ASSIGNING, RECOVERING, RECONCILING, SETTLED),
}


@pytest.mark.parametrize("event", list(GROUP_LEADS_TO), ids=lambda event: event.__name__)
@pytest.mark.parametrize("column", range(5), ids=list(GROUPS))
def test_group_in_every_state_meets_every_event(column: int, event: Callable[[NodeWorld], None]) -> None:
    before = list(GROUPS)[column]
    world = GROUPS[before]()
    assert world.describe().state == before
    event(world)
    after = world.describe().state
    assert after == GROUP_LEADS_TO[event][column]
    assert GroupStatus(after) in GROUP_TRANSITIONS[GroupStatus(before)]


@pytest.mark.parametrize("transitions", [GROUP_TRANSITIONS, MEMBER_TRANSITIONS], ids=["group", "member"])
def test_the_diagram_in_the_documentation_is_the_table(
    transitions: Mapping[StrEnum, Mapping[StrEnum, str]],
) -> None:
    drawn = ["stateDiagram-v2", f"    [*] --> {next(iter(transitions))}"]
    for state, steps in transitions.items():
        drawn += [f"    {state} --> {following}: {why}" for following, why in steps.items() if following is not state]
    page = Path(__file__).parents[4] / "docs" / "ARCHITECTURE.md"
    diagrams = re.findall(r"```mermaid\n(.*?)\n```", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert "\n".join(drawn) in diagrams
