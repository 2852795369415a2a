"""Rules and the decision they make, against a model of six lines; the text of rules; a right for every request."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.core.security.acl import (
    CLUSTER_NAME,
    Acl,
    Operation,
    PatternKind,
    ResourceKind,
    Rule,
)
from coordinator.core.security.acl_file import RulesError, parse_rules
from coordinator.core.security.principal import Principal
from coordinator.core.security.rights import RIGHT_OF
from coordinator.protocol.messages import RESPONSE_OF, Request

ALICE, BOB, OPS = Principal("alice"), Principal("bob"), Principal("ops")

names = st.text("ab*", min_size=1, max_size=3)
principals = st.sampled_from([ALICE, BOB, OPS])
rules = st.builds(
    Rule,
    st.booleans(),
    st.sampled_from([ALICE, BOB, Principal("*")]),
    st.frozensets(st.sampled_from(Operation), min_size=1, max_size=2),
    st.sampled_from([ResourceKind.GROUP, ResourceKind.TOPIC]),
    st.sampled_from(PatternKind),
    names,
    st.integers(1, 9),
)
asked = st.tuples(
    principals, st.sampled_from(sorted(set(Operation) - {Operation.ALL})), st.sampled_from(ResourceKind), names
)


def model(acl: Acl, who: Principal, operation: Operation, kind: ResourceKind, name: str) -> bool:
    """Six lines that say the same as two hundred."""
    on = [rule for rule in acl.rules if rule.kind is kind and rule.principal.name in {who.name, "*"}]
    on = [r for r in on if (name.startswith(r.name) if r.pattern == "prefix" else r.name in {name, "*"})]
    allowed = any(r.is_allowed and (r.operations & {operation, "all"} or operation == "describe") for r in on)
    denied = any(not r.is_allowed and r.operations & {operation, "all"} for r in on)
    return who in acl.superusers or (allowed and not denied)


@given(st.lists(rules, max_size=6), st.frozensets(principals, max_size=1), asked)
def test_decision_is_that_of_the_model(
    given_rules: list[Rule], superusers: frozenset[Principal], question: tuple[Principal, Operation, ResourceKind, str]
) -> None:
    acl = Acl(tuple(given_rules), superusers)
    who, operation, kind, name = question
    expected = model(acl, *question)
    assert acl.decide(*question).is_allowed == expected
    assert acl.matcher(who, operation, kind).allows(name) == expected


@given(st.lists(rules, max_size=6))
def test_rule_is_read_as_it_is_written(given_rules: list[Rule]) -> None:
    sayable = [r for r in given_rules if not (r.pattern is PatternKind.PREFIX and r.name.endswith("*"))]
    text = "\n".join(map(str, sayable))
    assert [str(rule) for rule in parse_rules(text)] == text.splitlines()


@given(
    st.text("ab #'\"\\\\,=", min_size=1, max_size=8).filter(lambda name: name == name.strip()),
    st.text("ab #'\"\\\\,=", min_size=1, max_size=8),
)
def test_rule_of_any_names_is_read_as_it_is_written(principal: str, name: str) -> None:
    whose = frozenset({Operation.READ})
    rule = Rule(False, Principal(principal), whose, ResourceKind.GROUP, PatternKind.LITERAL, name, 1)
    assert parse_rules(str(rule)) == (rule,)


@pytest.mark.parametrize(
    "word",
    [
        r"User:CN=ops\,night,O=Ex",
        r"'User:CN=ops\,night,O=Ex'",
        r'"User:CN=ops\,night,O=Ex"',
        r"User:CN=ops\,ni'ght',O=Ex",
    ],
)
def test_a_backslash_stands_for_itself(word: str) -> None:
    (rule,) = parse_rules(f"deny {word} all cluster")
    assert rule.principal == Principal(r"CN=ops\,night,O=Ex")


@pytest.mark.parametrize("word", [r"User:CN=Doe\, John", r'"User:a\"b"', r"User:a\'b", r"User:a\#b"])
def test_a_backslash_takes_nothing_from_a_space_a_quote_or_a_comment(word: str) -> None:
    with pytest.raises(RulesError, match="line 1: "):
        parse_rules(f"deny {word} all cluster")


def test_rules_have_comments_empty_lines_and_quotes() -> None:
    text = """
# whoever loads
allow User:etl read,describe group prefix etl-   # all of its groups
deny 'User:CN=a, O=b' all cluster

allow User:* describe topic literal "a #b"
"""
    group, topic = ResourceKind.GROUP, ResourceKind.TOPIC
    read, describe = Operation.READ, Operation.DESCRIBE
    assert parse_rules(text) == (
        Rule(True, Principal("etl"), frozenset({read, describe}), group, PatternKind.PREFIX, "etl-", 3),
        Rule(
            False,
            Principal("CN=a, O=b"),
            frozenset({Operation.ALL}),
            ResourceKind.CLUSTER,
            PatternKind.LITERAL,
            CLUSTER_NAME,
            4,
        ),
        Rule(True, Principal("*"), frozenset({describe}), topic, PatternKind.LITERAL, "a #b", 6),
    )


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("allow User:a read", "another form"),
        ("allow User:a read cluster literal x", "another form"),
        ("allow User:a read group", "another form"),
        ("permit User:a read group literal x", "'permit' is neither allow nor deny"),
        ("allow a read group literal x", "no principal"),
        ("allow User:a write group literal x", "'write' is none of read, describe"),
        ("allow User:a read, group literal x", "'' is none of read"),
        ("allow User:a read shard literal x", "'shard' is none of group"),
        ("allow User:a read group regex x", "'regex' is none of literal, prefix"),
        ("allow User:a read group prefix x*", "without a star"),
        ("allow User:a read group literal ''", "the name is empty"),
        ("allow User:a read group literal 'x", "No closing quotation"),
    ],
)
def test_mistake_in_the_rules_names_its_line(line: str, why: str) -> None:
    with pytest.raises(RulesError, match=rf"^line 3: .*{why}"):
        parse_rules(f"# one\n\n{line}\n")


def test_decision_names_the_line_and_deny_wins() -> None:
    acl = Acl(parse_rules("allow User:alice all group prefix a\ndeny User:* delete group literal ab\n"))
    decision = acl.decide(ALICE, Operation.DELETE, ResourceKind.GROUP, "ab")
    assert (decision.is_allowed, decision.why) == (False, "line 2: deny User:* delete group literal ab")
    assert acl.decide(ALICE, Operation.DELETE, ResourceKind.GROUP, "a").why.startswith("line 1: allow")
    assert acl.decide(BOB, Operation.READ, ResourceKind.GROUP, "a").why == "no rule lets User:bob read it"


def test_every_request_has_a_right() -> None:
    assert set(RIGHT_OF) == set(RESPONSE_OF) == set(get_args(Request))
