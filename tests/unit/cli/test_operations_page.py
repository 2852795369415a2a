"""docs/OPERATIONS.md names every verb, and every exit code with its number."""

import re
from pathlib import Path

import typer.main

from coordinator.cli import app
from coordinator.cli.parts.exits import ExitCode
from coordinator.cli.parts.tables import OutputFormat
from coordinator.cli.verbs import cluster, groups
from coordinator.cli.verbs.shards import looking as shards
from coordinator.runtime.process.signals import IGNORED, STOPPING

PAGE = (Path(__file__).parents[3] / "docs" / "OPERATIONS.md").read_text(encoding="utf-8")


def test_every_exit_code_is_listed_with_its_number():
    listed = re.findall(r"^\| (\d+) \| ([A-Z_]+) \|", PAGE, flags=re.MULTILINE)
    assert listed == [(str(code.value), code.name) for code in ExitCode]


def test_every_verb_about_groups_nodes_and_shards_is_named():
    apps = (groups.app, cluster.clusters, cluster.nodes, shards.app)
    verbs = {command.name or command.callback.__name__ for app in apps for command in app.registered_commands}
    named = set(re.findall(r"[a-z]+(?:-[a-z]+)*", PAGE))
    assert verbs - named == set()


def test_every_form_of_output_is_named_and_data_verbs_offer_it():
    assert all(f"-o {form.value}" in PAGE for form in OutputFormat)
    group = typer.main.get_command(app).commands["group"]
    silent = {"wait", "delete"}
    command = typer.main.get_command(app)
    others = {
        f"{of} {name}": verb
        for of in ("node", "shard", "cluster")
        for name, verb in command.commands[of].commands.items()
    }
    for name, verb in (group.commands | others).items():
        offers = any("--output" in parameter.opts for parameter in verb.params)
        assert offers != (name in silent), name


def test_every_verb_that_changes_something_is_a_dry_run_by_default():
    group = typer.main.get_command(app).commands["group"]
    changing = set(group.commands) - {"list", "describe", "members", "lag", "events", "wait", "watch"}
    assert {name for name, verb in group.commands.items() if _executes(verb)} == changing


def test_every_signal_that_a_node_handles_is_named():
    named = set(re.findall(r"SIG[A-Z0-9]+", PAGE))
    assert {number.name for number in (*STOPPING, *IGNORED)} <= named


def _executes(verb):
    execute = [parameter for parameter in verb.params if "--execute" in parameter.opts]
    return bool(execute) and execute[0].default is False
