"""The files of TLS: each that cannot be used is told by its option, and one that was exchanged counts."""

import gc
import logging
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from spark_kcoord.errors import KafkaAwayError, OptionError
from spark_kcoord.fetch.connection import KafkaClient
from spark_kcoord.fetch.offsets import KafkaLookup
from spark_kcoord.fetch.pool import ClientPool
from spark_kcoord.fetch.ranges import read_ranges
from spark_kcoord.fetch.tls_files import TlsFiles, tls_files_of
from spark_kcoord.fetch.topic_range import TopicRange
from spark_kcoord.options.kafka_settings import KafkaSettings, parse_kafka_options
from tests.helpers.certificates import Authority, lock
from tests.helpers.tls_listener import tls_listener

PASSWORD = "c4n4ry-p4ssw0rd"
LONG_S = 60.0
"""A time-out that no test waits for: what is told was told for its own reason."""


def settings_of(servers: str = "127.0.0.1:1", **files: object) -> KafkaSettings:
    """Return settings with TLS; the names of options are without `kafka.ssl.`, and have `_` for a dot."""
    named = {f"kafka.ssl.{name.replace('_', '.')}": str(value) for name, value in files.items()}
    return parse_kafka_options({"kafka.bootstrap.servers": servers, "kafka.security.protocol": "SSL"} | named)


def shown_by(files: TlsFiles, address: str) -> bytes:
    """Return the certificate of a listener, by shaking hands with it; raises SSLError where it is refused."""
    host, port = address.rsplit(":", 1)
    with (
        socket.create_connection((host, int(port)), LONG_S) as sock,
        files.wrap_socket(sock, server_hostname=host) as secured,
    ):
        return secured.getpeercert(binary_form=True) or b""


def asked(settings: KafkaSettings) -> None:
    with closing(KafkaLookup(settings, timeout_s=LONG_S)) as lookup:
        lookup.topics(["t"])


def read(settings: KafkaSettings) -> None:
    wanted = [TopicRange("t", None, 0, 0, 4)]
    list(
        read_ranges(settings, wanted, columns=("offset",), fail_on_data_loss=True, timeout_s=LONG_S, pool=ClientPool())
    )


def missing(folder: Path) -> Path:
    return folder / "missing.pem"


def no_pem(folder: Path) -> Path:
    (folder / "text.pem").write_text("no PEM")
    return folder / "text.pem"


@pytest.mark.parametrize("ask", [asked, read], ids=["look-up", "executor"])
@pytest.mark.parametrize(
    "option", ["truststore_location", "ca_location", "keystore_location", "certificate_location", "crl_location"]
)
@pytest.mark.parametrize(
    ("file", "why"), [(missing, "No such file or directory"), (no_pem, "it is not PEM")], ids=["missing", "no PEM"]
)
def test_a_file_that_cannot_be_used_is_told_by_the_option_that_was_given(
    ask: Callable[[KafkaSettings], None],
    option: str,
    file: Callable[[Path], Path],
    why: str,
    tmp_path: Path,
) -> None:
    path, name = file(tmp_path), f"kafka.ssl.{option.replace('_', '.')}"
    with tls_listener(Authority(tmp_path).pair()) as listener, pytest.raises(OptionError) as told:
        ask(settings_of(listener.address, **{option: path}))
    assert str(told.value) == (f"Option '{name}' is '{path}', which cannot be used on {socket.gethostname()}: {why}.")
    assert told.value.__suppress_context__, "the frames of the library would bury it"


def test_a_key_that_is_missing_is_told_by_its_own_option(tmp_path: Path) -> None:
    files = TlsFiles(
        settings_of(certificate_location=Authority(tmp_path).pair().certificate, key_location=missing(tmp_path))
    )
    with pytest.raises(OptionError, match=r"'kafka\.ssl\.key\.location' is .*missing\.pem.*No such file"):
        files.context()


@pytest.mark.parametrize(
    ("password", "why"),
    [
        (None, r"its key is encrypted, and 'kafka\.ssl\.key\.password' is not given"),
        ("another", r"its key is encrypted, and not with the 'kafka\.ssl\.key\.password' that is given"),
    ],
)
def test_an_encrypted_key_without_its_password_is_told_and_no_terminal_is_asked(
    password: str | None, why: str, tmp_path: Path
) -> None:
    own = lock(Authority(tmp_path).pair(), PASSWORD)
    more = {} if password is None else {"key_password": password}
    files = TlsFiles(settings_of(certificate_location=own.certificate, key_location=own.key, **more))
    with pytest.raises(OptionError, match=rf"'kafka\.ssl\.key\.location' is .*: {why}") as told:
        files.context()
    assert "another" not in str(told.value)


def test_an_encrypted_key_is_used_with_its_password(tmp_path: Path) -> None:
    own = lock(Authority(tmp_path).pair(), PASSWORD)
    both = tmp_path / "both.pem"
    both.write_bytes(own.certificate.read_bytes() + own.key.read_bytes())
    assert TlsFiles(settings_of(keystore_location=both, key_password=PASSWORD)).context()
    with pytest.raises(OptionError, match=r"'kafka\.ssl\.keystore\.location' is .*its key is encrypted"):
        TlsFiles(settings_of(keystore_location=both)).context()


