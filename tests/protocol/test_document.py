"""docs/PROTOCOL.md says what the code does: sentences, the state diagram, codes and every field of every message."""

import ast
import enum
import re
import types
from pathlib import Path
from typing import Annotated, Union, get_args, get_origin

import msgspec
import pytest

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import Request
from coordinator.protocol.messages.log_in import LogIn
from coordinator.protocol.messages.message import ANY_REQUEST_REFUSED_WITH
from coordinator.protocol.session import TRANSITIONS
from coordinator.protocol.vocabulary import VOCABULARY, AssignorName
from tests.helpers.wire_examples import BEFORE_MEMBERS, MESSAGES, PARTS
from tests.helpers.word_fields import word_fields

HERE = Path(__file__).parent
DOCUMENT = (HERE.parents[1] / "docs" / "PROTOCOL.md").read_text(encoding="utf-8")
SENTENCES = dict(re.findall(r"^(\d+)\. (.+)$", DOCUMENT, flags=re.MULTILINE))
KINDS = [type(value) for value in MESSAGES + BEFORE_MEMBERS + PARTS]


def quoted_sentences() -> list[str]:
    quotes = []
    for path in HERE.glob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "says":
                quotes += [ast.literal_eval(argument) for argument in node.args]
    return quotes


def test_sentences_are_numbered_one_by_one():
    assert list(SENTENCES) == [str(number) for number in range(1, len(SENTENCES) + 1)]
    assert len(SENTENCES) > 30


def test_every_sentence_is_held_by_a_test():
    assert sorted(set(SENTENCES.values()) - set(quoted_sentences())) == []


def test_every_quoted_sentence_is_in_the_document():
    assert sorted(set(quoted_sentences()) - set(SENTENCES.values())) == []


def test_the_diagram_is_the_table_of_transitions():
    drawn = ["stateDiagram-v2", f"    [*] --> {next(iter(TRANSITIONS)).name}"]
    for state, steps in TRANSITIONS.items():
        drawn += [f"    {state.name} --> {following.name}: {step.value}" for step, following in steps.items()]
    (diagram,) = re.findall(r"```mermaid\n(.*?)\n```", DOCUMENT, flags=re.DOTALL)
    assert diagram.splitlines() == drawn


def test_every_error_code_is_listed_with_its_number():
    listed = re.findall(r"^\| ([A-Z_]+) \| (-?\d+) \| (yes|no) \|", DOCUMENT, flags=re.MULTILINE)
    assert listed == [(code.name, str(code.value), "yes" if code.is_retriable else "no") for code in ErrorCode]


def test_every_code_that_is_mentioned_exists():
    words = set(re.findall(r"\b[A-Z]+(?:_[A-Z]+)+\b", DOCUMENT))
    states = {state.name for state in TRANSITIONS}
    assert words - states <= {code.name for code in ErrorCode}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_field_is_described_in_its_place(kind):
    number = kind.__struct_config__.tag
    heading = f"### {kind.__name__}\n" if number is None else f"### {kind.__name__} ({number})\n"
    assert DOCUMENT.count(heading) == 1
    section = DOCUMENT.split(heading)[1].split("\n#")[0]
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \| (.+?) \| (.+) \|$", section, flags=re.MULTILINE)
    fields = msgspec.structs.fields(kind)
    assert [row[:3] for row in rows] == [(field.name, in_words(field.type), default_of(field)) for field in fields]
    assert rows or "It has no fields." in section


@pytest.mark.parametrize("kind", [*get_args(Request), LogIn], ids=lambda kind: kind.__name__)
def test_a_request_is_refused_with_what_its_class_declares(kind):
    section = DOCUMENT.split(f"### {kind.__name__} (")[1].split("\n#")[0]
    (line,) = re.findall(r"^Refused with: (.+)$", section, flags=re.MULTILINE) or [""]
    whole, *parts = re.sub(r"\([^)]*\)", "", line).split(";")
    assert codes_in([whole]) == sorted(code.name for code in kind.refused_with)
    assert codes_in(parts) == sorted(code.name for code in kind.parts_refused_with)


def test_codes_of_any_request_stand_above_the_table():
    (sentence,) = re.findall(r"any request may get an\s+ErrorResponse with ([^.]+)\.", DOCUMENT)
    assert codes_in([sentence]) == sorted(code.name for code in ANY_REQUEST_REFUSED_WITH)


def test_every_code_that_a_class_declares_is_a_refusal():
    for kind in (*get_args(Request), LogIn):
        assert ErrorCode.NONE not in kind.refused_with | kind.parts_refused_with


def codes_in(pieces) -> list[str]:
    return sorted({word for piece in pieces for word in re.findall(r"\b[A-Z]+(?:_[A-Z]+)+\b", piece)})


def test_every_list_of_words_is_written_out():
    section = DOCUMENT.split("## Words\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (\w+) \| (`.+`) \|$", section, flags=re.MULTILINE)
    assert rows == [(kind.__name__, ", ".join(f"`{word}`" for word in kind)) for kind in VOCABULARY]


@pytest.mark.parametrize(("kind", "field", "words"), word_fields(KINDS), ids=lambda value: getattr(value, "name", None))
def test_a_field_of_words_names_them_or_their_list(kind, field, words):
    section = re.split(rf"^### {kind.__name__}\b.*$", DOCUMENT, flags=re.MULTILINE)[1].split("\n#")[0]
    (meaning,) = re.findall(rf"^\| `{field.name}` \| .+ \| (.+) \|$", section, flags=re.MULTILINE)
    assert words.__name__ in meaning or all(f"`{word}`" in meaning for word in words), meaning


def test_every_list_of_words_has_a_field_that_says_one_of_them():
    assert {words for _kind, _field, words in word_fields(KINDS)} == set(VOCABULARY) - {AssignorName}


def test_nothing_is_described_that_does_not_exist():
    described = re.findall(r"^### (\w+)", DOCUMENT, flags=re.MULTILINE)
    assert sorted(described) == sorted(kind.__name__ for kind in KINDS)


def in_words(kind) -> str:
    if get_origin(kind) is Annotated:
        return in_words(get_args(kind)[0])
    if get_origin(kind) in (Union, types.UnionType):
        (known,) = (choice for choice in get_args(kind) if choice is not type(None))
        return f"{in_words(known)} or nil"
    if get_origin(kind) is tuple:
        items = get_args(kind)
        if items[-1] is Ellipsis:
            return f"list of {in_words(items[0])}"
        return f"({', '.join(in_words(item) for item in items)})"
    return {str: "text", int: "integer", bool: "boolean"}.get(kind, kind.__name__)


def default_of(field) -> str:
    if field.required:
        return "required"
    if isinstance(field.default, msgspec.Struct):
        return "none"
    if isinstance(field.default, enum.StrEnum):
        return f"`{field.default.value}`"
    if isinstance(field.default, enum.Enum):
        return f"`{field.default.name}`"
    if isinstance(field.default, bool):
        return str(field.default).lower()
    return {None: "nil", (): "empty", "": '""', b"": "empty"}.get(field.default, f"`{field.default}`")
