"""The jobs' arguments and what they report, without a Spark session."""

import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from spark_kcoord.errors import KcoordError
from spark_kcoord.jobs import ingest_batch, ingest_stream, lag_report, replay

ROOT = Path(__file__).parents[3]
SOURCE = ["--coordinator", "127.0.0.1:9292", "--group", "g", "--topic", "a", "--topic", "b"]
SINK = ["--output", "/out", "--checkpoint", "/cp"]
STREAM: ModuleType = ingest_stream
BATCH: ModuleType = ingest_batch
REPLAY: ModuleType = replay
LAG: ModuleType = lag_report


def stream_options(*more: str) -> dict[str, str]:
    options: dict[str, str] = STREAM.source_options(STREAM.argument_parser().parse_args([*SOURCE, *SINK, *more]))
    return options


def test_arguments_become_source_options() -> None:
    assert stream_options("--starting-offsets", "earliest", "--option", "kafka.client.id=x=y") == {
        "kcoord.bootstrap.servers": "127.0.0.1:9292",
        "kcoord.group.id": "g",
        "subscribe": "a,b",
        "startingOffsets": "earliest",
        "kafka.client.id": "x=y",
    }


def test_a_stream_starts_at_the_earliest_offset_unless_told_otherwise() -> None:
    def start_of(*more: str) -> dict[str, str]:
        options = STREAM.read_options(STREAM.argument_parser().parse_args([*SOURCE, *SINK, *more]))
        return {name: value for name, value in options.items() if name.lower().startswith("starting")}

    assert start_of() == {"startingOffsets": "earliest"}
    assert start_of("--starting-offsets", "latest") == {"startingOffsets": "latest"}
    assert start_of("--option", "startingoffsets=latest") == {"startingoffsets": "latest"}
    assert start_of("--option", "startingTimestamp=5") == {"startingTimestamp": "5"}


def test_a_stream_shows_the_group_the_name_of_its_application_and_query_unless_it_is_told_another() -> None:
    def shown(*more: str) -> dict[str, str]:
        options = STREAM.read_options(STREAM.argument_parser().parse_args([*SOURCE, *SINK, *more]))
        return {name: value for name, value in options.items() if "client.id" in name.lower()}

    assert shown() == {"kcoord.client.id": "ingest g"}
    assert shown("--name", "flights") == {"kcoord.client.id": "flights"}
    assert shown("--option", "Kafka.Client.Id=me") == {"Kafka.Client.Id": "me"}


@pytest.mark.parametrize(("text", "meant_s"), [("90", 90), ("1.5", 1.5), ("15m", 900), ("PT15M", 900), ("500ms", 0.5)])
def test_durations_of_a_job_are_written_as_everywhere(text: str, meant_s: float) -> None:
    stream = STREAM.argument_parser().parse_args([*SOURCE, *SINK, "--trigger", text, "--stop-timeout", text])
    assert (stream.trigger, stream.stop_timeout) == (meant_s, meant_s)
    batch = BATCH.argument_parser().parse_args([*SOURCE, "--output", "o", "--assignment-timeout", text])
    assert batch.assignment_timeout == meant_s


