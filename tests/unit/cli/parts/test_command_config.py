"""`--command-config` counts for the verb that follows, and is forgotten behind it."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from coordinator.cli import app
from coordinator.cli.parts.asking import coordinators_of
from coordinator.client.security import PLAINTEXT

NOBODY = "127.0.0.1:1"


@pytest.mark.parametrize("by", ["flag", "environment"])
@pytest.mark.parametrize("verb", [("group", "list"), ("group", "describe", "team"), ("node", "list"), ("doctor",)])
def test_the_file_says_how_coordinators_are_spoken_to(tmp_path: Path, by: str, verb: tuple[str, ...]) -> None:
    file = tmp_path / "client.properties"
    file.write_text("kcoord.security.protocol=SASL_SSL\n")
    flag = ["--command-config", str(file)] if by == "flag" else []
    environment = {} if flag else {"KCOORD_COMMAND_CONFIG": str(file)}
    found = CliRunner().invoke(app, [*flag, *verb, "--coordinator", NOBODY], env=environment)
    assert "'kcoord.sasl.username' is not given" in found.stderr
    assert found.exit_code == 2
    after = CliRunner().invoke(app, ["group", "list", "--coordinator", NOBODY])
    assert "cannot be reached" in after.stderr
    assert coordinators_of(NOBODY).security == PLAINTEXT


def test_all_requests_of_a_verb_are_put_first_to_who_answered_last() -> None:
    coordinators_of(f"{NOBODY},127.0.0.1:2").answered_last = ("127.0.0.1", 2)
    assert coordinators_of(f"{NOBODY},127.0.0.1:2").answered_last == ("127.0.0.1", 2)
    assert coordinators_of(NOBODY).answered_last is None
