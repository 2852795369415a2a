"""The storage of a broker is formatted by Kafka's tool once, and copied with ids of its own from then on."""

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from coordinator.local.errors import LocalServiceError
from coordinator.local.kafka.storage import KafkaStorage

WRITES = """
import sys
from pathlib import Path
storage = Path(sys.argv[1])
storage.mkdir()
(storage / "bootstrap.checkpoint").write_bytes(bytes(range(256)))
(storage / "meta.properties").write_text("#\\nnode.id=1\\ndirectory.id=there\\nversion=1\\ncluster.id=first\\n")
"""


class Tool:
    """A program in the place of Kafka's tool."""

    def __init__(self, script: str = WRITES) -> None:
        self.script = script
        self.runs = 0

    def __call__(self, scratch: Path, storage: Path) -> Sequence[str]:
        self.runs += 1
        return [sys.executable, "-c", self.script, str(storage)]


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "formatted" / "kafka"


def storage_in(folder: Path, kept: Path) -> KafkaStorage:
    folder.mkdir()
    return KafkaStorage(folder, kept)


def properties(storage: KafkaStorage) -> dict[str, str]:
    lines = (storage.path / "meta.properties").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)


def test_the_tool_runs_once_and_later_storage_has_ids_of_its_own(tmp_path: Path, kept: Path) -> None:
    tool = Tool()
    first, second, third = (storage_in(tmp_path / name, kept) for name in ("a", "b", "c"))
    first.format("first", "1", tool)
    second.format("second", "1", tool)
    third.format("third", "3", tool)
    assert tool.runs == 1
    assert [storage.cluster_id() for storage in (first, second, third)] == ["first", "second", "third"]
    assert [properties(storage)["node.id"] for storage in (first, second, third)] == ["1", "1", "3"]
    assert len({properties(storage)["directory.id"] for storage in (first, second, third)}) == 3
    assert {properties(storage)["version"] for storage in (first, second, third)} == {"1"}
    assert len({(storage.path / "bootstrap.checkpoint").read_bytes() for storage in (first, second, third)}) == 1
    assert [path.name for path in (tmp_path / "b").iterdir()] == ["storage"], "what was made beside it is left"
    assert [path.name for path in kept.parent.iterdir()] == ["kafka"], "what was made beside it is left"


@pytest.mark.parametrize("is_damaged", [True, False], ids=["damaged", "no directory"])
def test_a_cache_that_cannot_be_used_has_each_storage_formatted(tmp_path: Path, kept: Path, is_damaged: bool) -> None:
    if is_damaged:
        (kept / "nothing of Kafka's").mkdir(parents=True)
    else:
        (tmp_path / "cache").write_text("a file")
    tool = Tool()
    for name in ("a", "b"):
        storage = storage_in(tmp_path / name, kept)
        storage.format("first", "1", tool)
        assert sorted(path.name for path in storage.path.iterdir()) == ["bootstrap.checkpoint", "meta.properties"]
    assert tool.runs == 2


def test_what_the_tool_says_is_told_and_nothing_is_kept(tmp_path: Path, kept: Path) -> None:
    storage = storage_in(tmp_path / "a", kept)
    with pytest.raises(LocalServiceError, match=r"(?s)a cannot be formatted\. Kafka says:\nno such id"):
        storage.format("first", "1", Tool("raise SystemExit('no such id')"))
    assert storage.cluster_id() is None
    assert list((tmp_path / "a").iterdir()) == []
    assert not kept.exists()


def test_what_somebody_has_put_in_its_place_is_not_replaced(tmp_path: Path, kept: Path) -> None:
    storage = storage_in(tmp_path / "a", kept)
    storage.path.mkdir()
    (storage.path / "mine").touch()
    with pytest.raises(LocalServiceError, match="exists but is not Kafka's: choose another directory"):
        storage.format("first", "1", Tool())
    assert [path.name for path in storage.path.iterdir()] == ["mine"]


def test_storage_without_the_id_of_a_cluster_is_refused_by_its_file(tmp_path: Path, kept: Path) -> None:
    storage = storage_in(tmp_path / "a", kept)
    storage.path.mkdir()
    (storage.path / "meta.properties").write_text("version=1\n")
    with pytest.raises(LocalServiceError, match=r"meta\.properties has no cluster\.id: remove"):
        storage.cluster_id()
