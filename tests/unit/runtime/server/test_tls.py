"""TLS on the members' port: good ends speak, every bad one is refused at once, with a line here and a reason there.

The clock of the server is moved by hand: what is refused while it stands was not waited for.
"""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from coordinator.client.connection import Connection, NodeError
from coordinator.client.security import ClientSecurity
from coordinator.config import ConfigError, ServerSettings, TlsSettings, load_settings
from coordinator.core.security.principal import ANONYMOUS, Principal, parse_subject_rules, principal_of_subject
from coordinator.protocol.messages import ListGroups, ListGroupsResponse, Ping, PingResponse
from coordinator.protocol.parts import GroupSummary
from coordinator.protocol.session import Role, Session
from coordinator.runtime.security.reread import Reread
from coordinator.runtime.security.tls import tls_of_members
from coordinator.runtime.security.tls_end import TlsEnd, _subject_of
from coordinator.runtime.server.connection import Connection as Served
from coordinator.runtime.server.port import Server
from tests.helpers.certificates import Authority, Pair, long_ago, self_signed
from tests.helpers.collector import left_to_python
from tests.helpers.event_loops import run
from tests.helpers.loopback import RememberedLog, until
from tests.unit.runtime.server.test_server import HandClock, Listener

pytestmark = pytest.mark.usefixtures("each_event_loop")

PATIENCE_S = 60.0
ANSWER = ListGroupsResponse(tuple(GroupSummary(f"group-{number:05}", "Stable", 3, 1) for number in range(5_000)))
"""Some hundred thousand bytes: many records of TLS."""


class Scene:
    """A server with TLS, in whose loop the test plays; clients are blocking, on threads."""

    def __init__(self, tls: TlsSettings, rules: str) -> None:
        self.log = RememberedLog()
        self.listener = Listener()
        self.clock = HandClock()
        made = tls_of_members(tls, self.log.logger)
        self.tls: Reread[ssl.SSLContext] | None = made
        self.server = Server(
            ServerSettings(max_connections=100),
            self.listener,
            self.clock,
            self.log.logger,
            tls=self.tls,
            subject_rules=parse_subject_rules(rules),
        )
        self.address = ("", 0)
        self.listener.on_request = lambda connection, correlation, request: self.server.send_response(
            connection, correlation, PingResponse() if isinstance(request, Ping) else ANSWER
        )

    async def ask(self, security: ClientSecurity, host: str = "127.0.0.1") -> object:
        """Ask as a client does; return the answer, or the text of the error."""

        def ask() -> object:
            try:
                with Connection((host, self.address[1]), PATIENCE_S, security) as connection:
                    return connection.ask(ListGroups(), PATIENCE_S)
            except NodeError as error:
                return str(error)

        return await asyncio.to_thread(ask)

    def refusals(self) -> list[str]:
        """Return why connections were refused, as the node's log has it."""
        return [line["why"] for line in self.log.of("stranger")]


@contextlib.asynccontextmanager
async def scene(tls: TlsSettings, rules: str) -> AsyncIterator[Scene]:
    made = Scene(tls, rules)
    made.address = await made.server.bind("127.0.0.1", 0)
    await made.server.accept()
    try:
        yield made
    finally:
        await made.server.close("the test is over")


def play(act: Callable[[Scene], Awaitable[None]], tls: TlsSettings, rules: str = "DEFAULT") -> Scene:
    async def whole() -> Scene:
        async with scene(tls, rules) as made:
            await asyncio.wait_for(act(made), 60)
        return made

    return run(whole())


def settings_of(pair: Pair, **more: object) -> TlsSettings:
    return TlsSettings(certificate=str(pair.certificate), key=str(pair.key), **more)  # type: ignore[arg-type]


def trusting(authority: Authority, pair: Pair | None = None, **more: object) -> ClientSecurity:
    shown = {} if pair is None else {"certificate_location": str(pair.certificate), "key_location": str(pair.key)}
    return ClientSecurity("SSL", ca_location=str(authority.trusted), **shown, **more)  # type: ignore[arg-type]


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def test_a_client_that_trusts_the_node_is_answered_also_at_length(authority: Authority) -> None:
    async def act(on: Scene) -> None:
        assert await on.ask(trusting(authority)) == ANSWER
        assert await on.ask(trusting(authority), "localhost") == ANSWER
        await until(lambda: on.listener.closed_whys() == ["its process closed it or ended"] * 2)
        assert on.server.connections == 0

    assert play(act, settings_of(authority.pair())).log.lines == []


