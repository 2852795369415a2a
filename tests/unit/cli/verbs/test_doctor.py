"""`kcoord doctor`: every check tells what it found, and a failure fails the command."""

import json
import sys

import pytest
from typer.testing import CliRunner

from coordinator.cli import app
from coordinator.cli.diagnosis.doctor_check import Check
from coordinator.cli.verbs.doctor import (
    coordinator_check,
    decoder_checks,
    fsync_check,
    kafka_check,
    open_files_check,
    python_check,
)
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import FindCoordinator, FindCoordinatorResponse
from coordinator.protocol.parts import NodeAddress
from spark_kcoord.deploy import doctor_facts
from spark_kcoord.fetch.decoding.decode import chosen_decoder
from tests.helpers.scripted_coordinator import ScriptedCoordinator

NODE = NodeAddress(3, "10.0.0.3", 7600)


def doctor(*arguments):
    result = CliRunner().invoke(
        app,
        ["doctor", "-o", "json", "--timeout", "1", *arguments],
        env={"KCOORD_COORDINATOR": "", "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": "", "SPARK_HOME": ""},
    )
    return result.exit_code, {check["check"]: check for check in json.loads(result.stdout)}


def test_this_machine_is_fit_and_what_was_not_named_is_not_asked():
    code, checks = doctor("--data", ".")
    assert code == 0
    assert list(checks) == [
        "python",
        "java",
        "kcoord",
        "kafka-python",
        "pyspark",
        "spark-python",
        "decoder",
        "crc32c",
        "codecs",
        "open-files",
        "fsync",
        "coordinator",
        "kafka",
    ]
    assert checks["decoder"]["value"] == chosen_decoder().name
    assert checks["codecs"]["value"] == "gzip snappy lz4 zstd"
    assert (checks["coordinator"]["status"], checks["kafka"]["status"]) == ("skip", "skip")


def test_what_does_not_answer_fails_the_command():
    code, checks = doctor("--coordinator", "127.0.0.1:1", "--kafka", "127.0.0.1:1")
    assert code == 1
    for name in ("coordinator", "kafka"):
        assert (checks[name]["status"], "Connection refused" in checks[name]["why"]) == ("fail", True)


def test_a_coordinator_that_answers_says_where_kafka_is():
    answer = FindCoordinatorResponse(
        coordinator=NODE, nodes=(NODE,), kafka_bootstrap=("k:9092",), kafka_cluster_id="cluster"
    )
    with ScriptedCoordinator({FindCoordinator: answer}) as coordinator:
        host, port = coordinator.address
        reached = coordinator_check(f"{host}:{port}", 5)
    assert reached.check == Check("coordinator", "ok", "node 3 at 10.0.0.3:7600", "1 node, Kafka cluster cluster")
    assert reached.kafka == ("k:9092",)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (FindCoordinatorResponse(ErrorCode.INVALID_GROUP_ID, "no such name"), "no such name (INVALID_GROUP_ID)"),
        (FindCoordinatorResponse(), "it names no node"),
    ],
)
def test_a_coordinator_that_refuses_fails(answer, why):
    with ScriptedCoordinator({FindCoordinator: answer}) as coordinator:
        host, port = coordinator.address
        check = coordinator_check(f"{host}:{port}", 5).check
    assert (check.status, check.why) == ("fail", why)


def test_an_address_that_is_none_fails():
    assert coordinator_check("nowhere", 1).check.status == "fail"


def test_an_old_python_fails():
    assert python_check((3, 10, 4)) == Check(
        "python", "fail", python_check((3, 10, 4)).value, "Python 3.11 or newer is needed"
    )
    assert python_check((3, 11, 0)).status == "ok"


def test_few_open_files_are_a_warning():
    assert [open_files_check(limit).status for limit in (1_024, 65_536, -1)] == ["warn", "ok", "ok"]


def test_a_directory_that_cannot_be_written_fails(tmp_path):
    assert fsync_check(tmp_path / "missing").status == "fail"
    assert fsync_check(tmp_path).why == f"median and longest of 15 in {tmp_path}"


@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("raise SystemExit('no such module')", "no such module"),
        ("import os; os.kill(os.getpid(), 4)", "the process ended with -4"),
    ],
)
def test_a_decoder_that_ends_its_process_is_told(program, why):
    (check,) = decoder_checks([sys.executable, "-c", program])
    assert (check.name, check.status, check.why) == ("decoder", "fail", why)


def test_a_decoder_that_cannot_be_asked_is_told():
    (check,) = decoder_checks(["/no/such/program"])
    assert check.status == "fail"


def test_a_coordinator_needs_no_decoder():
    program = (
        'print(\'[{"name":"decoder","status":"fail","value":"none"},{"name":"codecs","status":"ok","value":"gzip"}]\')'
    )
    decoder, codecs = decoder_checks([sys.executable, "-c", program], is_needed=False)
    assert (decoder.status, "kcoord[spark]" in decoder.why) == ("skip", True)
    assert codecs == Check("codecs", "ok", "gzip")


def test_no_servers_mean_that_kafka_is_not_asked():
    assert kafka_check((), 1).status == "skip"


def test_an_install_without_the_compiled_decoder_is_a_warning(monkeypatch):
    chosen_decoder.cache_clear()
    monkeypatch.setenv("KCOORD_DECODER", "numpy")
    found = {fact["name"]: fact for fact in doctor_facts.facts()}
    chosen_decoder.cache_clear()
    assert (found["decoder"]["status"], found["decoder"]["value"]) == ("warn", "numpy")
    assert found["crc32c"]["value"] in {"c", "python", "cffi"}


def test_a_decoder_that_is_none_fails(monkeypatch):
    chosen_decoder.cache_clear()
    monkeypatch.setenv("KCOORD_DECODER", "abacus")
    found = doctor_facts.facts()[0]
    chosen_decoder.cache_clear()
    assert (found["status"], "KCOORD_DECODER is 'abacus'" in found["why"]) == ("fail", True)
