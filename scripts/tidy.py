"""Holds the size of files and folders, first words of docstrings, words and names: `tidy: OK files=N exceptions=N`.

The rules are those of CONTRIBUTING that a program can read. What a rule does not fit stands in `EXCEPTIONS`, each with
its reason; an exception that nothing needs any more fails too, so that the list only shrinks.
"""

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]

PRODUCT: Final = ("coordinator", "spark_kcoord")
"""Folders whose files and folders are held small."""

DESCRIBED: Final = (*PRODUCT, "jobs", "benchmarks", "scripts", "tests/helpers")
"""Folders whose docstrings are read."""

SPOKEN: Final = (*DESCRIBED, "docs", "conf", "deploy", "tests")
"""Folders whose words are read."""

MOST_LINES: Final = 500
MOST_FILES: Final = 12
"""Python files of one folder, besides its `__init__.py`."""

NO_SUBJECT: Final = frozenset(
    {"what", "whatever", "how", "who", "whoever", "whom", "whose", "which", "whichever", "where", "when", "whether"}
)
"""First words of a relative clause: a docstring names the thing itself."""

WORDS: Final = {
    "road": "path, or the receive path of bytes",
    "packet": "message, or frame",
    "etag": "zk_version",
    "purgatory": "parking",
}
"""Words that are not ours, each with the one to take."""

_WORD: Final = re.compile(rf"(?<![a-z])({'|'.join(WORDS)})s?(?![a-z])", re.IGNORECASE)

EMPTY_NAMES: Final = frozenset({"util", "utils", "common", "manager", "helper", "helpers", "misc", "base"})
"""Names of files that say nothing of what is in them."""

_TEXT: Final = frozenset({".py", ".md", ".toml", ".sh", ".yaml", ".yml"})
_SKIPPED: Final = frozenset({"__pycache__", ".venv", "node_modules"})


@dataclass(frozen=True, slots=True)
class Excuse:
    """An exception: the rule, a file or a folder (with all in it, for a rule about files), the bound, and why."""

    rule: str
    path: str
    why: str
    at_most: int | None = None
    """The lines or files that it may have, of another rule the places; None for any number."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A place where a rule does not hold."""

    rule: str
    path: str
    text: str
    count: int | None = None


EXCEPTIONS: Final[tuple[Excuse, ...]] = ()


def findings(root: Path) -> Iterator[Finding]:
    """Yield every place where a rule does not hold, excused or not."""
    for path in _files(root, PRODUCT, {".py"}):
        yield from _size(root, path)
    for folder in sorted({path.parent for path in _files(root, PRODUCT, {".py"})}):
        yield from _folder(root, folder)
    for path in _files(root, DESCRIBED, {".py"}):
        yield from _docstrings(root, path)
    for path in [*_files(root, SPOKEN, _TEXT), *sorted(root.glob("*.md"))]:
        yield from _words(root, path)


def judge(found: Sequence[Finding], excuses: Sequence[Excuse], listed_in: str = "scripts/tidy.py") -> list[str]:
    """Return what is wrong, a line each: findings without an excuse, and excuses without a finding."""
    wrong: list[str] = []
    needed: Counter[Excuse] = Counter()
    for finding in found:
        excuse = next((one for one in excuses if _covers(one, finding)), None)
        if excuse is None:
            wrong.append(f"{finding.path}: {finding.text}")
            continue
        needed[excuse] += 1
        count = needed[excuse] if finding.count is None else finding.count
        if excuse.at_most is not None and count > excuse.at_most:
            wrong.append(f"{finding.path}: {finding.text}; its exception allows {excuse.at_most}")
    wrong += [
        f"{one.path}: the exception from '{one.rule}' is not needed any more; take it off the list in {listed_in}"
        for one in excuses
        if one not in needed
    ]
    return wrong


def main(root: Path = ROOT, excuses: Sequence[Excuse] = EXCEPTIONS) -> int:
    """Print what is wrong and one line of result; return the exit code."""
    wrong = judge(list(findings(root)), excuses)
    files = len(set(_files(root, SPOKEN, _TEXT)))
    for line in wrong:
        print(line)
    if wrong:
        print(f"tidy: FAILED files={files} exceptions={len(excuses)} wrong={len(wrong)}")
        return 1
    print(f"tidy: OK files={files} exceptions={len(excuses)}")
    return 0


def _covers(excuse: Excuse, finding: Finding) -> bool:
    if excuse.rule != finding.rule:
        return False
    place = finding.path.partition(":")[0]
    if excuse.rule == "folder":
        return place == excuse.path
    return place == excuse.path or place.startswith(f"{excuse.path}/")


def _files(root: Path, folders: Sequence[str], endings: Sequence[str] | set[str] | frozenset[str]) -> list[Path]:
    found = {path for folder in folders for path in (root / folder).rglob("*") if path.suffix in endings}
    return sorted(path for path in found if path.is_file() and _SKIPPED.isdisjoint(path.relative_to(root).parts))


def _name(root: Path, path: Path) -> str:
    return path.relative_to(root).as_posix()


def _size(root: Path, path: Path) -> Iterator[Finding]:
    name = _name(root, path)
    lines = path.read_text().count("\n")
    if lines > MOST_LINES:
        yield Finding("size", name, f"{lines} lines, more than {MOST_LINES}; divide it by subjects", lines)
    if path.stem in EMPTY_NAMES:
        yield Finding("name", name, f"'{path.stem}' says nothing of what is in it; name the file by its subject")


def _folder(root: Path, folder: Path) -> Iterator[Finding]:
    count = sum(path.name != "__init__.py" for path in folder.glob("*.py"))
    if count > MOST_FILES:
        text = f"{count} files, more than {MOST_FILES}; divide the folder by subjects"
        yield Finding("folder", _name(root, folder), text, count)


def _docstrings(root: Path, path: Path) -> Iterator[Finding]:
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Expr(value=ast.Constant(value=str(said)), lineno=line):
                first = re.match(r"\W*([A-Za-z]+)", said)
                if first is not None and first[1].lower() in NO_SUBJECT:
                    text = f"a docstring begins with '{first[1]}'; name the thing itself"
                    yield Finding("docstring", f"{_name(root, path)}:{line}", text)
            case _:
                pass


def _words(root: Path, path: Path) -> Iterator[Finding]:
    if path.name in ("tidy.py", "test_tidy.py"):  # they name the words
        return
    for number, line in enumerate(path.read_text().splitlines(), 1):
        for found in _WORD.finditer(line):
            word = found[1].lower()
            yield Finding("word", f"{_name(root, path)}:{number}", f"'{word}' is not our word; take {WORDS[word]}")


if __name__ == "__main__":
    sys.exit(main())
