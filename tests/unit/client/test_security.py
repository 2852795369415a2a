"""The settings by which clients speak to coordinators, and that no secret of them comes out again."""

import pickle
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from coordinator.client.configuration.command_config import read_command_config
from coordinator.client.security import (
    PLAINTEXT,
    SECURITY_SETTINGS,
    ClientSecurity,
    Coordinators,
    Secret,
    SecurityError,
    security_of,
    security_of_options,
)
from spark_kcoord.consumer.errors import SettingError
from spark_kcoord.consumer.settings import parse_settings
from spark_kcoord.errors import OptionError
from spark_kcoord.options.security_options import SECURITY_OPTIONS
from spark_kcoord.options.source_options import parse_options
from tests.helpers.certificates import Authority, lock

CANARY = "c4n4ry-s3cr3t"
SPARK_HIDES = re.compile("(?i)secret|password|token|access[.]?key")
"""Spark's default for `spark.redaction.regex`."""
AT = (("127.0.0.1", 9292),)


def test_without_settings_a_client_speaks_plainly() -> None:
    assert security_of_options({}, {}) == PLAINTEXT
    assert security_of(AT) == PLAINTEXT
    assert not PLAINTEXT.is_tls


def test_a_name_counts_before_the_environment_and_a_file_holds_a_secret(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(CANARY + "\n")
    environment = {
        "KCOORD_SECURITY_PROTOCOL": "ssl",
        "KCOORD_SSL_CA_LOCATION": "/environment.pem",
        "KCOORD_SSL_KEY_PASSWORD_FILE": str(secret),
    }
    told = security_of_options({"KCOORD.ssl.ca.location": "/named.pem"}, environment)
    assert (told.protocol, told.ca_location, told.key_password) == ("SSL", "/named.pem", CANARY)
    named = security_of_options({"kcoord.ssl.key.password.file": str(secret)}, {"KCOORD_SECURITY_PROTOCOL": "SSL"})
    assert named.key_password == CANARY


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"kcoord.security.protocol": CANARY}, "'kcoord.security.protocol' is not one of PLAINTEXT, SSL"),
        ({"kcoord.ssl.ca.location": "ca.pem"}, "'kcoord.security.protocol' is PLAINTEXT"),
        ({"kcoord.ssl.key.password": CANARY}, "'kcoord.security.protocol' is PLAINTEXT"),
        ({"kcoord.ssl.nothing": CANARY}, "'kcoord.ssl.nothing' is unknown"),
        ({"kcoord.sasl.pasword": CANARY}, "'kcoord.sasl.pasword' is unknown; the nearest is 'kcoord.sasl.password'"),
        ({"kcoord.ssl.key.password": CANARY, "kcoord.ssl.key.password.file": "f"}, "both given"),
        ({"kcoord.ssl.key.password.file": "/nowhere"}, "'kcoord.ssl.key.password.file' is /nowhere"),
        ({"kcoord.security.protocol": "SSL", "kcoord.ssl.key.location": "k"}, "'kcoord.ssl.certificate.location'"),
        ({"kcoord.sasl.password": CANARY}, "is PLAINTEXT, which logs nobody in: set that to SASL_SSL"),
        ({"kcoord.security.protocol": "SSL", "kcoord.auth.token": CANARY}, "is SSL, which logs nobody in"),
        ({"kcoord.security.protocol": "SASL_SSL"}, "'kcoord.sasl.username' is not given"),
        ({"kcoord.security.protocol": "SASL_SSL", "kcoord.sasl.username": "a"}, "'kcoord.sasl.password' is not given"),
        (
            {"kcoord.security.protocol": "SASL_SSL", "kcoord.sasl.mechanism": "OAUTHBEARER"},
            "'kcoord.auth.token' is not given",
        ),
        (
            {"kcoord.security.protocol": "SASL_SSL", "kcoord.sasl.password": CANARY, "kcoord.auth.token": CANARY},
            "'kcoord.sasl.password' and 'kcoord.auth.token' are both given",
        ),
        ({"kcoord.security.protocol": "SASL_SSL", "kcoord.sasl.mechanism": CANARY}, "is not one of SCRAM-SHA-256"),
        ({"kcoord.auth.token": CANARY, "kcoord.auth.token.file": "f"}, "both given"),
        ({"kcoord.security.protocol": "SASL_SSL", "kcoord.auth.token.file": "/nowhere"}, "cannot be read"),
    ],
)
def test_what_cannot_be_used_is_refused_by_name_and_shows_no_value_of_a_secret(
    given: Mapping[str, str], expected: str
) -> None:
    with pytest.raises(SecurityError) as raised:
        security_of_options(given, {})
    assert expected in str(raised.value)
    assert CANARY not in str(raised.value)


