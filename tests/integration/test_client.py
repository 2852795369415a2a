"""The client on a real coordinator with a real Kafka; the examples of its page run as they stand, but for addresses."""

import contextlib
import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from coordinator.client.request import ask
from coordinator.protocol.columns import OffsetToCommit, in_columns
from coordinator.protocol.messages import CommitOffsets, LeaveGroup
from coordinator.protocol.text.addresses import parse_addresses
from kcoord import Client, client_errors
from tests.helpers.kafka_topics import produce_numbers
from tests.helpers.processes import eventually
from tests.helpers.raw_member import RawMember

if TYPE_CHECKING:
    from coordinator.local.kafka.broker import LocalKafka
    from coordinator.local.node import LocalCoordinator

pytestmark = pytest.mark.kafka

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "CLIENT.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_a_group_is_looked_at_waited_for_and_operated(
    kafka: "LocalKafka", coordinator: "LocalCoordinator", topic: Callable[..., str]
) -> None:
    name = topic(2)
    group = f"{name}-group"
    produce_numbers(kafka.bootstrap_servers, name, 2, 0, 10)
    client = Client(coordinator.address, timeout="30s")
    with pytest.raises(client_errors.NotFoundError):
        client.lag(group)
    with RawMember(coordinator.address, group, name) as member:
        member.register()
        start = member.wait_until_complete()
        waited = client.wait(group, state="Stable", members=1, timeout="60s")
        assert (waited.group, waited.state, waited.members) == (group, "Stable", 1)
        (seen,) = client.members(group)
        assert {part.owner_epoch for part in client.partitions(group)} == {each.owner_epoch for each in start.values()}
        would = client.drain(group, seen.member_id, execute=False)
        assert (would.is_dry_run, sorted(would.partitions)) == (True, [(name, 0), (name, 1)])
        with pytest.raises(client_errors.RefusedByStateError) as refused:
            client.delete(group)
        assert refused.value.code == "NON_EMPTY_GROUP"
        member.ask(LeaveGroup())
    client.wait(group, state="Empty", timeout="60s")

    ask(parse_addresses(coordinator.address), CommitOffsets(group, in_columns([OffsetToCommit(name, 0, 3)])), 30)
    plan = client.reset_offsets(group, "earliest", f"{name}:0")
    assert [(row.old, row.new, row.delta, row.state) for row in plan.partitions] == [(3, 0, -3, "would-set")]
    assert client.committed(group)[name, 0].offset == 3, "a dry run changes nothing"
    done = client.reset_offsets(group, {(name, 0): 4, (name, 1): 5}, execute=True, reason="a test")
    assert [(row.new, row.state) for row in done.partitions] == [(4, "set"), (5, "set")]
    assert eventually(lambda: client.lag(group).unknown == 0)  # once Kafka has told where its partitions end
    assert client.lag(group).lag == 1, "each partition has five records"
    with pytest.raises(client_errors.PartitionsRefusedError) as unknown:
        client.reset_offsets(group, {(name, 0): 1, (name, 7): 1})
    assert unknown.value.partitions == ((name, 7),)
    assert "reset-applied" in [event.kind for event in client.events(group, "1h", ["reset-applied", "reset-planned"])]
    assert [row.offset for row in client.delete_offsets(group, [(name, 1)], execute=True).partitions] == [5]
    assert [(one.group, one.state) for one in client.groups(match=group)] == [(group, "Empty")]
    assert [node.why_not_asked for node in client.nodes()] == [""]
    assert {shard.state for shard in client.shards()} == {"serving"}
    client.delete(group, execute=True)
    assert client.groups(match=group) == ()


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_of_the_page_runs(number: int, coordinator: "LocalCoordinator") -> None:
    shown = io.StringIO()
    example = EXAMPLES[number].replace("127.0.0.1:9292", coordinator.address)
    with contextlib.redirect_stdout(shown):
        exec(compile(example, "docs/CLIENT.md", "exec"), {"__name__": "example"})
    assert shown.getvalue().strip(), "it shows what it has found"
