"""Lines of the audit log are whole and on disk, files are kept to their number, and a flood is bounded."""

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from coordinator.config import AuditSettings
from coordinator.core.effects import Audited
from coordinator.core.events import AuditLogFailed, AuditLogWorks
from coordinator.runtime.process.logs import make_log
from coordinator.runtime.security import audit_files
from coordinator.runtime.security.audit_files import AuditFileError, AuditFiles
from coordinator.runtime.security.audit_log import MOST_KINDS, AuditLog, RefusedLimit, line_of
from tests.helpers.processes import eventually


def attempt(
    verb: str = "DeleteGroup", outcome: str = "refused", *, group_id: str = "g", address: str = "::1"
) -> Audited:
    return Audited(1_000, "User:bob", address, verb, outcome, "7-3", group_id, error="GROUP_AUTHORIZATION_FAILED")


class Disk:
    """The call that fails while there is no room."""

    def __init__(self) -> None:
        self.is_full = False

    def write(self, descriptor: int, data: bytes) -> int:
        if self.is_full:
            os.pwrite(descriptor, data[:5], os.fstat(descriptor).st_size)
            raise OSError(errno.ENOSPC, "No space left on device")
        return os.write(descriptor, data[:7])


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    disk = Disk()
    monkeypatch.setattr(audit_files, "write_some", disk.write)
    return disk


def opened(path: Path, said: list[object], **settings: Any) -> AuditLog:
    log = make_log("json", "info", write=lambda line: said.append(json.loads(line)["why"]))
    return AuditLog(AuditSettings(file=str(path), **settings), 3, said.append, log)


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_line_has_what_is_known_and_nothing_else(tmp_path: Path) -> None:
    audited = Audited(
        1_000, "User:ann", "10.0.0.7", "ChangePause", "done", "7-3", "g\n\u202e", "ann", before={"*": "not paused"}
    )
    line = line_of(audited, 3)
    assert line.isascii()
    assert json.loads(line) == {
        "time_ms": 1_000,
        "node": 3,
        "request_id": "7-3",
        "principal": "User:ann",
        "address": "10.0.0.7",
        "verb": "ChangePause",
        "outcome": "done",
        "group": "g\n\u202e",
        "who": "ann",
        "before": {"*": "not paused"},
    }


