"""A member is its principal's, patterns match what may be described, and lists end at no hidden name."""

import pytest

from coordinator.core.events import RulesChanged
from coordinator.core.limits import Limits
from coordinator.core.security.acl import Acl
from coordinator.core.security.acl_file import parse_rules
from coordinator.core.security.authorizer import Authorizer
from coordinator.core.security.principal import Principal
from coordinator.protocol.claim_columns import claims_in_columns
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    BeginClaims,
    BeginClaimsResponse,
    CommitOffsets,
    CommitOffsetsResponse,
    ErrorResponse,
    FetchOffsets,
    FetchOffsetsResponse,
    FinishClaims,
    FinishClaimsResponse,
    ListGroups,
    ListGroupsResponse,
    Ping,
    PingResponse,
    RegisterConsumerResponse,
    Response,
)
from coordinator.protocol.messages.operators import (
    DeleteOffsets,
    DeleteOffsetsResponse,
    ReleaseClaims,
    ReleaseClaimsResponse,
    ResetOffsets,
    ResetOffsetsResponse,
)
from coordinator.protocol.parts import Claim, NewGroup, ResetTarget, Subscription, TopicOffsets
from tests.helpers.node_member import Member
from tests.helpers.node_world import NodeWorld

ALICE, BOB = Principal("alice"), Principal("bob")
SHARED = "allow User:* read group literal g\nallow User:* read topic literal *\n"


def world_of(rules: str = SHARED, *, limits: Limits | None = None) -> NodeWorld:
    return NodeWorld({"t": 4, "t2": 2}, authorizer=Authorizer(Acl(parse_rules(rules))), limits=limits)


def topics_of(member: Member) -> set[str]:
    return {topic for topic, _ in member.owned}


def test_two_principals_share_a_group() -> None:
    world = world_of()
    world.join("m1", principal=ALICE)
    world.join("m2", principal=BOB)
    assert {name: member.facts.principal for name, member in world.group("g").members.items()} == {
        "m1": "User:alice",
        "m2": "User:bob",
    }


def test_identity_belongs_to_the_principal_that_registered_it_also_after_a_restart() -> None:
    world = world_of()
    world.join("m1", instance_id="i1", principal=ALICE)
    for _ in range(2):
        for member_id in ("m1", ""):
            refused = world.joining(member_id, instance_id="i1", principal=BOB).register()
            assert refused.error is ErrorCode.GROUP_AUTHORIZATION_FAILED
        world.restart()
    assert world.join("m1", instance_id="i1", principal=ALICE).member_id == "m1"


def test_member_from_before_log_ins_is_taken_over_by_who_comes_back_first() -> None:
    world = world_of()
    world.join("m1")
    world.restart()
    world.join("m1", principal=ALICE)
    assert world.joining("m1", principal=BOB).register().error is ErrorCode.GROUP_AUTHORIZATION_FAILED


def test_claims_of_a_member_are_finished_and_begun_by_its_principal_alone() -> None:
    world = world_of()
    world.join("m1", principal=ALICE)
    for request in (FinishClaims("g", "m1", ()), BeginClaims("g", "m1", ())):
        refused = world.connect(principal=BOB).ask(request, ErrorResponse)
        assert refused.error is ErrorCode.GROUP_AUTHORIZATION_FAILED
    world.connect(principal=ALICE).ask(BeginClaims("g", "m1", ()), BeginClaimsResponse)


def gone_with_claims(handover: str, rules: str = SHARED) -> tuple[NodeWorld, Claim]:
    """Return a world in which a member of alice's is gone, and a claim that it runs."""
    world = world_of(rules)
    member = world.join("m1", instance_id="i1", handover=handover, principal=ALICE)
    start = member.owned["t", 0].offset
    claim = member.run(("t", 0), start, start + 5)
    member.close()
    world.advance(60_000)
    assert (list(world.group().members), world.owners()) == ([], {("t", 0): "m1"})
    return world, claim


@pytest.mark.parametrize("handover", ["hold", "takeover"])
def test_member_that_is_gone_is_its_principals_as_long_as_its_claims_run(handover: str) -> None:
    world, claim = gone_with_claims(handover)
    for _ in range(2):
        for member_id, instance_id in (("m1", "i1"), ("m1", "i2"), ("", "i1"), ("m2", "i1")):
            refused = world.joining(member_id, instance_id=instance_id, handover=handover, principal=BOB).register()
            assert refused.error is ErrorCode.GROUP_AUTHORIZATION_FAILED
            assert "member m1, which is gone and left running claims" in refused.message
        for request in (FinishClaims("g", "m1", claims_in_columns([claim])), BeginClaims("g", "m1", ())):
            said = world.connect(principal=BOB).ask(request, ErrorResponse)
            assert said.error is ErrorCode.GROUP_AUTHORIZATION_FAILED
        world.restart()
    back = world.joining("", instance_id="i1", handover=handover, claims=(claim,), principal=ALICE).register()
    assert (back.error, back.member_id) == (ErrorCode.NONE, "m1")
    assert world.group().left_by == {}


