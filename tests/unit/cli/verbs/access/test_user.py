"""`kcoord user`: who may log in, written so that nobody reads it and no half of it is ever there."""

import os
import stat
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from click.testing import Result
from scramp import ScramMechanism
from typer.testing import CliRunner

from coordinator.cli import app
from coordinator.core.security import users_file
from coordinator.core.security.users_file import parse_users
from coordinator.runtime.security import log_ins, users_store
from coordinator.runtime.security.log_ins import read_users
from coordinator.runtime.security.users_store import add_token

PASSWORD = "c4n4ry-p4ssw0rd"
QUICK = ("--iterations", "4096")


def kcoord(*words: str, said: str = "") -> Result:
    return CliRunner().invoke(app, ["user", *words], input=said)


@pytest.fixture
def users(tmp_path: Path) -> Path:
    return tmp_path / "users"


def add(users: Path, name: str, *words: str, password: str = PASSWORD) -> Result:
    return kcoord("add", name, "--users", str(users), "--password-file", "-", *QUICK, *words, said=password + "\n")


def is_password(users: Path, name: str, password: str, mechanism: str = "SCRAM-SHA-512") -> bool:
    kept = read_users(users)
    found = kept.verifier_of(mechanism, name)
    made = ScramMechanism(mechanism).make_auth_info(password, found.iterations, found.salt)
    return kept.has(mechanism, name) and made[1:3] == (found.stored_key, found.server_key)


def test_a_user_is_added_listed_changed_and_removed(users: Path) -> None:
    assert add(users, "alice").stdout == "alice: added\n"
    assert add(users, "CN=Bob, O=Ex", "--mechanism", "SCRAM-SHA-256").exit_code == 0
    assert is_password(users, "alice", PASSWORD)
    assert add(users, "alice", password="another").stdout == "alice: has another password now\n"
    assert is_password(users, "alice", "another")
    assert is_password(users, "CN=Bob, O=Ex", PASSWORD, "SCRAM-SHA-256")
    listed = kcoord("list", "--users", str(users))
    assert listed.stdout == "CN=Bob, O=Ex\tSCRAM-SHA-256\nalice\tSCRAM-SHA-256,SCRAM-SHA-512\n"
    assert kcoord("remove", "alice", "--users", str(users)).stdout == "alice: removed\n"
    assert read_users(users).names == ["CN=Bob, O=Ex"]
    gone = kcoord("remove", "alice", "--users", str(users))
    assert gone.exit_code == 2
    assert "'alice' is no user" in gone.stderr


def test_nobody_but_its_owner_reads_the_file_and_no_secret_is_in_it_or_said(users: Path) -> None:
    told = [add(users, "alice"), kcoord("add", "ci", "--users", str(users), "--token")]
    token = told[1].stdout.strip()
    assert stat.S_IMODE(users.stat().st_mode) == 0o600
    text = users.read_text()
    assert PASSWORD not in text + told[0].output
    assert token.startswith("kcoord_")
    assert token not in text
    assert read_users(users).owner_of(token) == "ci"
    assert sorted(path.name for path in users.parent.iterdir()) == ["users"]


def test_a_user_may_have_several_tokens_and_a_password(users: Path) -> None:
    tokens = [kcoord("add", "ci", "--users", str(users), "--token").stdout.strip() for _ in range(2)]
    add(users, "ci")
    found = read_users(users)
    assert [found.owner_of(token) for token in tokens] == ["ci", "ci"]
    assert kcoord("list", "--users", str(users)).stdout == "ci\tSCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER\n"


def test_what_answers_those_who_are_no_users_stays_the_same(users: Path) -> None:
    add(users, "alice")
    before = read_users(users).verifier_of("SCRAM-SHA-256", "mallory")
    add(users, "bob")
    kcoord("remove", "alice", "--users", str(users))
    assert read_users(users).verifier_of("SCRAM-SHA-256", "mallory") == before


