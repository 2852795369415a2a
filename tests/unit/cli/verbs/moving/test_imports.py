"""`kcoord import spark-checkpoint` on the real core: what is set, what is shown before, and what is refused."""

from pathlib import Path

import pytest

from coordinator.protocol.columns import OffsetToCommit, in_columns
from coordinator.protocol.messages import CommitOffsets, CommitOffsetsResponse
from coordinator.protocol.messages.operators import ResetOffsets, ResetOffsetsResponse
from coordinator.protocol.parts import ResetPolicy, ResetTarget
from tests.helpers.node_world import NodeWorld
from tests.helpers.spark_checkpoint import Checkpoint
from tests.unit.cli.verbs.moving.conftest import Run

T0, T1 = ("t", 0), ("t", 1)
DRY = "This was a dry run: nothing has been changed. Add --execute to do it."


@pytest.fixture
def world() -> NodeWorld:
    """Return a node that no group is known to; Kafka has two partitions of t, each of [10, 100)."""
    made = NodeWorld({"t": 2, "u": 1}, shards=1)
    made.kafka.absent |= {(topic, number) for topic in ("t", "u") for number in range(200)} - {T0, T1, ("u", 0)}
    return made


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    """Return the checkpoint of a query that has finished batch 0 and begun batch 1."""
    made = Checkpoint(tmp_path).offsets(0, {"t": {"0": 20, "1": 30}}).offsets(1, {"t": {"0": 25, "1": 30}}).commit(0)
    return str(made.path)


def words(checkpoint: str, *more: str) -> tuple[str, ...]:
    return ("import", "spark-checkpoint", checkpoint, "--group", "g", *more)


def commit(world: NodeWorld, offset: int) -> None:
    asked = CommitOffsets("g", in_columns((OffsetToCommit(*T0, offset),)))
    assert world.connect().ask(asked, CommitOffsetsResponse).accepted == 1


def test_dry_run_shows_what_is_set_and_what_is_read_again_and_makes_no_group(
    run: Run, world: NodeWorld, checkpoint: str
) -> None:
    ran = run(world, *words(checkpoint))
    assert ran.stdout == (
        "GROUP  TOPIC  PARTITION  CURRENT-OFFSET  NEW-OFFSET  DELTA  STATE      REMARK\n"
        "g      t      0          -               20          -      would-set  batch 1, not finished, reads 20 to 25\n"
        "g      t      1          -               30          -      would-set  -\n"
    )
    first, second, third = ran.stderr.splitlines()
    assert first == f"Batch 0 of {checkpoint} is the last one that is finished."
    assert second.startswith("Warning: Batch 1 had begun and not finished, with 5 offsets. That is read again")
    assert (third, ran.exit_code) == (DRY, 0)
    assert not world.state(0).groups


def test_execute_sets_them_and_a_member_goes_on_there(run: Run, world: NodeWorld, checkpoint: str) -> None:
    ran = run(world, *words(checkpoint, "--execute", "--why", "a shared group"))
    assert (ran.exit_code, world.committed()) == (0, {T0: 20, T1: 30})
    member = world.join("m1", topics=("t",))
    assert {partition: start.offset for partition, start in member.owned.items()} == {T0: 20, T1: 30}
    assert "by ann@ops: a shared group" in {event.why for event in world.events("reset-applied")}


def test_query_with_state_is_taken_over_only_where_that_is_asked_for(
    run: Run, world: NodeWorld, checkpoint: str
) -> None:
    (Path(checkpoint) / "state" / "0").mkdir(parents=True)
    shown = run(world, *words(checkpoint))
    assert (shown.exit_code, "would-set" in shown.stdout) == (4, True)
    assert "the query has state" in shown.stderr
    refused = run(world, *words(checkpoint, "--execute", "--why", "moved"))
    assert (refused.exit_code, refused.stdout, bool(world.state(0).groups)) == (4, "", False)
    done = run(world, *words(checkpoint, "--execute", "--why", "moved", "--without-state"))
    assert (done.exit_code, world.committed()) == (0, {T0: 20, T1: 30})


