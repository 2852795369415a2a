"""The commands of docs/PRODUCTION.md, as they are typed, below a root of the test's own, and the node of its unit.

Users and services of the machine stay as they are: `useradd`, `systemctl` and `chown` note what they were asked.
"""

import os
import re
import shlex
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from coordinator.local.kafka.broker import LocalKafka
from coordinator.local.process.ports import free_ports
from tests.helpers.processes import eventually

pytestmark = pytest.mark.kafka

ROOT = Path(__file__).parents[2]
STAND_INS = "".join(f'{name}() {{ echo "{name} $*" >> asked; }}\n' for name in ("useradd", "systemctl", "chown"))


def blocks() -> list[str]:
    page = (ROOT / "docs" / "PRODUCTION.md").read_text(encoding="utf-8")
    return re.findall(r"^```\n(.*?)^```$", page, flags=re.DOTALL | re.MULTILINE)


@contextmanager
def serving(command: list[str], log: Path) -> Iterator[None]:
    """Run a node within the block, from when it serves until it has stopped in order."""
    with log.open("wb") as output:
        node = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    try:
        assert eventually(lambda: "kcoord: listening on" in log.read_text() or node.poll() is not None, 60.0)
        assert node.poll() is None, log.read_text()
        yield
        node.terminate()
        assert node.wait(60) == 0
    finally:
        node.kill()
        node.wait(60)


def is_ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=30) as said:
            return bool(said.status == 200)
    except OSError:
        return False


def test_the_page_works_as_it_is_typed(kafka: LocalKafka, tmp_path: Path) -> None:
    members, admin = free_ports(2)
    places = {"HOST:9092": kafka.bootstrap_servers, "NODE:": "127.0.0.1:", "9292": str(members), "9294": str(admin)}
    root = tmp_path / "root"

    def typed(block: str) -> str:
        for place, real in places.items():
            block = block.replace(place, real)
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", STAND_INS + block],
            cwd=tmp_path,
            env=os.environ | {"ROOT": str(root), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    install, look, back_up, upgrade = blocks()
    typed(install)
    asked = (tmp_path / "asked").read_text().splitlines()
    assert [line.split()[0] for line in asked] == ["useradd", "chown", "systemctl", "systemctl"]
    unit = (root / "etc" / "systemd" / "system" / "kcoord.service").read_text()
    start = re.search(r"^ExecStart=(.+)$", unit, flags=re.MULTILINE)
    assert start is not None
    program, *words = shlex.split(start[1])
    assert program == "/opt/kcoord/bin/kcoord"
    below = [f"{root}{word}" if word.startswith("/") else word for word in words]
    (root / "var" / "lib").mkdir(parents=True)  # systemd makes what is below it
    command = [sys.executable, "-m", "coordinator", *below]
    with serving(command, tmp_path / "node.log"):
        assert eventually(lambda: is_ready(admin)), "it listens before it says that it is ready"
        assert "ready" in typed(look)
        assert "127.0.0.1" in typed(upgrade)
    typed(back_up)
    asked = (tmp_path / "asked").read_text().splitlines()
    assert asked[-2:] == ["systemctl stop kcoord", "systemctl start kcoord"]
    copy = [str(tmp_path / "kcoord-backup") if word == f"{root}/var/lib/kcoord" else word for word in command]
    assert copy != command
    with serving(copy, tmp_path / "copy.log"):
        assert eventually(lambda: "loaded" in (tmp_path / "copy.log").read_text())
        assert "new-data-directory" not in (tmp_path / "copy.log").read_text()
