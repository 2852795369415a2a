"""A real node keeps an audit log: verbs of the command line, refused ones and dry runs, over a SIGKILL and rotation."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from coordinator.client.request import ask
from coordinator.protocol.columns import OffsetToCommit, in_columns
from coordinator.protocol.messages import CommitOffsets, CommitOffsetsResponse
from coordinator.protocol.messages.operators import ChangePause, ChangePauseResponse
from coordinator.protocol.text.addresses import parse_address
from tests.helpers.node_process import NodeProcess, running_node
from tests.helpers.processes import eventually

PATIENCE_S = 60
RULES = "allow User:* all group prefix g\nallow User:* all topic literal *\ndeny User:* delete group literal g-kept\n"


def lines(folder: Path) -> list[dict[str, Any]]:
    """Return the lines of all files, in their order."""
    names = sorted(path.name for path in folder.glob("audit.log.*"))
    files = [folder / name for name in (*names, "audit.log")]
    return [json.loads(line) for path in files for line in path.read_text().splitlines()]


def kcoord(address: str, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "coordinator", "group", *words, "--coordinator", address]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


def test_a_node_keeps_an_audit_log(tmp_path: Path) -> None:
    rules = tmp_path / "rules"
    rules.write_text(RULES)
    settings = [f"authorization.rules_file={rules}", f"audit.file={tmp_path}/audit.log", "audit.file_bytes=4096"]
    with running_node(tmp_path / "node", *settings) as node:
        address = node.wait_until_it_serves()
        for group in ("g", "g-kept"):
            commit = CommitOffsets(group, in_columns([OffsetToCommit("t", number, 7) for number in range(2)]))
            assert isinstance(ask([parse_address(address)], commit, 20), CommitOffsetsResponse)
        told = [
            kcoord(address, "delete-offsets", "g", "--topic", "t:0"),
            kcoord(address, "delete-offsets", "g", "--topic", "t:0", "--execute", "--why", "a bad deploy"),
            kcoord(address, "delete", "g-kept", "--execute"),
            kcoord(address, "delete", "g", "--execute"),
        ]
        assert [result.returncode == 0 for result in told] == [True, True, False, True], told
        wanted = [
            ("CommitOffsets", "g", "done", {"t:0": None, "t:1": None}, {"t:0": 7, "t:1": 7}),
            ("CommitOffsets", "g-kept", "done", {"t:0": None, "t:1": None}, {"t:0": 7, "t:1": 7}),
            ("DeleteOffsets", "g", "dry-run", {"t:0": 7}, {"t:0": None}),
            ("DeleteOffsets", "g", "done", {"t:0": 7}, {"t:0": None}),
            ("DeleteGroup", "g-kept", "refused", None, None),
            (
                "DeleteGroup",
                "g",
                "done",
                {"members": 0, "offsets": 1, "t:1": 7},
                dict.fromkeys(("members", "offsets", "t:1")),
            ),
        ]
        assert eventually(lambda: are_there(tmp_path, len(wanted)), PATIENCE_S)
        assert [
            (line["verb"], line["group"], line["outcome"], line.get("before"), line.get("after"))
            for line in changes(tmp_path)
        ] == wanted
        refused = changes(tmp_path)[4]
        assert (refused["principal"], refused["address"], refused["error"]) == (
            "User:ANONYMOUS",
            "127.0.0.1",
            "GROUP_AUTHORIZATION_FAILED",
        )
        assert changes(tmp_path)[3]["why"] == "a bad deploy"

        pauses = 30
        for number in range(pauses):
            pause = ChangePause("g-kept", None, number % 2 == 0, "ann", f"{number}", is_dry_run=False)
            assert isinstance(ask([parse_address(address)], pause, 20), ChangePauseResponse)
        assert eventually(lambda: are_there(tmp_path, len(wanted) + pauses), PATIENCE_S)
        node.process.kill()
        node.process.wait()
    assert [line["why"] for line in changes(tmp_path)[-pauses:]] == [str(number) for number in range(pauses)]
    assert (tmp_path / "audit.log.000001").stat().st_size >= 4096

    with running_node(tmp_path / "node", *settings) as node:
        address = node.wait_until_it_serves()
        other = NodeProcess(tmp_path / "other", *settings)
        assert other.process.wait(PATIENCE_S) != 0
        assert "is written by another process" in other.said
        assert kcoord(address, "resume", "g-kept", "--execute").returncode == 0
        assert eventually(lambda: are_there(tmp_path, len(wanted) + pauses + 1), PATIENCE_S)


def are_there(folder: Path, count: int) -> bool:
    """Say whether so many changes are told of; while a file is set aside there is none under its name."""
    try:
        return len(changes(folder)) == count
    except FileNotFoundError:
        return False


def changes(folder: Path) -> list[dict[str, Any]]:
    """Return the lines but for those of questions."""
    return [line for line in lines(folder) if line["verb"] not in {"DescribeGroup", "FetchOffsets", "ListGroupEvents"}]
