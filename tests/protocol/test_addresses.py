"""One rule of addresses: what a node takes, its tools, members and jobs take too, with the same words for the rest."""

from collections.abc import Callable

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as some

from coordinator.cli.parts.asking import must_be_addresses
from coordinator.config import ConfigError, load_settings
from coordinator.protocol.text.addresses import format_address, parse_address, parse_addresses
from spark_kcoord.consumer.settings import parse_settings
from spark_kcoord.errors import OptionError
from spark_kcoord.jobs.group_lag import group_lag
from spark_kcoord.options.source_options import host_ports, parse_options


@pytest.mark.parametrize(
    ("text", "address"),
    [("localhost:9000", ("localhost", 9000)), ("[::1]:1", ("::1", 1)), ("10.0.0.1:65535", ("10.0.0.1", 65535))],
)
def test_addresses_are_read_and_written(text, address):
    assert parse_address(text) == address
    assert format_address(address) == text


BAD = [
    *("", "localhost", ":9000", "host:", "host:x", "host:0", "host:65536", "h:٣", "h:-1", "h:" + "9" * 5000),
    *("::1:9000", "::1", "[::1]", "[]:1", "a b:1", "h:1 ", "kafka://h:1", "a:1,b:2", "[h:1", "h]:1"),
]


@pytest.mark.parametrize("text", BAD)
def test_what_is_no_address_is_refused_by_name(text):
    with pytest.raises(ValueError, match=r"is not HOST:PORT|write an IPv6 address in brackets") as caught:
        parse_address(text)
    assert str(caught.value).startswith(f"'{text}'")


def test_several_addresses_are_read_each_once_and_the_one_that_is_none_is_named():
    assert parse_addresses(" a:1,[::1]:2 , a:1,") == (("a", 1), ("::1", 2))
    for text, named in (("a:1,b", "'b'"), ("", "''"), (" , ", "' , '")):
        with pytest.raises(ValueError, match=rf"^{named} is not HOST:PORT$"):
            parse_addresses(text)


def test_what_cannot_be_printed_is_no_address_and_is_named_escaped():
    with pytest.raises(ValueError, match=r"^'h\\x1b\[2J:1' is not HOST:PORT$"):
        parse_address("h\x1b[2J:1")


def test_only_what_listens_takes_port_0():
    assert parse_address("127.0.0.1:0", lowest_port=0) == ("127.0.0.1", 0)
    with pytest.raises(ValueError, match="a port is a number from 1 to 65535"):
        parse_address("127.0.0.1:0")


def by_node(text: str) -> None:
    load_settings(None, {"node.listen": text})


def by_kafka_of_node(text: str) -> None:
    load_settings(None, {"kafka.bootstrap_servers": text})


def by_query(text: str) -> None:
    parse_options({"kcoord.bootstrap.servers": text, "kcoord.group.id": "g", "subscribe": "t"}, "stream")


def by_consumer(text: str) -> None:
    parse_settings({"coordinators": (text,), "group_id": "g"})


def by_job(text: str) -> None:
    group_lag(text, "g", timeout_s=0.1)


WHERE_ADDRESSES_COME_IN = [must_be_addresses, by_node, by_kafka_of_node, by_query, by_consumer, by_job]


@pytest.mark.parametrize("take", WHERE_ADDRESSES_COME_IN, ids=lambda take: take.__name__)
@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("::1:9000", "'::1:9000' is ambiguous: write an IPv6 address in brackets, as [::1]:9000"),
        ("here", "'here' is not HOST:PORT"),
        ("h:99999", "'h:99999' is not HOST:PORT: a port is a number from"),
    ],
)
def test_every_place_refuses_an_address_with_the_same_words(take: Callable[[str], object], text, why):
    with pytest.raises((ValueError, ConfigError, OptionError, typer.BadParameter)) as caught:
        take(text)
    assert why in str(caught.value)


@given(some.text(max_size=30))
def test_an_address_that_is_read_is_written_so_that_it_is_read_again(text):
    try:
        address = parse_address(text)
    except ValueError:
        return
    assert parse_address(format_address(address)) == address
    assert host_ports((text,)) == (address,)
