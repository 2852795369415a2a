"""TLS between nodes: both show certificates for their hosts, every other one is refused, and both ends say why."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from coordinator.config import TlsSettings
from coordinator.core.log.snapshot import MAX_PIECE_BYTES
from coordinator.core.peers.events import ContactEnded
from coordinator.protocol import peer_messages as wire
from coordinator.runtime.peers.connection import PeerConnection
from coordinator.runtime.security.tls_end import TlsEnd
from tests.helpers.certificates import Authority, Pair, long_ago
from tests.helpers.collector import left_to_python
from tests.helpers.event_loops import run
from tests.helpers.peer_nodes import PeerNode, in_contact, until_passed

pytestmark = pytest.mark.usefixtures("each_event_loop")

SOON_S = 5.0
"""A refusal comes at once: this is for slow machines, and less than any time-out that is in play."""


def tls_of(authority: Authority, pair: Pair, trusted: Authority | None = None) -> TlsSettings:
    return TlsSettings(
        certificate=str(pair.certificate),
        key=str(pair.key),
        trusted_certificates=str((trusted or authority).trusted),
        client_auth="required",
    )


@contextlib.asynccontextmanager
async def listening(*made: PeerNode) -> AsyncIterator[None]:
    for node in made:
        await node.listen()
    try:
        yield
    finally:
        for node in made:
            await node.port.close("the test is over")


def play(one: PeerNode, two: PeerNode, act: Callable[[], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with listening(one, two):
            one.connect(two)
            two.connect(one)
            await asyncio.wait_for(act(), 60)

    run(whole())


def refused(one: PeerNode, two: PeerNode) -> tuple[str, str]:
    """Have two nodes try; return what each has said of why there is no contact."""

    def said(node: PeerNode) -> str:
        kinds = ("stranger", "peer-refused", "peer-unreachable")
        return " | ".join(why for kind in kinds for why in node.whys(kind))

    async def act() -> None:
        began_s = asyncio.get_running_loop().time()
        await until_passed(lambda: said(one) and said(two), one, two)
        assert asyncio.get_running_loop().time() - began_s < SOON_S
        for _ in range(20):  # also what comes later
            await until_passed(lambda: True, one, two)
            one.pass_ms(20)
            two.pass_ms(20)
            await asyncio.sleep(0.01)

    play(one, two, act)
    assert not one.is_in_contact(2)
    assert not two.is_in_contact(1)
    return said(one), said(two)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def test_nodes_with_good_certificates_are_in_contact_and_say_large_things(authority: Authority) -> None:
    one = PeerNode(1, tls=tls_of(authority, authority.pair("one")))
    two = PeerNode(2, tls=tls_of(authority, authority.pair("two")))
    large = wire.SnapshotPiece(0, 0, 0, 1, 0, 0, True, 0, (bytes(MAX_PIECE_BYTES - 5),))

    async def act() -> None:
        await in_contact(one, two)
        for number in range(200):
            one.say(2, wire.Confirm(number))
            two.say(1, wire.Confirm(number))
        one.say(2, large)
        await until_passed(lambda: len(two.heard(1)) == 201 and len(one.heard(2)) == 200, one, two)

    play(one, two, act)
    assert two.heard(1) == [*map(wire.Confirm, range(200)), large]


def test_connections_between_nodes_that_are_gone_are_freed_without_the_collector(authority: Authority) -> None:
    def begin_and_end() -> None:
        one, two = (PeerNode(number, tls=tls_of(authority, authority.pair(f"node{number}"))) for number in (1, 2))
        play(one, two, lambda: in_contact(one, two))

    with left_to_python(PeerConnection, TlsEnd) as alive:
        begin_and_end()
        assert alive() == []


BAD = {
    "expired": "certificate has expired",
    "of another authority": "certificate verify failed|self-signed|unable to get local issuer",
    "for another host": "is for elsewhere.example|not valid for|IP address mismatch",
    "a member's": "is for no host|IP address mismatch|not valid for|is for",
}


@pytest.mark.parametrize("case", BAD)
def test_a_node_with_a_bad_certificate_is_refused_at_once_and_both_say_why(
    case: str, authority: Authority, tmp_path: Path
) -> None:
    other = Authority(tmp_path, "other")
    pair = {
        "expired": lambda: authority.pair("bad", ends=long_ago()),
        "of another authority": lambda: other.pair("bad"),
        "for another host": lambda: authority.pair("bad", "elsewhere.example"),
        "a member's": lambda: authority.pair("bad", "alice@example.com", common_name="alice"),
    }[case]()
    good = PeerNode(1, tls=tls_of(authority, authority.pair("good")))
    bad = PeerNode(2, tls=tls_of(authority, pair))
    said_good, said_bad = refused(good, bad)
    assert any(words in said_good for words in BAD[case].split("|")), said_good
    assert "certificate" in said_bad


def test_a_plain_node_beside_one_with_tls_is_told_so_and_so_is_the_other(authority: Authority) -> None:
    said_tls, said_plain = refused(PeerNode(1, tls=tls_of(authority, authority.pair())), PeerNode(2))
    assert "it does not speak TLS, and only TLS is spoken here; look at peers.security_protocol" in said_tls
    assert "one end speaks TLS and the other does not" in said_plain
    assert "peers.security_protocol" in said_plain


def test_a_caller_that_shows_no_certificate_or_speaks_an_old_tls_is_refused(authority: Authority) -> None:
    node = PeerNode(1, tls=tls_of(authority, authority.pair()))

    async def try_with(context: ssl.SSLContext) -> None:
        context.load_verify_locations(cafile=authority.trusted)
        with contextlib.suppress(OSError):
            reader, writer = await asyncio.open_connection(*node.address, ssl=context)
            await asyncio.wait_for(reader.read(), SOON_S)
            writer.close()
            await writer.wait_closed()

    async def whole() -> None:
        async with listening(node):
            node.connect(life=1)
            await try_with(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
            old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            old.set_ciphers("ALL:@SECLEVEL=0")
            with pytest.warns(DeprecationWarning, match="TLSv1"):
                old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1
            await try_with(old)
            await until_passed(lambda: len(node.whys("stranger")) == 2, node)

    run(whole())
    assert node.whys("stranger") == [
        "the other end showed no certificate, and one is required",
        "the other end speaks only a version of TLS that is too old for this end",
    ]


def test_a_certificate_of_one_node_is_not_taken_for_another(authority: Authority) -> None:
    """A node that another one calls is found by its address; one that calls has to be at its own."""
    one = PeerNode(1, tls=tls_of(authority, authority.pair("one", "127.0.0.1")))
    thief = PeerNode(2, tls=tls_of(authority, authority.pair("thief", "10.9.9.9")))
    said, _ = refused(one, thief)
    assert "the certificate that was shown for node 2 is for 10.9.9.9, and the node is registered at 127.0.0.1" in said


def test_files_that_are_exchanged_count_for_the_next_contact(authority: Authority, tmp_path: Path) -> None:
    pairs = [authority.pair("one"), authority.pair("two")]
    one, two = (PeerNode(number, tls=tls_of(authority, pair)) for number, pair in enumerate(pairs, 1))

    async def act() -> None:
        await in_contact(one, two)
        after = Authority(tmp_path, "after")
        authority.trusted.write_bytes(after.trusted.read_bytes())
        after.pair("one")
        for node in (one, two):
            assert node.tls is not None
            assert node.tls.look(in_any_case=True)
        assert one.is_in_contact(2)  # what there is goes on
        one.end(2, "to see")
        await until_passed(lambda: any("certificate" in why for why in one.whys("stranger")), one, two)
        assert not one.is_in_contact(2)
        after.pair("two")
        assert two.tls is not None
        assert two.tls.look(in_any_case=True)
        await in_contact(one, two)
        assert len(one.of(ContactEnded)) == 1

    play(one, two, act)
