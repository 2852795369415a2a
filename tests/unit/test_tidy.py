"""`make tidy` holds what it says: each rule finds what is planted against it, and each exception is needed."""

import importlib.util
import re
import time
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


def load_tidy() -> ModuleType:
    """Return the script as a module; `scripts` is no package."""
    spec = importlib.util.spec_from_file_location("tidy", ROOT / "scripts" / "tidy.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


tidy = load_tidy()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a project in which all is well."""
    write(tmp_path, "coordinator/core/node.py", '"""The order of a step."""\n\nLIMIT = 3\n"""The most of it."""\n')
    write(tmp_path, "docs/PAGE.md", "A member takes the path that it knows.\n")
    return tmp_path


def write(project: Path, name: str, text: str) -> None:
    path = project / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def wrong(project: Path, excuses: Sequence[object] = ()) -> list[str]:
    """Return the complaints about a project."""
    complaints: list[str] = tidy.judge(list(tidy.findings(project)), excuses)
    return complaints


def test_the_project_is_tidy_in_little_time(capsys: pytest.CaptureFixture[str]) -> None:
    started_s = time.process_time()
    code = tidy.main()
    said = capsys.readouterr().out
    assert code == 0, said
    assert re.fullmatch(r"tidy: OK files=\d{3,} exceptions=\d+\n", said)
    assert time.process_time() - started_s < 15, "it is part of every run of the checks"


def test_a_project_in_which_all_is_well_has_no_complaint(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tidy.main(project, ()) == 0
    assert capsys.readouterr().out == "tidy: OK files=2 exceptions=0\n"


LONG = '"""One subject."""\n' + "x = 1\n" * 500
PLANTED = {
    "a file of 501 lines": ("coordinator/core/large.py", LONG, "coordinator/core/large.py: 501 lines, more than 500"),
    "an empty name": ("spark_kcoord/utils.py", '"""All sorts."""\n', "spark_kcoord/utils.py: 'utils' says nothing"),
    "a module about what": (
        "spark_kcoord/member/a.py",
        '"""What a member is."""\n',
        "spark_kcoord/member/a.py:1: a docstring begins with 'What'",
    ),
    "a method about who": (
        "benchmarks/a.py",
        '"""A load."""\n\n\nclass A:\n    """A load."""\n\n    def f(self):\n        """Who asks."""\n',
        "benchmarks/a.py:8: a docstring begins with 'Who'",
    ),
    "a constant about how": (
        "jobs/a.py",
        '"""A job."""\n\nA = 1\n"""How long it waits."""\n',
        "jobs/a.py:4: a docstring begins with 'How'",
    ),
    "a helper about whether": (
        "tests/helpers/a.py",
        '"""Whether it is."""\n',
        "tests/helpers/a.py:1: a docstring begins with 'Whether'",
    ),
    "a word in a comment": (
        "coordinator/a.py",
        '"""A part."""\n# another road\n',
        "coordinator/a.py:2: 'road' is not our word; take path",
    ),
    "a word in a name": (
        "coordinator/a.py",
        '"""A part."""\n\nfast_road = 1\n',
        "coordinator/a.py:3: 'road' is not our word",
    ),
    "a word in a setting": ("conf/a.toml", "KCOORD_FETCH_ROAD = 1\n", "conf/a.toml:1: 'road' is not our word"),
    "several of a word in a page": ("docs/A.md", "One\nTwo Roads\n", "docs/A.md:2: 'road' is not our word"),
    "a word in README": ("README.md", "a road\n", "README.md:1: 'road' is not our word"),
}


@pytest.mark.parametrize("name", PLANTED)
def test_what_is_planted_against_a_rule_is_found(project: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    path, text, complaint = PLANTED[name]
    write(project, path, text)
    (found,) = wrong(project)
    assert found.startswith(complaint)
    assert tidy.main(project, ()) == 1
    assert capsys.readouterr().out.endswith("exceptions=0 wrong=1\n")


def test_a_folder_of_too_many_files_is_found_and_a_full_one_is_not(project: Path) -> None:
    for number in range(12):
        write(project, f"coordinator/local/a{number}.py", '"""A part."""\n')
    write(project, "coordinator/local/__init__.py", '"""The room."""\n')
    assert wrong(project) == []
    write(project, "coordinator/local/b.py", '"""A part."""\n')
    (found,) = wrong(project)
    assert found.startswith("coordinator/local: 13 files, more than 12")


@pytest.mark.parametrize(
    "text",
    [
        '"""A file of 500 lines."""\n' + "x = 1\n" * 499,
        '"""However it goes, and whatever what means: the first word counts."""\n',
        '"""A part."""\n\nWHAT = "What is it?"\nprint("How")\n',
        '"""A part of the broadcast of roadmaps."""\n',
    ],
    ids=["a full file", "other first words", "texts that are no docstrings", "words within words"],
)
def test_what_only_looks_like_it_passes(project: Path, text: str) -> None:
    write(project, "coordinator/a.py", text)
    assert wrong(project) == []


def test_an_exception_excuses_a_file_up_to_its_bound(project: Path) -> None:
    write(project, "coordinator/core/large.py", LONG)
    assert wrong(project, [tidy.Excuse("size", "coordinator/core/large.py", "one subject", 501)]) == []
    (found,) = wrong(project, [tidy.Excuse("size", "coordinator/core/large.py", "one subject", 500)])
    assert found.endswith("its exception allows 500")


def test_an_exception_of_one_rule_or_place_excuses_no_other(project: Path) -> None:
    write(project, "coordinator/core/large.py", LONG.replace("One", "What one"))
    assert len(wrong(project, [tidy.Excuse("size", "coordinator/core/large.py", "one subject")])) == 1
    assert len(wrong(project, [tidy.Excuse("size", "coordinator/core/large", "one subject")])) == 3


def test_an_exception_for_a_folder_excuses_what_is_in_it(project: Path) -> None:
    write(project, "coordinator/core/groups/a.py", '"""What it is."""\n')
    write(project, "coordinator/core/b.py", '"""What it is."""\n')
    (found,) = wrong(project, [tidy.Excuse("docstring", "coordinator/core/groups", "is being divided", 1)])
    assert found.startswith("coordinator/core/b.py:1")
    write(project, "coordinator/core/groups/c.py", '"""What it is."""\n')
    found = wrong(project, [tidy.Excuse("docstring", "coordinator/core/groups", "is being divided", 1)])
    assert [one.partition(":")[0] for one in found] == ["coordinator/core/b.py", "coordinator/core/groups/c.py"]
    assert found[1].endswith("its exception allows 1")


def test_an_exception_that_is_not_needed_is_a_complaint(project: Path) -> None:
    (found,) = wrong(project, [tidy.Excuse("size", "coordinator/core/node.py", "was long once", 600)])
    assert found.startswith("coordinator/core/node.py: the exception from 'size' is not needed any more")


def test_every_exception_has_a_reason_and_one_place(project: Path) -> None:
    places = [(one.rule, one.path) for one in tidy.EXCEPTIONS]
    assert len(set(places)) == len(places)
    for one in tidy.EXCEPTIONS:
        assert len(one.why.split()) > 4, f"{one.path}: say why"
        assert (ROOT / one.path).exists()
