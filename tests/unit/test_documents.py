"""The pages hold what they say: links lead somewhere, files that are named are there, and lists of files are whole."""

import re
from pathlib import Path

import pytest

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.vocabulary import EventKind
from spark_kcoord.options.table import OPTIONS

ROOT = Path(__file__).parents[2]
PAGES = [
    *[ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "tests/README.md")],
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "decisions").glob("*.md")),
]
AS_OF_TODAY = [page for page in PAGES if page.name != "CHANGELOG.md"]
"""A changelog may name what has gone since."""
FOLDERS = ("coordinator/", "spark_kcoord/", "tests/", "docs/", "conf/", "jobs/", "scripts/", "benchmarks/")


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def without_blocks(page: Path) -> str:
    return re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)


def anchors_of(page: Path) -> set[str]:
    """Return the anchors of a page's headings as they are made for its web page."""
    headings = re.findall(r"^#+ (.+)$", without_blocks(page), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    dead = []
    for target in re.findall(r"\]\(([^)\s]+)\)", without_blocks(page)):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        leads_to = (page.parent / file).resolve() if file else page
        if not leads_to.exists() or (anchor and anchor not in anchors_of(leads_to)):
            dead.append(target)
    assert dead == []


@pytest.mark.parametrize("page", AS_OF_TODAY, ids=name_of)
def test_files_that_are_named_are_there(page: Path) -> None:
    base = page.parent if page.parent.name == "tests" else ROOT
    gone = []
    for words in re.findall(r"`([^`\n]+)`", without_blocks(page)):
        for word in words.split():
            is_path = re.fullmatch(r"[\w./*-]+", word) and (word.startswith(FOLDERS) or word.startswith("helpers/"))
            if is_path and not list((base if word.startswith("helpers/") else ROOT).glob(word.rstrip("/"))):
                gone.append(word)
    assert gone == []


def test_every_decision_is_in_the_index_with_its_title_and_its_own_number() -> None:
    folder = ROOT / "docs" / "decisions"
    index = (folder / "README.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| \[(\d{4})\]\(([^)]+)\) \| (.+) \|$", index, flags=re.MULTILINE)
    there = []
    for file in sorted(folder.glob("0*.md")):
        first = file.read_text(encoding="utf-8").splitlines()[0]
        title = re.fullmatch(r"# (\d{4}):? (.+)", first)
        assert title is not None, f"{file.name} begins with {first!r} instead of its number and what was decided"
        there.append((title[1], file.name, title[2]))
    assert listed == there
    assert [number for number, _, _ in there] == [f"{one:04}" for one in range(1, len(there) + 1)]


def test_every_page_is_reached_from_the_readme() -> None:
    reached, to_read = set(), [ROOT / "README.md"]
    while to_read:
        page = to_read.pop()
        if page in reached:
            continue
        reached.add(page)
        targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8"))
        to_read += [found for target in targets if (found := (page.parent / target).resolve()).suffix == ".md"]
    assert [name_of(page) for page in PAGES if page not in reached] == []


def rows_of_places() -> list[tuple[str, str, str]]:
    """Return the rows of PLACES: what is looked for, the file it begins in, and what is touched besides."""
    page = (ROOT / "docs" / "PLACES.md").read_text(encoding="utf-8")
    rows = [line.strip("|").split(" | ") for line in page.splitlines() if line.startswith("| ")]
    assert all(len(row) == 3 for row in rows), [row for row in rows if len(row) != 3]
    return [(row[0].strip(), row[1].strip(), row[2].strip()) for row in rows if row[0].strip() != "looked for"]


def files_of(row: tuple[str, str, str]) -> list[Path]:
    """Return the files that a row of PLACES names: the one it begins in, and those that are touched besides."""
    first = ROOT / row[1].strip("`")
    words = re.findall(r"`([^`\s]+\.\w+)`", row[2])
    named = [path for word in words for path in (ROOT / word, first.parent / word) if path.is_file()]
    return [first, *named]


def test_every_place_is_one_file_that_is_there_and_is_looked_for_once() -> None:
    rows = rows_of_places()
    not_one_file = [row for row in rows if not (row[1].count("`") == 2 and (ROOT / row[1].strip("`")).is_file())]
    assert not_one_file == []
    names = [looked_for for looked_for, _, _ in rows]
    assert len(names) == len(set(names)) > 150


def test_what_else_a_place_names_is_there() -> None:
    gone = []
    for looked_for, begins_in, also in rows_of_places():
        beside = (ROOT / begins_in.strip("`")).parent
        for word in re.findall(r"`([^`\s]+)`", also):
            is_path = "/" in word or word.endswith((".py", ".pyx", ".md", ".toml"))
            if is_path and not ((ROOT / word).exists() or (beside / word).is_file()):
                gone.append((looked_for, word))
    assert gone == []


def test_every_kind_of_event_is_looked_for_where_it_is_noted() -> None:
    lost = []
    for kind in EventKind:
        places = [row for row in rows_of_places() if f"`{kind}`" in f"{row[0]} {row[2]}"]
        files = [file for row in places for file in files_of(row)]
        if not any(f"EventKind.{kind.name}" in file.read_text(encoding="utf-8") for file in files):
            lost.append(str(kind))
    assert lost == []


def test_every_target_of_make_has_a_place() -> None:
    targets = re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    page = (ROOT / "docs" / "PLACES.md").read_text(encoding="utf-8")
    assert len(targets) > 20
    assert [target for target in targets if f"`make {target}`" not in page] == []


def test_every_option_and_every_error_code_is_looked_for_somewhere() -> None:
    page = (ROOT / "docs" / "PLACES.md").read_text(encoding="utf-8")
    options = [option.name for option in OPTIONS]
    codes = [code.name for code in ErrorCode if code is not ErrorCode.NONE]
    assert len(options) > 30
    assert [
        name for name in [*options, *codes] if re.search(rf"(?<![\w.]){re.escape(name)}(?![\w.])", page) is None
    ] == []


def test_every_folder_of_the_product_has_a_place() -> None:
    named = {
        (ROOT / word).parent
        for row in rows_of_places()
        for cell in row[1:]
        for word in re.findall(r"`([^`\s]+\.\w+)`", cell)
    }
    packages = [file.parent for name in ("coordinator", "spark_kcoord") for file in (ROOT / name).rglob("__init__.py")]
    assert len(packages) > 50
    assert [name_of(package) for package in packages if package not in named] == []


def test_glossary_is_in_order_and_says_each_word_once() -> None:
    page = (ROOT / "docs" / "GLOSSARY.md").read_text(encoding="utf-8")
    words = re.findall(r"^\| ([^|]+) \| [^|]+ \|$", page, flags=re.MULTILINE)[1:]
    assert len(words) == len(set(words)) > 40
    heads = [word.split(",")[0] for word in words]
    assert heads == sorted(heads)


def test_the_worked_example_of_reconciliation_is_the_beginning_of_its_scenario() -> None:
    page = (ROOT / "docs" / "RECONCILIATION.md").read_text(encoding="utf-8")
    shown = "".join(re.findall(r"```\n(.*?)```", page, flags=re.DOTALL))
    scenario = (ROOT / "tests" / "scenarios" / "hand_over.txt").read_text(encoding="utf-8")
    happened = "".join(line for line in scenario.splitlines(keepends=True) if not line.startswith("#"))
    start = "topic t 2\n    (nothing)\n"
    assert happened.startswith(start + shown), "both begin with the first join"
    assert "finish m1" in shown


@pytest.mark.parametrize("name", ["EXTENDING.md", "RECONCILIATION.md", "GLOSSARY.md"])
def test_names_of_the_code_are_in_the_code(name: str) -> None:
    folders = ("coordinator", "spark_kcoord", "tests")
    sources = [path.read_text(encoding="utf-8") for folder in folders for path in (ROOT / folder).rglob("*.py")]
    words = {word for source in sources for word in re.findall(r"\w+", source)}
    said = re.findall(r"`([A-Za-z_][\w.]*)(?:\([^`]*\))?`", without_blocks(ROOT / "docs" / name))
    assert said
    assert [one for one in said if one not in folders and one.rpartition(".")[2] not in words] == []


def test_every_folder_of_tests_is_told_in_their_readme() -> None:
    page = (ROOT / "tests" / "README.md").read_text(encoding="utf-8")
    folders = [path.name for path in (ROOT / "tests").iterdir() if path.is_dir() and path.name != "__pycache__"]
    assert [name for name in sorted(folders) if f"`{name}`" not in page and f"`{name}/" not in page] == []
