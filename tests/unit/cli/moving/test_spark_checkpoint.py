"""Checkpoints of Spark as they are read: what counts as finished, which source, and what cannot be believed."""

import errno
import json
from collections.abc import Iterator
from pathlib import Path
from shutil import rmtree

import pytest

from coordinator.cli.moving import spark_checkpoint
from coordinator.cli.moving.spark_checkpoint import CheckpointError, SourcePosition, local_directory, read_checkpoint
from tests.helpers.spark_checkpoint import METADATA, Checkpoint, write

FIRST, SECOND, THIRD = {"t": {"0": 10, "1": 7}}, {"t": {"0": 20, "1": 7}}, {"t": {"0": 30, "1": 9}}
FILES = {"logOffset": 3}
OURS = {"v": 1, "cluster": "c", "group": "g", "member": "m", "topics": {}}


@pytest.fixture
def query(tmp_path: Path) -> Checkpoint:
    """Return the checkpoint of a query of which batches 0 and 1 are finished and 2 is not."""
    made = Checkpoint(tmp_path).began({"t": {"0": 0, "1": 7}})
    return made.offsets(0, FIRST).offsets(1, SECOND).offsets(2, THIRD).commit(0, 1)


def why(checkpoint: Path, source: str | None = None) -> str:
    with pytest.raises(CheckpointError) as refused:
        read_checkpoint(checkpoint, source)
    return str(refused.value)


def test_finished_batch_counts_and_one_that_was_only_begun_does_not(query: Checkpoint) -> None:
    assert read_checkpoint(query.path) == SourcePosition(
        "0", 1, {("t", 0): 20, ("t", 1): 7}, (2,), {("t", 0): 30, ("t", 1): 9}
    )


def test_query_that_was_stopped_between_two_batches_has_nothing_unfinished(query: Checkpoint) -> None:
    query.commit(2)
    position = read_checkpoint(query.path)
    assert (position.batch_id, position.offsets, position.unfinished) == (2, {("t", 0): 30, ("t", 1): 9}, ())


