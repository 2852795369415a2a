"""The contexts of the node's ends of TLS."""

import ssl
from pathlib import Path

import pytest

from coordinator.runtime.security.tls_files import TlsFiles
from tests.helpers.certificates import Authority


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
