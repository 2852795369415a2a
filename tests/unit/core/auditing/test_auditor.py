"""The audit log has a line before each answer to what changes something, with how it stood before and after."""

import pytest

from coordinator.core.effects import Audited, Respond
from coordinator.core.events import AuditLogFailed, AuditLogWorks, ConnectionClosed, RequestArrived, RulesChanged
from coordinator.core.security.acl import Acl
from coordinator.core.security.acl_file import parse_rules
from coordinator.core.security.authorizer import Authorizer
from coordinator.core.security.principal import Principal
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    CommitOffsets,
    CommitOffsetsResponse,
    DrainNode,
    DrainNodeResponse,
    ErrorResponse,
    ListGroups,
    ListGroupsResponse,
)
from coordinator.protocol.messages.operators import (
    CancelResets,
    CancelResetsResponse,
    ChangeDrain,
    ChangeDrainResponse,
    ChangePause,
    ChangePauseResponse,
    DeleteGroup,
    DeleteGroupResponse,
    DeleteOffsets,
    DeleteOffsetsResponse,
    ResetOffsets,
    ResetOffsetsResponse,
)
from coordinator.protocol.parts import ResetTarget, TopicOffsets
from coordinator.protocol.vocabulary import ResetKind
from tests.helpers.node_world import WALL_OFFSET_MS, NodeWorld

ALICE, BOB = Principal("alice"), Principal("bob")
RULES = "allow User:alice all group literal g\nallow User:alice all topic literal *\nallow User:alice all cluster\n"
ANN = "ann@ops"


def world_of(*, is_durable_at_once: bool = True) -> NodeWorld:
    authorizer = Authorizer(Acl(parse_rules(RULES)))
    return NodeWorld({"t": 4}, authorizer=authorizer, has_audit_log=True, is_durable_at_once=is_durable_at_once)


def lines(world: NodeWorld) -> list[tuple[object, ...]]:
    return [(one.verb, one.outcome, one.before, one.after, one.refused) for one in world.audited]


def commit(world: NodeWorld, *offsets: int) -> None:
    asked = CommitOffsets("g", (TopicOffsets("t", tuple(range(len(offsets))), offsets),))
    world.connect(principal=ALICE).ask(asked, CommitOffsetsResponse)


def reset(number: int, offset: int) -> ResetTarget:
    return ResetTarget("t", number, ResetKind.OFFSET, offset)


def test_a_line_names_who_asked_from_where_for_what_and_when() -> None:
    world = world_of()
    commit(world, 7)
    tool = world.connect(host="10.9.8.7", principal=ALICE)
    tool.ask(DeleteOffsets("g", (("t", 0), ("t", 3)), ANN, "a bad deploy", is_dry_run=False), DeleteOffsetsResponse)
    assert world.audited[-1] == Audited(
        wall_ms=world.now_ms + WALL_OFFSET_MS,
        principal="User:alice",
        address="10.9.8.7",
        verb="DeleteOffsets",
        outcome="done",
        request_id=f"{tool.connection_id}-1",
        group_id="g",
        who=ANN,
        why="a bad deploy",
        before={"t:0": 7},
        after={"t:0": None},
        refused={"t:3": "UNKNOWN_TOPIC_OR_PARTITION"},
    )


def test_lines_say_how_it_stood_before_and_after() -> None:
    world = world_of()
    commit(world, 7, 9)
    commit(world, 8)
    member = world.join("m1", principal=ALICE)
    world.settle()
    tool = world.connect(principal=ALICE)
    tool.ask(ChangePause("g", (("t", 0), ("t", 1)), True, ANN, "", False), ChangePauseResponse)
    tool.ask(ChangePause("g", (("t", 1), ("t", 2)), True, ANN, "", False), ChangePauseResponse)
    tool.ask(ChangePause("g", None, True, ANN, "", False), ChangePauseResponse)
    tool.ask(ChangeDrain("g", "m1", True, ANN, "", False), ChangeDrainResponse)
    tool.ask(ChangeDrain("g", "nobody", True, ANN, "", False), ChangeDrainResponse)
    assert member.member_id == "m1"
    assert lines(world) == [
        ("CommitOffsets", "done", {"t:0": None, "t:1": None}, {"t:0": 7, "t:1": 9}, {}),
        ("CommitOffsets", "done", {"t:0": 7}, {"t:0": 8}, {}),
        ("ChangePause", "done", *[{"t:0": is_, "t:1": is_} for is_ in ("not paused", "paused")], {}),
        ("ChangePause", "done", {"t:1": "paused", "t:2": "not paused"}, {"t:1": "paused", "t:2": "paused"}, {}),
        ("ChangePause", "done", {"*": "not paused"}, {"*": "paused"}, {}),
        ("ChangeDrain", "done", {"m1": "not drained"}, {"m1": "drained"}, {}),
        ("ChangeDrain", "refused", {}, {}, {}),
    ]
    assert world.audited[-1].error == "UNKNOWN_MEMBER_ID"


def test_a_reset_is_told_when_kafka_has_answered_and_a_pending_one_as_that() -> None:
    world = world_of()
    commit(world, 0, 0)
    member = world.join("m1", principal=ALICE)
    world.settle()
    assert ("t", 0) in member.owned
    tool = world.connect(principal=ALICE)
    tool.ask(ResetOffsets("g", (reset(0, 12),), ANN, "", False, False), ResetOffsetsResponse)
    tool.ask(CancelResets("g", None, ANN, "", False), CancelResetsResponse)
    assert lines(world)[-2:] == [
        ("ResetOffsets", "done", {"t:0": 0}, {"t:0": "12 once its owner has let go"}, {}),
        ("CancelResets", "done", {"t:0": 12}, {"t:0": None}, {}),
    ]


