"""Consumers whose files of TLS cannot be used: a call says so in the names of the settings, and does not poll on."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kcoord import AsyncConsumer, Consumer, TopicPartition
from spark_kcoord.consumer.errors import SettingError
from tests.helpers.certificates import Authority, lock
from tests.helpers.processes import eventually
from tests.helpers.tls_listener import TlsListener, tls_listener

LONG_MS = 60_000
"""A time-out that no test waits for."""
KEY = TopicPartition("t", 0)


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[TlsListener]:
    with tls_listener(Authority(tmp_path).pair()) as made:
        yield made


@pytest.fixture
def settings(listener: TlsListener) -> dict[str, Any]:
    return {"bootstrap_servers": listener.address, "security_protocol": "SSL"}


@pytest.mark.parametrize("setting", ["ssl_cafile", "ssl_certfile", "ssl_crlfile"])
def test_a_poll_of_what_was_assigned_names_the_setting_and_so_does_the_next(
    settings: dict[str, Any], setting: str, tmp_path: Path
) -> None:
    path = tmp_path / "missing.pem"
    with Consumer(**settings, **{setting: str(path)}) as consumer:
        consumer.assign([KEY])
        for _ in range(2):
            with pytest.raises(SettingError, match=f"Setting '{setting}' is '{path}'.*No such file or directory"):
                consumer.poll(timeout_ms=LONG_MS)


def test_a_poll_of_what_is_subscribed_to_names_the_setting(settings: dict[str, Any], tmp_path: Path) -> None:
    with (
        Consumer("t", **settings, ssl_cafile=str(tmp_path / "missing.pem")) as consumer,
        pytest.raises(SettingError, match=r"Setting 'ssl_cafile' is .*No such file or directory"),
    ):
        consumer.poll(timeout_ms=LONG_MS)


def test_a_look_up_names_the_settings_of_a_key_that_is_encrypted(settings: dict[str, Any], tmp_path: Path) -> None:
    own = lock(Authority(tmp_path).pair("own"), "password")
    with (
        Consumer(**settings, ssl_certfile=str(own.certificate), ssl_keyfile=str(own.key)) as consumer,
        pytest.raises(
            SettingError, match=r"'ssl_keyfile' is .*: its key is encrypted, and 'ssl_password' is not given"
        ),
    ):
        consumer.partitions_for_topic("t")


def test_an_asyncio_consumer_names_the_setting(settings: dict[str, Any], tmp_path: Path) -> None:
    async def poll() -> None:
        async with AsyncConsumer(**settings, ssl_cafile=str(tmp_path / "missing.pem")) as consumer:
            await consumer.assign([KEY])
            await consumer.getmany(timeout_ms=LONG_MS)

    with pytest.raises(SettingError, match=r"Setting 'ssl_cafile' is .*No such file or directory"):
        asyncio.run(poll())


def test_a_consumer_goes_on_once_its_file_is_mended(
    settings: dict[str, Any], listener: TlsListener, tmp_path: Path
) -> None:
    trusted = tmp_path / "trusted.pem"
    with Consumer(**settings, ssl_cafile=str(trusted)) as consumer:
        consumer.assign([KEY])
        with pytest.raises(SettingError):
            consumer.poll(timeout_ms=LONG_MS)
        trusted.write_bytes(b"")
        assert eventually(lambda: "it is not PEM" in _told(consumer)), "files are read anew"
        trusted.write_bytes((tmp_path / "authority.pem").read_bytes())
        assert eventually(lambda: not _told(consumer) and listener.handshakes > 0)


def _told(consumer: Consumer) -> str:
    try:
        consumer.poll(timeout_ms=200)
    except SettingError as error:
        return str(error)
    return ""