def test_claims_of_a_member_that_is_gone_are_finished_by_its_principal() -> None:
    world, claim = gone_with_claims("hold")
    asked = FinishClaims("g", "m1", claims_in_columns([claim]))
    assert world.connect(principal=ALICE).ask(asked, FinishClaimsResponse).error is ErrorCode.NONE
    assert world.group().left_by == {}
    assert world.join("m1", instance_id="i1", principal=BOB).member_id == "m1"


def test_identity_of_a_member_that_is_gone_is_free_once_an_operator_has_its_claims_released() -> None:
    world, _ = gone_with_claims("hold", SHARED + "allow User:ops alter group literal g\n")
    ops = world.connect(principal=Principal("ops"))
    ops.ask(ReleaseClaims("g", (("t", 0),), "ops", is_dry_run=False), ReleaseClaimsResponse)
    assert world.group().left_by == {}
    assert world.join("m1", instance_id="i1", principal=BOB).member_id == "m1"


def test_partitions_of_a_member_that_is_gone_are_taken_over_by_whoever_shares_its_group() -> None:
    world, _ = gone_with_claims("takeover")
    world.join("m2", principal=BOB)
    world.advance(2_000)
    assert world.owners()["t", 0] == "m2"
    assert world.group().left_by == {}


def test_pattern_matches_only_topics_that_may_be_described_and_follows_the_rules() -> None:
    only_t = "allow User:* read group literal g\nallow User:alice describe topic literal t\n"
    world = world_of(only_t)
    alice = world.join("m1", subscription=Subscription(pattern="t.*"), principal=ALICE)
    world.advance(2_000)
    assert topics_of(alice) == {"t"}
    world.happen(RulesChanged(Acl(parse_rules(SHARED))))
    world.poll_topics()
    world.advance(2_000)
    assert topics_of(alice) == {"t", "t2"}


def test_member_whose_right_was_taken_back_is_refused() -> None:
    world = world_of()
    alice = world.join("m1", principal=ALICE)
    world.happen(RulesChanged(Acl()))
    assert alice.ask(Ping(0), ErrorResponse).error is ErrorCode.GROUP_AUTHORIZATION_FAILED


def test_topic_that_may_not_be_described_is_not_subscribed_to() -> None:
    world = world_of("allow User:* read group literal g\nallow User:alice describe topic literal t\n")
    refused = world.joining("m1", topics=("t", "t2"), principal=ALICE)
    assert refused.registration is not None
    said = refused.ask(refused.registration, ErrorResponse)
    assert said.error is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert "'t2'" in said.message
    joined = world.joining("m1", principal=ALICE)
    assert joined.registration is not None
    assert joined.ask(joined.registration, RegisterConsumerResponse).error is ErrorCode.NONE


def test_pages_of_a_list_end_at_names_that_are_shown() -> None:
    rules = "allow User:founder all group literal *\nallow User:founder read topic literal *\n"
    world = world_of(rules + "allow User:alice describe group prefix a\n", limits=Limits(page_items=2))
    names = ["a1", "a3", "a5", "b2", "b4", "b6", "a0", "c1"]
    for name in names:
        world.join(group_id=name, principal=Principal("founder"))
    world.advance(1)
    listed: list[str] = []
    after = None
    for _ in range(10):
        tool = world.connect(principal=ALICE)
        asked = tool.send(ListGroups(after))
        world.advance(100)
        page = tool.answer(asked)
        assert isinstance(page, ListGroupsResponse)
        listed += [line.group_id for line in page.groups]
        after = page.up_to
        if after is None:
            break
        assert after.group_id == "" or after.group_id.startswith("a")
        world.advance(1)
    assert sorted(listed) == ["a0", "a1", "a3", "a5"]


def offsets_of(*topics: str) -> tuple[TopicOffsets, ...]:
    return tuple(TopicOffsets(topic, (0,), (1,)) for topic in topics)


