"""`kcoord cluster backup` and `restore` on the real core: what comes back, what stays, which files are refused."""

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest
import typer
from msgspec.structs import replace

from coordinator.cli.moving import backup
from coordinator.cli.moving.backup import encode, read, write
from coordinator.cli.verbs.moving import backups
from coordinator.core.limits import Limits
from coordinator.protocol.columns import OffsetToCommit, in_columns
from coordinator.protocol.messages import CommitOffsets, CommitOffsetsResponse, FetchOffsets, FindCoordinatorResponse
from coordinator.protocol.messages.operators import (
    ChangeDrain,
    ChangeDrainResponse,
    ChangePause,
    ChangePauseResponse,
    DescribeControls,
    DescribeControlsResponse,
    ResetOffsets,
    ResetOffsetsResponse,
)
from coordinator.protocol.parts import NewGroup, ResetPolicy, ResetTarget
from coordinator.runtime.disk.files import OsFiles
from tests.helpers.node_world import NodeWorld
from tests.unit.cli.verbs.moving.conftest import Ran, Run

T0, T1 = ("t", 0), ("t", 1)
SETTINGS = NewGroup(ResetPolicy("earliest"), "hold", 60_000)


def operate(world: NodeWorld, request: Any, kind: type) -> None:
    world.connect().ask(request, kind)


def set_to(world: NodeWorld, *offsets: int, group: str = "g") -> None:
    targets = tuple(ResetTarget("t", number, "offset", offset) for number, offset in enumerate(offsets))
    asked = ResetOffsets(group, targets, "ann", is_dry_run=False, new_group=SETTINGS)
    operate(world, asked, ResetOffsetsResponse)


def controls(world: NodeWorld) -> list[tuple[str, str, int | None, str, str]]:
    answer = world.connect().ask(DescribeControls("g"), DescribeControlsResponse)
    return [(each.kind, each.topic, each.partition, each.member_id, each.why) for each in answer.controls]


def empty() -> NodeWorld:
    return NodeWorld({"t": 2, "u": 1}, shards=2)


@pytest.fixture
def world() -> NodeWorld:
    """Return a node with a group of two offsets that is paused, as is one of its partitions, and an idle group."""
    made = empty()
    set_to(made, 20, 30)
    set_to(made, 40, group="other")
    operate(made, ChangePause("g", None, True, "bob", "quiet", False), ChangePauseResponse)
    operate(made, ChangePause("g", (T1,), True, "bob", "broken sink", False), ChangePauseResponse)
    return made


@pytest.fixture
def file(run: Run, world: NodeWorld, tmp_path: Path) -> Path:
    path = tmp_path / "backup.json"
    ran = run(world, "cluster", "backup", str(path))
    assert ran.exit_code == 0, ran.stderr
    return path


def restore(run: Run, world: NodeWorld, file: Path, *more: str) -> Ran:
    return run(world, "cluster", "restore", str(file), "-o", "json", *more)


def test_backup_says_what_is_in_it(run: Run, world: NodeWorld, tmp_path: Path) -> None:
    ran = run(world, "cluster", "backup", str(tmp_path / "backup.json"))
    assert ran.stdout == (
        "GROUP  #OFFSETS  PAUSED  #PAUSED  #DRAINED  #PENDING\n"
        "g      2         yes     1        0         0\n"
        "other  1         no      0        0         0\n"
    )
    assert "has 2 groups with 3 offsets" in ran.stderr


def test_file_that_is_there_is_kept_unless_told(run: Run, world: NodeWorld, file: Path) -> None:
    before = file.read_bytes()
    ran = run(world, "cluster", "backup", str(file))
    assert (ran.exit_code, ran.asked, file.read_bytes()) == (1, (), before)
    assert run(world, "cluster", "backup", str(file), "--overwrite").exit_code == 0
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_file_is_for_its_maker_alone(file: Path) -> None:
    assert file.stat().st_mode & 0o077 == 0


def test_place_that_cannot_be_written_is_said(run: Run, world: NodeWorld, tmp_path: Path) -> None:
    ran = run(world, "cluster", "backup", str(tmp_path / "no" / "such"))
    assert (ran.exit_code, "cannot be written: No such file or directory" in ran.stderr) == (1, True)
    assert ran.asked == (), "reading may take long, and is for nothing"


