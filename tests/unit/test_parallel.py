"""The tests are shared out so that what is costly to start starts once, and what takes long starts early."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.parallel import LONGEST_FIRST, pytest_collection_modifyitems, pytest_configure, share_of

ROOT = Path(__file__).parents[2]


def test_all_that_use_the_spark_session_are_one_share() -> None:
    files = sorted((ROOT / "tests" / "spark").glob("test_*.py"))
    assert len({share_of(f"{path.relative_to(ROOT).as_posix()}::test_it[a::b]") for path in files}) == 1


def test_any_other_file_is_a_share_of_its_own() -> None:
    assert share_of("tests/sim/test_world.py::test_it[a::b]") == "tests/sim/test_world.py"


def test_the_folders_that_come_first_are_there() -> None:
    assert [folder for folder in LONGEST_FIRST if not (ROOT / folder).is_dir()] == []


def config_of(process: str, arguments: list[str]) -> Any:
    """Return the part of pytest's configuration that says which process this is, and what it collects."""
    return SimpleNamespace(
        workerinput={"workerid": process}, args=arguments, rootpath=ROOT, getini={"testpaths": ["tests"]}.get
    )


def test_two_processes_collect_the_same_files_from_both_ends() -> None:
    first, second = config_of("gw0", ["tests"]), config_of("gw1", ["tests"])
    pytest_configure(first)
    pytest_configure(second)
    assert first.args == ["tests"]
    found = [*(ROOT / "tests").rglob("test_*.py"), *(ROOT / "tests").rglob("*_test.py")]
    assert second.args == [str(path) for path in sorted(found, reverse=True)]


def test_what_is_asked_for_is_collected_by_every_process_as_it_is() -> None:
    second = config_of("gw1", ["tests/unit/test_parallel.py"])
    pytest_configure(second)
    assert second.args == ["tests/unit/test_parallel.py"]


def test_items_have_one_order_whatever_was_collected_first() -> None:
    names = ("tests/unit/test_b.py::test_2", "tests/unit/test_b.py::test_1", "tests/spark/test_z.py::test_it")
    items: list[Any] = [SimpleNamespace(nodeid=name, path=ROOT / name.split("::")[0]) for name in names]
    orders = []
    for collected in (items, [items[2], *items[:2]]):
        pytest_collection_modifyitems(collected)
        orders.append([item.nodeid for item in collected])
    assert orders == [[names[2], names[0], names[1]]] * 2