def test_a_dry_run_is_told_as_one_and_a_deleted_group_with_its_offsets() -> None:
    world = world_of()
    commit(world, 7)
    tool = world.connect(principal=ALICE)
    for is_dry_run in (True, False):
        tool.ask(DeleteGroup("g", ANN, "", is_dry_run), DeleteGroupResponse)
    before = {"members": 0, "offsets": 1, "t:0": 7}
    assert lines(world)[1:] == [
        ("DeleteGroup", outcome, before, dict.fromkeys(before), {}) for outcome in ("dry-run", "done")
    ]


def test_what_the_rules_or_the_state_refuse_is_told_also_of_questions() -> None:
    world = world_of()
    bob = world.connect(principal=BOB)
    bob.ask(DeleteGroup("g", ANN, "", False), ErrorResponse)
    bob.ask(CommitOffsets("g", ()), ErrorResponse)
    newcomer = world.joining("m2", principal=BOB)
    assert newcomer.registration is not None
    newcomer.ask(newcomer.registration, ErrorResponse)
    bob.ask(ListGroups(), ListGroupsResponse)
    world.connect(principal=ALICE).ask(DrainNode(1, True, ANN, "", False), DrainNodeResponse)
    assert [(one.principal, one.verb, one.outcome, one.error) for one in world.audited] == [
        ("User:bob", "DeleteGroup", "refused", "GROUP_AUTHORIZATION_FAILED"),
        ("User:bob", "CommitOffsets", "refused", "GROUP_AUTHORIZATION_FAILED"),
        ("User:bob", "RegisterConsumer", "refused", "GROUP_AUTHORIZATION_FAILED"),
        ("User:alice", "DrainNode", "refused", "INVALID_REQUEST"),
    ]


@pytest.mark.parametrize("is_durable_at_once", [True, False])
def test_whoever_shows_the_identity_of_another_principals_member_is_told_of(is_durable_at_once: bool) -> None:
    """It is refused by the registration's own answer, which may come steps later."""
    world = world_of(is_durable_at_once=is_durable_at_once)
    world.happen(RulesChanged(Acl(parse_rules(RULES + RULES.replace("alice", "bob")))))
    for principal in (ALICE, BOB):
        member = world.joining("m1", principal=principal)
        assert member.registration is not None
        member.send(member.registration)
    world.sync()
    (line,) = world.audited
    assert (line.principal, line.verb, line.group_id) == ("User:bob", "RegisterConsumer", "g")
    assert (line.outcome, line.error) == ("refused", "GROUP_AUTHORIZATION_FAILED")


def test_a_members_commit_of_a_topic_that_it_may_not_read_is_told() -> None:
    world = world_of()
    member = world.join("m1", principal=ALICE)
    world.settle()
    rules = RULES.replace("all topic", "describe topic")
    world.happen(RulesChanged(Acl(parse_rules(rules))))
    member.commit(("t", 0), 105)
    (line,) = world.audited
    assert (line.principal, line.verb, line.outcome) == ("User:alice", "CommitOffsets", "refused")
    assert line.refused == {"t:0": "TOPIC_AUTHORIZATION_FAILED"}


def test_members_at_work_leave_no_lines() -> None:
    world = world_of()
    member = world.join("m1", principal=ALICE)
    world.settle()
    assert member.commit(("t", 0), 105).error is ErrorCode.NONE
    member.leave()
    assert world.audited == []


def test_the_line_comes_with_the_answer_once_the_change_is_durable() -> None:
    world = world_of(is_durable_at_once=False)
    tool = world.connect(principal=ALICE)
    commit_now = CommitOffsets("g", (TopicOffsets("t", (0,), (7,)),))
    world.happen(RequestArrived(tool.connection_id, 1, commit_now))
    assert world.audited == []
    tool.asked[1] = commit_now
    before = len(world.effects)
    world.sync()
    said = [effect for effect in world.effects[before:] if isinstance(effect, Audited | Respond)]
    assert [type(effect) for effect in said] == [Audited, Respond]


def test_what_was_asked_on_a_connection_that_is_closed_first_may_have_been_done() -> None:
    world = world_of(is_durable_at_once=False)
    tool = world.connect(principal=ALICE)
    world.happen(RequestArrived(tool.connection_id, 1, CommitOffsets("g", (TopicOffsets("t", (0,), (7,)),))))
    del world.members[tool.connection_id]
    world.happen(ConnectionClosed(tool.connection_id, "reset by peer"))
    world.sync()
    assert [one.outcome for one in world.audited] == ["unanswered"]


def test_nothing_is_changed_while_lines_cannot_be_written() -> None:
    world = world_of()
    commit(world, 7)
    world.machine.step(AuditLogFailed("the audit log x cannot be written: No space left on device"), world.now_ms)
    tool = world.connect(principal=ALICE)
    refused = tool.ask(DeleteGroup("g", ANN, "", False), ErrorResponse)
    assert (refused.error, "No space left" in refused.message) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, True)
    assert world.group("g").offsets
    assert tool.ask(ListGroups(), ListGroupsResponse).groups
    assert world.audited[-1].outcome == "refused"
    world.machine.step(AuditLogWorks(), world.now_ms)
    tool.ask(DeleteGroup("g", ANN, "", False), DeleteGroupResponse)
    assert world.audited[-1].outcome == "done"
