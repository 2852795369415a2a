"""The principal that a connection acts for, and how the subject of a certificate becomes one.

A principal is known once TLS is spoken on its connection, and never changes on that connection. Nothing here knows
of TLS, nor what a principal may do.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

import re2

from coordinator.protocol.ids import MAX_ID_LENGTH

USER: Final = "User"
"""The kind of every principal there is, as in Kafka."""

MOST_OF_SUBJECT: Final = 4_096
"""Longest subject of a certificate that is mapped, in characters."""


@dataclass(frozen=True, slots=True)
class Principal:
    """Somebody that rights are given to; written `User:alice`."""

    name: str
    kind: str = USER

    def __str__(self) -> str:
        """Return it as rules and log lines have it."""
        return f"{self.kind}:{self.name}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the principal that is written so; raises ValueError with the reason."""
        kind, colon, name = text.partition(":")
        if kind != USER or not colon:
            raise ValueError(f"{text[:MAX_ID_LENGTH]!r} is no principal; one is written User:NAME")
        if why := why_bad_name(name):
            raise ValueError(f"{text[:MAX_ID_LENGTH]!r} is no principal: {why}")
        return cls(name, kind)


ANONYMOUS: Final = Principal("ANONYMOUS")
"""The principal of a connection on which no certificate was shown."""


def why_bad_name(name: str) -> str | None:
    """Say what is wrong with the name of a principal, or return None when it is a good one."""
    if not name:
        return "its name is empty"
    if len(name) > MAX_ID_LENGTH:
        return f"its name has {len(name)} characters and at most {MAX_ID_LENGTH} are allowed"
    if name != name.strip() or not name.isprintable():
        return "its name begins or ends with a space, or has an unprintable character"
    return None


# ---- certificates ---------------------------------------------------------------------------------------------------


class SubjectRuleError(ValueError):
    """A mapping rule that cannot be used; the text names it."""


@dataclass(frozen=True, slots=True)
class SubjectRule:
    """One of Kafka's `ssl.principal.mapping.rules`: `RULE:PATTERN/REPLACEMENT/`, with L or U behind it, or `DEFAULT`.

    The pattern has to match the whole subject. `$1` in the replacement stands for its first group. L makes the name
    small letters, U capital ones. DEFAULT takes the subject as it is.
    """

    pattern: str = ".*"
    replacement: str = "$0"
    letters: str = ""

    def name_of(self, subject: str) -> str | None:
        """Return the name that this rule makes of a subject, None where it does not match."""
        found = re2.fullmatch(self.pattern, subject)
        if found is None:
            return None
        name: str = _GROUP.sub(lambda group: found.group(int(group.group(1))) or "", self.replacement)
        return name.lower() if self.letters == "L" else name.upper() if self.letters == "U" else name


DEFAULT_RULE: Final = SubjectRule()

_RULE: Final = re2.compile(r"\s*(?:(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?))\s*(?:[,\n]|$)")
_GROUP: Final = re2.compile(r"\$(\d)")


def parse_subject_rules(text: str) -> tuple[SubjectRule, ...]:
    """Return the rules of a text, which commas or new lines divide; nothing is DEFAULT. Raises SubjectRuleError."""
    if not _is_text(text):
        raise SubjectRuleError("the rules hold bytes that are no UTF-8")
    rules: list[SubjectRule] = []
    at = 0
    while text[at:].strip():
        found = _RULE.match(text[at:])
        if found is None:
            raise SubjectRuleError(
                f"{text[at:].strip()!r} begins with no rule: RULE:PATTERN/REPLACEMENT/[LU] or DEFAULT"
            )
        rules.append(DEFAULT_RULE if found.group(1) else _rule(*found.group(2, 3, 4)))
        at += found.end()
    return tuple(rules) or (DEFAULT_RULE,)


def _rule(pattern: str, replacement: str, letters: str) -> SubjectRule:
    pattern, replacement = pattern.replace("\\/", "/"), replacement.replace("\\/", "/")
    try:
        groups = re2.compile(pattern).groups
    except re2.error as error:
        raise SubjectRuleError(f"the pattern {pattern!r} of a rule cannot be used: {error}") from error
    for named in _GROUP.findall(replacement):
        if int(named) > groups:
            raise SubjectRuleError(f"the replacement {replacement!r} names group {named}, and {pattern!r} has {groups}")
    return SubjectRule(pattern, replacement, letters)


def principal_of_subject(subject: str, rules: Sequence[SubjectRule]) -> Principal | None:
    """Return the principal that the first rule makes which matches; None if none does, or none makes a good name."""
    if len(subject) > MOST_OF_SUBJECT or not _is_text(subject):
        return None
    for rule in rules:
        name = rule.name_of(subject)
        if name is not None:
            return None if why_bad_name(name) else Principal(name)
    return None


def _is_text(text: str) -> bool:
    """Say whether text can be written down: bytes of an environment that are no UTF-8 stand in it as half letters."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