def test_a_commit_is_refused_topic_by_topic_and_tells_nothing_of_what_it_refuses() -> None:
    world = world_of("allow User:* read group literal g\nallow User:alice read topic literal t\n")
    tool = world.connect(principal=ALICE)
    response = tool.ask(CommitOffsets("g", offsets_of("t", "t2")), CommitOffsetsResponse)
    (part,) = response.refused
    assert (response.accepted, part.topic, part.error) == (1, "t2", ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert (part.committed, "may not read topic 't2'" in part.message) == (None, True)
    assert set(world.group("g").offsets) == {("t", 0)}
    none = world.connect(principal=BOB).ask(CommitOffsets("other", offsets_of("t")), ErrorResponse)
    assert none.error is ErrorCode.GROUP_AUTHORIZATION_FAILED


def test_a_member_commits_no_topic_that_it_may_not_read_also_with_a_ping() -> None:
    world = world_of("allow User:* read group literal g\nallow User:* describe topic literal *\n")
    member = world.join("m1", principal=ALICE)
    world.settle()
    before = dict(world.group("g").offsets)
    refused = member.commit(("t", 0), 105)
    pinged = member.ask(Ping(1, (TopicOffsets("t", (0,), (105,), (member.epoch(("t", 0)),)),)), PingResponse)
    assert [part.error for part in (refused, *pinged.refused)] == [ErrorCode.TOPIC_AUTHORIZATION_FAILED] * 2
    assert dict(world.group("g").offsets) == before


def test_rules_that_change_count_for_the_next_ping_of_a_member_that_may_read_so_far() -> None:
    world = world_of()
    member = world.join("m1", principal=ALICE)
    assert member.ask(Ping(1), PingResponse).error is ErrorCode.NONE
    world.happen(RulesChanged(Acl(parse_rules("deny User:alice read group literal g\n"))))
    for _ in range(2):
        assert member.ask(Ping(1), ErrorResponse).error is ErrorCode.GROUP_AUTHORIZATION_FAILED
    world.happen(RulesChanged(Acl(parse_rules(SHARED))))
    assert member.ask(Ping(1), PingResponse).error is ErrorCode.NONE


OWN = "allow User:alice all group literal g\nallow User:alice read topic literal t\n"


@pytest.mark.parametrize("kind", ["earliest", "latest", "current", "timestamp", "offset"])
@pytest.mark.parametrize("is_dry_run", [True, False])
def test_a_reset_tells_and_sets_nothing_of_topics_that_may_not_be_read(kind: str, is_dry_run: bool) -> None:
    world = world_of(OWN)
    tool = world.connect(principal=ALICE)
    value = 0 if kind in ("timestamp", "offset") else None

    def ask(*topics: str) -> Response | None:
        targets = tuple(ResetTarget(topic, 0, kind, value) for topic in topics)
        sent = tool.send(ResetOffsets("g", targets, "alice", is_dry_run=is_dry_run, new_group=NewGroup()))
        world.settle()
        return tool.answer(sent)

    said = [ask(topic) for topic in ("t2", "nope")]
    for topic, response in zip(("t2", "nope"), said, strict=True):
        why = f"User:alice may not read topic {topic!r}; whoever keeps the rules of this coordinator can allow it"
        assert response == ErrorResponse(ErrorCode.TOPIC_AUTHORIZATION_FAILED, why)
    assert ask("t", "t2") == said[0]
    assert (world.kafka.resolved, tool.ask(FetchOffsets("g"), FetchOffsetsResponse).error) == (
        [],
        ErrorCode.GROUP_ID_NOT_FOUND,
    )
    response = ask("t")
    assert isinstance(response, ResetOffsetsResponse)
    assert [result.error for result in response.results] == [ErrorCode.NONE]


def test_a_reset_tells_nothing_of_a_topic_that_may_be_read_and_not_described() -> None:
    world = world_of(OWN + "deny User:alice describe topic literal t\n")
    asked = ResetOffsets("g", (ResetTarget("t", 0, "latest"),), "alice", new_group=NewGroup())
    said = world.connect(principal=ALICE).ask(asked, ErrorResponse)
    assert said.error is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert world.kafka.resolved == []


def test_offsets_of_a_topic_that_may_not_be_read_are_not_deleted() -> None:
    world = world_of("allow User:* all group literal g\nallow User:bob read topic literal *\n" + OWN)
    world.connect(principal=BOB).ask(CommitOffsets("g", offsets_of("t", "t2")), CommitOffsetsResponse)
    tool = world.connect(principal=ALICE)
    for named in ([("t2", 0)], [("t", 0), ("t2", 0)]):
        said = tool.ask(DeleteOffsets("g", tuple(named), "alice", is_dry_run=False), ErrorResponse)
        assert said.error is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert set(world.group("g").offsets) == {("t", 0), ("t2", 0)}
    assert tool.ask(DeleteOffsets("g", (("t", 0),), "alice", is_dry_run=False), DeleteOffsetsResponse)
    assert set(world.group("g").offsets) == {("t2", 0)}
