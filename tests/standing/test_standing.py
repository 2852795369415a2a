"""The frame that runs cases: what it counts as which kind, how waits are judged, and what its last line says."""

import threading
from pathlib import Path
from typing import cast

import pytest

from coordinator.local.kafka.broker import LocalKafka
from tests.standing.__main__ import all_cases, run
from tests.standing.case import BrokenError, Case, must
from tests.standing.trial import Trial
from tests.standing.waits import judge, p99_ms

NO_KAFKA = cast(LocalKafka, None)


def holds(trial: Trial) -> None:
    pass


def breaks(kind: str) -> Case:
    def run_it(trial: Trial) -> None:
        raise BrokenError(kind, "it is so")  # type: ignore[arg-type]  # one of the kinds

    return Case(kind, "it does not hold", run_it)


def fails(trial: Trial) -> None:
    raise RuntimeError("nobody drew that")


def told(capsys: pytest.CaptureFixture[str], tmp_path: Path, *cases: Case) -> tuple[int, str]:
    code = run(cases, tmp_path, NO_KAFKA, "127.0.0.1:1")
    return code, capsys.readouterr().out.splitlines()[-1].rsplit(" ", 1)[0]


def test_cases_that_end_have_held(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert told(capsys, tmp_path, Case("one", "it holds", holds)) == (
        0,
        "standing: OK cases=1 stopped=0 lost=0 slow=0 wrong=0",
    )


def test_what_broke_is_told_by_its_kind(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    released = threading.Event()
    waits = Case("waits", "it ends", lambda _: cast(None, released.wait(60)), timeout_s=0.05)
    cases = (breaks("stopped"), breaks("lost"), breaks("slow"), waits, Case("fails", "it does not", fails))
    try:
        assert told(capsys, tmp_path, *cases) == (1, "standing: FAILED cases=5 stopped=1 lost=1 slow=1 wrong=2")
    finally:
        released.set()


def test_no_case_at_all_is_a_failure(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert told(capsys, tmp_path) == (1, "standing: FAILED cases=0 stopped=0 lost=0 slow=0 wrong=0")


def test_a_node_that_ends_by_itself_is_told_as_stopped_whatever_came_of_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    class AsIfKafka:
        bootstrap_servers = "127.0.0.1:1"

    def ends(trial: Trial) -> None:
        trial.start()
        trial.node.kill()
        must(False, "and so nobody is answered")

    code = run([Case("ends", "it goes on", ends)], tmp_path, cast(LocalKafka, AsIfKafka()), "127.0.0.1:1")
    assert code == 1
    assert "STOPPED ends" in capsys.readouterr().out


def test_a_long_wait_counts_as_often_as_would_have_been_asked_meanwhile() -> None:
    quick = [(number * 0.02, 0.001) for number in range(1_000)]
    assert p99_ms(quick) == 1.0
    assert p99_ms([*quick, (20.0, 0.25)]) < 100.0, "a quarter of a second in twenty is less than one in a hundred"
    assert p99_ms([*quick, (20.0, 2.0)]) > 100.0
    assert p99_ms([]) == 0.0


def test_waits_are_judged_against_the_bar_and_the_echo_outside_of_what_is_set_apart() -> None:
    pings = [(number * 0.02, 0.001) for number in range(1_000)] + [(20.0, 2.0)]
    echoes = [(number * 0.02, 0.0005) for number in range(1_000)]
    assert judge(pings, echoes, []).is_slow
    assert not judge(pings, echoes, [(19.99, 22.0)]).is_slow
    assert not judge(pings, [*echoes, (20.0, 2.0)], []).is_slow
    assert "judged against the echo" in str(judge(pings, [*echoes, (20.0, 2.0)], []))


def test_names_of_cases_are_all_different_and_can_be_folders() -> None:
    names = [case.name for case in all_cases()]
    assert sorted(names) == sorted(set(names))
    assert all(name.replace("-", "").isalnum() for name in names)