@pytest.mark.parametrize(
    ("more", "mechanism"),
    [
        ({"kcoord.sasl.username": "alice", "kcoord.sasl.password": CANARY}, "SCRAM-SHA-512"),
        (
            {"kcoord.sasl.username": "a", "kcoord.sasl.password": CANARY, "kcoord.sasl.mechanism": "scram-sha-256"},
            "SCRAM-SHA-256",
        ),
        ({"kcoord.auth.token": CANARY}, "OAUTHBEARER"),
    ],
)
def test_a_client_logs_in_by_what_it_has_to_show(more: Mapping[str, str], mechanism: str) -> None:
    for given, environment in (
        ({"kcoord.security.protocol": "SASL_SSL"} | more, {}),
        ({}, {"KCOORD_SECURITY_PROTOCOL": "SASL_SSL"} | {key.replace(".", "_").upper(): more[key] for key in more}),
    ):
        security = security_of_options(given, environment)
        assert (security.is_tls, security.is_log_in, security.mechanism) == (True, True, mechanism)
        assert (security.token or security.password).read() == CANARY
        assert CANARY not in repr(security)


def test_a_secret_of_a_log_in_is_read_from_its_file_each_time_it_is_wanted(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first\n")
    for given, environment in (
        ({"kcoord.auth.token.file": str(file)}, {}),
        ({}, {"KCOORD_AUTH_TOKEN_FILE": str(file)}),
    ):
        security = security_of_options({"kcoord.security.protocol": "SASL_PLAINTEXT"} | given, environment)
        file.write_text("second\n")
        assert security.token.read() == "second"
        assert "second" not in repr(security)


def test_files_of_tls_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    bad = tmp_path / "bad.pem"
    bad.write_text("no certificate")
    for security, name in (
        (ClientSecurity("SSL", ca_location=str(bad)), "kcoord.ssl.ca.location"),
        (ClientSecurity("SSL", ca_location=str(tmp_path / "none")), "kcoord.ssl.ca.location"),
        (ClientSecurity("SSL", certificate_location=str(bad)), "kcoord.ssl.certificate.location"),
    ):
        with pytest.raises(SecurityError) as raised:
            security.tls_context()
        assert name in str(raised.value)


def test_a_wrong_password_of_a_key_is_an_error_that_does_not_show_it(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    for right, tried in (("right", CANARY), (CANARY, "wrong"), (CANARY, "")):
        pair = lock(authority.pair("alice"), right)
        security = ClientSecurity(
            "SSL", certificate_location=str(pair.certificate), key_location=str(pair.key), key_password=tried
        )
        with pytest.raises(SecurityError) as raised:
            security.tls_context()
        assert CANARY not in str(raised.value)
        assert raised.value.__cause__ is None


def test_secrets_are_in_no_representation_and_travel_nowhere() -> None:
    security = ClientSecurity("SSL", key_password=CANARY, password=Secret(CANARY), token=Secret(CANARY))
    coordinators = Coordinators(AT, security)
    assert CANARY not in f"{security!r} {coordinators!r} {coordinators}"
    assert coordinators == AT
    for value in (security, coordinators):
        with pytest.raises(TypeError, match="cannot be pickled"):
            pickle.dumps(value)


def test_spark_hides_every_secret_by_its_name() -> None:
    secrets = [setting.name for setting in SECURITY_SETTINGS if setting.is_secret]
    assert secrets
    assert [name for name in secrets if not SPARK_HIDES.search(name)] == []


def test_the_options_of_the_source_are_those_of_every_client() -> None:
    named = {name: meaning for name, meaning in SECURITY_OPTIONS if not name.endswith(".file")}
    assert named == {setting.name: setting.meaning for setting in SECURITY_SETTINGS}
    files = {name for name, _ in SECURITY_OPTIONS if name.endswith(".file")}
    assert files == {f"{setting.name}.file" for setting in SECURITY_SETTINGS if setting.is_secret}


READ = {"subscribe": "t", "kcoord.bootstrap.servers": "127.0.0.1:9292", "kcoord.group.id": "g"}
SECURE = {"kcoord.security.protocol": "SSL", "kcoord.ssl.key.password": CANARY}


def test_the_source_speaks_by_its_options_and_sends_none_of_them_to_executors() -> None:
    options = parse_options(READ | SECURE, "stream")
    assert options.coordinators_at == AT
    assert options.coordinators_at.security == ClientSecurity("SSL", key_password=CANARY)
    assert CANARY not in repr(options)
    sent = pickle.dumps(options)
    assert CANARY.encode() not in sent
    there = pickle.loads(sent)
    assert there.security == ()
    assert (there.group_id, there.mode, there.subscription) == (options.group_id, "stream", options.subscription)


def test_the_source_and_the_consumer_refuse_what_cannot_be_used_without_showing_it() -> None:
    bad = {"kcoord.ssl.key.password": CANARY}
    with pytest.raises(OptionError, match=r"kcoord\.security\.protocol") as by_source:
        parse_options(READ | bad, "stream")
    with pytest.raises(SettingError, match="coordinator_security") as by_consumer:
        parse_settings({"coordinators": "127.0.0.1:9292", "group_id": "g", "coordinator_security": bad})
    with pytest.raises(SettingError, match="coordinator_security") as no_texts:
        parse_settings({"coordinators": "127.0.0.1:9292", "group_id": "g", "coordinator_security": CANARY})
    for raised in (by_source, by_consumer, no_texts):
        assert CANARY not in str(raised.value)


def test_the_consumer_speaks_by_its_settings_and_shows_no_secret() -> None:
    settings = parse_settings({"coordinators": "127.0.0.1:9292", "group_id": "g", "coordinator_security": SECURE})
    assert security_of(settings.coordinators).key_password == CANARY
    assert CANARY not in repr(settings)


def test_a_file_for_the_command_line_is_read_by_lines_and_a_bad_one_is_named(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("# comment\n\nkcoord.security.protocol = SSL\nkcoord.ssl.key.password=a=b\n")
    file.chmod(0o600)
    assert read_command_config(file) == {"kcoord.security.protocol": "SSL", "kcoord.ssl.key.password": "a=b"}
    for text, expected in (
        (f"kcoord.security.protocol=SSL\n{CANARY}\n", "line 2"),
        (f"kcoord.ssl.key.password={CANARY}\nkcoord.ssl.key.password={CANARY}", "line 2"),
    ):
        file.write_text(text)
        with pytest.raises(SecurityError, match=expected) as raised:
            read_command_config(file)
        assert CANARY not in str(raised.value)


def test_a_file_with_a_secret_that_others_may_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(f"kcoord.ssl.key.password={CANARY}\n")
    file.chmod(0o640)
    with pytest.raises(SecurityError, match="chmod 600") as raised:
        read_command_config(file)
    assert CANARY not in str(raised.value)
    file.write_text("kcoord.security.protocol=SSL\n")
    assert read_command_config(file) == {"kcoord.security.protocol": "SSL"}