@pytest.mark.parametrize("name", ["pipe", "link", "."])
def test_place_that_is_no_file_is_left_as_it_is(run: Run, world: NodeWorld, tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")  # as /dev/stdout is one
    before = sorted(path.name for path in tmp_path.iterdir())
    ran = run(world, "cluster", "backup", str(tmp_path / name), "--overwrite")
    assert (ran.exit_code, ran.asked) == (1, ())
    assert "is no file that a backup may take the place of" in ran.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    assert (tmp_path / "link").is_symlink()


def test_what_a_link_leads_to_is_replaced_and_the_link_stays(run: Run, world: NodeWorld, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "target").write_text("before")
    link = tmp_path / "link"
    link.symlink_to("kept/target")
    assert run(world, "cluster", "backup", str(link), "--overwrite").exit_code == 0
    assert link.is_symlink()
    assert (kept / "target").read_text() != "before"
    assert [path.name for path in kept.iterdir()] == ["target"]


def test_a_backup_that_could_not_be_read_is_not_written(
    run: Run, world: NodeWorld, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = file.read_bytes()
    monkeypatch.setattr(backup, "MOST_BYTES", len(before) // 2)
    ran = run(world, "cluster", "backup", str(file), "--overwrite")
    assert (ran.exit_code, file.read_bytes()) == (1, before)
    assert f"{file} has not been written" in ran.stderr
    assert "with --match" in ran.stderr
    assert [path.name for path in file.parent.iterdir()] == [file.name]
    ran = run(world, "cluster", "restore", str(file))
    assert (ran.exit_code, "is no backup of `kcoord cluster backup`: the file has more than" in ran.stderr) == (1, True)
    monkeypatch.setattr(backup, "MOST_BYTES", len(before))
    assert run(world, "cluster", "restore", str(file)).exit_code == 0


def test_a_backup_holds_all_that_a_node_may_keep() -> None:
    bytes_an_offset, state_an_offset = 250, 48
    nodes = 5
    assert nodes * Limits().node_max_bytes // state_an_offset * bytes_an_offset <= backup.MOST_BYTES


def test_some_groups_can_be_backed_up(run: Run, world: NodeWorld, tmp_path: Path) -> None:
    path = tmp_path / "some.json"
    assert run(world, "cluster", "backup", str(path), "--match", "oth*").exit_code == 0
    assert [group.group for group in read(path).groups] == ["other"]
    before = path.read_bytes()
    ran = run(world, "cluster", "backup", str(path), "--match", "typo", "--overwrite")
    assert (ran.exit_code, path.read_bytes()) == (3, before)


def test_a_backup_that_is_in_its_place_is_not_said_to_be_as_it_was(
    run: Run, world: NodeWorld, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = file.read_bytes()
    set_to(world, 50)

    def fail(*_: Any) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(OsFiles, "sync_directory", fail)
    ran = run(world, "cluster", "backup", str(file), "--overwrite")
    assert (ran.exit_code, "has the backup, but it is not certain" in ran.stderr) == (1, True)
    assert file.read_bytes() != before
    monkeypatch.undo()
    monkeypatch.setattr(OsFiles, "sync", fail)
    ran = run(world, "cluster", "backup", str(file), "--overwrite")
    assert (ran.exit_code, "what was there before is as it was" in ran.stderr) == (1, True)


def test_a_backup_is_not_written_to_standard_output(run: Run, world: NodeWorld) -> None:
    ran = run(world, "cluster", "backup", "-")
    assert (ran.exit_code, ran.asked) == (2, ())
    assert not Path("-").exists()


def test_a_file_that_came_while_groups_were_read_is_kept(
    run: Run, world: NodeWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "backup.json"
    find = backups.find_group

    def meanwhile(*asked: Any) -> FindCoordinatorResponse:
        path.write_text("another's")
        return find(*asked)

    monkeypatch.setattr(backups, "find_group", meanwhile)
    ran = run(world, "cluster", "backup", str(path))
    assert (ran.exit_code, path.read_text()) == (1, "another's")
    assert "is there already" in ran.stderr


def test_a_place_that_cannot_be_looked_at_is_said(run: Run, world: NodeWorld, tmp_path: Path) -> None:
    ran = run(world, "cluster", "backup", str(tmp_path / ("x" * 300)))
    assert (ran.exit_code, ran.asked) == (1, ())
    assert "cannot be written: File name too long" in ran.stderr


def test_two_who_write_the_same_file_at_once_leave_one_of_theirs(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = file.read_bytes()
    sync, others = OsFiles.sync, [b"x" * 3 * len(whole)]

    def meanwhile(files: OsFiles, descriptor: int) -> None:
        while others:
            monkeypatch.setattr(os, "getpid", lambda: 1)
            write(file, others.pop())
            monkeypatch.undo()
        sync(files, descriptor)

    monkeypatch.setattr(OsFiles, "sync", meanwhile)
    write(file, whole)
    assert file.read_bytes() == whole
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_dry_run_into_an_empty_coordinator_shows_all_and_does_nothing(run: Run, file: Path) -> None:
    world = empty()
    ran = restore(run, world, file)
    assert [(row["group"], row["new_offset"], row["state"]) for row in ran.data["offsets"]] == [
        ("g", 20, "would-set"),
        ("g", 30, "would-set"),
        ("other", 40, "would-set"),
    ]
    assert [(row["kind"], row["partition"], row["state"]) for row in ran.data["controls"]] == [
        ("group-paused", None, "would-set"),
        ("partition-paused", 1, "would-set"),
    ]
    assert not any(world.state(shard).groups for shard in range(2))


def test_empty_coordinator_has_offsets_settings_and_pauses_again(run: Run, world: NodeWorld, file: Path) -> None:
    other = empty()
    ran = restore(run, other, file, "--execute", "--why", "a new disk")
    assert ran.exit_code == 0, ran.stderr
    assert (other.committed(), other.committed("other")) == (world.committed(), world.committed("other"))
    seen = other.describe()
    assert (seen.reset_policy, seen.handover, seen.claim_timeout_ms) == (ResetPolicy("earliest"), "hold", 60_000)
    assert controls(other) == [
        ("group-paused", "", None, "", "a new disk; it was by bob: quiet"),
        ("partition-paused", "t", 1, "", "a new disk; it was by bob: broken sink"),
    ]


def test_restored_twice_nothing_is_done_the_second_time(run: Run, file: Path) -> None:
    world = empty()
    restore(run, world, file, "--execute")
    before = len(world.events())
    ran = restore(run, world, file, "--execute")
    assert (ran.data, ran.exit_code) == ({"offsets": [], "controls": []}, 0)
    assert "3 partitions are as in the backup." in ran.stderr
    assert len(world.events()) == before


def test_group_that_has_gone_on_is_not_taken_back_unless_told(run: Run, world: NodeWorld, file: Path) -> None:
    set_to(world, 25, 30)
    ran = restore(run, world, file, "--execute")
    assert (ran.exit_code, world.committed()) == (4, {T0: 25, T1: 30})
    assert [(row["delta"], row["state"]) for row in ran.data["offsets"]] == [(-5, "refused")]
    ran = restore(run, world, file, "--execute", "--move-back")
    assert (ran.exit_code, world.committed()) == (0, {T0: 20, T1: 30})
    assert "1 partition of group 'g' moves back, by 5 records in all" in ran.stderr


def test_running_member_keeps_what_is_as_in_the_backup_and_is_asked_for_the_rest(run: Run, file: Path) -> None:
    world = empty()
    set_to(world, 15, 30)
    member = world.join("m1", topics=("t",))
    rows = restore(run, world, file, "--execute", "--match", "g").data["offsets"]
    assert [(row["partition"], row["state"]) for row in rows] == [(0, "pending")]
    member.stopped(T0)
    assert world.committed()[T0] == 20


def test_pending_reset_is_where_the_group_is_restored_to(run: Run, tmp_path: Path) -> None:
    world = empty()
    set_to(world, 20)
    world.join("m1", topics=("t",))
    set_to(world, 60)
    file = tmp_path / "backup.json"
    run(world, "cluster", "backup", str(file))
    other = empty()
    restore(run, other, file, "--execute")
    assert other.committed()[T0] == 60


def test_reset_that_is_done_while_the_group_is_read_is_not_restored_over_what_came_after(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, file = empty(), tmp_path / "backup.json"
    set_to(world, 20)
    member = world.join("m1", topics=("t",))
    set_to(world, 12)
    ask = backups.ask_if_there

    def ask_late(coordinator: str, request: Any, *more: Any) -> Any:
        if isinstance(request, FetchOffsets) and controls(world):
            member.stopped(T0)
            world.settle()
            member.commit(T0, 15)
        return ask(coordinator, request, *more)

    monkeypatch.setattr(backups, "ask_if_there", ask_late)
    assert run(world, "cluster", "backup", str(file)).stdout.splitlines()[1].split() == ["g", "2", "no", "0", "0", "0"]
    other = empty()
    restore(run, other, file, "--execute")
    assert other.committed()[T0] == world.committed()[T0] == 15


def test_drain_is_of_a_member_that_is_there(run: Run, tmp_path: Path) -> None:
    world, file = empty(), tmp_path / "backup.json"
    world.join("m1", topics=("t",))
    operate(world, ChangeDrain("g", "m1", True, "bob", "its host goes", False), ChangeDrainResponse)
    run(world, "cluster", "backup", str(file))
    operate(world, ChangeDrain("g", "m1", False, "bob", "", False), ChangeDrainResponse)
    restore(run, world, file, "--execute")
    assert [control[0] for control in controls(world)] == ["member-drained"]
    alone = empty()
    ran = restore(run, alone, file, "--execute")
    assert [(row["state"], row["remark"]) for row in ran.data["controls"]] == [("left-out", "the member is not there")]


def read_by_somebody() -> NodeWorld:
    """Return a node that knows the ids of topics, and Kafka's."""
    world = empty()
    world.join("m1", topics=("t",), group_id="reader")
    set_to(world, 20)
    return world


def test_offsets_of_a_topic_that_was_made_again_are_refused(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "backup.json"
    run(read_by_somebody(), "cluster", "backup", str(file))
    world = empty()
    world.kafka.ids["t"] = "another"
    world.join("m1", topics=("t",), group_id="reader")
    words = ("--execute", "--match", "g")
    ran = restore(run, world, file, *words)
    assert ran.data["offsets"][0]["state"] == "refused"
    assert "was deleted and made again" in ran.data["offsets"][0]["remark"]
    assert restore(run, world, file, *words, "--other-kafka").exit_code == 0
    assert world.committed() == {T0: 20}


def test_other_kafka_cluster_is_refused(run: Run, tmp_path: Path) -> None:
    world, file = read_by_somebody(), tmp_path / "backup.json"
    run(world, "cluster", "backup", str(file))
    assert json.loads(file.read_text())["kafka_cluster_id"] == "kafka-1"
    file.write_bytes(encode(replace(read(file), kafka_cluster_id="kafka-2")))
    ran = restore(run, world, file)
    assert (ran.exit_code, "is of Kafka cluster kafka-2 and this coordinator reads kafka-1" in ran.stderr) == (4, True)
    assert restore(run, world, file, "--other-kafka").exit_code == 0


def test_one_group_can_be_chosen(run: Run, file: Path) -> None:
    world = empty()
    restore(run, world, file, "--execute", "--match", "oth*")
    assert [group for shard in range(2) for group in world.state(shard).groups] == ["other"]
    assert restore(run, world, file, "--match", "typo").exit_code == 3


def test_metadata_and_leader_epochs_are_in_the_file(run: Run, tmp_path: Path) -> None:
    world, file = empty(), tmp_path / "backup.json"
    offsets = in_columns((OffsetToCommit(*T0, 20, leader_epoch=4, metadata="note"),))
    world.connect().ask(CommitOffsets("grüppe", offsets), CommitOffsetsResponse)
    run(world, "cluster", "backup", str(file))
    (group,) = json.loads(file.read_text())["groups"]
    (kept,) = group["offsets"]
    assert (group["group"], kept["leader_epoch"], kept["metadata"]) == ("grüppe", 4, "note")


class TestFiles:
    @pytest.mark.parametrize(
        ("change", "why"),
        [
            (lambda text: text[: len(text) // 2], "is no JSON document"),
            (lambda text: "", "is no JSON document"),
            (lambda text: text.replace('"offset": 20', '"offset": 21'), "by its checksum: it was changed or damaged"),
            (lambda text: text.replace('"version": 1', '"version": 2'), "is of version 2 and 1 can be read here"),
            (lambda text: text.replace("kcoord-backup", "other"), "is no backup of `kcoord cluster backup`"),
            (lambda text: "[1, 2]", "is no backup of `kcoord cluster backup`"),
        ],
    )
    def test_what_cannot_be_believed_is_refused_and_nothing_asked(
        self, run: Run, file: Path, change: Any, why: str
    ) -> None:
        file.write_text(change(file.read_text()))
        ran = restore(run, empty(), file, "--execute")
        assert (ran.exit_code, ran.asked, why in ran.stderr) == (1, (), True), ran.stderr

    def test_another_layout_of_the_same_values_is_the_same_backup(self, run: Run, file: Path) -> None:
        file.write_text(json.dumps(json.loads(file.read_text()), sort_keys=True))
        assert restore(run, empty(), file).exit_code == 0

    def test_file_that_is_not_there(self, run: Run, tmp_path: Path) -> None:
        ran = restore(run, empty(), tmp_path / "typo\x1b[31m")
        assert r"typo\x1b[31m cannot be read: No such file or directory" in ran.stderr


def test_offset_after_the_end_is_refused_and_its_pauses_are_made_all_the_same(
    run: Run, world: NodeWorld, file: Path
) -> None:
    other = empty()
    other.kafka.ends[T0] = 15
    ran = restore(run, other, file, "--execute")
    assert (ran.exit_code, other.committed()) == (4, {T1: 30})
    assert "offset 20 is after the end, which is 15" in ran.stderr
    assert [control[:3] for control in controls(other)] == [("group-paused", "", None), ("partition-paused", "t", 1)]


def test_group_of_which_nothing_can_be_set_is_told_as_a_whole(run: Run, tmp_path: Path) -> None:
    world, file = empty(), tmp_path / "backup.json"
    world.join("m1", topics=("t",))
    set_to(world, 60)
    run(world, "cluster", "backup", str(file))
    other = empty()
    other.kafka.absent |= {T0, T1}
    ran = restore(run, other, file, "--execute")
    assert ran.exit_code == 3
    assert "does not exist" not in ran.stderr
    assert not other.state(0).groups


def test_restore_that_is_stopped_shows_what_it_has_done_and_can_be_asked_for_again(
    run: Run, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = empty()
    done = backups.set_offsets

    def stop_at_the_second(wish: Any, manner: Any) -> Any:
        if wish.group == "other":
            raise KeyboardInterrupt
        return done(wish, manner)

    monkeypatch.setattr(backups, "set_offsets", stop_at_the_second)
    ran = restore(run, other, file, "--execute")
    assert ran.exit_code == 130
    assert [row["group"] for row in ran.data["offsets"]] == ["g", "g"]
    assert "Stopped: 1 group has answered, group 'other' may have been changed" in ran.stderr
    monkeypatch.undo()
    again = restore(run, other, file, "--execute")
    assert (again.exit_code, other.committed("other")) == (0, {T0: 40})


@pytest.mark.parametrize("data", [b"[" * 300_000, b"", b"\xff\xfe{", b"null"])
def test_file_that_is_no_backup_is_told_as_one(run: Run, tmp_path: Path, data: bytes) -> None:
    (tmp_path / "b.json").write_bytes(data)
    ran = run(empty(), "cluster", "restore", str(tmp_path / "b.json"))
    assert (ran.exit_code, ran.asked, "b.json is no " in ran.stderr) == (1, (), True)


@pytest.mark.parametrize("offset", [-1, 2**70])
def test_offset_that_none_can_be_is_told(run: Run, file: Path, offset: int) -> None:
    found = read(file)
    group = replace(found.groups[0], offsets=(replace(found.groups[0].offsets[0], offset=offset),))
    file.write_bytes(encode(replace(found, groups=(group,))))
    ran = run(empty(), "cluster", "restore", str(file))
    assert (ran.exit_code, ran.asked) == (1, ())
    assert "$.groups[0].offsets[0].offset" in ran.stderr


def test_pauses_that_cannot_be_made_again_do_not_hide_that_offsets_are_set(
    run: Run, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> Any:
        raise typer.Exit(6)

    monkeypatch.setattr(backups, "set_controls", refuse)
    other = empty()
    ran = restore(run, other, file, "--execute")
    assert (ran.exit_code, other.committed()[T0]) == (6, 20)
    assert "The offsets of group 'g' are set all the same: 2" in ran.stderr
