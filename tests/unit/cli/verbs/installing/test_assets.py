"""`kcoord assets`: every file that comes with kcoord, written whole, over nothing that somebody has changed."""

import errno
import os
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from coordinator.cli import app
from coordinator.cli.verbs.installing import assets

ROOT = Path(__file__).parents[5]
KEPT = {path.relative_to(ROOT / "deploy").as_posix() for path in (ROOT / "deploy").rglob("*") if path.is_file()}


def kcoord(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, arguments)
    return result.exit_code, result.stdout, result.stderr


def test_everything_is_exported_and_once_more_changes_nothing(tmp_path: Path) -> None:
    code, out, err = kcoord("assets", "export", str(tmp_path / "new"))
    written = {path.relative_to(tmp_path / "new").as_posix() for path in (tmp_path / "new").rglob("*.*")}
    assert (code, out) == (0, "")
    assert written == KEPT | {"prometheus/ALERTS.md"}
    assert err == f"{len(written)} files are in {tmp_path / 'new'}.\n"
    alerts = (tmp_path / "new" / "prometheus" / "alerts.yaml").read_bytes()
    assert alerts == (ROOT / "deploy" / "prometheus" / "alerts.yaml").read_bytes()
    assert kcoord("assets", "export", str(tmp_path / "new"))[0] == 0


def test_a_file_that_somebody_has_changed_stays_unless_told_otherwise(tmp_path: Path) -> None:
    mine = tmp_path / "systemd" / "kcoord.service"
    mine.parent.mkdir()
    mine.write_text("mine")
    code, _, err = kcoord("assets", "export", str(tmp_path))
    assert code == 4
    assert str(mine) in err
    assert mine.read_text() == "mine"
    assert not (tmp_path / "grafana").exists(), "nothing is written"
    assert kcoord("assets", "export", str(tmp_path), "--force")[0] == 0
    assert "[Service]" in mine.read_text()


def test_where_nothing_can_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code, _, err = kcoord("assets", "export", str(tmp_path / "file"))
    assert code == 1
    assert "cannot be written" in err


def test_a_full_disk_is_said_with_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fill(_: Path, __: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", fill)
    code, _, err = kcoord("assets", "export", str(tmp_path))
    assert (code, err.startswith(f"error: {tmp_path}")) == (1, True)
    assert "cannot be written: No space left on device" in err


@pytest.mark.parametrize("name", ["pipe", "folder"])
def test_what_is_no_file_is_not_written_over(tmp_path: Path, name: str) -> None:
    taken = tmp_path / "systemd" / "kcoord.service"
    taken.parent.mkdir()
    os.mkfifo(taken) if name == "pipe" else taken.mkdir()
    code, _, err = kcoord("assets", "export", str(tmp_path), "--force")
    assert (code, err) == (1, f"error: {taken} is no file, and nothing is written; name another directory [KC-3009]\n")


def test_what_cannot_be_looked_at_is_said(tmp_path: Path) -> None:
    code, _, err = kcoord("assets", "export", str(tmp_path / ("x" * 300)))
    assert (code, "cannot be read: File name too long" in err) == (1, True)


def test_files_are_listed_with_their_size() -> None:
    code, out, _ = kcoord("assets", "list", "-o", "csv")
    assert code == 0
    assert "grafana/kcoord-overview.json," in out


def test_a_wheel_has_them_where_they_are_looked_for(tmp_path, monkeypatch) -> None:
    included = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert included["force-include"]["deploy"] == "coordinator/assets"
    assert included["force-include"]["docs/ALERTS.md"] == "coordinator/assets/prometheus/ALERTS.md"
    (tmp_path / "assets" / "prometheus").mkdir(parents=True)
    (tmp_path / "assets" / "prometheus" / "alerts.yaml").write_text("groups: []\n")
    monkeypatch.setattr(assets, "_PACKAGE", tmp_path)
    assert list(assets.shipped()) == ["prometheus/alerts.yaml"]
