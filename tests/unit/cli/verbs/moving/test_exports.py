"""`kcoord export` to standard output and to a group of Kafka, on the real core."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from coordinator.cli.moving.kafka_groups import Committed, KafkaGroup
from coordinator.protocol.messages.operators import ResetOffsets, ResetOffsetsResponse
from coordinator.protocol.parts import NewGroup, ResetTarget
from tests.helpers.node_world import NodeWorld
from tests.unit.cli.verbs.moving.conftest import Run


@pytest.fixture
def world() -> NodeWorld:
    """Return a node with a group that has offsets of two of the three partitions of t, and of u."""
    made = NodeWorld({"t": 3, "u": 1}, shards=1)
    made.kafka.absent |= {(topic, number) for topic in ("t", "u") for number in range(200)}
    made.kafka.absent -= {("t", 0), ("t", 1), ("t", 2), ("u", 0)}
    targets = tuple(
        ResetTarget(topic, number, "offset", offset)
        for topic, number, offset in (("t", 0, 20), ("t", 2, 30), ("u", 0, 40))
    )
    asked = ResetOffsets("g", targets, "ann", is_dry_run=False, new_group=NewGroup())
    made.connect().ask(asked, ResetOffsetsResponse)
    return made


def test_starting_offsets_name_partitions_that_the_group_has_not_heard_of(run: Run, world: NodeWorld) -> None:
    ran = run(world, "export", "g", "--as", "starting-offsets")
    assert json.loads(ran.stdout) == {"t": {"0": 20, "2": 30, "1": -2}, "u": {"0": 40}}
    assert ran.stderr == "1 partition has no committed offset; the start is the beginning, which is -2.\n"


def test_some_of_it_can_be_chosen(run: Run, world: NodeWorld) -> None:
    assert json.loads(run(world, "export", "g", "--as", "starting-offsets", "--topic", "u").stdout) == {"u": {"0": 40}}
    one = run(world, "export", "g", "--as", "starting-offsets", "--topic", "t:0")
    assert json.loads(one.stdout) == {"t": {"0": 20}}, "who assigns partitions is given those"


def test_csv_is_what_kafkas_tool_reads(run: Run, world: NodeWorld) -> None:
    assert run(world, "export", "g", "--as", "csv").stdout == "t,0,20\nt,2,30\nu,0,40\n"


def test_members_that_go_on_are_told_of(run: Run, world: NodeWorld) -> None:
    world.join("m1", topics=("t",))
    ran = run(world, "export", "g", "--as", "csv")
    assert "Warning: group 'g' has 1 member; what is committed from now on is not in it." in ran.stderr


def test_group_that_is_not_there_is_not_found(run: Run, world: NodeWorld) -> None:
    ran = run(world, "export", "typo\x1b[31m", "--as", "csv")
    assert (ran.exit_code, ran.stderr) == (3, "Consumer group 'typo\\x1b[31m' does not exist.\n")


def test_group_without_offsets_has_nothing_to_write(run: Run, world: NodeWorld) -> None:
    world.connect().ask(ResetOffsets("empty", (), "ann", is_dry_run=False, new_group=NewGroup()), ResetOffsetsResponse)
    assert run(world, "export", "empty", "--as", "csv").exit_code == 3


@pytest.mark.parametrize("word", ["--execute", "--move-back", "--while-running", "-o=json", "--kafka-group=x"])
def test_flags_of_the_other_form_are_wrong(run: Run, world: NodeWorld, word: str) -> None:
    ran = run(world, "export", "g", "--as", "csv", *word.split("="))
    assert (ran.exit_code, ran.asked) == (2, ())


@pytest.mark.parametrize("is_polled", [True, False])
def test_offset_of_a_topic_that_was_made_again_or_deleted_is_not_taken_for_one_of_what_is_there(
    run: Run, *, is_polled: bool
) -> None:
    world = NodeWorld({"t": 1, "u": 1, "gone": 1}, shards=1)
    world.kafka.absent |= {(topic, number) for topic in ("t", "u", "gone") for number in range(1, 200)}
    world.join("m1", topics=("t", "u", "gone")).leave()
    targets = tuple(ResetTarget(topic, 0, "offset", 40) for topic in ("t", "u", "gone"))
    world.connect().ask(ResetOffsets("g", targets, "ann", is_dry_run=False), ResetOffsetsResponse)
    world.kafka.ids["t"] = "again"
    world.kafka.absent.add(("gone", 0))
    if is_polled:
        world.poll_topics()
    assert run(world, "export", "g", "--as", "csv").stdout == "u,0,40\n"
    ran = run(world, "export", "g", "--as", "starting-offsets")
    assert json.loads(ran.stdout) == {"t": {"0": -2}, "u": {"0": 40}}
    assert "Warning: t-0 was made again or has lost records: the offset that is known is of another log" in ran.stderr
    assert "Warning: gone-0 is not in Kafka any more, and left out." in ran.stderr


def test_offset_after_the_end_is_left_out(run: Run, world: NodeWorld) -> None:
    world.kafka.ends["t", 0] = 15
    assert run(world, "export", "g", "--as", "csv").stdout == "t,2,30\nu,0,40\n"


def test_nothing_is_written_where_kafka_cannot_say_what_it_has(run: Run, world: NodeWorld) -> None:
    world.kafka.cannot_resolve = True
    ran = run(world, "export", "g", "--as", "csv")
    assert (ran.exit_code, ran.stdout) == (4, "")


@dataclass
class OneKafkaGroup:
    """The groups of a Kafka that has one; remembers what is written."""

    found: KafkaGroup
    written: list[object] = field(default_factory=list)

    def read(self, _: str) -> KafkaGroup:
        return self.found

    def write(self, *written: object) -> dict[object, str]:
        self.written.append(written)
        return {}


@pytest.fixture
def kafka_group(monkeypatch: pytest.MonkeyPatch) -> OneKafkaGroup:
    """Return a group of Kafka that two members are in."""
    groups = OneKafkaGroup(KafkaGroup("g", "Stable", "classic", 2, {("t", 0): Committed(10)}))

    @contextmanager
    def meant(*_: object) -> Iterator[Any]:
        yield groups

    monkeypatch.setattr("coordinator.cli.verbs.moving.exports.kafka_meant", meant)
    return groups


def test_group_of_kafka_that_has_members_is_refused_and_is_no_dry_run(
    run: Run, world: NodeWorld, kafka_group: OneKafkaGroup
) -> None:
    words = ("export", "g", "--as", "kafka-group")
    refused = (
        "error: Kafka's group 'g' has 2 members and is Stable: Kafka takes offsets of a group without members only"
    )
    shown = run(world, *words)
    assert (shown.exit_code, refused in shown.stderr) == (4, True)
    assert ("would-set" in shown.stdout, "This was a dry run" in shown.stderr) == (True, True)
    ran = run(world, *words, "--execute")
    assert (ran.exit_code, ran.stdout, kafka_group.written) == (4, "", [])
    assert ran.stderr.startswith(refused)
    assert len(ran.stderr.splitlines()) == 1
    kafka_group.found = KafkaGroup("g", "Empty", "classic", 0, {})
    done = run(world, *words, "--execute")
    assert (done.exit_code, "would-set" in done.stdout, len(kafka_group.written)) == (0, False, 1)