def test_partitions_that_came_after_the_checkpoint_start_at_their_beginning(
    run: Run, world: NodeWorld, tmp_path: Path
) -> None:
    made = Checkpoint(tmp_path).offsets(0, {"t": {"0": 20}}).commit(0)
    ran = run(world, *words(str(made.path), "--execute", "-o", "json"))
    assert world.committed() == {T0: 20, T1: 10}
    assert ran.data[1]["remark"] == "newer than the checkpoint: it starts at its beginning"


def test_partitions_that_came_after_the_checkpoint_can_be_left_out(run: Run, world: NodeWorld, tmp_path: Path) -> None:
    made = Checkpoint(tmp_path).offsets(0, {"t": {"0": 20}}).commit(0)
    run(world, *words(str(made.path), "--execute", "--no-new-partitions"))
    assert world.committed() == {T0: 20}


def test_very_many_new_partitions_are_all_found(run: Run, tmp_path: Path) -> None:
    world = NodeWorld({"t": 130}, shards=1)
    world.kafka.absent |= {("t", number) for number in range(130, 300)}
    made = Checkpoint(tmp_path).offsets(0, {"t": {"1": 20, "3": 20}}).commit(0)
    run(world, *words(str(made.path), "--execute"))
    assert world.committed() == {("t", number): 20 if number in {1, 3} else 10 for number in range(130)}


def test_a_partition_with_a_number_far_too_large_is_refused_and_nothing_is_looked_for_up_to_it(
    run: Run, tmp_path: Path
) -> None:
    world = NodeWorld({"t": 2}, shards=1)
    world.kafka.absent |= {("t", number) for number in range(2, 30_001)}
    made = Checkpoint(tmp_path).offsets(0, {"t": {"0": 20, "30000": 20}}).commit(0)
    ran = run(world, *words(str(made.path), "--execute"))
    assert (ran.exit_code, world.committed()) == (3, {T0: 20, T1: 10})
    assert sum(len(asked.targets) for asked in ran.asked if isinstance(asked, ResetOffsets)) < 100


def test_offset_that_would_move_back_is_left_alone_and_said(run: Run, world: NodeWorld, checkpoint: str) -> None:
    commit(world, 60)
    ran = run(world, *words(checkpoint, "--execute", "-o", "json"))
    assert (ran.exit_code, world.committed()) == (4, {T0: 60, T1: 30})
    assert [(row["current_offset"], row["delta"], row["state"]) for row in ran.data] == [
        (60, -40, "refused"),
        (None, None, "set"),
    ]
    assert "t-0 of group 'g' was refused: it would move back by 40 records; add --move-back to have it so" in ran.stderr


def test_offset_is_moved_back_where_that_is_asked_for(run: Run, world: NodeWorld, checkpoint: str) -> None:
    commit(world, 60)
    ran = run(world, *words(checkpoint, "--execute", "--move-back"))
    assert (ran.exit_code, world.committed()) == (0, {T0: 20, T1: 30})
    assert "1 partition of group 'g' moves back, by 40 records in all, to be read again." in ran.stderr


def test_offsets_of_a_running_group_wait_for_their_owners(run: Run, world: NodeWorld, checkpoint: str) -> None:
    member = world.join("m1", topics=("t",))
    ran = run(world, *words(checkpoint, "--execute", "--move-back", "-o", "json"))
    assert {row["state"] for row in ran.data} == {"pending"}
    assert "2 partitions of group 'g' wait for their owners to let go" in ran.stderr
    member.stop_all()
    assert world.committed() == {T0: 20, T1: 30}


def test_offset_that_kafka_has_deleted_is_moved_on_and_said(run: Run, world: NodeWorld, tmp_path: Path) -> None:
    made = Checkpoint(tmp_path).offsets(0, {"t": {"0": 4, "1": 30}}).commit(0)
    ran = run(world, *words(str(made.path), "--execute", "-o", "json"))
    assert ran.data[0]["remark"] == "offset 4 is before the first one; set to 10"