def test_lines_are_added_to_those_of_former_lives_and_a_cut_one_stays_by_itself(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    path.write_text('{"a":1}\n{"cut sho')
    log = opened(path, [])
    log.add(attempt())
    assert log.close()
    first, cut, last = path.read_text().splitlines()
    assert (first, cut, json.loads(last)["verb"]) == ('{"a":1}', '{"cut sho', "DeleteGroup")


def test_files_that_have_grown_are_set_aside_and_the_oldest_deleted(tmp_path: Path) -> None:
    files = AuditFiles(tmp_path / "audit.log", file_bytes=4096, files_max=3)
    for number in range(10):
        files.write([f"{number} ".encode() * 2048 + b"\n"])
    files.close()
    assert {path.name: path.read_text()[0] for path in tmp_path.iterdir()} == {
        "audit.log": "9",
        "audit.log.000009": "8",
        "audit.log.000008": "7",
    }
    assert (tmp_path / "audit.log").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("ends", ["moved", "deleted", "replaced", "cut off"])
def test_a_file_that_somebody_else_has_taken_away_is_begun_anew(tmp_path: Path, ends: str) -> None:
    path, aside = tmp_path / "audit.log", tmp_path / "audit.log-20260131"
    files = AuditFiles(path, file_bytes=4096, files_max=3)
    files.write([b"one\n"])
    match ends:
        case "moved":
            path.rename(aside)
        case "deleted":
            path.unlink()
        case "replaced":
            path.rename(aside)
            path.write_bytes(b"theirs\n")
        case _:
            path.write_bytes(b"")
    files.write([b"two\n"])
    assert path.read_bytes() == (b"theirs\ntwo\n" if ends == "replaced" else b"two\n")
    assert not aside.exists() or aside.read_bytes() == b"one\n"
    files.write([b"x" * 5000 + b"\n"])
    files.write([b"three\n"])
    assert path.read_bytes() == b"three\n"
    files.close()


def test_a_link_stays_and_files_are_set_aside_beside_what_it_leads_to(tmp_path: Path) -> None:
    disk, path = tmp_path / "disk", tmp_path / "audit.log"
    disk.mkdir()
    path.symlink_to(disk / "node-1.log")
    files = AuditFiles(path, file_bytes=4096, files_max=2)
    for number in range(4):
        files.write([f"{number} ".encode() * 2048 + b"\n"])
    assert path.is_symlink()
    assert {each.name: each.read_text()[0] for each in disk.iterdir()} == {"node-1.log": "3", "node-1.log.000003": "2"}
    path.unlink()
    path.symlink_to(disk / "other.log")
    files.write([b"4\n"])
    files.close()
    assert (disk / "other.log").read_text() == "4\n", "a link that leads elsewhere by now is followed"


def test_two_nodes_do_not_write_one_file(tmp_path: Path) -> None:
    files = AuditFiles(tmp_path / "audit.log", file_bytes=4096, files_max=3)
    with pytest.raises(AuditFileError, match="another process"):
        AuditFiles(tmp_path / "audit.log", file_bytes=4096, files_max=3)
    files.close()


@pytest.mark.parametrize(
    ("when_full", "told"), [("refuse", [AuditLogFailed, AuditLogWorks]), ("go-on", [AuditLogWorks])]
)
def test_a_full_disk_is_said_and_lines_are_written_once_when_there_is_room(
    tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch, when_full: str, told: list[type]
) -> None:
    monkeypatch.setattr("coordinator.runtime.security.audit_log.AGAIN_S", 0.01)
    path, said = tmp_path / "audit.log", list[object]()
    log = opened(path, said, when_full=when_full, waiting_max=10)
    disk.is_full = True
    log.add(attempt(outcome="done", group_id="g0"))
    assert eventually(lambda: any("No space left on device" in str(each) for each in said))
    for number in range(1, 15):
        log.add(attempt(outcome="done", group_id=f"g{number}"))
    disk.is_full = False
    assert eventually(lambda: any("written again; 5 lines" in str(each) for each in said))
    assert log.close()
    assert [line["group"] for line in read(path)] == [f"g{number}" for number in range(10)]
    assert [type(each) for each in said if not isinstance(each, str)] == told


def test_a_node_that_stops_with_a_full_disk_says_what_is_lost(tmp_path: Path, disk: Disk) -> None:
    said = list[object]()
    log = opened(tmp_path / "audit.log", said)
    disk.is_full = True
    log.add(attempt())
    assert not log.close()
    assert "1 lines of the audit log could not be written" in said


class Minutes:
    """A clock that a test turns."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def taken(limit: RefusedLimit, times: int, make: Callable[[int], Audited]) -> int:
    return sum(limit.takes(make(number)) for number in range(times))


def test_a_flood_of_one_refused_attempt_is_counted_whatever_groups_it_names() -> None:
    clock = Minutes()
    limit = RefusedLimit(3, clock)
    assert taken(limit, 515, lambda number: attempt(group_id=f"g{number}")) == 3
    assert taken(limit, 2, lambda _: attempt("ChangePause")) == 2
    assert taken(limit, 10, lambda _: attempt(outcome="done")) == 10
    clock.now_s = 59.9
    assert limit.take_repeated() == []
    clock.now_s = 60.0
    ((last, count),) = limit.take_repeated()
    assert (last.group_id, count) == ("g514", 512)
    assert json.loads(line_of(last, 1, count))["more_like_this"] == 512
    assert limit.takes(attempt())


def test_a_flood_of_many_kinds_is_counted_together() -> None:
    limit = RefusedLimit(1, Minutes())
    assert taken(limit, MOST_KINDS + 500, lambda number: attempt(address=f"10.0.{number}")) == MOST_KINDS + 1
    assert [count for _, count in limit.take_repeated(is_last=True)] == [499]