def test_connections_that_are_gone_are_freed_without_the_collector(authority: Authority) -> None:
    async def act(on: Scene) -> None:
        with left_to_python(Served, TlsEnd) as alive:
            for security in (trusting(authority), ClientSecurity()):
                await on.ask(security)
            await until(lambda: on.server.connections == 0)
            await until(lambda: not alive())

    play(act, settings_of(authority.pair()))


def test_a_client_that_speaks_no_tls_is_told_so_and_the_node_says_it_too(authority: Authority) -> None:
    async def act(on: Scene) -> None:
        why = str(await on.ask(ClientSecurity()))
        assert "a TLS alert" in why
        assert "kcoord.security.protocol" in why
        await until(lambda: len(on.refusals()) == 1)
        assert "does not speak TLS" in on.refusals()[0]
        await until(lambda: on.server.connections == 0)

    play(act, settings_of(authority.pair()))


def test_a_client_of_tls_at_a_plain_port_is_told_so_and_the_node_says_it_too(authority: Authority) -> None:
    async def act(on: Scene) -> None:
        assert "the other end does not speak TLS here" in str(await on.ask(trusting(authority)))
        await until(lambda: len(on.refusals()) == 1)
        assert "a TLS handshake" in on.refusals()[0]
        assert "tls.certificate" in on.refusals()[0]

    play(act, TlsSettings())


def test_a_certificate_that_the_client_refuses_is_named_at_both_ends(authority: Authority, tmp_path: Path) -> None:
    other = Authority(tmp_path, "another")
    cases = [
        (settings_of(authority.pair("old", ends=long_ago())), "expired"),
        (settings_of(authority.pair("named", "somewhere.example")), "IP address mismatch"),
        (settings_of(other.pair("strange")), "unable to get local issuer certificate"),
        (settings_of(self_signed(tmp_path, "own")), "self-signed certificate"),
    ]
    for settings, expected in cases:

        async def act(on: Scene, expected: str = expected) -> None:
            assert expected in str(await on.ask(trusting(authority)))
            await until(lambda: len(on.refusals()) == 1)
            assert on.refusals()[0] != ""

        play(act, settings)


def test_the_host_name_is_looked_at_unless_that_is_turned_off(authority: Authority) -> None:
    async def act(on: Scene) -> None:
        assert await on.ask(trusting(authority, checks_host=False)) == ANSWER

    play(act, settings_of(authority.pair("named", "somewhere.example")))


def test_an_old_version_of_tls_is_refused_with_a_reason(authority: Authority) -> None:
    async def act(on: Scene) -> None:
        old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        old.load_verify_locations(authority.trusted)
        with pytest.warns(DeprecationWarning, match="TLS"):
            old.maximum_version = ssl.TLSVersion.TLSv1_1
        with pytest.warns(DeprecationWarning, match="TLS"):
            old.minimum_version = ssl.TLSVersion.TLSv1
        old.set_ciphers("ALL:@SECLEVEL=0")
        with pytest.raises(ssl.SSLError):
            await asyncio.open_connection(*on.address, ssl=old, server_hostname="localhost")
        await until(lambda: len(on.refusals()) == 1)
        assert "version" in on.refusals()[0]

    play(act, settings_of(authority.pair()))


@pytest.mark.parametrize("asked_for", ["requested", "required"])
def test_a_client_that_shows_a_certificate_acts_for_its_subject(authority: Authority, asked_for: str) -> None:
    async def act(on: Scene) -> None:
        alice = authority.pair("alice", "alice.example", common_name="alice")
        assert await on.ask(trusting(authority, alice)) == ANSWER
        assert on.listener.principals == {1: Principal("alice")}

    trusted = {"trusted_certificates": str(authority.trusted), "client_auth": asked_for}
    play(act, settings_of(authority.pair(), **trusted), "RULE:^CN=([^,]+),.*$/$1/L")


