"""The certificate of a console, and the names in it."""

from pathlib import Path

import pytest
import structlog

from coordinator.console.port.tls import load, tls_of_console
from coordinator.runtime.security.reread import FileError
from coordinator.runtime.security.tls_files import TlsFiles
from tests.helpers.certificates import Authority, Pair, lock, long_ago, self_signed


def files(pair: Pair, password: Path | None = None) -> TlsFiles:
    return TlsFiles("--tls", str(pair.certificate), str(pair.key), "" if password is None else str(password))


def test_the_names_are_those_of_the_certificate_whoever_signed_it_and_whatever_its_age(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    names = (("DNS", "a.example"), ("DNS", "*.b.example"), ("IP Address", "10.0.0.1"))
    given = tuple(name for _, name in names)
    assert load(files(authority.pair("web", *given))).names == names
    assert load(files(authority.pair("old", *given, ends=long_ago()))).names == names
    assert load(files(self_signed(tmp_path, "alone"))).names == (("DNS", "localhost"),)


def test_a_key_that_is_locked_needs_its_password_and_a_mistake_names_the_flag(tmp_path: Path) -> None:
    pair, password = lock(Authority(tmp_path).pair(), "c4n4ry"), tmp_path / "password"
    password.write_text("c4n4ry\n")
    assert load(files(pair, password)).names
    with pytest.raises(FileError, match=r"--tls-certificate .* and --tls-key .* cannot be used") as caught:
        load(files(pair))
    assert "c4n4ry" not in str(caught.value)
    with pytest.raises(FileError, match=r"--tls-key-password-file .*nowhere cannot be read"):
        load(files(pair, tmp_path / "nowhere"))
    with pytest.raises(FileError, match=r"--tls-certificate .* cannot be read"):
        load(files(Pair(tmp_path / "none.pem", pair.key)))


def test_a_new_pair_counts_and_one_that_does_not_fit_leaves_the_old_one(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pair = authority.pair("web", "old.example")
    with structlog.testing.capture_logs() as lines:
        tls = tls_of_console(files(pair), structlog.get_logger())
        before = tls.value
        authority.pair("web", "new.example")
        assert tls.look(in_any_case=True)
        assert (before.names, tls.value.names) == ((("DNS", "old.example"),), (("DNS", "new.example"),))
        pair.key.write_bytes(authority.pair("other").key.read_bytes())
        assert not tls.look(in_any_case=True)
    assert tls.value.names == (("DNS", "new.example"),)
    assert [line["event"] for line in lines] == ["file-read", "file-refused"]
