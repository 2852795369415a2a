"""The files of a local broker say what they are to say when Java reads them, whatever the directory is called."""

import re
from pathlib import Path

import pytest

from coordinator.local.kafka.files import broker_properties
from coordinator.local.zookeeper import LocalZooKeeper


def as_java_reads(data: bytes) -> dict[str, str]:
    """Return a file of properties as `java.util.Properties` loads a stream: Latin-1, with escapes for the rest."""
    lines = (line.partition("=") for line in data.decode("latin-1").splitlines())
    return {name: _unescaped(value) for name, _, value in lines}


def _unescaped(value: str) -> str:
    plain = re.sub(r"\\(u[0-9a-f]{4}|.)", lambda it: chr(int(it[1][1:], 16)) if it[1][0] == "u" else it[1], value)
    return plain.encode("utf-16-be", "surrogatepass").decode("utf-16-be")


@pytest.mark.parametrize("name", ["plain", "données", "データ 1", "back\\slash", "😀"])
def test_a_directory_is_found_whatever_its_name_is(tmp_path: Path, name: str) -> None:
    properties = broker_properties(tmp_path / name, 1, 2, {})
    assert as_java_reads(properties.encode())["log.dirs"] == str(tmp_path / name)
    zookeeper = LocalZooKeeper(tmp_path / name)
    zookeeper.data_dir.mkdir()
    zookeeper._write_files()
    written = as_java_reads((tmp_path / name / "zoo.cfg").read_bytes())
    assert written["dataDir"] == str(tmp_path / name / "storage")
