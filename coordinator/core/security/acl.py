"""Rules of who may do what to which resource, and the decision that they make.

As Kafka's: a rule allows or denies a principal operations on resources, named literally or by a prefix. Whatever a rule
denies is denied, else whatever a rule allows is allowed, else nothing is. Whoever may read, delete or alter something
may describe it too. Superusers may do everything. Where rules stand and how they are read is said elsewhere.
"""

import shlex
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from coordinator.core.security.principal import USER, Principal


class Operation(StrEnum):
    """Something that is done to a resource; ALL stands for each of them in a rule."""

    READ = "read"
    DESCRIBE = "describe"
    ALTER = "alter"
    DELETE = "delete"
    ALL = "all"


class ResourceKind(StrEnum):
    """A kind of thing that rights are given on."""

    GROUP = "group"
    TOPIC = "topic"
    CLUSTER = "cluster"


class PatternKind(StrEnum):
    """The way in which a rule names resources."""

    LITERAL = "literal"
    PREFIX = "prefix"


CLUSTER_NAME: Final = "kcoord-cluster"
"""The name of the one resource of its kind."""
ANY: Final = "*"
"""As a literal name every resource of the kind, as the name of a principal every principal."""
EVERYBODY: Final = Principal(ANY)

_ALLOWED_BY: Final = {
    each: frozenset(Operation) if each is Operation.DESCRIBE else frozenset({each, Operation.ALL}) for each in Operation
}
"""By what is asked for: the operations of which each allows it."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule; `line` is where it stands, for people."""

    is_allowed: bool
    principal: Principal
    operations: frozenset[Operation]
    kind: ResourceKind
    pattern: PatternKind
    name: str
    line: int = 0

    def __str__(self) -> str:
        """Return the rule as the rules file has it."""
        verb, operations = "allow" if self.is_allowed else "deny", ",".join(sorted(self.operations))
        what = f" {self.pattern} {_quoted(self.name)}" if self.kind is not ResourceKind.CLUSTER else ""
        return f"{verb} {_quoted(str(self.principal))} {operations} {self.kind}{what}"

    def is_about(self, principal: Principal, operation: Operation, kind: ResourceKind) -> bool:
        """Return whether it decides about such a request of a principal, of some resource."""
        if self.kind is not kind or self.principal not in (principal, EVERYBODY):
            return False
        decides = _ALLOWED_BY[operation] if self.is_allowed else {operation, Operation.ALL}
        return not self.operations.isdisjoint(decides)

    def names(self, name: str) -> bool:
        """Return whether it names a resource of its kind."""
        if self.pattern is PatternKind.PREFIX:
            return name.startswith(self.name)
        return self.name in (name, ANY)


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer to a question for a right, and the rule that gave it; None where none speaks of it."""

    is_allowed: bool
    why: str
    rule: Rule | None = None


@dataclass(frozen=True, slots=True)
class Matcher:
    """The names that rules allow and deny, of one kind, to one principal, for one operation."""

    literals: frozenset[str] = frozenset()
    prefixes: tuple[str, ...] = ()
    denied_literals: frozenset[str] = frozenset()
    denied_prefixes: tuple[str, ...] = ()

    def allows(self, name: str) -> bool:
        """Return whether a resource of this name is allowed."""
        if name in self.denied_literals or name.startswith(self.denied_prefixes):
            return False
        return name in self.literals or name.startswith(self.prefixes)


@dataclass(frozen=True, slots=True)
class Acl:
    """All rules, in their order, and the superusers."""

    rules: tuple[Rule, ...] = ()
    superusers: frozenset[Principal] = field(default_factory=frozenset)

    def decide(self, principal: Principal, operation: Operation, kind: ResourceKind, name: str) -> Decision:
        """Decide whether a principal may do something, and name the rule: the first that denies, else that allows."""
        if principal in self.superusers:
            return Decision(True, f"{principal} is a superuser")
        found = [rule for rule in self.rules if rule.is_about(principal, operation, kind) and rule.names(name)]
        found.sort(key=lambda rule: rule.is_allowed)
        if not found:
            return Decision(False, f"no rule lets {principal} {operation} it")
        return Decision(found[0].is_allowed, f"line {found[0].line}: {found[0]}", found[0])

    def matcher(self, principal: Principal, operation: Operation, kind: ResourceKind) -> Matcher:
        """Return what is decided for every name, to be asked often."""
        if principal in self.superusers:
            return Matcher(prefixes=("",))
        found = [rule for rule in self.rules if rule.is_about(principal, operation, kind)]
        allowed, denied = [rule for rule in found if rule.is_allowed], [rule for rule in found if not rule.is_allowed]
        return Matcher(*_names(allowed), *_names(denied))


def _names(rules: Iterable[Rule]) -> tuple[frozenset[str], tuple[str, ...]]:
    """Return the literal names and the prefixes of some rules; any name is one that begins with nothing."""
    literals: set[str] = set()
    prefixes: set[str] = set()
    for rule in rules:
        if rule.pattern is PatternKind.PREFIX:
            prefixes.add(rule.name)
        elif rule.name == ANY:
            prefixes.add("")
        else:
            literals.add(rule.name)
    return frozenset(literals), tuple(sorted(prefixes))


def _quoted(text: str) -> str:
    """Return a word of a line, in quotes where it needs them."""
    return shlex.quote(text) if text != ANY and text != f"{USER}:{ANY}" else text
