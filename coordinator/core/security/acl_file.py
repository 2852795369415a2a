"""The text of the rules file: a rule a line, empty lines, and comments behind `#`.

    allow User:etl    read,describe  group  prefix   etl-
    allow User:etl    describe       topic  literal  flights
    deny  User:*      delete         group  literal  *
    allow User:ops    alter,describe cluster

Words are divided by spaces; one with a space, a quote or a `#` in it stands in quotes. A backslash stands for itself
everywhere, as in the subject of a certificate. A literal `*` is every name.
A text with one mistake is refused whole, so that no rule counts half.
"""

import shlex
from typing import Final, TypeVar

from coordinator.core.security.acl import CLUSTER_NAME, Operation, PatternKind, ResourceKind, Rule
from coordinator.core.security.principal import Principal

MOST_RULES: Final = 10_000
"""Most rules of one file."""
MOST_BYTES: Final = 4 * 1024 * 1024
"""Longest text of rules."""

Word = TypeVar("Word", Operation, ResourceKind, PatternKind)

_ALLOWS: Final = {"allow": True, "deny": False}
_FORM: Final = "allow|deny PRINCIPAL OPERATIONS group|topic literal|prefix NAME, or ... OPERATIONS cluster"


class RulesError(ValueError):
    """A text that cannot be used as rules; it names the line."""


def parse_rules(text: str) -> tuple[Rule, ...]:
    """Return the rules of a text, each with its line; raises RulesError at the first mistake."""
    if len(text) > MOST_BYTES:
        raise RulesError(f"the rules have {len(text)} characters and at most {MOST_BYTES} are allowed")
    rules: list[Rule] = []
    for number, line in enumerate(text.splitlines(), 1):
        try:
            words = _words(line)
            if words:
                rules.append(_rule(words, number))
        except ValueError as error:
            raise RulesError(f"line {number}: {error}") from error
        if len(rules) > MOST_RULES:
            raise RulesError(f"line {number}: there are more than {MOST_RULES} rules; use prefixes")
    return tuple(rules)


def _words(line: str) -> list[str]:
    """Return the words of a line; raises ValueError for a quote that is not closed."""
    words = shlex.shlex(line, posix=True)
    words.whitespace_split = True
    words.escape = ""
    return list(words)


def _rule(words: list[str], line: int) -> Rule:
    if len(words) not in (4, 6):
        raise ValueError(f"a rule has another form: {_FORM}")
    if words[0] not in _ALLOWS:
        raise ValueError(f"{words[0][:100]!r} is neither allow nor deny")
    principal = Principal.parse(words[1])
    operations = frozenset(_one_of(Operation, word) for word in words[2].split(","))
    kind = _one_of(ResourceKind, words[3])
    if (kind is ResourceKind.CLUSTER) != (len(words) == 4):
        raise ValueError(f"a rule has another form: {_FORM}")
    if kind is ResourceKind.CLUSTER:
        return Rule(_ALLOWS[words[0]], principal, operations, kind, PatternKind.LITERAL, CLUSTER_NAME, line)
    pattern, name = _one_of(PatternKind, words[4]), words[5]
    if not name:
        raise ValueError("the name is empty; 'literal *' is every name")
    if pattern is PatternKind.PREFIX and name.endswith("*"):
        raise ValueError(f"{name[:100]!r} is a prefix as it is, without a star at its end")
    return Rule(_ALLOWS[words[0]], principal, operations, kind, pattern, name, line)


def _one_of(words: type[Word], text: str) -> Word:
    try:
        return words(text)
    except ValueError:
        raise ValueError(f"{text[:100]!r} is none of {', '.join(words)}") from None
