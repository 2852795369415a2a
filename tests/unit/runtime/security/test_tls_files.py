"""The contexts of the node's ends of TLS."""

import ssl
from pathlib import Path

import pytest

from coordinator.runtime.security.tls_files import TlsFiles
from tests.helpers.certificates import Authority


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_no_session_is_kept_for_a_client_that_comes_back(tmp_path: Path, version: ssl.TLSVersion) -> None:
    authority = Authority(tmp_path)
    pair = authority.pair("node", "localhost")
    files = TlsFiles("tls", str(pair.certificate), str(pair.key), "", str(authority.trusted))
    asked, answered = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = files.context(ssl.PROTOCOL_TLS_SERVER).wrap_bio(asked, answered, server_side=True)
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
    assert client.session is None or not client.session.has_ticket
