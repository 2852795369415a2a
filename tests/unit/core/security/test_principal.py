"""Principals, and the subjects of certificates that become them."""

import pytest

from coordinator.core.security.principal import (
    ANONYMOUS,
    Principal,
    SubjectRuleError,
    parse_subject_rules,
    principal_of_subject,
)

SUBJECT = "CN=Etl-1,OU=Data,O=Example Ltd,C=DE"


def test_principal_is_read_as_it_is_written() -> None:
    assert str(Principal("alice")) == "User:alice"
    assert Principal.parse("User:alice") == Principal("alice")
    assert Principal.parse("User:CN=a,O=b:c") == Principal("CN=a,O=b:c")
    assert str(ANONYMOUS) == "User:ANONYMOUS"


@pytest.mark.parametrize("text", ["alice", "User:", "Group:a", "", "User: a", "User:a\n", "User:" + "x" * 251])
def test_text_that_is_no_principal_is_refused_with_the_reason(text: str) -> None:
    with pytest.raises(ValueError, match="is no principal"):
        Principal.parse(text)


@pytest.mark.parametrize(
    ("rules", "name"),
    [
        ("", SUBJECT),
        ("DEFAULT", SUBJECT),
        ("RULE:^CN=(.*?),OU=Data.*$/$1/", "Etl-1"),
        ("RULE:^CN=(.*?),OU=Data.*$/$1/L", "etl-1"),
        ("RULE:^CN=(.*?),.*$/$1@example/U, DEFAULT", "ETL-1@EXAMPLE"),
        ("RULE:^CN=(.*?),OU=Other.*$/$1/,RULE:CN=([^,]+),OU=([^,]+),.*/$2.$1/", "Data.Etl-1"),
        ("RULE:^CN=(.*?),OU=Other.*$/$1/\nDEFAULT", SUBJECT),
        (r"RULE:.*O=([^,]*),.*/a\/$1/", "a/Example Ltd"),
    ],
)
def test_first_rule_that_matches_the_whole_subject_makes_the_name(rules: str, name: str) -> None:
    assert principal_of_subject(SUBJECT, parse_subject_rules(rules)) == Principal(name)


@pytest.mark.parametrize("rules", ["RULE:CN=([^,]*)/$1/", "RULE:^CN=(.*?),OU=Other.*$/$1/", "RULE:.*//"])
def test_subject_that_no_rule_gives_a_good_name_is_nobody(rules: str) -> None:
    assert principal_of_subject(SUBJECT, parse_subject_rules(rules)) is None


def test_subject_that_is_no_text_is_nobody() -> None:
    assert principal_of_subject("CN=\udcff", parse_subject_rules("RULE:^CN=(.*)$/a/")) is None


def test_very_long_subject_is_nobody() -> None:
    assert principal_of_subject("CN=" + "a" * 5_000, parse_subject_rules("")) is None


@pytest.mark.parametrize(
    ("rules", "named"),
    [
        ("RULE:a/b", "RULE:a/b"),
        ("RULE:\udcff/a/", "no UTF-8"),
        ("RULE:(/a/", r"\("),
        ("RULE:(a)/$2/", "group 2"),
        ("DEFAULT,x", "x"),
    ],
)
def test_rule_that_cannot_be_used_is_named(rules: str, named: str) -> None:
    with pytest.raises(SubjectRuleError, match=named):
        parse_subject_rules(rules)
