"""`kcoord cluster doctor` against nodes that say what a test has them say."""

import json

from typer.testing import CliRunner

from coordinator.cli import app
from coordinator.protocol.text.addresses import format_address
from tests.helpers.loopback_coordinator import unused_address
from tests.helpers.scripted_cluster import Script, bootstrap, scripted_cluster


def script(**changes: object) -> Script:
    known: dict[str, object] = {
        "leaders": {0: 1, 1: 1},
        "changes": {node: {"kafka_cluster_id": "k1"} for node in (1, 2, 3)},
    }
    return Script(**(known | changes))  # type: ignore[arg-type]


def doctor(coordinators: str, *arguments: str) -> tuple[int, dict[str, dict[str, str]]]:
    words = ["cluster", "doctor", "-o", "json", "--timeout", "5s", "--coordinator", coordinators, *arguments]
    result = CliRunner().invoke(app, words)
    return result.exit_code, {check["check"]: check for check in json.loads(result.stdout)}


def test_every_node_is_asked_whichever_is_named_and_all_is_well() -> None:
    said = script()
    with scripted_cluster(said):
        code, checks = doctor(bootstrap(said, 2))
    assert code == 0
    assert {name: check["status"] for name, check in checks.items()} == {
        "nodes": "ok",
        "cluster-id": "ok",
        "releases": "ok",
        "wire-versions": "ok",
        "clocks": "ok",
        "certificates": "skip",
        "leaders": "ok",
        "in-sync": "ok",
        "first-replicas": "ok",
        "racks": "ok",
        "moves": "ok",
        "zookeeper": "ok",
        "kafka": "ok",
        "admin": "skip",
    }
    assert checks["nodes"]["value"] == "3 of 3 answer"
    assert checks["clocks"]["value"].startswith("node 1 ")


def test_node_that_is_dead_fails_the_command_and_keeps_nobody_from_the_rest() -> None:
    said = script()
    with scripted_cluster(said, dead=(3,)):
        code, checks = doctor(bootstrap(said, 1))
        where = format_address(said.addresses[3])
    assert code == 1
    assert (checks["nodes"]["status"], checks["nodes"]["value"]) == ("fail", "2 of 3 answer")
    assert f"node 3 at {where} could not be asked: it cannot be reached: Connection refused" in checks["nodes"]["why"]
    assert (checks["kafka"]["status"], checks["clocks"]["status"]) == ("ok", "ok")


def test_a_warning_does_not_fail_the_command() -> None:
    said = script(leaders={0: 1, 1: 2})
    with scripted_cluster(said):
        code, checks = doctor(bootstrap(said, 1))
    assert (code, checks["first-replicas"]["status"]) == (0, "warn")


def test_nodes_that_are_of_different_clusters_fail() -> None:
    said = script()
    said.changes[2]["cluster_id"] = "c2"
    with scripted_cluster(said):
        code, checks = doctor(bootstrap(said))
    assert (code, checks["nodes"]["status"]) == (1, "fail")
    assert "name nodes of one cluster" in checks["nodes"]["why"]


def test_where_nobody_answers_the_admin_ports_are_asked_all_the_same() -> None:
    nobody = format_address(unused_address())
    code, checks = doctor(nobody, "--admin", nobody)
    assert code == 1
    assert [(name, check["status"]) for name, check in checks.items()] == [("nodes", "fail"), ("admin", "fail")]
    assert "check the addresses" in checks["nodes"]["why"]


def test_an_admin_port_that_is_none_is_a_usage_error() -> None:
    result = CliRunner().invoke(app, ["cluster", "doctor", "--coordinator", "h:1", "--admin", "nowhere"])
    assert result.exit_code == 2