def test_a_batch_that_is_begun_and_finished_while_it_is_read_does_not_count_yet(
    query: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = spark_checkpoint._batches

    def and_then_one_more(log: Path) -> list[int]:
        found = listed(log)
        query.offsets(3, THIRD).commit(2, 3)
        return found

    monkeypatch.setattr(spark_checkpoint, "_batches", and_then_one_more)
    assert read_checkpoint(query.path).batch_id == 1


def test_a_directory_that_cannot_be_looked_at_is_said(
    query: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "cannot be read: File name too long" in why(tmp_path / ("x" * 300))
    closed = PermissionError(errno.EACCES, "Permission denied", str(query.path / "commits"))

    def close(_: Path) -> Iterator[Path]:
        raise closed

    monkeypatch.setattr(Path, "iterdir", close)
    assert why(query.path) == f"{query.path / 'commits'} cannot be read: Permission denied"


def test_before_the_first_batch_is_finished_the_query_is_where_it_began(tmp_path: Path) -> None:
    made = Checkpoint(tmp_path).began({"t": {"0": 3, "1": 7}}).offsets(0, FIRST)
    position = read_checkpoint(made.path)
    assert (position.batch_id, position.offsets, position.unfinished) == (None, {("t", 0): 3, ("t", 1): 7}, (0,))
    assert position.unfinished_until == {("t", 0): 10, ("t", 1): 7}


def test_beginning_as_spark_2_wrote_it_is_read(tmp_path: Path) -> None:
    made = Checkpoint(tmp_path).offsets(0, FIRST)
    write(made.path / "sources/0/0", '\0{"t":{"0":3}}')
    assert read_checkpoint(made.path).offsets == {("t", 0): 3}


@pytest.mark.parametrize("commit_version", [1, 2, 3])
def test_second_version_of_the_offset_log_is_read(tmp_path: Path, commit_version: int) -> None:
    made = Checkpoint(tmp_path, version=2).offsets(0, FIRST).offsets(1, SECOND).commit(0, version=commit_version)
    assert read_checkpoint(made.path).offsets == {("t", 0): 10, ("t", 1): 7}


def test_logs_whose_beginning_was_purged_are_read_from_their_end(query: Checkpoint) -> None:
    for log in ("offsets", "commits"):
        (query.path / log / "0").unlink()
    assert read_checkpoint(query.path).batch_id == 1


def test_what_hadoop_leaves_beside_is_passed_over(query: Checkpoint) -> None:
    write(query.path / "offsets/.3.8d4a.tmp", "v1\nhalf", has_checksum=False)
    write(query.path / "offsets/_tmp", "", has_checksum=False)
    write(query.path / "commits/.DS_Store", "x", has_checksum=False)
    assert read_checkpoint(query.path).batch_id == 1


class TestSources:
    @pytest.fixture
    def two(self, tmp_path: Path) -> Path:
        return Checkpoint(tmp_path).offsets(0, FIRST, {"u": {"0": 4}}, FILES).commit(0).path

    def test_several_are_refused_with_what_each_is(self, two: Path) -> None:
        said = why(two)
        assert 'has 3 sources: 0 (format("kafka"): t), 1 (format("kafka"): u), 2 (a source of files)' in said
        assert "--source" in said

    def test_one_that_is_named_is_read(self, two: Path) -> None:
        assert read_checkpoint(two, "1").offsets == {("u", 0): 4}

    def test_one_that_there_is_not_is_refused(self, two: Path) -> None:
        assert "has no source 7; there is 0 (" in why(two, "7")

    @pytest.mark.parametrize(
        ("offset", "kind"),
        [
            (FILES, "it is a source of files"),
            ({"offset": 2, "timestamp": 1000}, "it is another source"),
            (5, "it is another source"),
            ({"t": {"0": "ten"}}, "it is another source"),
            ({"t": {"0": -1}}, "it is another source"),
            ({"t": {"zero": 1}}, "it is another source"),
            (OURS, 'it is of format("kcoord"), whose position is its group\'s already'),
        ],
    )
    def test_other_formats_are_refused(self, tmp_path: Path, offset: object, kind: str) -> None:
        assert kind in why(Checkpoint(tmp_path).offsets(0, offset).commit(0).path)

    def test_source_that_had_read_nothing_is_where_it_began(self, tmp_path: Path) -> None:
        made = Checkpoint(tmp_path).began({"t": {"0": 3}}, {"u": {"0": 4}}).offsets(0, FIRST, None).commit(0)
        assert read_checkpoint(made.path, "1").offsets == {("u", 0): 4}


class TestNotWhole:
    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("offsets/1", ""),
            ("offsets/1", "v1"),
            ("offsets/1", f"v1\n{METADATA[:20]}"),
            ("offsets/1", f"v1\n{METADATA}"),
            ("offsets/1", f"v1\n{METADATA}\n"),
            ("offsets/1", f"v2\n{METADATA}\n0"),
            ("offsets/2", f"v1\n{METADATA}"),
            ("commits/1", ""),
            ("commits/1", "v1"),
            ("commits/1", 'v1\n{"nextBatch'),
        ],
    )
    def test_file_that_is_cut_off_is_refused_by_its_name(self, query: Checkpoint, name: str, text: str) -> None:
        write(query.path / name, text)
        assert f"{query.path / name} is cut off" in why(query.path)

    def test_offsets_that_are_cut_off_are_refused(self, query: Checkpoint) -> None:
        write(query.path / "offsets/1", f'v1\n{METADATA}\n{{"t":{{"0":2')
        assert "it is cut off, or of another source" in why(query.path)

    def test_file_that_is_not_what_its_checksum_says_is_refused(self, query: Checkpoint) -> None:
        path = query.path / "offsets/1"
        write(path, path.read_text().replace("20", "25"), has_checksum=False)
        assert f"{path} is not what Spark wrote, by the checksum in .1.crc" in why(query.path)

    def test_copy_without_checksums_is_read(self, query: Checkpoint) -> None:
        for path in query.path.rglob(".*.crc"):
            path.unlink()
        assert read_checkpoint(query.path).batch_id == 1

    def test_commit_without_its_offsets_is_refused(self, query: Checkpoint) -> None:
        query.commit(3)
        assert f"{query.path / 'offsets/3'} is not there: the checkpoint is not whole" in why(query.path)

    def test_later_batches_without_any_commit_are_refused(self, query: Checkpoint) -> None:
        for path in (query.path / "commits").iterdir():
            path.unlink()
        assert "before which others must have been finished" in why(query.path)

    def test_beginning_that_is_not_there_is_refused(self, tmp_path: Path) -> None:
        assert "sources/0/0 is not there" in why(Checkpoint(tmp_path).offsets(0, FIRST).path)

    @pytest.mark.parametrize("name", ["offsets/1", "commits/1"])
    def test_later_version_is_refused(self, query: Checkpoint, name: str) -> None:
        write(query.path / name, f"v9\n{METADATA}\n{json.dumps(SECOND)}")
        assert "is of version v9" in why(query.path)

    def test_compacted_log_is_refused(self, query: Checkpoint) -> None:
        write(query.path / "offsets/9.compact", "v1\n")
        assert "9.compact is a compacted log" in why(query.path)

    def test_bytes_that_are_no_text_are_refused(self, query: Checkpoint) -> None:
        path = query.path / "offsets/1"
        path.with_name(".1.crc").unlink()
        path.write_bytes(b"\xff\xfe\x00")
        assert f"{path} is no text" in why(query.path)