def test_a_client_that_need_not_show_a_certificate_and_does_not_is_anonymous(authority: Authority) -> None:
    async def act(on: Scene) -> None:
        assert await on.ask(trusting(authority)) == ANSWER
        assert on.listener.principals == {1: ANONYMOUS}

    play(act, settings_of(authority.pair(), trusted_certificates=str(authority.trusted), client_auth="requested"))


def test_a_subject_that_no_rule_makes_a_principal_of_is_refused_at_once(authority: Authority) -> None:
    async def act(on: Scene) -> None:
        alice = authority.pair("alice", "alice.example", common_name="alice")
        assert "closed the connection" in str(await on.ask(trusting(authority, alice)))
        (refused,) = on.log.of("log-in-refused")
        assert "CN=alice" in refused["why"]
        assert on.refusals() == []
        assert on.listener.told == []

    trusted = {"trusted_certificates": str(authority.trusted), "client_auth": "required"}
    play(act, settings_of(authority.pair(), **trusted), "RULE:^CN=bob,.*$/bob/")


@pytest.mark.parametrize("asked_for", ["requested", "required"])
@pytest.mark.parametrize("rules", ["RULE:^CN=([^,]+),.*$/$1/", "DEFAULT"])
def test_an_empty_subject_is_of_no_principal_and_no_missing_certificate(
    authority: Authority, asked_for: str, rules: str
) -> None:
    async def act(on: Scene) -> None:
        assert "closed the connection" in str(
            await on.ask(trusting(authority, authority.pair_without_subject("job", "job.example")))
        )
        (refused,) = on.log.of("log-in-refused")
        assert "its certificate's subject '' is of no principal" in refused["why"]
        assert on.listener.told == []

    trusted = {"trusted_certificates": str(authority.trusted), "client_auth": asked_for}
    play(act, settings_of(authority.pair(), **trusted), rules)


def test_rules_that_cannot_be_read_are_named_with_the_setting(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"authentication\.certificate_rules.*begins with no rule"):
        load_settings(None, {"authentication.certificate_rules": "RULE:nothing"})


def test_a_client_whose_certificate_is_wanting_is_refused_where_one_is_required(
    authority: Authority, tmp_path: Path
) -> None:
    strange = Authority(tmp_path, "another").pair("strange", "bob.example")
    expired = authority.pair("old", "alice.example", ends=long_ago())
    own = self_signed(tmp_path, "own")

    async def act(on: Scene) -> None:
        assert "requires a certificate" in str(await on.ask(trusting(authority)))
        assert "certificate" in str(await on.ask(trusting(authority, strange)))
        assert "certificate" in str(await on.ask(trusting(authority, expired)))
        assert "certificate" in str(await on.ask(trusting(authority, own)))
        await until(lambda: len(on.refusals()) == 4)
        words = ("no certificate", "local issuer", "expired", "self-signed")
        assert [word in why for word, why in zip(words, on.refusals(), strict=True)] == [True] * 4
        assert on.listener.told == []

    play(act, settings_of(authority.pair(), trusted_certificates=str(authority.trusted), client_auth="required"))


def test_a_certificate_whose_names_are_no_text_is_refused_with_a_reason(authority: Authority, tmp_path: Path) -> None:
    odd = self_signed(tmp_path, "odd", b"\x30\x03\x82\x01\xff")
    trusted = tmp_path / "trusted-here.pem"
    trusted.write_bytes(authority.trusted.read_bytes() + odd.certificate.read_bytes())

    async def act(on: Scene) -> None:
        assert "closed the connection" in str(await on.ask(trusting(authority, odd)))
        await until(lambda: len(on.refusals()) == 1)
        assert "cannot be read" in on.refusals()[0]
        assert on.listener.told == []
        await until(lambda: on.server.connections == 0)

    play(act, settings_of(authority.pair(), trusted_certificates=str(trusted), client_auth="required"))


