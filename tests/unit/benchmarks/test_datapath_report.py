"""The figures of the data path's benchmark: ratios of the same turn, and bars for both kinds of sockets."""

from pathlib import Path

from benchmarks.datapath_report import Results, Run, destination, judge, save, table
from benchmarks.datapath_starts import SessionStarts, Start
from benchmarks.datapath_triggers import Turn

TURN = {"kcoord": [Turn(50.0, {"addBatch": 30.0}, 20)], "peer": [Turn(100.0, {"addBatch": 30.0}, 20)]}


def starts(*, first: float, later: float) -> list[SessionStarts]:
    """Return two sessions, the second twice as slow, of a first query and three later ones."""
    sessions = []
    for slower in (1, 2):
        seconds = [first, later, 0.9 * later, 1.1 * later]
        sessions.append(SessionStarts(tuple(Start(one * slower, 0.1, {"addBatch": 30.0}) for one in seconds)))
    return sessions


def results(
    *, tuned_with_sockets: float = 3.0, floor_with_sockets: float = 1.0, floor_of_start: float = 5.0
) -> Results:
    """Return two turns of one case, the second twice as slow for everybody, in which kcoord takes a second."""
    found = Results(1.0, triggers=TURN, idle_cores={"kcoord": 0.1, "peer": 0.1}, rows_equal=True, crc=True)
    floor = starts(first=floor_of_start, later=1.25)
    found.starts = {"kcoord": starts(first=6.0, later=1.5), "peer": starts(first=3.0, later=1.0), "floor": floor}
    plain = {"kcoord": 1.0, "default": 4.0, "tuned": 2.0, "floor": 0.9, "fallback": 2.0}
    sockets = {"kcoord": 1.0, "tuned": tuned_with_sockets, "floor": floor_with_sockets}
    for runs, sides in ((found.runs, plain), (found.sockets, sockets)):
        for slower in (1, 2):
            for side, seconds in sides.items():
                runs.add("r100 noop", side, Run(seconds * slower, 1.0))
    found.runs.add("r1k count", "kcoord", Run(1.0, 1.0))
    found.runs.add("r1k count", "default", Run(3.0, 1.0))
    found.runs.add("r1k count", "tuned", Run(4.0, 1.0))
    found.sockets.add("r1k count", "kcoord", Run(1.0, 1.0))
    found.sockets.add("r1k count", "tuned", Run(2.0, 1.0))
    return found


def test_figures_are_ratios_within_a_turn_and_the_worst_and_middle_of_all_cases() -> None:
    missed, summary = judge(results())

    assert missed == []
    assert summary == (
        "rows_equal=1 crc=1 min_default=3.00 median_default=3.50 min_tuned=2.00 median_tuned=3.00 floor_ratio=1.11 "
        "trigger_ratio=0.50 fallback_default=2.00 sockets_min_tuned=2.00 sockets_median_tuned=2.50 "
        "sockets_floor_ratio=1.00 first_batch_ratio=1.50 first_batch_over_floor=1.20 first_session_ratio=2.00 "
        "first_session_over_floor=1.20"
    )


def test_bars_of_sockets_are_of_their_own() -> None:
    assert judge(results(tuned_with_sockets=1.8))[0] == ["sockets_min_tuned", "sockets_median_tuned"]
    assert judge(results(floor_with_sockets=0.8))[0] == ["sockets_floor_ratio"]


def test_a_start_has_bars_over_the_floor_alone() -> None:
    assert judge(results(floor_of_start=4.0))[0] == ["first_session_over_floor"]
    shown = table(results())
    assert "| kcoord | 9.00 (6.00-12.00) | 0.10 (0.10-0.10) | 2.25 (1.50-3.00) | 0.10 (0.10-0.10) |" in shown


def test_report_shows_both_kinds_of_sockets(tmp_path: Path) -> None:
    shown = table(results())

    assert "| r100 noop | 1.50 | 6.00 | 3.00 |" in shown
    assert "| 1.50 | 4.50 | 3.00 (3.00-3.00) |" in shown
    assert "r100 noop: floor with sockets" in shown
    save(results(), tmp_path)
    assert '"sockets"' in (tmp_path / "datapath.json").read_text()


def test_results_of_a_trial_leave_the_project_as_it_is(tmp_path: Path) -> None:
    page = tmp_path / "benchmarks" / "RESULTS.md"
    page.parent.mkdir()
    page.write_text("# Results\n")

    save(results(), destination(tmp_path, is_kept=False))

    assert page.read_text() == "# Results\n"
    assert [path.name for path in page.parent.iterdir()] == ["RESULTS.md"]
    assert (tmp_path / "build" / "benchmarks" / "datapath.json").exists()


def test_kept_results_have_their_section_in_the_page(tmp_path: Path) -> None:
    page = tmp_path / "benchmarks" / "RESULTS.md"
    page.parent.mkdir()
    page.write_text("# Results\n")

    save(results(), destination(tmp_path, is_kept=True))

    assert "## Data path: `make bench-datapath`" in page.read_text()
    assert (page.parent / "datapath.json").exists()
