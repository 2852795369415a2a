"""Operators on a real coordinator with a real Kafka: a reset while a member runs, by the command line."""

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from coordinator.cli import app
from coordinator.protocol.claim_columns import advance_of, claims_in_columns
from coordinator.protocol.messages import ConfirmClaims, FetcherStopped, LeaveGroup, StopFetcher
from coordinator.protocol.parts import Claim, FinalOffset, Outcomes
from tests.helpers.kafka_topics import produce_numbers
from tests.helpers.processes import eventually
from tests.helpers.raw_member import RawMember

if TYPE_CHECKING:
    from coordinator.local.kafka.broker import LocalKafka
    from coordinator.local.node import LocalCoordinator

LONG_MS = 300_000
pytestmark = pytest.mark.kafka


def kcoord(node: "LocalCoordinator", *words: str, exit_code: int = 0) -> Any:
    """Run `kcoord group` with words and return what it wrote as JSON."""
    result = CliRunner().invoke(app, ["group", *words, "-o", "json", "--coordinator", node.address])
    assert result.exit_code == exit_code, result.output
    return json.loads(result.stdout) if result.stdout else None


def is_asked_to_stop(member: RawMember) -> bool:
    return any(isinstance(push, StopFetcher) for push in member.pushes)


def test_reset_waits_for_the_running_batch_survives_a_sigkill_and_is_read_from_then_on(
    kafka: "LocalKafka", topic: Callable[..., str], own_coordinator: "LocalCoordinator"
) -> None:
    name, node = topic(1), own_coordinator
    produce_numbers(kafka.bootstrap_servers, name, 1, 0, 30)
    with RawMember(node.address, "g", name) as member:
        member.session_timeout_ms = LONG_MS  # it sends no ping
        member.register()
        start = member.wait_until_complete()[name, 0]
        mistyped = ("--topic", f"{name}:7", "--topic", f"{name}-not:0", "--to-earliest", "--execute")
        (number, topic_name) = kcoord(node, "reset-offsets", "g", *mistyped, exit_code=3)
        assert (number["state"], number["remark"].split(";")[0]) == (
            "refused",
            f"Kafka has no partition 7 of topic {name}, which has 1",
        )
        assert topic_name["remark"].startswith(f"Kafka has no topic {name}-not;")
        claim = Claim(name, start.topic_id, 0, start.owner_epoch, 0, 20)
        member.ask(advance_of((), (claim,)))
        member.ask(ConfirmClaims(claims_in_columns((claim,))))
        scope = ("reset-offsets", "g", "--topic", f"{name}:0")

        dry = kcoord(node, *scope, "--to-offset", "500")
        assert [(found["new_offset"], found["delta"], found["state"]) for found in dry] == [(30, 30, "would-wait")]
        asked = kcoord(node, *scope, "--to-offset", "5", "--execute", "--why", "bad deploy")
        assert [(found["new_offset"], found["state"]) for found in asked] == [(5, "pending")]
        member.wait_for(lambda: is_asked_to_stop(member))

        node.kill()
        node.start()
        controls = kcoord(node, "describe", "g")["controls"]
        assert [(found["kind"], found["new_offset"], found["why"]) for found in controls] == [
            ("reset-pending", 5, "bad deploy")
        ]
        member.connect()
        member.register(claims=(claim,))
        member.wait_for(lambda: is_asked_to_stop(member))
        final = FinalOffset(name, 0, start.owner_epoch)
        assert member.ask(advance_of((claim,), (), (final,))).finished == Outcomes(1)
        member.wait_for(lambda: member.owned[name, 0].owner_epoch > start.owner_epoch)

        assert member.owned[name, 0].offset == 5
        described = kcoord(node, "describe", "g")
        assert (described["controls"], described["partitions"][0]["current_offset"]) == ([], 5)
        kinds = [event["kind"] for event in kcoord(node, "events", "g")]
        assert "reset-applied" in kinds

        result = CliRunner().invoke(app, ["group", "delete", "g", "--execute", "--coordinator", node.address])
        assert (result.exit_code, "its state is Stable" in result.stderr) == (4, True)


def test_paused_group_reads_nothing_until_it_is_resumed_and_is_deleted_when_empty(
    kafka: "LocalKafka", topic: Callable[..., str], own_coordinator: "LocalCoordinator"
) -> None:
    name, node = topic(2), own_coordinator
    produce_numbers(kafka.bootstrap_servers, name, 2, 0, 10)
    with RawMember(node.address, "g", name) as member:
        member.session_timeout_ms = LONG_MS
        member.register()
        before = member.wait_until_complete()
        kcoord(node, "pause", "g", "--execute")
        member.wait_for(lambda: is_asked_to_stop(member))
        member.ask(FetcherStopped(tuple(FinalOffset(*key, start.owner_epoch) for key, start in before.items())))
        assert [found["consumer_id"] for found in kcoord(node, "describe", "g")["partitions"]] == [None, None]
        assert kcoord(node, "lag", "g", exit_code=0)["topics"][0]["partitions"] == 2

        kcoord(node, "resume", "g", "--execute")
        member.wait_for(lambda: all(member.owned[key].owner_epoch > start.owner_epoch for key, start in before.items()))
        member.ask(LeaveGroup())
    assert eventually(lambda: kcoord(node, "members", "g") == [])
    result = CliRunner().invoke(app, ["group", "delete", "g", "--execute", "--coordinator", node.address])
    assert result.exit_code == 0, result.output
    kcoord(node, "describe", "g", exit_code=3)
