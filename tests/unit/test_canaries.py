"""No secret that a setting holds comes out of the process that was given it; new ones are held to it by being declared.

The real process, its log, pages and metrics are in `integration/test_canaries.py`, Spark in `spark/test_secrets.py`.
"""

import base64
import copy
import pickle
import traceback
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from coordinator.client.configuration.command_config import read_command_config
from coordinator.client.security import SECURITY_SETTINGS, Coordinators, SecurityError, security_of_options
from coordinator.config import ConfigError, load_settings
from coordinator.config.render import config_file
from coordinator.config.section import is_secret
from coordinator.config.sections import Settings, every_setting
from coordinator.console.settings import ConsoleSettings
from coordinator.console.web.reading import Reader
from spark_kcoord.consumer.errors import SettingError
from spark_kcoord.consumer.settings import SETTINGS, parse_settings
from spark_kcoord.errors import OptionError
from spark_kcoord.fetch.topic_range import TopicRange
from spark_kcoord.options.kafka_settings import KAFKA_OPTIONS
from spark_kcoord.options.source_options import parse_options
from spark_kcoord.options.table import OPTIONS
from spark_kcoord.planning.input_partition import KcoordInputPartition
from tests.helpers.canaries import (
    OF_CLIENTS,
    OF_CONSUMERS,
    OF_NODES,
    OF_READS,
    SECRET_WORDS,
    canary,
    found_in,
    variable_of,
    with_client_secret,
)
from tests.helpers.console_world import ConsoleWorld

READ = {"subscribe": "t", "kcoord.bootstrap.servers": "127.0.0.1:9292", "kcoord.group.id": "g"}
AT = (("127.0.0.1", 9292),)


def test_canaries_are_found_in_every_form_in_which_they_travel() -> None:
    name = OF_CLIENTS[0]
    secret = canary(name)
    assert found_in(f"a line with {secret} in it") == [name]
    assert found_in(secret.encode().hex()) == [name]
    for before in ("", "u", "us", "\0user\0"):
        assert name in found_in(base64.b64encode(f"{before}{secret}".encode()))
    assert found_in("a line without") == []
    assert len({canary(each) for each in (*OF_CLIENTS, *OF_READS, *OF_CONSUMERS, *OF_NODES)}) > 6


OF_TOKENS = frozenset(
    f"authentication.token_{what}" for what in ("issuer", "audience", "principal_claim", "algorithms")
)
"""Settings that say how tokens have to be, and hold none."""


def test_what_is_named_like_a_secret_is_declared_as_one() -> None:
    """Else it would be shown wherever settings are, and no canary would be planted in it."""
    nodes = [
        name
        for name, setting in every_setting().items()
        if SECRET_WORDS.search(name) and not name.endswith("_file") and setting.annotation not in (int, bool)
    ]
    assert [name for name in nodes if not is_secret(every_setting()[name])] == sorted(OF_TOKENS, key=nodes.index)
    clients = [setting for setting in SECURITY_SETTINGS if SECRET_WORDS.search(setting.name)]
    assert [setting.name for setting in clients if not setting.is_secret] == []
    assert [one.name for one in KAFKA_OPTIONS if SECRET_WORDS.search(one.name) and not one.kind.is_secret] == []
    assert [one.name for one in OPTIONS if SECRET_WORDS.search(one.name) and not one.kind.is_secret] == []
    assert [one.name for one in SETTINGS.values() if SECRET_WORDS.search(one.name) and not one.is_secret] == []


# ---- a node


NEEDS: Mapping[str, Mapping[str, str]] = {
    "kafka.sasl_password": {
        "kafka.security_protocol": "SASL_SSL",
        "kafka.sasl_mechanism": "PLAIN",
        "kafka.sasl_username": "u",
    },
}
"""What a secret of a node's settings needs beside it; a new one that needs something has a line here."""