class TestNoCheckpoint:
    def test_directory_that_is_not_there(self, tmp_path: Path) -> None:
        assert "is no directory on this machine" in why(tmp_path / "typo")

    def test_output_of_the_query(self, tmp_path: Path) -> None:
        (tmp_path / "_spark_metadata").mkdir()
        assert "is the output of a query; name its checkpointLocation" in why(tmp_path)

    def test_directory_above_names_those_in_it(self, query: Checkpoint) -> None:
        said = why(query.path.parent)
        assert "it has no metadata and no offsets and no commits; these in it are: checkpoint" in said

    def test_query_that_has_begun_nothing(self, tmp_path: Path) -> None:
        made = Checkpoint(tmp_path)
        (made.path / "offsets").mkdir()
        assert "is of a query that has begun no batch" in why(made.path)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("/data/cp", "/data/cp"),
        ("cp", "cp"),
        ("/data/my%20cp#1?", "/data/my%20cp#1?"),
        ("file:/data/my%20cp", "/data/my%20cp"),
        ("file:///data/orders#2", "/data/orders#2"),
        ("file:/data/orders?a=b", "/data/orders?a=b"),
        ("file:/data/new\nline", "/data/new\nline"),
        ("./by:night", "by:night"),
        ("file:///data/cp", "/data/cp"),
        ("file://localhost/data/cp", "/data/cp"),
    ],
)
def test_local_directories(text: str, path: str) -> None:
    assert local_directory(text) == Path(path)


@pytest.mark.parametrize("text", ["hdfs://name/cp", "s3a://bucket/cp", "abfss://c@a/cp", "file://other/cp"])
def test_directories_elsewhere_are_refused(text: str) -> None:
    with pytest.raises(CheckpointError, match="is not on this machine: copy the directory here"):
        local_directory(text)


@pytest.mark.parametrize("text", ["file:", "file://", "file:cp", "file://localhost"])
def test_file_that_is_not_named_from_the_root_on_is_refused(text: str) -> None:
    with pytest.raises(CheckpointError, match="is no whole path"):
        local_directory(text)


@pytest.mark.parametrize("name", ["offsets", "commits"])
def test_log_that_is_a_plain_file_is_refused(query: Checkpoint, name: str) -> None:
    rmtree(query.path / name)
    (query.path / name).write_text("x")
    assert f"{name} is no directory, as it is in a checkpoint" in why(query.path)


@pytest.mark.parametrize("text", ["v1\n{}\n" + "[" * 200_000, "v1\n" + "[" * 200_000 + "\n{}"])
def test_file_of_endless_brackets_is_refused(query: Checkpoint, text: str) -> None:
    write(query.path / "offsets" / "1", text)
    query.commit(1)
    assert any(said in why(query.path) for said in ("is cut off", "cut off, or of another source"))
