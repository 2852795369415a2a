"""The names under which a console answers."""

import pytest

from coordinator.console.port.hosts import Hosts

CERTIFIED = Hosts(
    frozenset({"board.example"}),
    lambda: (("DNS", "console.example"), ("DNS", "*.in.example"), ("IP Address", "10.0.0.5")),
)


@pytest.mark.parametrize(
    "host", ["console.example:7480", "CONSOLE.example", "board.example:1", "x.in.example", "10.0.0.5:7480", "[::1]:1"]
)
def test_names_of_the_certificate_and_those_given_and_loopback_are_answered(host: str) -> None:
    assert CERTIFIED.why_not(host) is None


@pytest.mark.parametrize(
    "host", ["evil.example", "in.example", "a.b.in.example", "10.0.0.6", "", ":7480", "[::1", "x@10.0.0.5.evil.example"]
)
def test_any_other_name_is_not(host: str) -> None:
    assert "--host" in (CERTIFIED.why_not(host) or "")
    assert "loopback" in (Hosts().why_not(host) or "")
