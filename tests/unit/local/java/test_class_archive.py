"""The archive of classes is kept where it can be; where it cannot, the next start takes longer and nothing else."""

from pathlib import Path

import pytest

from coordinator.local.java.class_archive import ClassArchive
from coordinator.local.java.jars import JarSet, Module
from coordinator.local.java.runtime import Java

JARS = JarSet("toy", (Module("org", "toy", "1"),), jar_count=1)
JAVA = Java(Path("/java"), 17, "17.0.1")


def written(scratch: Path) -> ClassArchive:
    """Return an archive that a run has written."""
    archive = ClassArchive(JARS, scratch)
    (_, wanted) = archive.start_options(JAVA)
    assert wanted == f"-XX:ArchiveClassesAtExit={scratch}"
    scratch.write_bytes(b"classes")
    return archive


def test_what_a_run_has_written_is_used_from_then_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KCOORD_CACHE", str(tmp_path / "cache"))
    archive = written(tmp_path / "classes.jsa")
    archive.keep()
    (kept,) = (tmp_path / "cache" / "classes").iterdir()
    assert archive.start_options(JAVA)[1] == f"-XX:SharedArchiveFile={kept}"


def test_a_cache_that_cannot_be_written_is_no_reason_to_fail_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KCOORD_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "classes").write_text("in the way")
    archive = written(tmp_path / "classes.jsa")
    archive.keep()
    assert archive.use_options(JAVA) == []
    assert archive.start_options(JAVA)[1].startswith("-XX:ArchiveClassesAtExit=")
