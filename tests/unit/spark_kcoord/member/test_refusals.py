"""Refusals as a query is told of them: the real coordinator's words, and the option they are about."""

from collections.abc import Callable

import pytest

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import RegisterConsumerResponse
from coordinator.protocol.parts import ResetPolicy
from spark_kcoord.member.refusals import refused_for_good
from tests.helpers.member_pair import settings
from tests.helpers.node_member import Member
from tests.helpers.node_world import NodeWorld

APP = "boot.1.4000.51"
HOLD = {"handover": "hold", "instance_id": "i1"}


def refused_registration(world: NodeWorld, first: Member, **facts: object) -> RegisterConsumerResponse:
    """Return the answer to a registration, for which the first member has answered its probe if there was one."""
    other = world.joining(**facts)  # type: ignore[arg-type]
    assert other.registration is not None
    asked = other.send(other.registration)
    first.ping()
    response = other.answer(asked)
    assert isinstance(response, RegisterConsumerResponse)
    return response


def of_another_policy() -> RegisterConsumerResponse:
    world = NodeWorld()
    first = world.join("m1", reset_policy=ResetPolicy("earliest"))
    return refused_registration(world, first, member_id="m2", reset_policy=ResetPolicy("latest"))


def of_another_handover() -> RegisterConsumerResponse:
    world = NodeWorld()
    first = world.join("m1", **HOLD)
    return refused_registration(world, first, member_id="m2")


def of_another_claim_timeout() -> RegisterConsumerResponse:
    world = NodeWorld()
    first = world.join("m1", **HOLD, claim_timeout_ms=5_000)
    facts = HOLD | {"instance_id": "i2"}
    return refused_registration(world, first, member_id="m2", **facts, claim_timeout_ms=6_000)


def of_two_sources_with_one_options_dict() -> RegisterConsumerResponse:
    world = NodeWorld()
    first = world.join("", application=APP, pid=111, **HOLD)
    return refused_registration(world, first, application=APP, incarnation="second", pid=111, **HOLD)


def of_two_queries_with_one_instance_id() -> RegisterConsumerResponse:
    world = NodeWorld()
    first = world.join("", pid=111, **HOLD)
    return refused_registration(world, first, incarnation="second", **HOLD)


def of_a_copied_checkpoint() -> RegisterConsumerResponse:
    world = NodeWorld()
    first = world.join("m1", pid=111)
    return refused_registration(world, first, member_id="m1", incarnation="second")


def of_an_older_checkpoint() -> RegisterConsumerResponse:
    world = NodeWorld()
    first = world.join("m1", pid=111, **HOLD)
    return refused_registration(world, first, member_id="m0", incarnation="older", **HOLD)


@pytest.mark.parametrize(
    ("refused", "code", "option", "words"),
    [
        (
            of_another_policy,
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            "startingOffsets",
            ("the reset policy latest differs from earliest",),
        ),
        (
            of_another_handover,
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            "kcoord.handover",
            ("the hand-over takeover differs from hold",),
        ),
        (
            of_another_claim_timeout,
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            "kcoord.claim.timeout",
            ("the claim time-out of 6000 ms differs from 5000 ms",),
        ),
        (
            of_two_sources_with_one_options_dict,
            ErrorCode.MEMBER_ID_IN_USE,
            "kcoord.instance.id",
            ("process 111 on 10.0.0.1", "in the same application", "each source needs an instance id of its own"),
        ),
        (
            of_two_queries_with_one_instance_id,
            ErrorCode.MEMBER_ID_IN_USE,
            "kcoord.instance.id",
            ("instance id i1 is that of member", "process 111 on 10.0.0.1", "give this one an instance id of its own"),
        ),
        (
            of_a_copied_checkpoint,
            ErrorCode.MEMBER_ID_IN_USE,
            "checkpointLocation",
            ("member id m1 is in use by process 111 on 10.0.0.1", "give this one a checkpoint of its own"),
        ),
        (
            of_an_older_checkpoint,
            ErrorCode.FENCED_INSTANCE_ID,
            "kcoord.instance.id",
            ("instance id i1 is that of member m1, process 111", "this one is member m0", "stop that one, or give"),
        ),
    ],
    ids=lambda value: value.__name__ if callable(value) else None,
)
def test_refused_query_is_told_the_setting_and_what_is_true(
    refused: Callable[[], RegisterConsumerResponse], code: ErrorCode, option: str, words: tuple[str, ...]
) -> None:
    response = refused()
    assert response.error is code
    told = str(refused_for_good(settings(), (response.error, response.message)))
    assert f"(option '{option}')" in told
    assert told.count("option '") == 1
    for piece in words:
        assert piece in told