def test_another_certificate_counts_for_the_next_connection_and_a_bad_pair_for_none(authority: Authority) -> None:
    pair = authority.pair("node", "somewhere.example")

    async def act(on: Scene) -> None:
        assert on.tls is not None
        assert "IP address mismatch" in str(await on.ask(trusting(authority)))
        authority.pair("node")
        assert on.tls.look(in_any_case=True)
        assert await on.ask(trusting(authority)) == ANSWER
        pair.key.write_text("no key")
        assert not on.tls.look(in_any_case=True)
        assert await on.ask(trusting(authority)) == ANSWER
        (refused,) = on.log.of("file-refused")
        assert str(pair.key) in refused["why"]
        assert "counts on" in refused["why"]

    play(act, settings_of(pair))


def test_a_handshake_that_is_never_ended_is_cut_off_like_a_hello_that_does_not_come(authority: Authority) -> None:
    async def act(on: Scene) -> None:
        _, writer = await asyncio.open_connection(*on.address)
        writer.write(b"\x16\x03\x01")
        await until(lambda: on.server.connections == 1)
        on.clock.now_ms += 10_000
        on.server.check_deadlines(on.clock.now_ms)
        await until(lambda: on.server.connections == 0)
        writer.close()

    assert "no hello came" in play(act, settings_of(authority.pair())).refusals()[0]


def test_files_that_cannot_be_used_are_named_at_the_start(authority: Authority, tmp_path: Path) -> None:
    good, other = authority.pair("one"), authority.pair("other")
    empty = tmp_path / "empty.pem"
    empty.write_text("")
    for settings, expected in (
        (settings_of(good).model_copy(update={"key": str(other.key)}), "the key is not that of the certificate"),
        (settings_of(good).model_copy(update={"key": str(tmp_path / "none")}), "cannot be read: No such file"),
        (settings_of(good).model_copy(update={"certificate": str(empty)}), str(empty)),
        (settings_of(good, trusted_certificates=str(empty)), "tls.trusted_certificates"),
    ):
        with pytest.raises(ConfigError) as raised:
            tls_of_members(settings, RememberedLog().logger)
        assert expected in str(raised.value)


def test_a_value_of_a_subject_cannot_pose_as_another_name_of_it() -> None:
    subject = _subject_of({"subject": ((("organizationName", "Ex"),), (("commonName", "mallory,OU=Admin"),))})
    assert subject == r"CN=mallory\,OU\=Admin,O=Ex"
    assert principal_of_subject(subject, parse_subject_rules("RULE:^CN=.*,OU=Admin,.*$/admin/")) is None
    assert _subject_of({"subject": ((("commonName", "a"), ("userId", "b")),)}) == "CN=a+UID=b"


@pytest.mark.parametrize("end", [b"\x17\x03\x03\x00\x20" + b"x" * 32, b""], ids=["breaks TLS", "says nothing more"])
def test_a_peer_that_reads_nothing_and_ends_its_side_is_gone_after_the_close_time_out(
    authority: Authority, end: bytes
) -> None:
    def never_reads(address: tuple[str, int]) -> socket.socket:
        raw = socket.socket()
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        raw.connect(address)
        speaking = ssl.create_default_context(cafile=str(authority.trusted)).wrap_socket(
            raw, server_hostname="localhost"
        )
        session = Session(Role.MEMBER)
        speaking.sendall(session.send_hello())
        list(session.receive_bytes(speaking.recv(65536)))
        for _ in range(30):
            speaking.sendall(session.send_request(ListGroups())[1])
        return socket.socket(fileno=speaking.detach())

    async def act(on: Scene) -> None:
        peer = await asyncio.to_thread(never_reads, on.address)
        with contextlib.closing(peer):
            # All of the requests, or so many as are heard until the answers fill the socket of who does not read.
            heard = -1
            while heard != (heard := sum(kind == "request" for kind, *_ in on.listener.told)) or heard < 1:
                await asyncio.sleep(0.05)
            if end:
                peer.sendall(end)
            else:
                peer.shutdown(socket.SHUT_WR)

            def is_gone() -> bool:
                on.clock.now_ms += 1_000
                on.server.check_deadlines(on.clock.now_ms)
                return on.server.connections == 0

            await until(is_gone)

    play(act, settings_of(authority.pair()))
