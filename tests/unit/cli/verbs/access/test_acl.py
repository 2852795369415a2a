"""`kcoord acl check` says which line decides."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from coordinator.cli import app

RULES = """# rules
allow User:etl read,describe group prefix etl-
deny User:* delete group literal *
allow User:ops all cluster
allow User:ops read topic prefix t
deny User:ops describe topic literal t2
"""


@pytest.fixture
def rules(tmp_path: Path) -> str:
    file = tmp_path / "rules"
    file.write_text(RULES)
    return str(file)


@pytest.mark.parametrize(
    ("question", "code", "answer"),
    [
        (
            "User:etl read group:etl-1",
            0,
            "allowed: User:etl read group:etl-1: line 2: allow User:etl describe,read group prefix etl-",
        ),
        ("User:etl CommitOffsets group:etl-1", 0, "allowed: User:etl read group:etl-1: line 2"),
        ("User:etl DeleteGroup group:etl-1", 1, "denied: User:etl delete group:etl-1: line 3: deny User:* delete"),
        ("User:etl read topic:t", 1, "denied: User:etl read topic:t: no rule lets User:etl read it"),
        ("User:ops DrainNode cluster", 0, "allowed: User:ops alter cluster: line 4"),
        ("User:ops CommitOffsets topic:t2", 0, "allowed: User:ops read topic:t2: line 5"),
        ("User:ops ResetOffsets topic:t1", 0, "allowed: User:ops describe topic:t1: line 5"),
        ("User:ops ResetOffsets topic:t2", 1, "denied: User:ops describe topic:t2: line 6"),
        ("User:ops RegisterConsumer topic:t2", 1, "denied: User:ops describe topic:t2: line 6"),
        ("User:root delete group:x", 0, "allowed: User:root delete group:x: User:root is a superuser"),
    ],
)
def test_answer_names_the_line(rules: str, question: str, code: int, answer: str) -> None:
    asked = ["acl", "check", *question.split(), "--rules", rules, "--set", "authorization.superusers=User:root"]
    result = CliRunner().invoke(app, asked)
    assert (result.exit_code, result.stdout.startswith(answer)) == (code, True), result.output


@pytest.mark.parametrize(
    ("question", "why"),
    [
        ("etl read group:g", "no principal"),
        ("User:etl write group:g", "'write' is no verb: read, describe"),
        ("User:etl all group:g", "'all' is no verb"),
        ("User:etl ListGroups group:g", "'ListGroups' is no verb"),
        ("User:etl read shard:1", "'shard:1' is no resource"),
        ("User:etl read group", "'group' is no resource"),
        ("User:etl alter cluster:x", "'cluster:x' is no resource"),
    ],
)
def test_question_that_cannot_be_asked_exits_with_2(rules: str, question: str, why: str) -> None:
    result = CliRunner().invoke(app, ["acl", "check", *question.split(), "--rules", rules])
    assert (result.exit_code, why in result.stderr) == (2, True), result.output


def test_without_rules_nobody_is_asked() -> None:
    result = CliRunner().invoke(app, ["acl", "check", "User:a", "read", "group:g"])
    assert (result.exit_code, "authorization.rules_file is not set" in result.stderr) == (2, True)
