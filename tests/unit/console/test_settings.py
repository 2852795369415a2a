"""Where a console may listen, and what it needs for it."""

import pytest

from coordinator.client.security import ClientSecurity, Coordinators
from coordinator.console.settings import ConsoleSettings, why_not
from coordinator.protocol.text.addresses import Address
from coordinator.runtime.security.tls_files import TlsFiles

TLS = TlsFiles("--tls", "/c.pem")
LOCAL: tuple[Address, ...] = (("127.0.0.1", 9292),)
FAR: tuple[Address, ...] = (("127.0.0.1", 9292), ("node2.example", 9292))


def console(
    host: str,
    protocol: str = "PLAINTEXT",
    at: tuple[Address, ...] = LOCAL,
    tls: TlsFiles | None = None,
    *,
    log_in: bool = False,
    hosts: tuple[str, ...] = (),
) -> ConsoleSettings:
    coordinators = Coordinators(at, ClientSecurity(protocol))
    return ConsoleSettings(coordinators, (host, 1), tls=tls, wants_log_in=log_in, hosts=hosts)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "127.8.8.8"])
def test_on_loopback_nothing_is_needed(host: str) -> None:
    assert why_not(console(host)) is None
    assert why_not(console(host, tls=TLS)) is None
    assert not console(host).is_log_in


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.org"])
def test_where_others_reach_it_people_log_in_over_tls(host: str) -> None:
    assert console(host).is_log_in
    assert "--tls-certificate" in (why_not(console(host, "SASL_SSL")) or "")
    open_ones = why_not(console(host, "SSL", tls=TLS)) or ""
    assert "authentication.mechanisms" in open_ones
    assert "SASL_SSL" in open_ones
    assert why_not(console(host, "SASL_SSL", FAR, TLS)) is None


def test_what_people_log_in_with_travels_to_other_machines_by_tls_alone() -> None:
    assert why_not(console("127.0.0.1", "SASL_PLAINTEXT", log_in=True)) is None
    assert "node2.example:9292 unencrypted" in (why_not(console("127.0.0.1", "SASL_PLAINTEXT", FAR, log_in=True)) or "")
    assert why_not(console("127.0.0.1", "SASL_SSL", FAR, log_in=True)) is None
    assert "--log-in" in (why_not(console("127.0.0.1", "SSL", log_in=True)) or "")


def test_names_beside_those_of_loopback_are_for_consoles_where_people_log_in() -> None:
    assert "add --log-in" in (why_not(console("127.0.0.1", hosts=("a.example",))) or "")
    assert why_not(console("127.0.0.1", "SASL_SSL", hosts=("a.example",), log_in=True)) is None
