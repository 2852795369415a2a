"""A process starts with what it does, and not with what others do: each import is paid by every start and restart.

Bounds of how many modules there are leave room for other versions of Python and of libraries, and none for a package.
"""

import subprocess
import sys

import pytest

SAID = "import sys\n{imports}\nprint(*sys.modules)"
CLOSED = "127.0.0.1:1"
VERB = """
import contextlib, sys
from coordinator.cli import app
with contextlib.suppress(SystemExit):
    app({words!r})
print(*sys.modules)
"""
NODE = """
import sys
from coordinator.cli import app
words = ["serve", "--kafka", "127.0.0.1:1", "--set", "node.mode={mode}", "--set", "zookeeper.hosts=127.0.0.1:1"]

def loaded(settings):
    from coordinator.service import {mode}
    print(*sys.modules)
    return 0

from coordinator import service
service.run = loaded
app(words)
"""
OF_PEOPLE = (
    "coordinator.cli.verbs.groups",
    "coordinator.cli.verbs.demo",
    "coordinator.client.request",
    "rich.progress",
)
"""What only commands load that people type."""
OF_LOG_INS = ("asn1crypto", "scramp", "jwt", "coordinator.core.security.log_in", "coordinator.runtime.server.gate")
OF_OTHERS = ("coordinator.admin", "coordinator.console", "h11", "pyarrow", "pyspark", "starlette", "uvicorn")
OF_CONSUMERS = ("kafka", "numpy", "spark_kcoord.consumer", "spark_kcoord.fetch", "spark_kcoord.member")
OF_NODES = (
    "coordinator.config",
    "coordinator.core",
    "coordinator.runtime.kafka",
    "pydantic_settings",
    "structlog",
    "uvloop",
)


def modules(program: str) -> set[str]:
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    return set(ended.stdout.splitlines()[-1].split())


def too_much(loaded: set[str], unneeded: tuple[str, ...]) -> set[str]:
    return {name for name in loaded if name.startswith(tuple(f"{each}." for each in unneeded)) or name in unneeded}


@pytest.mark.parametrize(
    ("program", "unneeded", "most"),
    [
        pytest.param(
            NODE.format(mode="standalone"), (*OF_PEOPLE, *OF_LOG_INS, *OF_OTHERS, "kazoo"), 930, id="standalone node"
        ),
        pytest.param(NODE.format(mode="cluster"), (*OF_PEOPLE, *OF_LOG_INS, *OF_OTHERS), 1040, id="node of a cluster"),
        pytest.param(
            VERB.format(words=["group", "list", "--coordinator", CLOSED, "--timeout", "1"]),
            (*OF_NODES, *OF_OTHERS, *OF_LOG_INS, "kafka", "coordinator.cli.verbs.demo"),
            420,
            id="a verb about groups",
        ),
        pytest.param(
            VERB.format(words=["version"]),
            (*OF_NODES, *OF_OTHERS, *OF_LOG_INS, *OF_PEOPLE, "kafka", "msgspec", "rich"),
            310,
            id="a verb that asks nobody and notes nothing",
        ),
        pytest.param(
            SAID.format(imports="from kcoord import Consumer"),
            (*OF_NODES, *OF_LOG_INS, "coordinator.cli", "kazoo", "pydantic", "pyspark", "rich", "typer"),
            660,
            id="a consumer",
        ),
        pytest.param(
            SAID.format(imports="from kcoord import AsyncClient, Client, client_errors, client_values"),
            (
                *OF_NODES,
                *OF_LOG_INS,
                *OF_OTHERS,
                "coordinator.cli",
                "kafka",
                "kazoo",
                "numpy",
                "pydantic",
                "rich",
                "typer",
            ),
            280,
            id="a client of groups",
        ),
        pytest.param(
            SAID.format(imports="import spark_kcoord.fetch.ranges, spark_kcoord.planning.tasks"),
            (*OF_NODES, *OF_LOG_INS, "coordinator", "kazoo", "msgspec", "pydantic", "rich", "typer"),
            620,
            id="an executor",
        ),
    ],
)
def test_a_process_loads_nothing_of_what_others_do(program: str, unneeded: tuple[str, ...], most: int) -> None:
    loaded = modules(program)
    assert too_much(loaded, unneeded) == set()
    assert len(loaded) <= most
