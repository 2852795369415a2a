"""A real node with TLS: the command line speaks it, files are exchanged by a signal, and no secret comes out."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from tests.helpers.certificates import Authority, lock, long_ago
from tests.helpers.node_process import NodeProcess, running_node
from tests.helpers.processes import eventually

CANARY = "c4n4ry-s3cr3t"
PATIENCE_S = 60


def ask(address: str, *verb: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """List the groups, or ask for another verb, as a person would."""
    command = [sys.executable, "-m", "coordinator", *(verb or ("group", "list")), "--coordinator", address]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE_S, env=os.environ | environment, check=False
    )


def test_a_node_speaks_tls_exchanges_its_files_and_tells_no_secret(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pair = authority.pair()
    lock(pair, CANARY)
    password = tmp_path / "password"
    password.write_text(CANARY + "\n")
    tls = {
        "certificate": pair.certificate,
        "key": pair.key,
        "key_password_file": password,
        "trusted_certificates": authority.trusted,
        "client_auth": "required",
        "look_ms": 86_400_000,
    }
    settings = [f"tls.{name}={value}" for name, value in tls.items()]
    alice = authority.pair("alice", "alice.example", common_name="alice")
    lock(alice, CANARY)
    secure = {
        "KCOORD_SECURITY_PROTOCOL": "SSL",
        "KCOORD_SSL_CA_LOCATION": str(authority.trusted),
        "KCOORD_SSL_CERTIFICATE_LOCATION": str(alice.certificate),
        "KCOORD_SSL_KEY_LOCATION": str(alice.key),
        "KCOORD_SSL_KEY_PASSWORD": CANARY,
    }
    told = []
    with running_node(tmp_path / "node", *settings) as node:
        address = node.wait_until_it_serves()
        told.append(good := ask(address, **secure))
        assert good.returncode == 0, good.stderr
        told.append(doctor := ask(address, "cluster", "doctor", **secure))
        assert re.search(r"^certificates +ok +node \d+ \d{2,} days\b", doctor.stdout, re.MULTILINE), doctor.stdout
        assert re.search(r"^clocks +ok ", doctor.stdout, re.MULTILINE), doctor.stdout
        assert re.search(r"^kafka +fail .*Connection refused", doctor.stdout, re.MULTILINE), doctor.stdout
        told.append(plain := ask(address))
        assert "one end speaks TLS" in plain.stderr
        told.append(wrong := ask(address, **secure | {"KCOORD_SSL_KEY_PASSWORD": CANARY + "x"}))
        assert "kcoord.ssl.certificate.location" in wrong.stderr

        lock(authority.pair("node", ends=long_ago()), CANARY)
        node.send(signal.SIGHUP)
        node.wait_until_it_says("file-read")
        told.append(expired := ask(address, **secure))
        assert "certificate has expired" in expired.stderr

        pair.key.write_text("no key")
        node.send(signal.SIGHUP)
        node.wait_until_it_says("file-refused")
        assert str(pair.key) in node.said
        assert node.stop() == 0
        assert CANARY not in node.said
    assert [each for each in told if CANARY in each.stdout + each.stderr] == []


def test_a_node_whose_files_cannot_be_used_does_not_start_and_names_them(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pair = authority.pair()
    lock(pair, "another")
    password = tmp_path / "password"
    password.write_text(CANARY)
    node = NodeProcess(
        tmp_path / "node",
        f"tls.certificate={pair.certificate}",
        f"tls.key={pair.key}",
        f"tls.key_password_file={password}",
    )
    try:
        assert eventually(lambda: not node.is_running, PATIENCE_S)
        assert node.process.returncode == 2
        assert str(pair.key) in node.said
        assert "Traceback" not in node.said
        assert CANARY not in node.said
    finally:
        node.kill()