@pytest.mark.parametrize(
    ("certificate", "key", "why"),
    [
        ("one.pem", "other.key", "the key is not that of the certificate"),
        ("one.pem", "one.pem", "there is no certificate, or no key in '.*one.pem'"),
        ("one.pem", None, "there is no certificate with its key"),
    ],
)
def test_a_certificate_and_a_key_that_are_no_pair_are_told(
    certificate: str, key: str | None, why: str, tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    authority.pair("one"), authority.pair("other")
    more = {} if key is None else {"key_location": str(tmp_path / key)}
    with pytest.raises(OptionError, match=why):
        TlsFiles(settings_of(certificate_location=tmp_path / certificate, **more)).context()


def test_a_broker_whose_certificate_is_revoked_is_refused_and_another_is_not(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    good, revoked = authority.pair("good"), authority.pair("revoked")
    crl = authority.revocations("crl", revoked)
    files = TlsFiles(settings_of(ca_location=authority.trusted, crl_location=crl))
    with tls_listener(good) as listener:
        assert shown_by(files, listener.address)
    with tls_listener(revoked) as listener:
        with pytest.raises(ssl.SSLCertVerificationError, match="certificate revoked"):
            shown_by(files, listener.address)
        assert shown_by(TlsFiles(settings_of(ca_location=authority.trusted)), listener.address), (
            "without the list it is trusted"
        )


@pytest.fixture
def garbage_is_collected(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Collect the sockets that kafka-python leaves where a handshake fails, so that the warning is of that test."""
    yield
    caplog.get_records("call").clear()
    gc.collect()


@pytest.mark.usefixtures("garbage_is_collected")
@pytest.mark.filterwarnings(
    r"ignore:Exception ignored in. <(ssl\.SSLSocket|socket\.socket) fd:pytest.PytestUnraisableExceptionWarning"
)
def test_a_look_up_says_that_a_certificate_is_revoked(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    revoked = authority.pair()
    crl = authority.revocations("crl", revoked)
    with tls_listener(revoked) as listener:
        made = settings_of(listener.address, ca_location=authority.trusted, crl_location=crl)
        with (
            closing(KafkaLookup(made, timeout_s=3.0)) as lookup,
            pytest.raises(KafkaAwayError, match="certificate revoked"),
        ):
            lookup.topics(["t"])


def test_certificates_in_place_of_revoked_ones_are_not_trusted(tmp_path: Path) -> None:
    authority, other = Authority(tmp_path), Authority(tmp_path, "other")
    files = TlsFiles(settings_of(ca_location=authority.trusted, crl_location=other.trusted))
    with pytest.raises(OptionError, match=r"'kafka\.ssl\.crl\.location' is .*certificates in it, which would be"):
        files.context()
    files = TlsFiles(settings_of(ca_location=authority.trusted, crl_location=authority.trusted))
    with pytest.raises(OptionError, match="there is no list of revoked certificates in it"):
        files.context()


def test_files_that_were_exchanged_count_for_the_next_connection(tmp_path: Path) -> None:
    before, after = Authority(tmp_path, "before"), Authority(tmp_path, "after")
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes(before.trusted.read_bytes())
    files = TlsFiles(settings_of(ca_location=trusted))
    with tls_listener(after.pair()) as listener:
        with pytest.raises(ssl.SSLCertVerificationError):
            shown_by(files, listener.address)
        trusted.write_bytes(after.trusted.read_bytes())
        assert shown_by(files, listener.address)


def test_files_that_are_half_exchanged_leave_connections_as_they_were(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    authority = Authority(tmp_path)
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes(authority.trusted.read_bytes())
    files = TlsFiles(settings_of(ca_location=trusted))
    with tls_listener(authority.pair()) as listener, caplog.at_level(logging.WARNING):
        assert shown_by(files, listener.address)
        trusted.write_bytes(b"")
        assert shown_by(files, listener.address)
    assert "it is not PEM. What the files held before is used." in caplog.text


def test_clients_beside_each_other_share_what_the_files_held(tmp_path: Path) -> None:
    trusted = Authority(tmp_path).trusted
    with closing(KafkaClient(settings_of(ca_location=trusted))) as client, closing(client.beside()) as other:
        assert isinstance(client._manager.config["ssl_context"], TlsFiles)
        assert other._manager.config["ssl_context"] is client._manager.config["ssl_context"]


def test_there_are_no_files_without_tls_and_with_a_context_of_ones_own(tmp_path: Path) -> None:
    assert tls_files_of(parse_kafka_options({"kafka.ssl.ca.location": str(missing(tmp_path))})) is None
    own = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client = (("security_protocol", "SSL"), ("ssl_context", own))
    assert tls_files_of(KafkaSettings(servers=("127.0.0.1:1",), client=client)) is None
