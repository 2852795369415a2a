"""A verb finds coordinators: flags go before contexts, contexts before nothing, and no secret goes to anybody else."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from coordinator.cli import app
from coordinator.protocol.messages import ListGroups, ListGroupsResponse
from tests.helpers.scripted_coordinator import ScriptedCoordinator

TLS = 'kcoord.security.protocol = "SSL"\n'
WRONG = 'kcoord.ssl.ca.location = "/ca.pem"\n'
"""Refused before anybody is asked, since it is of no use without TLS: so it shows whether settings were taken."""


@pytest.fixture
def coordinator() -> Iterator[str]:
    with ScriptedCoordinator({ListGroups: ListGroupsResponse()}) as scripted:
        host, port = scripted.address
        yield f"{host}:{port}"


@pytest.fixture
def contexts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return a writer of this user's file of contexts."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for variable in ("KCOORD_COORDINATOR", "KCOORD_CONTEXT", "KCOORD_COMMAND_CONFIG"):
        monkeypatch.delenv(variable, raising=False)

    def write(text: str) -> None:
        (tmp_path / "kcoord").mkdir(exist_ok=True)
        (tmp_path / "kcoord" / "config.toml").write_text(text)

    return write


def kcoord(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, arguments)
    return result.exit_code, result.stderr


LIST = ("group", "list", "--timeout", "2")
FOUND = (0, "There are no groups.\n")


def test_the_context_of_the_file_counts_where_none_is_named(contexts, coordinator) -> None:
    contexts(f'context = "a"\n[contexts.a]\ncoordinator = "{coordinator}"\n')
    assert kcoord(*LIST) == FOUND


def test_a_context_is_named_by_flag_or_by_the_environment(contexts, coordinator, monkeypatch) -> None:
    contexts(f'[contexts.a]\ncoordinator = "{coordinator}"\n[contexts.b]\ncoordinator = "127.0.0.1:1"\n')
    assert kcoord("--context", "a", *LIST) == FOUND
    monkeypatch.setenv("KCOORD_CONTEXT", "b")
    assert kcoord(*LIST)[0] != 0
    assert kcoord("--context", "a", *LIST) == FOUND
    monkeypatch.setenv("KCOORD_CONTEXT", "a")
    assert kcoord(*LIST) == FOUND


def test_a_context_by_flag_goes_before_addresses_of_the_environment_and_these_before_others(
    contexts, coordinator, monkeypatch
) -> None:
    contexts(f'context = "b"\n[contexts.a]\ncoordinator = "{coordinator}"\n[contexts.b]\ncoordinator = "127.0.0.1:1"\n')
    monkeypatch.setenv("KCOORD_COORDINATOR", "127.0.0.1:1")
    assert kcoord("--context", "a", *LIST) == FOUND
    monkeypatch.setenv("KCOORD_COORDINATOR", coordinator)
    assert kcoord(*LIST) == FOUND


def test_settings_of_a_context_that_nobody_named_are_for_its_own_addresses_alone(contexts, coordinator) -> None:
    contexts(f'context = "b"\n[contexts.b]\ncoordinator = "127.0.0.1:1"\n{WRONG}')
    assert kcoord(*LIST, "--coordinator", coordinator) == FOUND
    code, said = kcoord("--context", "b", *LIST, "--coordinator", coordinator)
    assert (code, "'kcoord.ssl.ca.location' is given" in said) == (2, True), said


def test_a_context_that_there_is_not_is_a_usage_error_with_the_nearest(contexts) -> None:
    contexts('[contexts.prod]\ncoordinator = "127.0.0.1:1"\n')
    code, said = kcoord("--context", "prd", *LIST)
    assert code == 2
    assert "no context 'prd'; the nearest is 'prod'" in said


def test_an_empty_name_is_refused_and_an_empty_variable_is_none(contexts, coordinator, monkeypatch) -> None:
    contexts(f'context = "prod"\n[contexts.prod]\ncoordinator = "{coordinator}"\n')
    code, said = kcoord("--context", "", *LIST)
    assert (code, "--context is empty: name a cluster" in said) == (2, True), said
    monkeypatch.setenv("KCOORD_CONTEXT", "")
    assert kcoord(*LIST) == FOUND


def test_a_broken_file_keeps_nobody_from_verbs_that_need_none(contexts, coordinator) -> None:
    contexts("[")
    code, said = kcoord(*LIST, "--coordinator", coordinator)
    assert code == 0
    assert said.startswith("warning: no context is used: ")


def test_contexts_are_listed_without_their_settings(contexts) -> None:
    contexts(f'context = "a"\n[contexts.a]\ncoordinator = "127.0.0.1:1"\n{TLS}')
    result = CliRunner().invoke(app, ["context", "list", "-o", "csv"])
    assert result.stdout == "CURRENT,CONTEXT,COORDINATOR,PROTOCOL\n*,a,127.0.0.1:1,SSL\n"


def test_a_command_configuration_goes_before_the_settings_of_a_context(contexts, coordinator, tmp_path: Path) -> None:
    contexts(f'context = "a"\n[contexts.a]\ncoordinator = "{coordinator}"\n{WRONG}')
    code, said = kcoord(*LIST)
    assert (code, "which does not use TLS" in said) == (2, True), said
    file = tmp_path / "command.conf"
    file.write_text("kcoord.security.protocol=SASL_SSL\n")
    code, said = kcoord("--command-config", str(file), *LIST)
    assert (code, "'kcoord.sasl.username' is not given" in said) == (2, True), said
