"""`make audit` says OK of what was looked up and found good, and of nothing else."""

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"
GOOD = {"dependencies": [{"name": "a", "version": "1", "vulns": []}, {"name": "b", "version": "2", "vulns": []}]}
HOLE = {"id": "PYSEC-1", "fix_versions": ["3"], "description": "all is open"}
CLEAN: dict[str, Any] = {"errors": [], "results": []}
RECORD = {
    "id": "PYSEC-1",
    "modified": "2026-11-01T00:00:00Z",
    "affected": [
        {
            "package": {"name": "Some_Package", "ecosystem": "PyPI"},
            "ranges": [
                {"type": "GIT", "events": [{"introduced": "0"}]},
                {
                    "type": "ECOSYSTEM",
                    "events": [{"introduced": "1.2"}, {"fixed": "1.10"}, {"introduced": "2"}, {"last_affected": "2.1"}],
                },
            ],
            "versions": ["0.7"],
        }
    ],
}


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have the scripts be found, which are no package."""
    monkeypatch.syspath_prepend(str(SCRIPTS))
    yield
    for name in ("audit", "advisories", "tidy"):
        sys.modules.pop(name, None)


@pytest.fixture
def audit(scripts: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the script with a folder of its own for what it makes, and with no exceptions."""
    import audit

    for name, value in {"ROOT": tmp_path, "MEANT": (), "ACCEPTED": ()}.items():
        monkeypatch.setattr(audit, name, value)
    monkeypatch.setattr(sys, "argv", ["audit"])
    return audit


def tools(audit: ModuleType, monkeypatch: pytest.MonkeyPatch, pip_audit: object, bandit: object = CLEAN) -> None:
    """Have the tools say this; a text is what pip-audit says in the place of a report."""

    def run(tool: str, *_: str) -> subprocess.CompletedProcess[str]:
        if tool == "pip-audit" and isinstance(pip_audit, str):
            return subprocess.CompletedProcess([tool], 1, "", pip_audit)
        said = {"uv": {"bomFormat": "CycloneDX"}, "pip-audit": pip_audit, "bandit": bandit}[tool]
        return subprocess.CompletedProcess([tool], 0, json.dumps(said), "")

    monkeypatch.setattr(audit, "run", run)


def last_line(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().out.splitlines()[-1]


def test_what_was_looked_up_and_found_good_is_ok(
    audit: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tools(audit, monkeypatch, GOOD)
    assert audit.main() == 0
    assert last_line(capsys) == "audit: OK packages=2 vulnerabilities=0 bandit=0 sbom=dist/kcoord.cdx.json"
    assert json.loads((tmp_path / "dist" / "kcoord.cdx.json").read_text())["bomFormat"] == "CycloneDX"


def test_a_vulnerability_is_a_failure_that_names_it_and_what_mends_it(
    audit: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tools(audit, monkeypatch, {"dependencies": [{"name": "a", "version": "1", "vulns": [HOLE]}]})
    assert audit.main() == 1
    assert capsys.readouterr().out.splitlines() == [
        "a:1: PYSEC-1 (mended in 3): all is open",
        "audit: FAILED packages=1 vulnerabilities=1 bandit=0 sbom=dist/kcoord.cdx.json",
    ]


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("Traceback\nrequests.exceptions.ConnectionError: no such host", "no such host"),
        ({"dependencies": [{"name": "a", "skip_reason": "not found on PyPI"}]}, "1 of 1 packages were not looked up"),
        ({"dependencies": []}, "0 of 0 packages"),
    ],
)
def test_what_was_not_looked_up_is_never_a_zero(
    audit: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], said: object, reason: str
) -> None:
    tools(audit, monkeypatch, said)
    assert audit.main() == 1
    out = capsys.readouterr().out
    assert reason in out
    assert out.splitlines()[-1].startswith("audit: FAILED packages=0 vulnerabilities=unknown bandit=0 ")


def test_a_finding_of_bandit_and_an_exception_that_nothing_needs_are_failures(
    audit: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = {"test_id": "B307", "filename": "coordinator/x.py", "line_number": 3, "issue_text": "eval"}
    tools(audit, monkeypatch, GOOD, {"errors": [{"filename": "y.py", "reason": "no Python"}], "results": [found]})
    monkeypatch.setattr(audit, "MEANT", (audit.Excuse("B101", "coordinator", "why"),))
    assert audit.main() == 1
    assert capsys.readouterr().out.splitlines() == [
        "y.py: no Python",
        "coordinator/x.py:3: B307 eval",
        "coordinator: the exception from 'B101' is not needed any more; take it off the list in scripts/audit.py",
        "audit: FAILED packages=2 vulnerabilities=0 bandit=3 sbom=dist/kcoord.cdx.json",
    ]


@pytest.mark.parametrize(
    ("version", "is_affected"),
    [("0.7", True), ("0.8", False), ("1.2", True), ("1.9.3", True), ("1.10", False), ("2.1", True), ("2.1.1", False)],
)
def test_a_record_affects_what_it_lists_and_what_is_within_its_ranges(
    scripts: None, version: str, is_affected: bool
) -> None:
    from advisories import affects

    assert affects(RECORD, "some-package", version) is is_affected
    assert not affects(RECORD, "another", version)
    assert not affects(RECORD | {"withdrawn": "2026-01-01T00:00:00Z"}, "some-package", version)


def test_a_folder_of_records_answers_as_the_service_does_and_says_its_age(scripts: None, tmp_path: Path) -> None:
    from advisories import AdvisoryService

    place = tmp_path / "vulns" / "some-package"
    place.mkdir(parents=True)
    (place / "PYSEC-1.json").write_text(json.dumps(RECORD, indent=1))
    with AdvisoryService(tmp_path) as service:
        assert service.newest == datetime(2026, 11, 1, tzinfo=UTC)
        for version, ids in (("1.3", ["PYSEC-1"]), ("1.1", [])):
            asked = {"package": {"name": "some_package", "ecosystem": "PyPI"}, "version": version}
            request = urllib.request.Request(service.url, json.dumps(asked).encode(), method="POST")
            with urllib.request.urlopen(request, timeout=30) as answer:
                assert [one["id"] for one in json.load(answer)["vulns"]] == ids


def test_records_that_are_too_old_are_refused(audit: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "old.yaml").write_text("id: X\nmodified: 2026-01-01T00:00:00Z\n")
    with (
        pytest.raises(audit.NotLookedUpError, match="of 2026-01-01, 31 days old, and at most 30 are allowed"),
        audit.advisories(tmp_path, 30, datetime(2026, 2, 1, tzinfo=UTC)),
    ):
        pass
    with audit.advisories(tmp_path, 31, datetime(2026, 2, 1, tzinfo=UTC)) as url:
        assert url.startswith("http://127.0.0.1:")
