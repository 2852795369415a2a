"""The part of an error that reaches Spark: the sentence, unless it is a bug or somebody wants the frames."""

import inspect
import os
from pathlib import Path

import pytest
from pyspark.util import handle_worker_exception

from spark_kcoord.errors import KcoordError, OptionError
from spark_kcoord.jobs.failures import failure_cause
from spark_kcoord.source.data_source import KcoordDataSource
from spark_kcoord.source.process.told_alone import HIDES_FRAMES, told_alone
from spark_kcoord.source.stream_reader import KcoordStreamReader


@pytest.fixture(autouse=True)
def _as_in_a_new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HIDES_FRAMES, "")
    monkeypatch.delenv(HIDES_FRAMES)


def told_by_spark(error: BaseException, path: Path) -> str:
    """Return what Spark's worker writes of an error that leaves a call."""

    @told_alone
    def called() -> None:
        raise error

    try:
        called()
    except BaseException as raised:  # noqa: BLE001 - as Spark's worker does
        with path.open("wb") as out:
            handle_worker_exception(raised, out)
    return path.read_bytes()[8:].decode()


def test_our_error_is_its_sentence(tmp_path: Path) -> None:
    error = KcoordError("Topic 'flights' does not exist. Make it.")
    error.__cause__ = KeyError("inside")
    said = told_by_spark(error, tmp_path / "said")
    sentence, code = said.splitlines()
    assert sentence == "spark_kcoord.errors.KcoordError: Topic 'flights' does not exist. Make it."
    assert code.startswith("KC-2000: ")
    shown = f"[STREAM_FAILED] Failed when Python data source performs `latestOffset`: {said} SQLSTATE: 38000"
    assert failure_cause(RuntimeError(shown)) == "Topic 'flights' does not exist. Make it."


def test_a_bug_keeps_its_frames(tmp_path: Path) -> None:
    assert "Traceback" in told_by_spark(KeyError("a bug"), tmp_path / "said")


def test_somebody_who_wants_the_frames_gets_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HIDES_FRAMES, "")
    assert "Traceback" in told_by_spark(KcoordError("gone"), tmp_path / "said")


def test_calls_keep_the_parameters_that_spark_looks_at() -> None:
    assert list(inspect.signature(KcoordStreamReader.latestOffset).parameters) == ["self", "start", "limit"]
    for call in (KcoordStreamReader.prepareForTriggerAvailableNow, KcoordStreamReader.partitions):
        assert hasattr(call, "__wrapped__")


def test_refused_options_are_told_by_whatever_spark_asks_first(tmp_path: Path) -> None:
    source = KcoordDataSource({"kafka.bootstrap.servers": "k:1", "subscribe": "t", "kcoord.streams": "many"})
    reader = source.streamReader(source.schema())
    for ask in (
        reader.initialOffset,
        reader.getDefaultReadLimit,
        reader.prepareForTriggerAvailableNow,
        lambda: reader.latestOffset({}, None),
        lambda: reader.partitions({}, {"a": 1}),
    ):
        with pytest.raises(OptionError, match=r"Option 'kcoord\.streams' cannot be 'many'"):
            ask()
    assert HIDES_FRAMES in os.environ


def test_a_call_that_ends_well_chooses_nothing() -> None:
    assert told_alone(lambda: 7)() == 7
    assert HIDES_FRAMES not in os.environ
