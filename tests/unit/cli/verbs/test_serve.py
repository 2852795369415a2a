import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from coordinator.cli import app
from coordinator.config import config_file, default_file, load_settings


def kcoord(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, arguments)
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def bad_file(tmp_path: Path) -> Path:
    file = tmp_path / "coordinator.toml"
    file.write_text("[node]\nshardz = 3\n[group]\nrebalance_window_ms = -1\n")
    return file


@pytest.mark.parametrize("verb", ["serve", "check-config"])
def test_bad_settings_are_exit_code_2_with_a_line_for_every_error(verb: str, bad_file: Path) -> None:
    code, out, err = kcoord(verb, "--config", str(bad_file), "--set", "log.level=loud")
    assert (code, out) == (2, "")
    assert sorted(err.splitlines()) == [
        "error: --set log.level: input should be 'debug', 'info', 'warning' or 'error', not 'loud' [KC-4001]",
        f"error: {bad_file}: group.rebalance_window_ms: input should be greater than or equal to 0, not -1 [KC-4001]",
        f"error: {bad_file}: node.shardz: there is no such setting; the nearest is node.shards [KC-4001]",
    ]


def test_a_setting_that_is_no_setting_is_named() -> None:
    code, _, err = kcoord("check-config", "--set", "shards")
    assert code == 2
    assert err == "error: --set shards: is not SECTION.KEY=VALUE, such as group.rebalance_window_ms=50 [KC-4001]\n"


def test_a_flag_that_is_no_setting_does_not_show_its_value() -> None:
    code, _, err = kcoord("check-config", "--set", "kafka_sasl_password=c4n4ry")
    assert (code, "c4n4ry" in err) == (2, False)
    assert err.startswith("error: --set kafka_sasl_password: is not SECTION.KEY=VALUE")


def test_good_settings_are_ok(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text(default_file())
    assert kcoord("check-config", "--config", str(file)) == (0, f"{file}: OK\n", "")


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("tls.certificate", ()),
        ("peers.certificate", ("node.mode=cluster", "node.id=1", "peers.trusted_certificates=/missing")),
        ("authentication.users_file", ("authentication.mechanisms=SCRAM-SHA-256",)),
        ("authorization.rules_file", ()),
    ],
)
def test_settings_whose_files_are_not_there_are_not_ok(name: str, more: tuple[str, ...], tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    given = [word for setting in (f"{name}={missing}", *more) for word in ("--set", setting)]
    code, out, err = kcoord("check-config", *given)
    assert (code, out) == (2, "")
    assert f"{missing}" in err
    assert "No such file" in err


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("node.advertised=0.0.0.0:9292", "error: --set node.advertised: 0.0.0.0:9292 is every address of this machine"),
        ("peers.advertised=[::]:9293", "error: --set peers.advertised: [::]:9293 is every address of this machine"),
        ("node.listen=0.0.0.0:9292", "error: node.listen is 0.0.0.0:9292, which is every address of this machine"),
        ("node.listen=0:9292", "error: node.listen is 0:9292, which is every address of this machine"),
        ("peers.listen=0.0.0.0:9293", "error: peers.listen is 0.0.0.0:9293, which is every address of this machine"),
    ],
)
def test_settings_with_an_address_that_nobody_could_be_told_are_not_ok(given: str, why: str) -> None:
    cluster = ("--set", "node.mode=cluster", "--set", "node.id=1", "--set", "peers.security_protocol=PLAINTEXT")
    code, out, err = kcoord("check-config", *cluster, "--set", given)
    assert (code, out) == (2, "")
    assert err.startswith(why)


def test_the_address_between_nodes_is_nothing_to_a_node_that_is_alone() -> None:
    assert kcoord("check-config", "--set", "peers.listen=0.0.0.0:9293")[0] == 0


def test_the_defaults_can_be_printed() -> None:
    assert kcoord("check-config", "--defaults") == (0, default_file(), "")


def test_the_settings_of_a_node_can_be_printed_and_loaded_again(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text("[group]\npage_items = 7\n")
    given = ("--data", 'a "b\\c', "--kafka", "k1:1,k2:2", "--set", "group.rebalance_window_ms=1s")
    code, out, err = kcoord("serve", "--config", str(file), *given, "--print-config")
    assert (code, err) == (0, "")
    file.write_text(out)
    loaded = load_settings(file)
    assert (loaded.group.page_items, loaded.group.rebalance_window_ms) == (7, 1000)
    assert (str(loaded.node.data_dir), loaded.kafka.bootstrap_servers) == ('a "b\\c', ("k1:1", "k2:2"))
    assert config_file(loaded) == out
    assert len(out.splitlines()) == len(default_file().splitlines()), "every key"


def test_the_versions_are_printed() -> None:
    code, out, _ = kcoord("version")
    assert code == 0
    assert out.startswith("kcoord ")
    assert "kafka-python 3" in out


def test_a_node_without_the_event_loop_it_names_says_so_and_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)
    code, out, err = kcoord("serve", "--set", "node.event_loop=uvloop")
    assert (code, out) == (1, "")
    assert "node.event_loop is uvloop, which cannot be loaded" in err
    assert "set node.event_loop to auto or asyncio" in err