def test_offset_that_is_there_is_set_where_a_reset_that_is_pending_would_take_it_away(
    run: Run, world: NodeWorld, checkpoint: str
) -> None:
    member = world.join("m1", topics=("t",), reset_policy=ResetPolicy("earliest"))
    for partition, offset in ((T0, 20), (T1, 30)):
        member.commit(partition, offset)
    by_mistake = ResetOffsets("g", (ResetTarget(*T0, "latest"),), "bob", is_dry_run=False)
    assert world.connect().ask(by_mistake, ResetOffsetsResponse).results[0].is_pending
    ran = run(world, *words(checkpoint, "--execute", "-o", "json"))
    assert [(row["delta"], row["state"]) for row in ran.data] == [(0, "pending"), (0, "set")]
    member.leave()
    assert world.committed() == {T0: 20, T1: 30}, "the records up to the end have been read by nobody"


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("hdfs://name/cp", "is not on this machine: copy the directory here"),
        ("{tmp}/typo\x1b[31m", r"typo\x1b[31m is no directory on this machine"),
        ("{tmp}", "is no checkpoint of a streaming query"),
    ],
)
def test_what_is_no_checkpoint_asks_nothing_of_the_coordinator(
    run: Run, world: NodeWorld, tmp_path: Path, place: str, said: str
) -> None:
    ran = run(world, *words(place.format(tmp=tmp_path)))
    assert (ran.exit_code, ran.asked, said in ran.stderr) == (1, (), True), ran.stderr


def test_topic_that_kafka_does_not_have_is_not_found(run: Run, world: NodeWorld, tmp_path: Path) -> None:
    world.kafka.absent |= {("gone", number) for number in range(100)}
    made = Checkpoint(tmp_path).offsets(0, {"gone": {"0": 4}}).commit(0)
    ran = run(world, *words(str(made.path), "--execute"))
    assert (ran.exit_code, world.state(0).groups) == (3, {})


def test_kafka_that_cannot_say_what_it_has_ends_the_command(run: Run, world: NodeWorld, checkpoint: str) -> None:
    world.kafka.cannot_resolve = True
    ran = run(world, *words(checkpoint, "--execute"))
    assert (ran.exit_code, len(ran.asked), world.state(0).groups) == (4, 1, {})
    assert "which partitions topic t has is not known for now: Kafka could not say" in ran.stderr


def test_offset_behind_the_end_is_refused_since_what_lies_before_the_end_was_never_read(
    run: Run, world: NodeWorld, tmp_path: Path
) -> None:
    made = Checkpoint(tmp_path).offsets(0, {"t": {"0": 5000, "1": 30}}).commit(0)
    ran = run(world, *words(str(made.path), "--execute", "-o", "json"))
    assert (ran.exit_code, world.committed()) == (4, {T1: 30})
    assert [row["state"] for row in ran.data] == ["refused", "set"]
    assert "offset 5000 is after the end, which is 100: the topic was deleted and made again" in ran.stderr


def test_query_that_was_assigned_a_far_partition_is_asked_about_in_portions(run: Run, tmp_path: Path) -> None:
    world = NodeWorld({"t": 2501}, shards=1)
    world.kafka.absent |= {("t", number) for number in range(2501, 2600)}
    made = Checkpoint(tmp_path).offsets(0, {"t": {"2500": 20}}).commit(0)
    assert run(world, *words(str(made.path), "--execute")).exit_code == 0
    assert len(world.state(0).groups["g"].offsets) == 2501


def test_topic_that_only_the_unfinished_batch_has_starts_at_its_beginning(
    run: Run, world: NodeWorld, tmp_path: Path
) -> None:
    made = Checkpoint(tmp_path).offsets(0, {"t": {"0": 20, "1": 30}}).commit(0)
    made.offsets(1, {"t": {"0": 20, "1": 30}, "u": {"0": 40}})
    ran = run(world, *words(str(made.path), "--execute"))
    assert (ran.exit_code, world.committed()) == (0, {T0: 20, T1: 30, ("u", 0): 10})
    assert "batch 1, not finished, is the first to read it: it starts at its beginning" in ran.stdout
    other = NodeWorld({"t": 2, "u": 1}, shards=1)
    run(other, *words(str(made.path), "--execute", "--no-new-partitions"))
    assert other.committed() == {T0: 20, T1: 30}