@pytest.mark.parametrize("name", ["ingest_stream", "ingest_batch", "lag_report", "replay"])
def test_a_job_runs_as_a_module_and_as_a_file(name: str) -> None:
    for command in (["-m", f"spark_kcoord.jobs.{name}"], [str(ROOT / "jobs" / f"{name}.py")]):
        run = subprocess.run(
            [sys.executable, *command, "--help"], cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert run.returncode == 0, run.stderr
        assert run.stdout.startswith(f"usage: {name}.py")


def test_a_secret_comes_from_the_environment_or_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PASSWORD", "from env")
    (tmp_path / "jaas").write_text("from file\n")
    options = stream_options(
        "--secret", "kafka.sasl.password=env:PASSWORD", "--secret", f"kafka.sasl.jaas.config=file:{tmp_path / 'jaas'}"
    )
    assert options["kafka.sasl.password"] == "from env"
    assert options["kafka.sasl.jaas.config"] == "from file"


@pytest.mark.parametrize(
    "name",
    [
        "kafka.sasl.password",
        "Kafka.SASL.Password",
        "kafka.sasl.jaas.config",
        "kcoord.sasl.password",
        "kcoord.auth.token",
        "kcoord.ssl.key.password",
    ],
)
def test_a_secret_on_the_command_line_is_refused_without_being_shown(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ValueError, match=f"--secret {name}=env:NAME") as refused:
        stream_options("--option", f"{name}=hunter2")
    assert "hunter2" not in str(refused.value)
    with pytest.raises(SystemExit):
        LAG.main([*SOURCE[:4], "--option", f"{name}=hunter2"])
    said = capsys.readouterr().err
    assert f"--secret {name}=env:NAME" in said
    assert "hunter2" not in said


def test_a_secret_that_is_named_by_its_file_is_no_secret() -> None:
    assert stream_options("--option", "kcoord.auth.token.file=/run/token")["kcoord.auth.token.file"] == "/run/token"


SECURE = ["--option", "KCOORD.security.protocol=SASL_SSL", "--option", f"kcoord.auth.token.file={__file__}"]


class _AskedError(Exception):
    """A job has got as far as to ask a coordinator."""


def test_the_listener_of_a_stream_speaks_to_coordinators_as_its_query_does(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def attach(_spark: object, **said: object) -> None:
        asked.append(said)
        raise _AskedError

    monkeypatch.setattr("spark_kcoord.attach", attach)
    monkeypatch.setattr(STREAM, "names_in", lambda *_: [])
    arguments = STREAM.argument_parser().parse_args([*SOURCE, *SINK, *SECURE, "--option", "kafka.client.id=x"])
    with pytest.raises(_AskedError):
        STREAM.ingest(None, arguments, "name", [])
    assert asked == [{"security": {"kcoord.security.protocol": "SASL_SSL", "kcoord.auth.token.file": __file__}}]


def test_a_lag_report_speaks_to_coordinators_as_it_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[Any] = []

    def group_lag(*_said: object, security: object) -> None:
        asked.append(security)
        raise _AskedError

    monkeypatch.setattr(LAG, "group_lag", group_lag)
    with pytest.raises(_AskedError):
        LAG.main([*SOURCE[:4], *SECURE])
    assert asked == [{"KCOORD.security.protocol": "SASL_SSL", "kcoord.auth.token.file": __file__}]
    with pytest.raises(SystemExit) as ended:
        LAG.main([*SOURCE[:4], "--option", "subscribe=t"])
    assert ended.value.code == 2
    assert "'subscribe' is unknown; known: kcoord.security.protocol" in capsys.readouterr().err


@pytest.mark.parametrize("place", ["hunter2", "env:", "file:", "env:KCOORD_NOT_SET", "file:/nowhere/at/all"])
def test_a_secret_that_is_nowhere_is_refused(place: str) -> None:
    with pytest.raises(ValueError, match=r"--secret kafka\.sasl\.password") as refused:
        stream_options("--secret", f"kafka.sasl.password={place}")
    assert "hunter2" not in str(refused.value)


def test_a_pair_needs_its_form_and_the_complaint_does_not_repeat_it() -> None:
    with pytest.raises(ValueError, match=r"--option needs the form KEY=VALUE") as refused:
        stream_options("--option", "hunter2")
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("name", ["asyncProgressTrackingEnabled", "asyncprogresstrackingcheckpointintervalms"])
def test_asynchronous_progress_tracking_is_refused(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        STREAM.main([*SOURCE, *SINK, "--sink-option", f"{name}=true"])
    assert ended.value.code == 2
    assert "committed too early" in capsys.readouterr().err


@pytest.mark.parametrize(
    "wrong",
    [
        SINK,
        SOURCE,
        [*SOURCE, *SINK, "--trigger", "0"],
        [*SOURCE, *SINK, "--trigger", "inf"],
        [*SOURCE, *SINK, "--max-offsets-per-trigger", "0"],
        [*SOURCE, *SINK, "--trigger", "1", "--available-now"],
        [*SOURCE, *SINK, "--starting-offsets", "newest"],
        ["--coordinator", "nowhere", *SOURCE[2:], *SINK],
    ],
)
def test_wrong_arguments_end_with_code_2(wrong: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        STREAM.main(wrong)
    assert ended.value.code == 2


@pytest.mark.parametrize(
    ("job", "more"), [(STREAM, SINK), (BATCH, SINK[:2]), (BATCH, [*SINK[:2], "--snapshot"]), (REPLAY, SINK[:2])]
)
def test_a_misspelt_option_is_told_the_nearest_one_before_spark_is_started(
    job: ModuleType, more: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    window = ["--from", "2026-03-01"] if job is REPLAY else []
    with pytest.raises(SystemExit) as ended:
        job.main([*SOURCE, *more, *window, "--option", "failOnDataLos=true"])
    assert ended.value.code == 2
    assert "Did you mean 'failOnDataLoss'?" in capsys.readouterr().err


def test_a_lag_report_needs_the_address_of_a_coordinator(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        LAG.main(["--coordinator", "nowhere", "--group", "g"])
    assert ended.value.code == 2
    assert "'nowhere' is not HOST:PORT" in capsys.readouterr().err


@pytest.mark.parametrize("job", [STREAM, BATCH, REPLAY])
def test_help_names_every_argument(job: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        job.main(["--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    source = ("--coordinator", "--group", "--topic", "--option", "--secret")
    for argument in (*source, "--output", "--as-text", "--sink-option"):
        assert argument in shown


@pytest.mark.parametrize(
    ("job", "more"), [(STREAM, SINK), (BATCH, SINK[:2]), (REPLAY, [*SINK[:2], "--from", "2026-03-01"])]
)
def test_an_option_of_the_sink_without_a_value_is_refused_before_spark_is_started(
    job: ModuleType, more: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        job.main([*SOURCE, *more, "--sink-option", "zstd"])
    assert ended.value.code == 2
    assert "--sink-option needs the form KEY=VALUE" in capsys.readouterr().err


def test_a_snapshot_has_a_range_and_needs_no_group() -> None:
    arguments = BATCH.argument_parser().parse_args(
        [
            "--snapshot",
            "--topic",
            "t",
            "--output",
            "/out",
            "--ending-offsets",
            '{"t":{"0":5}}',
            "--option",
            "kafka.bootstrap.servers=h:1",
        ]
    )
    assert BATCH.read_options(arguments) == {
        "subscribe": "t",
        "endingOffsets": '{"t":{"0":5}}',
        "kafka.bootstrap.servers": "h:1",
    }


def progress(batch_id: int, rows: int) -> dict[str, Any]:
    return {"batchId": batch_id, "numInputRows": rows, "batchDuration": 412, "inputRowsPerSecond": 5600.4}


def test_each_micro_batch_with_rows_is_reported_once_and_in_order() -> None:
    reports = [progress(4, 10), progress(6, 30), progress(5, 20), progress(6, 30), progress(7, 0)]
    assert [p["batchId"] for p in STREAM.new_batches(reports, after=4)] == [5, 6]


def test_a_micro_batch_is_one_line() -> None:
    assert STREAM.describe_progress(progress(6, 3400)) == "batch 6: 3,400 rows in 412 ms, 5,600 rows/s in"


class FakeQuery:
    """A query that has work for a while; it notes what is asked of it.

    With a backlog a micro-batch begins whenever one is done, and one is done with each `batch_polls` looks at it.
    """

    def __init__(self, asked: list[int], busy_for: int, batch_polls: int = 10**9) -> None:
        self.asked, self.busy_for, self.batch_polls, self.looks = asked, busy_for, batch_polls, 0
        self.isActive, self.recentProgress, self.calls = True, [progress(0, 7)], list[str]()

    def awaitTermination(self, timeout: float) -> bool:  # noqa: N802 - Spark's name
        self.calls.append(f"wait {timeout}")
        if len(self.calls) == 2:
            self.asked.append(signal.SIGTERM)
        return False

    @property
    def status(self) -> dict[str, bool]:
        self.busy_for -= 1
        return {"isTriggerActive": self.busy_for >= 0}

    @property
    def lastProgress(self) -> dict[str, object]:  # noqa: N802 - Spark's name
        self.looks += 1
        done = self.looks // self.batch_polls
        return {**progress(done, 7), "timestamp": f"2026-03-01T08:00:{done:02}.000Z"}

    def stop(self) -> None:
        self.calls.append("stop")


def test_a_signal_stops_the_query_once_its_micro_batch_is_done() -> None:
    asked: list[int] = []
    query = FakeQuery(asked, busy_for=2)
    STREAM.follow(query, asked, stop_s=60.0)
    assert query.calls == ["wait 1", "wait 1", "wait 0.05", "wait 0.05", "stop"]


def test_a_signal_stops_a_query_with_a_backlog_once_its_micro_batch_is_done() -> None:
    query = FakeQuery([signal.SIGTERM], busy_for=10**9, batch_polls=3)
    STREAM.follow(query, query.asked, stop_s=60.0)
    assert query.calls == ["wait 0.05", "wait 0.05", "stop"]


def test_a_signal_in_the_first_micro_batch_stops_the_query_after_it() -> None:
    class First(FakeQuery):
        @property
        def lastProgress(self) -> dict[str, object] | None:  # noqa: N802 - Spark's name
            found = super().lastProgress
            return None if self.looks < self.batch_polls else found

    query = First([signal.SIGTERM], busy_for=10**9, batch_polls=4)
    STREAM.follow(query, query.asked, stop_s=60.0)
    assert query.calls == ["wait 0.05", "wait 0.05", "wait 0.05", "stop"]


def test_a_micro_batch_that_does_not_end_is_not_waited_for_for_ever() -> None:
    query = FakeQuery([signal.SIGTERM], busy_for=10**9)
    STREAM.follow(query, query.asked, stop_s=0.0)
    assert query.calls == ["stop"]


class FailingQuery(FakeQuery):
    """Fails once it was found to be busy after a signal."""

    def awaitTermination(self, timeout: float) -> bool:  # noqa: N802 - Spark's name
        if not self.isActive:
            raise KcoordError("records are gone")
        return super().awaitTermination(timeout)

    @property
    def status(self) -> dict[str, bool]:
        self.isActive = False
        return {"isTriggerActive": False}


def test_a_query_that_fails_in_the_micro_batch_that_a_signal_waits_for_has_not_ended_as_asked() -> None:
    with pytest.raises(KcoordError, match="records are gone"):
        STREAM.follow(FailingQuery([signal.SIGTERM], busy_for=1), [signal.SIGTERM], stop_s=60.0)


def test_a_commit_that_the_next_start_makes_up_for_is_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    class CoordinatorAway:
        def wait(self, query: object, timeout_s: float) -> None:
            raise KcoordError(f"The coordinator did not answer in {timeout_s:g} s.")

    STREAM.wait_for_commit(CoordinatorAway(), object(), 60.0)
    (said,) = caplog.messages
    assert "will be committed when the query starts again: The coordinator did not answer in 60 s." in said


def test_a_snapshot_is_limited_by_its_end_and_not_by_a_number(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        BATCH.main([*SOURCE, "--output", "/out", "--snapshot", "--max-offsets", "5"])
    assert ended.value.code == 2
    assert "--max-offsets is for a member" in capsys.readouterr().err


def test_a_member_ends_where_it_is_told() -> None:
    given = [*SOURCE, "--output", "/out", "--ending-offsets", '{"a": {"0": 5}, "b": {"0": 5}}', "--max-offsets", "9"]
    options = BATCH.read_options(BATCH.argument_parser().parse_args(given))
    assert (options["endingOffsets"], options["maxOffsetsPerTrigger"]) == ('{"a": {"0": 5}, "b": {"0": 5}}', "9")


def test_a_member_needs_a_coordinator_and_a_group(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        BATCH.main(["--topic", "t", "--output", "/out"])
    assert "--coordinator and --group are needed" in capsys.readouterr().err


def test_a_replay_names_its_window_in_milliseconds() -> None:
    window = ["--from", "2026-03-01T08:00:00", "--until", "2026-03-01T10:00:00+01:00"]
    arguments = REPLAY.argument_parser().parse_args([*SOURCE, "--output", "/out", *window])
    options = REPLAY.read_options(arguments)
    assert (options["startingTimestamp"], options["endingTimestamp"]) == ("1772352000000", "1772355600000")
    assert "startingOffsets" not in options


@pytest.mark.parametrize(
    ("text", "at_ms"),
    [
        ("20260301", 1_772_323_200_000),
        ("2026-03-01", 1_772_323_200_000),
        ("20260301T08", 1_772_352_000_000),
        ("1772352000000", 1_772_352_000_000),
        ("0", 0),
    ],
)
def test_eight_digits_are_a_date_and_other_numbers_are_milliseconds(text: str, at_ms: int) -> None:
    assert REPLAY.milliseconds(text) == at_ms


@pytest.mark.parametrize("text", ["5", "2026", "202603", "1772352000", "20260301080000", "1772352000000000"])
def test_a_number_that_is_no_time_of_these_days_is_told_both_forms(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        REPLAY.argument_parser().parse_args([*SOURCE, "--output", "/out", "--from", text])
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert f"'{text}' is no time of these days" in said
    assert "2026-03-01T08:00:00Z, a date as 2026-03-01 or 20260301, or milliseconds as 1772352000000" in said


def test_a_time_that_cannot_be_read_is_shown_one_that_can(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        REPLAY.main([*SOURCE, "--output", "/out", "--from", "yesterday"])
    assert "'yesterday' is not a time such as 2026-03-01T08:00:00Z" in capsys.readouterr().err


@pytest.mark.parametrize("window", [["--from", "soon"], ["--from", "2026-03-01", "--until", "2026-03-01"], []])
def test_a_replay_without_a_window_ends_with_code_2(window: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        REPLAY.main([*SOURCE, "--output", "/out", *window])
    assert ended.value.code == 2


def test_an_unknown_lag_is_no_sum() -> None:
    known = LAG.PartitionLag("t", 0, 5, 9, None, None)
    assert LAG.total([known, known]) == 8
    assert LAG.total([known, LAG.PartitionLag("t", 1, None, 9, None, None)]) is None


def test_the_lag_on_a_topic_that_the_group_does_not_have_is_not_known(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(LAG, "group_lag", lambda *_, **__: [LAG.PartitionLag("a", 0, 5, 9, None, None)])
    monkeypatch.setattr(LAG, "run_in_spark", lambda *_: pytest.fail("there is nothing to report"))
    assert LAG.main([*SOURCE, "--fail-above", "100"]) == 1
    assert "the lag is not known: group g has no partition of b" in caplog.messages
