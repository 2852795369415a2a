"""Wild names on their way out: no output obeys them, and programs read them back as they are."""

import contextlib
import csv
import io
import json
import re
import unicodedata
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as some

from coordinator import cli
from coordinator.cli.parts.exits import notes
from coordinator.cli.parts.tables import OutputFormat, View, write_rows, write_views
from coordinator.protocol.text.escaping import csv_cell, json_document, lines, one_line
from coordinator.runtime.process.logs import make_log

WILD = some.text(
    some.one_of(
        some.characters(exclude_categories=["Cs"]),
        some.sampled_from("\n\r\t\x1b\x07\x7f\x85\x9b\u2028\u2029\u202e\u2066\u200b\ufeff\U000e0001=+-@'\",\\"),
    ),
    max_size=20,
)
NASTY = "\x1b]0;title\x07\x9b31m\u202eevil\nerror: done\r\x85\u2028=cmd|'/c calc'!A1"


def is_harmless(text: str) -> bool:
    return all(letter == "\n" or unicodedata.category(letter)[0] not in "CZ" or letter == " " for letter in text)


@example(NASTY)
@given(WILD)
def test_a_line_is_one_line_of_what_can_be_printed(text):
    shown = one_line(text)
    assert is_harmless(shown)
    assert "\n" not in shown
    if text.isprintable():
        assert shown == text


@example(NASTY)
@given(WILD)
def test_lines_stay_lines(text):
    shown = lines(text)
    assert is_harmless(shown)
    assert shown.count("\n") == text.count("\n")


@example(NASTY)
@given(WILD)
def test_a_cell_of_a_csv_is_no_formula(text):
    assert not csv_cell(text).startswith(("=", "+", "-", "@", "\t", "\r", "\n"))


@example(NASTY)
@given(some.recursive(WILD, lambda inner: some.lists(inner) | some.dictionaries(WILD, inner), max_leaves=5))
def test_a_json_document_means_the_same(value):
    for indent in (None, 2):
        document = json_document(json.dumps(value, ensure_ascii=False, indent=indent))
        assert is_harmless(document)
        assert json.loads(document) == value


@example("=1+1", NASTY)
@given(WILD, WILD)
@pytest.mark.parametrize("output", list(OutputFormat))
def test_rows_of_wild_names_are_as_many_lines_and_read_back(output, name, other):
    with contextlib.redirect_stdout(io.StringIO()) as written:
        write_rows(output, ("GROUP", "#PARTITIONS", "HOST"), [(name, -1, other), (other, None, name)])
    said = written.getvalue()
    assert is_harmless(said)
    match output:
        case OutputFormat.TABLE:
            assert len(said.splitlines()) == 3
        case OutputFormat.CSV:
            expected = [[csv_cell(name), "-1", csv_cell(other)], [csv_cell(other), "", csv_cell(name)]]
            assert list(csv.reader(said.splitlines()))[1:] == expected
        case OutputFormat.JSON:
            assert [row["group"] for row in json.loads(said)] == [name, other]


@example(NASTY)
@given(WILD)
def test_documents_of_wild_names_read_back(name):
    with contextlib.redirect_stdout(io.StringIO()) as written:
        write_views(OutputFormat.JSON, [View((), (), lambda: {"group": name, name: [name]})], is_one=True)
    assert is_harmless(written.getvalue())
    assert json.loads(written.getvalue()) == {"group": name, name: [name]}


@example(NASTY)
@given(WILD)
def test_a_note_is_one_line(name):
    with contextlib.redirect_stderr(io.StringIO()) as written:
        notes.print(f"Consumer group '{name}' has no active members.")
    assert is_harmless(written.getvalue())
    assert written.getvalue() == f"Consumer group '{one_line(name)}' has no active members.\n"


@example("console", NASTY)
@example("json", NASTY)
@given(some.sampled_from(["json", "console"]), WILD)
def test_a_line_of_the_nodes_log_is_one_line(form, name):
    with contextlib.redirect_stderr(io.StringIO()) as written:
        make_log(form, "info").info("group-paused", why=f"by {name}", group=name, partitions=[name], odd={name: name})
    assert is_harmless(written.getvalue())
    assert len(written.getvalue().splitlines()) == 1
    if form == "json":
        assert json.loads(written.getvalue())["group"] == name


def test_a_traceback_for_eyes_obeys_nobody_either():
    error = KeyError(NASTY)
    error.__cause__ = OSError(NASTY)
    with contextlib.redirect_stderr(io.StringIO()) as written:
        make_log("console", "info").error("step-failed", why="a bug", exc_info=error)
    assert is_harmless(written.getvalue())
    assert "KeyError" in written.getvalue()


@pytest.mark.parametrize("file", sorted(Path(cli.__file__).parent.rglob("*.py")), ids=lambda file: file.name)
def test_the_command_line_prints_for_people_through_its_notes_alone(file):
    # Local services have names that are their own; the screen of `kcoord top` draws what is escaped.
    printing = {"notes.py", "dev.py", "demo.py", "top.py"}
    assert file.name in printing or not re.search(r"\b(Console|print|echo|secho)\(", _without_notes(file.read_text()))


def _without_notes(source):
    return source.replace("notes.print(", "")
