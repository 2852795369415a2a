"""`core`, `protocol` and the member machine are pure: they import from a short list and call nothing of the world.

import-linter holds who may import whom among our rooms; this holds what the pure rooms may take from
elsewhere.
"""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PURE_STANDARD_LIBRARY = {
    "__future__",
    "abc",
    "array",
    "bisect",
    "collections",
    "collections.abc",
    "contextlib",
    "copy",
    "dataclasses",
    "enum",
    "functools",
    "heapq",
    "itertools",
    "math",
    "operator",
    "re",
    "string",
    "struct",
    "types",
    "typing",
}
PURE_LIBRARIES = {"msgspec", "msgspec.msgpack", "msgspec.json", "msgspec.structs"}
ALLOWED = {
    # A checksum, hashes, a regular expression engine of linear time, addresses, words in quotes, forms of Unicode, the
    # exchange of SCRAM with a nonce that it is given: functions of their arguments alone.
    "core": PURE_STANDARD_LIBRARY
    | PURE_LIBRARIES
    | {"base64", "binascii", "google_crc32c", "hashlib", "hmac", "ipaddress", "re2", "scramp", "shlex", "unicodedata"},
    "protocol": PURE_STANDARD_LIBRARY | PURE_LIBRARIES,
    "member": PURE_STANDARD_LIBRARY | PURE_LIBRARIES | {"spark_kcoord.member"},  # of which `refusals`, read below
}
OUR_ROOMS = {
    "core": ("coordinator.core", "coordinator.protocol"),
    "protocol": ("coordinator.protocol",),
    "member": (
        "coordinator.client.nodes",
        "coordinator.client.refusals",
        "coordinator.protocol",
        "spark_kcoord.errors",
        "spark_kcoord.member.core",
        "spark_kcoord.member.refusals",
        "spark_kcoord.member.settings",
        "spark_kcoord.member.speech",
    ),
}
PLACES = {
    "core": ("coordinator/core",),
    "protocol": ("coordinator/protocol",),
    "member": (
        "spark_kcoord/member/core",
        "spark_kcoord/member/refusals.py",
        "spark_kcoord/member/settings.py",
        "spark_kcoord/member/speech.py",
    ),
}
"""The folders and files of each pure room; of the member's, also what its machine imports beside it."""
IMPURE_BUILTINS = {"open", "print", "input", "eval", "exec", "compile", "__import__", "breakpoint"}


def impurities(source: str, room: str) -> list[str]:
    """Return what a file of a pure room must not have, with its lines."""
    found: list[str] = []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                imported = [alias.name for alias in names]
            case ast.ImportFrom(level=0, module=str(module)):
                imported = [module]
            case ast.ImportFrom():
                found.append(f"{node.lineno}: relative import")
                continue
            case ast.Name(id=name, ctx=ast.Load()) if name in IMPURE_BUILTINS:
                found.append(f"{node.lineno}: {name}")
                continue
            case _:
                continue
        found += [f"{node.lineno}: import {name}" for name in imported if not _is_allowed(name, room)]
    return found


def _is_allowed(module: str, room: str) -> bool:
    ours = any(module == name or module.startswith(f"{name}.") for name in OUR_ROOMS[room])
    # `from coordinator import protocol` would hide the room behind a name
    return ours or module in ALLOWED[room]


def files_of(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


@pytest.mark.parametrize("room", PLACES)
def test_pure_rooms_import_and_call_only_what_is_pure(room: str) -> None:
    for place in PLACES[room]:
        assert (ROOT / place).exists(), "the room has moved: move this test with it"
    files = [file for place in PLACES[room] for file in files_of(place) or [ROOT / place]]
    found = {str(path.relative_to(ROOT)): impurities(path.read_text(), room) for path in files}
    assert {path: problems for path, problems in found.items() if problems} == {}


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("import time", "1: import time"),
        ("x = 1\nimport random as r", "2: import random"),
        ("def f():\n    from asyncio import Queue", "2: import asyncio"),
        ("import os.path", "1: import os.path"),
        ("from logging import getLogger", "1: import logging"),
        ("from socket import *", "1: import socket"),
        ("from coordinator.runtime import disk", "1: import coordinator.runtime"),
        ("from coordinator import runtime", "1: import coordinator"),
        ("import google_crc32c", "1: import google_crc32c"),
        ("from . import ids", "1: relative import"),
        ("def f(path):\n    return open(path)", "2: open"),
        ("f = open", "1: open"),
        ("__import__('time')", "1: __import__"),
        ("print('here')", "1: print"),
    ],
)
def test_the_check_finds_what_is_planted(source: str, problem: str) -> None:
    assert impurities(source, "protocol") == [problem]


def test_the_check_lets_pure_code_pass() -> None:
    source = "import msgspec\nfrom collections.abc import Sequence\nfrom coordinator.protocol.ids import GroupId\n"
    assert impurities(source, "protocol") == []
    assert impurities("import google_crc32c\nfrom coordinator.core import events", "core") == []
    assert impurities("from spark_kcoord.member.core.session.link import Link", "member") == []


def test_the_member_machine_may_not_reach_for_a_connection() -> None:
    for module in ("coordinator.client.connection", "coordinator.client.request", "spark_kcoord.member.transport"):
        assert impurities(f"from {module} import x", "member") == [f"1: import {module}"]


def imports_of(source: str) -> set[str]:
    """Return the top-level packages that a file imports anywhere in it."""
    packages: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            packages |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            packages.add(node.module.split(".")[0])
    return packages


def test_jobs_do_not_import_the_coordinator() -> None:
    assert imports_of("def f():\n    from coordinator.core import x") == {"coordinator"}
    jobs = [ROOT / "spark_kcoord" / "jobs" / path.name for path in files_of("jobs")]
    assert [path.name for path in jobs if "coordinator" in imports_of(path.read_text())] == []


def test_what_executors_load_brings_neither_the_coordinator_nor_msgspec() -> None:
    """Also through the packages' own `__init__`, which import contracts do not see."""
    executor_files = [
        *files_of("spark_kcoord/options"),
        *files_of("spark_kcoord/fetch"),
        *files_of("spark_kcoord/planning"),
        *(ROOT / "spark_kcoord" / "source" / f"{name}.py" for name in ("data_source", "stream_reader", "batch_reader")),
        *(ROOT / "spark_kcoord" / "source" / "group_batch" / f"{name}.py" for name in ("claimed_ranges", "blocks")),
    ]
    names = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for path in executor_files
    ]
    script = (
        f"import importlib, sys\nfor name in {names!r}: importlib.import_module(name)\n"
        "print(*sorted({name.split('.')[0] for name in sys.modules} & {'coordinator', 'msgspec'}))"
    )
    run = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert run.stdout.split() == []