@pytest.fixture(params=OF_NODES)
def secret_of_node(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Have the canary of each secret be in the environment, with what it needs; return the setting's name."""
    name: str = request.param
    for each, text in {name: canary(name), **NEEDS.get(name, {})}.items():
        monkeypatch.setenv(variable_of(each), text)
    return name


def test_the_settings_of_a_node_show_no_secret(secret_of_node: str) -> None:
    settings = load_settings()
    section, _, key = secret_of_node.partition(".")
    assert getattr(getattr(settings, section), key).get_secret_value() == canary(secret_of_node)
    shown = [repr(settings), str(settings), repr(getattr(settings, section)), str(settings.model_dump())]
    shown += [settings.model_dump_json(), config_file(settings)]
    assert [found_in(text) for text in shown] == [[]] * len(shown)


def test_no_error_about_a_node_s_settings_shows_a_secret(
    secret_of_node: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    section, _, key = secret_of_node.partition(".")
    secret = canary(secret_of_node)
    mistakes: list[tuple[str, dict[str, object]]] = [
        (f"[{section}]\nnothing_like_it = 1\n", {}),
        (f"[{section}]\n{key} = ['{secret}']\n", {}),
        (f"[{section}]\n{key} = '{secret}\n", {}),
        ("", {secret_of_node: secret}),
        ("", {f"{section}.nothing_like_it": 1}),
        *(("", {f"{section}.{other}": "no such value"}) for other in type(getattr(Settings(), section)).model_fields),
    ]
    told = []
    for number, (text, flags) in enumerate(mistakes):
        file = tmp_path / f"{number}.toml"
        file.write_text(text)
        if f"{key} = " in text:
            monkeypatch.delenv(variable_of(secret_of_node), raising=False)
        try:
            load_settings(file, flags)
        except ConfigError:
            told.append(_raised(traceback.format_exc()))
    assert len(told) > 3
    assert [text for text in told if found_in(text)] == []


def _raised(trace: str) -> str:
    """Return what a traceback says, without the lines of source that it quotes."""
    return "\n".join(line for line in trace.splitlines() if not line.startswith("    "))


# ---- clients of a coordinator


@pytest.mark.parametrize("name", OF_CLIENTS)
def test_no_client_shows_a_secret_of_its_own_or_lets_it_travel(name: str) -> None:
    """Whatever is given beside it: some mixes are taken, others refused, and none is told."""
    taken = []
    for given in with_client_secret(name):
        try:
            security = security_of_options(given, {})
        except SecurityError:
            assert found_in(_raised(traceback.format_exc())) == [], given
            continue
        taken.append(given)
        coordinators = Coordinators(AT, security)
        console = ConsoleSettings(coordinators, AT[0])
        shown = (security, coordinators, console, Reader(console, ConsoleWorld().picture).in_force())
        assert [found_in(f"{value!r} {value}") for value in shown] == [[]] * len(shown)
        for value in (security, coordinators, console):
            with pytest.raises(TypeError, match="cannot be pickled"):
                pickle.dumps(value)
        try:
            security.tls_context()
        except SecurityError:
            assert found_in(_raised(traceback.format_exc())) == [], given
    assert taken, "no mix of settings takes this secret: the test has not planted it"


@pytest.mark.parametrize("name", OF_CLIENTS)
def test_a_read_shows_no_secret_and_sends_none_of_a_coordinator_s_to_executors(name: str) -> None:
    taken = 0
    for given in with_client_secret(name):
        for mode in ("stream", "batch"):
            try:
                options = parse_options({**READ, **given}, mode)
            except OptionError:
                assert found_in(_raised(traceback.format_exc())) == [], given
                continue
            taken += 1
            assert dict(options.security)[name] == canary(name)
            assert found_in(repr(options)) == []
            for sent in (pickle.dumps(options), pickle.dumps(copy.deepcopy(options))):
                assert found_in(sent) == []
    assert taken


@pytest.mark.parametrize("name", OF_CLIENTS)
def test_the_file_of_the_command_line_shows_no_secret_when_it_is_refused(name: str, tmp_path: Path) -> None:
    for number, text in enumerate(
        (f"{name}={canary(name)}\n", f"{name}:{canary(name)}\n", f"{name}={canary(name)}\n" * 2)
    ):
        file = tmp_path / f"{number}.properties"
        file.write_text(text)
        file.chmod(0o644)
        with pytest.raises(SecurityError) as raised:
            read_command_config(file)
        assert found_in(str(raised.value)) == []


# ---- reading Kafka


def _login(name: str) -> dict[str, str]:
    """Return options of a read that holds the canary of a secret and is taken."""
    secret = canary(name)
    plain = {"kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "PLAIN"}
    if name == "kafka.sasl.jaas.config":
        return plain | {
            name: f'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="{secret}";'
        }
    return plain | {"kafka.sasl.username": "u", "kafka.sasl.password": canary("kafka.sasl.password"), name: secret}


@pytest.mark.parametrize("name", OF_READS)
@pytest.mark.parametrize("mode", ["stream", "batch"])
def test_no_read_shows_a_secret_of_kafka_s(name: str, mode: Any) -> None:
    options = parse_options({**READ, **_login(name)}, mode)
    assert found_in(pickle.dumps(options)), "executors log in to Kafka with it"
    assert found_in(f"{options!r} {options} {options.kafka!r}") == []
    for wrong in ({"kafka.security.protocol": "PLAINTEXT"}, {"kafka.sasl.mechanism": "none"}, {"kafka.sasl.x": "y"}):
        with pytest.raises(OptionError) as raised:
            parse_options({**READ, **_login(name), **wrong}, mode)
        assert found_in(str(raised.value)) == []


def test_what_spark_prints_of_a_partition_are_its_ranges_and_where_to_read_them() -> None:
    """The classes are listed: whoever adds to one looks here, and Spark prints all of it."""
    assert [field.name for field in fields(KcoordInputPartition)] == ["ranges", "servers"]
    texts = {field.name for field in fields(TopicRange) if field.type not in ("int", "int | None")}
    assert texts <= {"topic", "topic_id"}


@pytest.mark.parametrize("name", OF_CONSUMERS)
def test_no_consumer_shows_a_secret(name: str) -> None:
    secret: Any = canary(name)
    held = {"kcoord.security.protocol": "SSL", "kcoord.ssl.key.password": secret}
    login = {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "u",
        "sasl_plain_password": "p",
    }
    given = {"coordinators": "127.0.0.1:9292", "group_id": "g", **login}
    given[name] = held if name == "coordinator_security" else secret
    settings = parse_settings(given)
    assert found_in(f"{settings!r} {settings} {settings.kafka!r} {settings.coordinators!r}") == []
    for wrong in ({name: [secret]}, {name: {secret: secret}}, {"sasl_mechanism": "none"}, {"max_poll_record": 1}):
        with pytest.raises(SettingError) as raised:
            parse_settings(given | wrong)
        assert found_in(str(raised.value)) == []
