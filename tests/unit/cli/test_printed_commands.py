"""The commands that pages print: each is one that the command line, or a job, takes as it stands."""

import importlib
import re
import shlex
from pathlib import Path

import pytest
from typer.main import get_command

from coordinator.cli import app

ROOT = Path(__file__).parents[3]
PAGES = (
    "README.md",
    "docs/SPARK.md",
    "docs/OPERATIONS.md",
    "docs/MIGRATION.md",
    "docs/RECONCILIATION.md",
    "docs/ARCHITECTURE.md",
)
PLACES = {"HOST:9092": "127.0.0.1:9092", "H:P": "127.0.0.1:9292", "TIME": "2026-03-01T08:00:00Z", "…": ""}


def lines_of(page: str, pattern: str) -> list[str]:
    """Return the lines of a page's blocks that begin with a word, without comments and with places filled in."""
    text = (ROOT / page).read_text(encoding="utf-8").replace("\\\n", " ")
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)
    found = [line for kind, block in blocks if not kind for line in block.splitlines() if re.match(pattern, line)]
    for place, real in PLACES.items():
        found = [re.sub(rf"(?<!\w){re.escape(place)}(?!\w)", real, line) for line in found]
    return [re.sub(r"\s#.*", "", line) for line in found]


COMMANDS = [line for page in PAGES for line in lines_of(page, "kcoord ")]
JOBS = [line for page in PAGES for line in lines_of(page, r"python -m spark_kcoord\.jobs\.")]


@pytest.mark.parametrize("line", COMMANDS)
def test_printed_command_is_understood(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KCOORD_COORDINATOR", "127.0.0.1:9292")
    command, words, parent = get_command(app), shlex.split(line)[1:], None
    if words == ["--version"]:
        return
    while hasattr(command, "commands"):
        name, *words = words
        assert name in command.commands, f"there is no verb {name}"
        parent = command.context_class(command, parent=parent, info_name=name)
        command = command.commands[name]
    command.make_context(command.name, words, parent=parent)


@pytest.mark.parametrize("line", JOBS)
def test_printed_job_takes_its_arguments(line: str) -> None:
    _, _, module, *words = shlex.split(line)
    importlib.import_module(module).argument_parser().parse_args(words)


def test_pages_print_commands_and_every_job() -> None:
    assert len(COMMANDS) > 10
    jobs = {path.stem for path in (ROOT / "jobs").glob("*.py")}
    assert {shlex.split(line)[2].rpartition(".")[2] for line in JOBS} == jobs
