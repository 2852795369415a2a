"""Reading a Parquet file sink by its log."""

from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coordinator.demo.data.checker import Delivered
from coordinator.demo.data.sink import output_files, read_delivered
from coordinator.demo.errors import DemoError


def write_file(sink: Path, name: str, *lines: int) -> Path:
    sink.mkdir(exist_ok=True)
    path = sink / name
    table = pa.table(
        {
            "key": pa.array([None] * len(lines), pa.binary()),
            "value": [msgspec.json.encode({"line": line, "year": 2013}) for line in lines],
            "partition": pa.array([3] * len(lines), pa.int32()),
            "offset": pa.array([line - 2 for line in lines], pa.int64()),
        }
    )
    pq.write_table(table, path)
    return path


def write_log(sink: Path, entry: str, *paths: Path, action: str = "add", version: str = "v1") -> None:
    log = sink / "_spark_metadata"
    log.mkdir(parents=True, exist_ok=True)
    lines = [
        msgspec.json.encode({"path": path.as_uri(), "size": 1, "isDir": False, "action": action}).decode()
        for path in paths
    ]
    (log / entry).write_text("\n".join([version, *lines]))


def test_only_files_in_the_log_are_output(tmp_path: Path) -> None:
    write_log(tmp_path, "0", write_file(tmp_path, "a.parquet", 2, 3))
    write_file(tmp_path, "unfinished.parquet", 4)
    write_log(tmp_path, "1", write_file(tmp_path, "b.parquet", 5))
    assert list(read_delivered(tmp_path)) == [Delivered(2, 3, 0), Delivered(3, 3, 1), Delivered(5, 3, 3)]


def test_a_compaction_stands_for_all_before_it(tmp_path: Path) -> None:
    files = [write_file(tmp_path, f"{number}.parquet", number + 2) for number in range(12)]
    for number in range(9):
        write_log(tmp_path, str(number), files[number])
    write_log(tmp_path, "9.compact", *files[:10])
    write_log(tmp_path, "10", files[10])
    write_log(tmp_path, "11", files[11])
    (tmp_path / "_spark_metadata" / ".12.crc").write_text("no entry")
    assert output_files(tmp_path) == files
    (tmp_path / "_spark_metadata" / "3").unlink()
    assert output_files(tmp_path) == files


def test_a_path_is_decoded(tmp_path: Path) -> None:
    sink = tmp_path / "with space"
    write_log(sink, "0", write_file(sink, "a b.parquet", 2))
    assert [row.line for row in read_delivered(sink)] == [2]


def test_a_deleted_file_is_no_output(tmp_path: Path) -> None:
    path = write_file(tmp_path, "a.parquet", 2)
    write_log(tmp_path, "0", path)
    write_log(tmp_path, "1", path, action="delete")
    assert list(read_delivered(tmp_path)) == []


def test_a_query_that_finished_no_micro_batch_has_no_output(tmp_path: Path) -> None:
    write_file(tmp_path, "unfinished.parquet", 4)
    assert list(read_delivered(tmp_path)) == []
    assert list(read_delivered(tmp_path / "never made")) == []


def test_an_unknown_version_of_the_log_is_refused(tmp_path: Path) -> None:
    write_log(tmp_path, "0", write_file(tmp_path, "a.parquet", 2), version="v2")
    with pytest.raises(DemoError, match="version 'v2'"):
        output_files(tmp_path)


def test_output_that_is_gone_is_an_error(tmp_path: Path) -> None:
    path = write_file(tmp_path, "a.parquet", 2)
    write_log(tmp_path, "0", path)
    path.unlink()
    with pytest.raises(DemoError, match="cannot be read"):
        list(read_delivered(tmp_path))
