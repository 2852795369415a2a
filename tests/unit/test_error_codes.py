"""Every error has a code, and every code a text; `docs/ERRORS.md` has no other."""

import pickle
import re
import traceback
from pathlib import Path

import pytest

import spark_kcoord.client.errors
import spark_kcoord.consumer.errors
import spark_kcoord.errors
from coordinator.cli.diagnosis.explained import explained, page
from coordinator.cli.parts.notes import DocCode
from coordinator.protocol.errors import ErrorCode
from spark_kcoord.client.errors import CallRefusedError
from spark_kcoord.consumer.errors import GroupRefusedError
from spark_kcoord.errors import DataLossError, KcoordError, OptionError, RefusedError

ROOT = Path(__file__).parents[2]
CODES = explained(page())
MODULES = (spark_kcoord.errors, spark_kcoord.consumer.errors, spark_kcoord.client.errors)
CLASSES = {
    each
    for module in MODULES
    for each in vars(module).values()
    if isinstance(each, type) and issubclass(each, KcoordError)
}
REFUSALS = set(ErrorCode) - {ErrorCode.NONE}


def test_codes_are_in_order_and_each_is_there_once() -> None:
    codes = [each.code for each in CODES]
    assert codes == sorted(set(codes))


def test_every_error_has_a_text_and_every_text_an_error() -> None:
    of_errors = {code.doc_code for code in REFUSALS} | {each.doc_code for each in CLASSES} | {*map(str, DocCode)}
    assert {each.code for each in CODES} == of_errors


def test_every_refusal_has_a_code_of_its_own_under_its_name() -> None:
    titles = {each.code: each.title for each in CODES}
    assert {code.doc_code: code.name for code in REFUSALS} == {
        code: title for code, title in titles.items() if code < "KC-2000"
    }


@pytest.mark.parametrize("each", CODES, ids=lambda each: each.code)
def test_a_text_says_what_why_and_what_to_do(each) -> None:
    what, why, to_do = each.text.split("\n\n")
    assert what
    assert why.startswith("Why: ")
    assert to_do.startswith("What to do: ")


def test_settings_that_a_text_names_are_there() -> None:
    there = (ROOT / "conf" / "coordinator.toml").read_text(encoding="utf-8")
    named = re.findall(r"`((?:group|authentication)\.\w+)`", page())
    assert named
    assert [name for name in named if not re.search(rf"^#? ?{name.split('.')[1]} = ", there, re.MULTILINE)] == []


def test_a_traceback_ends_with_the_code() -> None:
    with pytest.raises(DataLossError) as raised:
        raise DataLossError("records are gone")
    *_, message, note = traceback.format_exception_only(raised.value)
    assert message.endswith("records are gone\n")
    assert note == "KC-2002: `kcoord explain KC-2002` says what it means and what to do.\n"


def test_notes_of_others_come_behind_the_code() -> None:
    error = OptionError("bad")
    error.add_note("while a query started")
    error.add_note("twice")
    assert [note.split(":")[0] for note in error.__notes__] == ["KC-2001", "while a query started", "twice"]


@pytest.mark.parametrize("kind", [RefusedError, GroupRefusedError, CallRefusedError])
def test_a_refusal_has_the_code_of_what_the_coordinator_said(kind) -> None:
    refused = ErrorCode.PARTITION_OWNED
    error = kind("it is another's", refused.name, *([] if kind is CallRefusedError else [refused.doc_code]))
    assert (error.refusal, error.doc_code) == ("PARTITION_OWNED", "KC-1002")
    assert len(error.__notes__) == 1
    assert "KC-1002" in error.__notes__[0]


@pytest.mark.parametrize("error", [OptionError("bad"), RefusedError("no", "CLAIM_CLOSED", "KC-1004")])
def test_an_error_that_has_travelled_has_its_code_once(error) -> None:
    back = pickle.loads(pickle.dumps(error))
    assert (str(back), back.doc_code, back.__notes__) == (str(error), error.doc_code, error.__notes__)