def test_a_password_is_read_from_a_file_and_from_a_prompt_that_asks_twice(
    users: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = users.with_name("secret")
    secret.write_text(PASSWORD + "\nmore\n")
    assert kcoord("add", "a", "--users", str(users), "--password-file", str(secret), *QUICK).exit_code == 0
    assert is_password(users, "a", PASSWORD)
    without = kcoord("add", "b", "--users", str(users), *QUICK)
    assert (without.exit_code, "no terminal" in without.stderr) == (2, True)
    monkeypatch.setattr("coordinator.cli.verbs.access.user._is_terminal", lambda: True)
    asked = kcoord("add", "b", "--users", str(users), *QUICK, said=f"{PASSWORD}\n{PASSWORD}\n")
    assert asked.exit_code == 0, asked.output
    assert PASSWORD not in asked.output
    assert is_password(users, "b", PASSWORD)


@pytest.mark.parametrize(
    ("words", "said", "why"),
    [
        (("add", "alice", "--password-file", "-"), "\n", "the password is empty"),
        (("add", "alice", "--password-file", "-"), "a\x07b\n", "the password cannot be used"),
        (("add", "alice", "--password-file", "/nowhere"), "", "/nowhere cannot be read"),
        (("add", "ANONYMOUS", "--token"), "", "stands for others"),
        (("add", " alice", "--token"), "", "begins or ends with a space"),
        (("add", "\u2168", "--token"), "", "SCRAM knows it by another form, 'IX'"),
        (("add", "User:alice", "--token"), "", "that is the principal of the user 'alice'"),
        (("add", "alice", "--token", "--iterations", "5000"), "", "--token goes without"),
        (("add", "alice", "--password-file", "-", "--iterations", "100"), "x\n", "--iterations is 100"),
        (("add", "alice", "--password-file", "-", "--mechanism", "PLAIN"), "x\n", "'PLAIN' is none of SCRAM"),
        (("remove", "alice"), "", "'alice' is no user"),
    ],
)
def test_what_cannot_be_done_is_a_line_and_changes_nothing(
    users: Path, words: Sequence[str], said: str, why: str
) -> None:
    found = kcoord(*words, "--users", str(users), said=said)
    assert found.exit_code == 2
    assert why in found.stderr
    assert not users.exists()


@pytest.mark.parametrize("words", [("add", "carol", "--token"), ("remove", "alice"), ("list",)])
def test_a_file_that_was_cut_off_is_not_taken_for_one_without_users(users: Path, words: tuple[str, ...]) -> None:
    users.write_text("")
    found = kcoord(*words, "--users", str(users))
    assert (found.exit_code, found.stdout, users.read_text()) == (2, "", "")
    assert f"{users} is empty: it was cut off" in found.stderr


def test_a_file_without_users_is_given_a_secret_that_nobody_knows(users: Path) -> None:
    secrets = []
    for text in ("\n", "\n", "# users\n"):
        users.write_text(text)
        add_token(users, "ci")
        secrets.append(read_users(users).secret)
    assert len({*secrets, parse_users("").secret, parse_users("# users\n").secret}) == 5


def test_the_file_that_a_link_leads_to_is_changed_and_its_group_reads_it_as_before(users: Path) -> None:
    target = users.with_name("target")
    target.write_text("# users\n")
    target.chmod(0o640)
    users.symlink_to(target.name)
    token = add_token(users, "ci")
    assert users.is_symlink()
    assert read_users(target).owner_of(token) == "ci"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    target.chmod(0o606)
    add_token(users, "ci")
    assert stat.S_IMODE(target.stat().st_mode) == 0o600


def test_a_file_that_is_too_long_is_refused_whole(users: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_token(users, "ci")
    monkeypatch.setattr(log_ins, "MOST_BYTES", users.stat().st_size - 1)
    assert "has more than" in kcoord("list", "--users", str(users)).stderr


def test_a_file_with_a_mistake_is_not_written_over(users: Path) -> None:
    users.write_text("alice nonsense\n")
    for words in (("add", "bob", "--token"), ("remove", "alice"), ("list",)):
        found = kcoord(*words, "--users", str(users))
        assert (found.exit_code, "line 1" in found.stderr) == (2, True)
    assert users.read_text() == "alice nonsense\n"


def test_the_file_of_the_settings_is_taken_and_without_one_it_is_said(tmp_path: Path, users: Path) -> None:
    config = tmp_path / "node.toml"
    config.write_text(f'[authentication]\nusers_file = "{users}"\n')
    assert kcoord("add", "ci", "--config", str(config), "--token").exit_code == 0
    assert kcoord("list", "--set", f"authentication.users_file={users}").stdout == "ci\tOAUTHBEARER\n"
    assert "name the file by --users" in kcoord("list").stderr


def test_those_who_change_the_file_at_the_same_time_take_turns(users: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        tokens = list(pool.map(lambda number: add_token(users, f"user-{number}"), range(40)))
    found = read_users(users)
    assert [found.owner_of(token) for token in tokens] == [f"user-{number}" for number in range(40)]


def test_a_change_that_fails_leaves_the_file_as_it_was(users: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add(users, "alice")
    before = users.read_bytes()

    def fail(descriptor: int) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(users_store.os, "fsync", fail)
    found = kcoord("add", "ci", "--users", str(users), "--token")
    assert (found.exit_code, "No space left" in found.stderr) == (2, True)
    assert users.read_bytes() == before
    assert [path.name for path in users.parent.iterdir()] == ["users"]


def test_a_user_too_many_leaves_the_file_readable(users: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(users_file, "MOST_USERS", 1)
    for _ in range(3):
        add_token(users, "ci")
    refused = kcoord("add", "ci", "--users", str(users), "--token")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "is full and stays as it is: line" in refused.stderr
    assert len(read_users(users).tokens) == 3
    assert kcoord("remove", "ci", "--users", str(users)).exit_code == 0


@pytest.mark.parametrize("words", [("--password-file", "-"), ()])
def test_a_standard_input_that_is_closed_is_said(users: Path, words: tuple[str, ...]) -> None:
    script = "import sys; sys.stdin = None; from coordinator.cli import main; main()"
    asked = [sys.executable, "-c", script, "user", "add", "alice", "--users", str(users), *words]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=120)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert "password" in done.stderr
