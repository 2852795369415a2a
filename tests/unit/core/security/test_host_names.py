"""A certificate is for the hosts that it names, and for no other."""

import pytest

from coordinator.core.security.host_names import is_for_host, say_names


@pytest.mark.parametrize(
    ("name", "host", "is_for"),
    [
        (("DNS", "node1.example"), "node1.example", True),
        (("DNS", "Node1.Example"), "node1.eXample.", True),
        (("DNS", "node1.example"), "node2.example", False),
        (("DNS", "node1.example"), "a.node1.example", False),
        (("DNS", "*.kcoord.example"), "node1.kcoord.example", True),
        (("DNS", "*.kcoord.example"), "a.b.kcoord.example", False),
        (("DNS", "*.kcoord.example"), "kcoord.example", False),
        (("DNS", "*.kcoord.example"), ".kcoord.example", False),
        (("DNS", "*.example"), "node1.example", False),
        (("DNS", "*"), "node1", False),
        (("DNS", "n*.kcoord.example"), "node1.kcoord.example", False),
        (("DNS", "node.*.example"), "node.kcoord.example", False),
        (("IP Address", "10.0.0.1"), "10.0.0.1", True),
        (("IP Address", "10.0.0.1"), "10.0.0.11", False),
        (("IP Address", "0:0:0:0:0:0:0:1"), "::1", True),
        (("DNS", "10.0.0.1"), "10.0.0.1", False),
        (("IP Address", "10.0.0.1"), "node1", False),
        (("email", "node1.example"), "node1.example", False),
        (("URI", "node1.example"), "node1.example", False),
        (("DNS", ""), "", False),
    ],
)
def test_a_name_is_that_of_its_host_alone(name: tuple[str, str], host: str, is_for: bool) -> None:
    assert is_for_host((name,), host) is is_for
    assert is_for_host((("DNS", "other.example"), name), host) is is_for
    assert not is_for_host((), host)


def test_names_of_hosts_are_said() -> None:
    assert say_names((("DNS", "a"), ("email", "b"), ("IP Address", "::1"))) == "a, ::1"
    assert say_names(()) == "no host"
