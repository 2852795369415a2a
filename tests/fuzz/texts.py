"""Targets that people write by hand, and programs: rules of rights and names, parameters, addresses, times."""

import contextlib
import json
from types import SimpleNamespace

from coordinator.console.known import tables
from coordinator.console.known.selection import BadQueryError
from coordinator.core.security.acl import Acl, Operation, ResourceKind
from coordinator.core.security.acl_file import RulesError, parse_rules
from coordinator.core.security.principal import (
    Principal,
    SubjectRuleError,
    parse_subject_rules,
    principal_of_subject,
    why_bad_name,
)
from coordinator.protocol.text.addresses import format_address, parse_address, parse_addresses
from coordinator.protocol.text.durations import parse_duration_ms
from coordinator.protocol.text.escaping import csv_cell, json_document, lines, one_line
from coordinator.protocol.text.scopes import parse_scope
from tests.fuzz.target import Taken, Target

_WORDS = ("allow", "deny", "User:*", "User:a", "read", "describe,alter", "all", "group", "topic", "cluster", "literal")
_RULE_WORDS = (*_WORDS, "prefix", "*", "g-", '"a b"', "#", "\\", "'", "\n", "\u2028", "\0")


def rules(data: bytes) -> None:
    """A file of rules: each is written as a line that means the same, and decides without an error."""
    taken = Taken(data)
    text = " ".join(
        taken.one_of(_RULE_WORDS) if taken.number() % 5 else taken.text() for _ in range(taken.number() % 40)
    )
    found = parse_rules(text)
    assert [str(rule) for rule in parse_rules("\n".join(map(str, found)))] == [str(rule) for rule in found]
    acl = Acl(found, frozenset())
    name = taken.text()
    for operation in Operation:
        for kind in ResourceKind:
            decision = acl.decide(Principal("a"), operation, kind, name)
            assert acl.matcher(Principal("a"), operation, kind).allows(name) == decision.is_allowed


def subjects(data: bytes) -> None:
    """Rules that make principals of certificates' subjects, and a subject: a good name or none."""
    taken = Taken(data)
    parts = (
        "RULE:",
        "DEFAULT",
        "^CN=(.*?),.*$",
        "/",
        "$1",
        "$2",
        "L",
        "U",
        ",",
        "\n",
        "\\",
        "(",
        ")",
        "[",
        "*",
        "?P<n>",
    )
    text = "".join(taken.one_of(parts) if taken.number() % 4 else taken.text() for _ in range(taken.number() % 30))
    found = parse_subject_rules(text)
    principal = principal_of_subject(taken.text() or "CN=a,OU=b", found)
    assert principal is None or why_bad_name(principal.name) is None


def queries(data: bytes) -> None:
    """Parameters of a page or of the API: rows in an order, at most a page of them."""
    taken = Taken(data)
    table = taken.one_of(_TABLES)
    known = (*table.fields, "search", "sort", "order", "page", "per_page")
    values = (*table.keys, "asc", "desc", "1", "1000", "0", "-1", "", "٣", "1e3", " 1", "OK", "Stable")
    query = [
        (
            taken.one_of(known) if taken.number() % 6 else taken.text(),
            taken.one_of(values) if taken.number() % 3 else taken.text(),
        )
        for _ in range(taken.number() % 8)
    ]
    selection = table.read(query)
    chosen = table.choose(_ROWS, selection)
    assert len(chosen.rows) <= selection.per_page
    assert 1 <= chosen.page <= chosen.pages
    assert chosen.total <= len(_ROWS)


class _Row(SimpleNamespace):
    """A row that has every field: some values are known, some are not."""

    def __getattr__(self, name: str) -> object:
        return None if self.number % 3 == 0 else self.number if name not in _TEXTS else f"{name}{self.number}"

    @property
    def row(self) -> "_Row":
        return self


_TEXTS = frozenset({"group", "state", "topic", "address", "rack", "consumer_id", "kind", "status", "why", "client_id"})
_TEXTS |= {"host", "assignment", "member_id", "reason"}
_TABLES = tuple(
    table for table in vars(tables).values() if isinstance(table, tables.Table) and table is not tables.MEMBERS
)
_ROWS = [_Row(number=number) for number in range(1, 9) if number % 3]


def words(data: bytes) -> None:
    """Addresses, durations and scopes: read and written as the same, or refused with a sentence."""
    text = data.decode(errors="replace")
    for parse in (parse_addresses, parse_duration_ms, parse_scope, lambda said: parse_duration_ms(said, bare_unit="s")):
        with contextlib.suppress(ValueError):
            parse(text)
    address = parse_address(text)
    assert parse_address(format_address(address)) == address


def escapes(data: bytes) -> None:
    """Text of others: it comes out as what can be printed, and a JSON document means the same."""
    text = data.decode(errors="surrogateescape")
    assert one_line(text).isprintable()
    assert all(line.isprintable() for line in lines(text).split("\n"))
    assert not csv_cell(text).startswith(("=", "+", "-", "@"))
    shown = json_document(json.dumps({text: text}, ensure_ascii=False))
    assert json.loads(shown) == {text: text}
    assert all(letter.isprintable() for letter in shown)


_SHAPES = [bytes([number]) + bytes(range(number, number + 90)) for number in range(0, 160, 7)]

TARGETS = (
    Target(
        "rules", rules, (RulesError,), lambda: [bytes((6,)) + b"".join(bytes((1, at)) for at in (0, 2, 4, 7, 10, 13))]
    ),
    Target("subjects", subjects, (SubjectRuleError,), lambda: _SHAPES),
    Target("queries", queries, (BadQueryError,), lambda: _SHAPES),
    Target(
        "words",
        words,
        (ValueError,),
        lambda: [b"localhost:9292", b"[::1]:1,h:2", b"PT1H30M", b"15m", b"1.5 days", b"t:0,1,4-9", b"P1DT1S"],
    ),
    Target("escapes", escapes, (), lambda: [b"a\x1b[31m\n\xe2\x80\xae", b"=1+1", "ключ\U0001f600".encode()]),
)
