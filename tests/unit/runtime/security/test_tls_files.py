"""The contexts of the node's ends of TLS."""

import ssl
from pathlib import Path

import pytest

from coordinator.runtime.security.reread import FileError
from coordinator.runtime.security.tls_files import TlsFiles
from tests.helpers.certificates import Authority, lock


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_node_keeps_no_sessions_and_makes_no_tickets_for_clients_of_tls_1_3(
    tmp_path: Path, version: ssl.TLSVersion
) -> None:
    authority = Authority(tmp_path)
    pair = authority.pair("node", "localhost")
    files = TlsFiles("tls", str(pair.certificate), str(pair.key), "", str(authority.trusted))
    asked, answered = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = files.context(ssl.PROTOCOL_TLS_SERVER)
    server = context.wrap_bio(asked, answered, server_side=True)
    caller = files.context(ssl.PROTOCOL_TLS_CLIENT)
    caller.maximum_version = version
    client = caller.wrap_bio(answered, asked, server_hostname="localhost")
    for end in (client, server, client, server, client):
        try:
            end.do_handshake()
        except ssl.SSLWantReadError:
            continue
    server.write(b"hello")

    assert client.read(9) == b"hello"
    assert client.version() == version.name.replace("_", ".")
    assert context.session_stats()["number"] == 0
    assert (client.session is not None and client.session.has_ticket) == (version == ssl.TLSVersion.TLSv1_2)


@pytest.mark.parametrize(
    ("password", "why"),
    [(None, "is not given"), ("another", "has another password")],
)
def test_a_key_that_is_encrypted_is_told_by_the_setting_of_its_password(
    password: str | None, why: str, tmp_path: Path
) -> None:
    pair, file = lock(Authority(tmp_path).pair(), "its own"), tmp_path / "password"
    file.write_text(password or "")
    files = TlsFiles("kafka", str(pair.certificate), str(pair.key), "" if password is None else str(file))
    with pytest.raises(FileError) as told:
        files.context(ssl.PROTOCOL_TLS_CLIENT)
    assert str(told.value) == (
        f"kafka.certificate {pair.certificate} and kafka.key {pair.key} cannot be used: the key is encrypted, and "
        f"kafka.key_password_file {why}"
    )


@pytest.mark.parametrize("damaged", ["certificate", "key", "trusted"])
def test_a_file_that_is_no_pem_is_told_in_words(damaged: str, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pair = authority.pair()
    path = {"certificate": pair.certificate, "key": pair.key, "trusted": authority.trusted}[damaged]
    path.write_text("no PEM")
    files = TlsFiles("kafka", str(pair.certificate), str(pair.key), "", str(authority.trusted))
    with pytest.raises(FileError, match=rf"{path.name}.* cannot be used: there is n"):
        files.context(ssl.PROTOCOL_TLS_CLIENT)
