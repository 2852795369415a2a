"""The tests are shared out so that what is costly to start starts once, and what takes long starts early."""

from pathlib import Path

from tests.parallel import LONGEST_FIRST, share_of

ROOT = Path(__file__).parents[2]


def test_all_that_use_the_spark_session_are_one_share() -> None:
    files = sorted((ROOT / "tests" / "spark").glob("test_*.py"))
    assert len({share_of(f"{path.relative_to(ROOT).as_posix()}::test_it[a::b]") for path in files}) == 1


def test_any_other_file_is_a_share_of_its_own() -> None:
    assert share_of("tests/sim/test_world.py::test_it[a::b]") == "tests/sim/test_world.py"


def test_the_folders_that_come_first_are_there() -> None:
    assert [folder for folder in LONGEST_FIRST if not (ROOT / folder).is_dir()] == []
