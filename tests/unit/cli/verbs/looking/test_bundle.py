"""`kcoord cluster bundle`: every part is a file, one that fails says why, and no file is written over unasked."""

import io
import json
import os
from pathlib import Path
from zipfile import ZipFile

from typer.testing import CliRunner

from coordinator.cli import app
from coordinator.cli.diagnosis.bundle import Found, Part, make_bundle
from coordinator.protocol.messages import (
    DescribeGroup,
    DescribeGroupResponse,
    ListGroupEvents,
    ListGroupEventsResponse,
)
from coordinator.protocol.parts import GroupEvent
from coordinator.protocol.text.addresses import format_address
from tests.helpers.loopback_coordinator import unused_address
from tests.helpers.scripted_cluster import Script, bootstrap, scripted_cluster


def test_a_part_that_fails_says_why_and_keeps_no_other_out() -> None:
    def fail() -> Found:
        raise OSError("no such place")

    made = make_bundle([Part("a.txt", "the first", fail), Part("b.txt", "the second", lambda: Found("b", "half"))], 0.0)
    with ZipFile(io.BytesIO(made.data)) as archive:
        assert archive.namelist() == ["a.txt.failed.txt", "b.txt", "manifest.json"]
        assert archive.read("a.txt.failed.txt").decode() == "the first could not be had: OSError: no such place\n"
        listed = json.loads(archive.read("manifest.json"))["files"]
    assert (made.files, made.failed) == (2, ("a.txt",))
    assert [(each["file"], each["failed"], each["left_out"]) for each in listed] == [
        ("a.txt.failed.txt", True, None),
        ("b.txt", False, "half"),
    ]


def test_a_bundle_has_nodes_groups_timelines_and_settings_and_is_not_written_over(tmp_path: Path) -> None:
    events = tuple(GroupEvent(number, 1, "joined", "m1", "why", 1) for number in range(1, 1_003))
    answers = {
        DescribeGroup: DescribeGroupResponse(group_id="g", state="Stable"),
        ListGroupEvents: ListGroupEventsResponse(events=events),
    }
    said = Script(leaders={0: 1}, groups={0: ("g",)})
    (tmp_path / "node.toml").write_text("[node]\nid = 7\n")
    target = tmp_path / "b.zip"
    nobody = format_address(unused_address())
    words = ["cluster", "bundle", "--output", str(target), "--timeout", "5s", "--group", "g", "--admin", nobody]
    with scripted_cluster(said, node_1=answers):
        words += ["--config", str(tmp_path / "node.toml"), "--coordinator", bootstrap(said)]
        result = CliRunner().invoke(app, words, env={"KCOORD_LOG_LEVEL": "debug"})
    assert result.exit_code == 0, result.output
    assert target.stat().st_mode & 0o777 == 0o600
    with ZipFile(target) as archive:
        files = {name: archive.read(name).decode() for name in archive.namelist()}
    assert set(files) == {
        *("environment.json", "doctor.json", "cluster-doctor.json", "cluster.json", "groups.json"),
        *("timelines/1.json", "settings.toml", "manifest.json"),
        *(f"admin/1-{page}.txt.failed.txt" for page in ("startupz", "livez", "readyz", "metrics")),
    }
    assert "id = 7" in files["settings.toml"]
    assert "KCOORD_LOG_LEVEL" in json.loads(files["environment.json"])["variables"]
    assert [node["described"]["node_id"] for node in json.loads(files["cluster.json"])["nodes"]] == [1, 2, 3]
    assert json.loads(files["groups.json"])["described"][0]["state"] == "Stable"
    assert [event["sequence"] for event in json.loads(files["timelines/1.json"])["events"]] == list(range(3, 1_003))
    left = {each["file"]: each["left_out"] for each in json.loads(files["manifest.json"])["files"]}
    assert left["timelines/1.json"] == "the 2 oldest events"

    target.write_text("mine")
    again = CliRunner().invoke(app, words)
    assert (again.exit_code, target.read_text()) == (1, "mine")
    assert "add --force" in again.stderr


def test_a_device_is_not_replaced_by_a_bundle(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")  # as /dev/stdout is one
    for name in ("pipe", "link"):
        words = ["cluster", "bundle", "--output", str(tmp_path / name), "--force", "--timeout", "1s"]
        result = CliRunner().invoke(app, [*words, "--coordinator", format_address(unused_address())])
        assert (result.exit_code, "is no file that a bundle may take the place of" in result.output) == (1, True)
    assert ((tmp_path / "pipe").is_fifo(), (tmp_path / "link").is_symlink()) == (True, True)
