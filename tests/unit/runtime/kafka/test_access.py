"""Access to brokers as files have it: what cannot be used is named, and no broker that is silent is waited for."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kafka.errors import SaslAuthenticationFailedError

from coordinator.config import ConfigError, KafkaSettings
from coordinator.runtime.kafka.access import kafka_access_of, load_access
from coordinator.runtime.kafka.client import KafkaAwayError, KafkaClient
from coordinator.runtime.security.reread import FileError
from tests.helpers.certificates import Authority
from tests.helpers.loopback import RememberedLog

SECRET = "c4n4ry"


def settings(**more: object) -> KafkaSettings:
    return KafkaSettings(security_protocol="SASL_SSL", **more)  # type: ignore[arg-type]  # of several kinds


def test_its_repr_has_no_secret_and_the_library_gets_it() -> None:
    access = load_access(settings(sasl_mechanism="SCRAM-SHA-256", sasl_username="u", sasl_password=SECRET))
    assert SECRET not in repr(access)
    assert access.for_library()["sasl_plain_password"] == SECRET
    assert access.who == "u with SCRAM-SHA-256"


def test_a_plain_kafka_has_no_files_to_look_at() -> None:
    assert kafka_access_of(KafkaSettings(), RememberedLog().logger) is None


@pytest.mark.parametrize(
    ("content", "said"),
    [(None, "cannot be read"), ("\n", "has no password")],
)
def test_a_password_file_that_cannot_be_used_is_an_error_at_the_start(
    content: str | None, said: str, tmp_path: Path
) -> None:
    path = tmp_path / "password"
    if content is not None:
        path.write_text(content)
    made = settings(sasl_mechanism="PLAIN", sasl_username="u", sasl_password_file=str(path))
    with pytest.raises(ConfigError, match=said) as caught:
        kafka_access_of(made, RememberedLog().logger)
    assert f"kafka.sasl_password_file {path}" in str(caught.value)


def test_a_token_is_read_at_each_log_in_and_a_bad_one_is_told_by_its_file(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("one\n")
    access = load_access(settings(sasl_mechanism="OAUTHBEARER", sasl_token_file=str(path)))
    provider = access.for_library()["sasl_oauth_token_provider"]
    assert provider.token() == "one"
    path.write_text("two")
    assert provider.token() == "two"
    path.write_text(f"{SECRET} {SECRET}")
    with pytest.raises(SaslAuthenticationFailedError, match="more than one token") as caught:
        provider.token()
    assert SECRET not in str(caught.value)


def test_a_certificate_that_cannot_be_used_is_told_by_its_setting(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    one, other = authority.pair("one"), authority.pair("other")
    made = KafkaSettings(security_protocol="SSL", certificate=str(one.certificate), key=str(other.key))
    with pytest.raises(FileError, match=r"kafka\.key .* the key is not that of the certificate"):
        load_access(made)


@contextmanager
def silent_broker() -> Iterator[str]:
    """Accept connections and say nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        held: list[socket.socket] = []

        def accept() -> None:
            try:
                while True:
                    held.append(listening.accept()[0])
            except OSError:
                pass

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        try:
            yield f"127.0.0.1:{listening.getsockname()[1]}"
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()
            for each in held:
                each.close()


@pytest.mark.filterwarnings(
    r"ignore:Exception ignored in. <(ssl\.SSLSocket|socket\.socket) fd:pytest.PytestUnraisableExceptionWarning"
)
def test_a_broker_that_says_nothing_of_tls_is_not_waited_for() -> None:
    with silent_broker() as address:
        began_s = time.monotonic()
        with pytest.raises(KafkaAwayError, match="does not answer as a Kafka broker in 300 ms"):
            KafkaClient([address], 300, 300, load_access(KafkaSettings(security_protocol="SSL")))
        assert time.monotonic() - began_s < 10
