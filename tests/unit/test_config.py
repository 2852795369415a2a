from dataclasses import asdict
from pathlib import Path

import pytest

from coordinator.client.security import SECURITY_SETTINGS
from coordinator.config import (
    ConfigError,
    GroupSettings,
    Settings,
    config_file,
    default_file,
    every_setting,
    load_settings,
)
from coordinator.core.cluster.office.settings import ControllerSettings
from coordinator.core.cluster_node.settings import ClusterSettings
from coordinator.core.limits import Limits
from coordinator.protocol.codec import encode_message
from coordinator.protocol.ids import MAX_OFFSET, MAX_PARTITION, MAX_TOPIC_LENGTH
from coordinator.protocol.messages import StartFetcher
from coordinator.protocol.parts import StartPartition

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    for name in tuple(os.environ):
        if name.startswith("KCOORD_"):
            monkeypatch.delenv(name)


def errors_of(text: str, tmp_path: Path, flags: dict[str, object] | None = None) -> list[str]:
    file = tmp_path / "c.toml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_settings(file, flags)
    return [line.replace(str(file), "c.toml") for line in caught.value.lines]


def test_the_shipped_file_holds_every_key_with_its_default() -> None:
    shipped = ROOT / "conf" / "coordinator.toml"
    assert shipped.read_text() == default_file()
    assert load_settings(shipped).model_dump() == Settings().model_dump()


def test_a_time_may_be_a_duration_wherever_it_is_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "c.toml"
    file.write_text('[group]\noffsets_retention_ms = "P30D"\nrebalance_window_ms = 20\n')
    monkeypatch.setenv("KCOORD_KAFKA_TOPICS_POLL_MS", "PT15S")
    loaded = load_settings(file, {"server.hello_timeout_ms": "9s", "disk.close_timeout_ms": "500"})
    assert loaded.group.offsets_retention_ms == 30 * 24 * 60 * 60 * 1000
    assert loaded.group.rebalance_window_ms == 20
    assert loaded.kafka.topics_poll_ms == 15_000
    assert (loaded.server.hello_timeout_ms, loaded.disk.close_timeout_ms) == (9_000, 500)


def test_a_duration_that_is_none_or_does_not_fit_is_refused(tmp_path: Path) -> None:
    text = '[group]\nrebalance_window_ms = "soon"\nsession_timeout_min_ms = "P9D"\npage_items = "5m"\n'
    assert sorted(errors_of(text, tmp_path)) == [
        "c.toml: group.page_items: input should be a valid integer, unable to parse string as an integer, not '5m'",
        "c.toml: group.rebalance_window_ms: 'soon' is no duration such as 15m, 90s, 500ms or PT15M",
        "c.toml: group.session_timeout_min_ms: input should be less than or equal to 86400000, not 777600000",
    ]


def test_every_setting_says_what_it_is_for_and_every_number_has_unit_and_limits() -> None:
    for key, setting in every_setting().items():
        assert setting.description, key
        if setting.annotation is int:
            limits = {name for part in setting.metadata for name in ("ge", "le") if hasattr(part, name)}
            assert limits == {"ge", "le"}, key
            assert isinstance(setting.json_schema_extra, dict), key
            assert key == "node.id" or setting.json_schema_extra["unit"], key
            assert not key.endswith("_ms") or setting.json_schema_extra["unit"] == "ms", key
            assert not key.endswith("_bytes") or setting.json_schema_extra["unit"] == "bytes", key


def test_every_limit_of_core_is_a_setting_with_cores_default() -> None:
    assert Settings().limits == Limits()
    assert set(asdict(Limits())) - set(GroupSettings.model_fields) == {"tick_ms"}


def test_no_push_is_longer_than_an_answer_may_be_made() -> None:
    longest = StartPartition(
        "t" * MAX_TOPIC_LENGTH, "i" * 36, MAX_PARTITION, MAX_OFFSET, MAX_OFFSET, MAX_PARTITION, "h" * 255, 65_535, 9_999
    )
    push = StartFetcher((longest,) * Limits().push_max_partitions, is_complete=True, member_epoch=1, group_epoch=1)
    (least,) = (each.ge for each in every_setting()["server.answer_bytes"].metadata if hasattr(each, "ge"))
    assert len(encode_message(push)) < least


def test_a_flag_goes_before_the_environment_and_that_before_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "c.toml"
    file.write_text("[group]\nrebalance_window_ms = 1\nprobe_timeout_ms = 11\nlookup_retry_ms = 12\n[node]\nid = 7\n")
    monkeypatch.setenv("KCOORD_GROUP_REBALANCE_WINDOW_MS", "2")
    monkeypatch.setenv("KCOORD_GROUP_PROBE_TIMEOUT_MS", "22")
    monkeypatch.setenv("KCOORD_KAFKA_BOOTSTRAP_SERVERS", "a:1, b:2")
    monkeypatch.setenv("KCOORD_COORDINATOR", "somebody:else")
    loaded = load_settings(file, {"group.rebalance_window_ms": "3"})
    assert loaded.limits.rebalance_window_ms == 3
    assert loaded.limits.probe_timeout_ms == 22
    assert loaded.limits.lookup_retry_ms == 12
    assert loaded.kafka.bootstrap_servers == ("a:1", "b:2")
    assert loaded.node.id == 7


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "[group]\nrebalance_widow_ms = 1",
            "c.toml: group.rebalance_widow_ms: there is no such setting; the nearest is group.rebalance_window_ms",
        ),
        ("[gruop]\nx = 1", "c.toml: gruop: there is no such setting; the nearest is group"),
        (
            "[node]\nshards = 0",
            "c.toml: node.shards: input should be greater than or equal to 1, not 0",
        ),
        (
            '[server]\nbacklog = "many"',
            "c.toml: server.backlog: input should be a valid integer, unable to parse string as an integer, not 'many'",
        ),
        ('[node]\nlisten = "here"', "c.toml: node.listen: 'here' is not HOST:PORT"),
        (
            '[log]\nlevel = "loud"',
            "c.toml: log.level: input should be 'debug', 'info', 'warning' or 'error', not 'loud'",
        ),
        ("[kafka]\nbootstrap_servers = []", "at least 1 item"),
        ("[node\n", "c.toml: is not TOML: "),
        (
            "[group]\nsession_timeout_min_ms = 9000\nsession_timeout_max_ms = 8000",
            "settings: group.session_timeout_min_ms is 9000, more than group.session_timeout_max_ms, which is 8000",
        ),
        (
            "[server]\nframe_bytes = 524_288",
            "c.toml: server.frame_bytes: input should be greater than or equal to 1048576, not 524288",
        ),
        (
            "[server]\nrequests_in_flight = 8",
            "c.toml: server.requests_in_flight: input should be greater than or equal to 64, not 8",
        ),
        (
            "[server]\nanswer_bytes = 33_554_432",
            "c.toml: server.answer_bytes: input should be less than or equal to 16777216, not 33554432",
        ),
        ("[server]\noutput_buffer_bytes = 100_000", "settings: server.output_buffer_bytes is 100000, too little"),
        (
            "[cluster]\nreplication_factor = 1",
            "c.toml: cluster: cluster.min_insync_replicas is 2, more than cluster.replication_factor, which is 1: "
            "nothing could ever be acknowledged",
        ),
        (
            "[cluster]\nreplicas = 3",
            "c.toml: cluster.replicas: there is no such setting; the nearest is cluster.min_insync_replicas",
        ),
        (
            '[zookeeper]\nhosts = ["zk1"]',
            "c.toml: zookeeper.hosts: 'zk1' is not HOST:PORT",
        ),
        (
            '[zookeeper]\nhost = "zk1:2181"',
            "c.toml: zookeeper.host: there is no such setting; the nearest is zookeeper.hosts",
        ),
        (
            '[zookeeper]\npath = "kcoord/"',
            "c.toml: zookeeper.path: 'kcoord/' is not the path of a node in ZooKeeper, such as /kcoord",
        ),
        (
            "[peers]\nping_ms = 1000",
            "c.toml: peers: peers.silence_ms is 1500, less than two of peers.ping_ms, which is 1000: not enough, a "
            "node that is well would count as silent",
        ),
        (
            "[replica]\nstep_down_ms = 1000",
            "c.toml: replica: replica.step_down_ms is 1000, less than replica.stall_ms, which is 2000",
        ),
        (
            '[node]\nmode = "cluster"\nlisten = "a:9"\n[peers]\nlisten = "a:9"',
            "settings: node.listen and peers.listen are both a:9, not two addresses",
        ),
        (
            '[node]\nmode = "clustr"',
            "c.toml: node.mode: input should be 'standalone' or 'cluster', not 'clustr'",
        ),
    ],
)
def test_a_bad_file_is_refused_with_the_place_and_what_is_wrong(text: str, line: str, tmp_path: Path) -> None:
    (said,) = errors_of(text, tmp_path)
    assert line in said


def test_every_error_has_a_line_that_names_its_own_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KCOORD_SERVER_BACKLOGS", "3")
    said = errors_of("[node]\nshard = 3", tmp_path, {"node.id": "x"})
    assert sorted(line.split(": there")[0].split(": input")[0] for line in said) == [
        "--set node.id",
        "KCOORD_SERVER_BACKLOGS",
        "c.toml: node.shard",
    ]


def test_a_file_that_cannot_be_read_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.toml: cannot be read: No such file or directory"):
        load_settings(tmp_path / "none.toml")


def test_a_section_in_the_environment_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KCOORD_LOG", "debug")
    with pytest.raises(ConfigError, match=r"environment: .*log.*KCOORD_LOG_LEVEL"):
        load_settings()


@pytest.mark.parametrize(
    ("variable", "meant"),
    [
        ("KCOORD_AUTHORISATION_RULES_FILE", "authorization.rules_file"),
        ("KCOORD_ZOOKEPER_HOSTS", "zookeeper.hosts"),
        ("kcoord_logs_level", "log.level"),
    ],
)
def test_a_variable_of_a_section_that_is_nearly_one_is_refused(
    variable: str, meant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, SECRET)
    with pytest.raises(ConfigError) as refused:
        load_settings()
    assert refused.value.lines == (f"{variable}: there is no such setting; the nearest is {meant}",)


def test_variables_of_tools_of_clients_and_of_kubernetes_are_no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    before = load_settings()
    of_clients = [setting.variable for setting in SECURITY_SETTINGS]
    of_tools = ["KCOORD_KAFKA_CONFIG", "KCOORD_COMMAND_CONFIG", "KCOORD_CONTEXT", "KCOORD_CACHE", "KCOORD_NATIVE"]
    of_kubernetes = ["KCOORD_SERVICE_HOST", "KCOORD_SERVICE_PORT", "KCOORD_PORT", "KCOORD_PORT_9292_TCP_ADDR"]
    for variable in (*of_clients, *(f"{each}_FILE" for each in of_clients), *of_tools, *of_kubernetes):
        monkeypatch.setenv(variable, "x")
    assert load_settings().model_dump() == before.model_dump()


def test_the_settings_of_a_cluster_may_be_set_wherever_others_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "c.toml"
    file.write_text('[node]\nmode = "cluster"\nid = 2\n[zookeeper]\nhosts = ["a:1", "b:2"]\npath = "/x/y"\n')
    monkeypatch.setenv("KCOORD_ZOOKEEPER_HOSTS", "c:3, d:4")
    monkeypatch.setenv("KCOORD_CLUSTER_MIN_INSYNC_REPLICAS", "1")
    loaded = load_settings(
        file, {"peers.listen": "0.0.0.0:7", "peers.security_protocol": "PLAINTEXT", "replica.lag_ms": "3s"}
    )
    assert (loaded.node.mode, loaded.node.id) == ("cluster", 2)
    assert (loaded.zookeeper.hosts, loaded.zookeeper.path) == (("c:3", "d:4"), "/x/y")
    assert (loaded.cluster.min_insync_replicas, loaded.peers.listen, loaded.replica.lag_ms) == (1, "0.0.0.0:7", 3_000)


def test_what_a_node_of_a_cluster_runs_with_by_default_is_what_its_core_says() -> None:
    assert Settings().of_cluster_node == ClusterSettings()


def test_the_core_of_a_node_of_a_cluster_is_given_what_was_set() -> None:
    given = load_settings(
        None,
        {
            "zookeeper.session_timeout_ms": "4s",
            "peers.confirm_linger_ms": 3,
            "replica.stall_ms": "1s",
            "replica.tail_bytes": 1,
            "cluster.elect_wait_ms": 7,
            "cluster.moves_at_once": 9,
        },
    ).of_cluster_node
    controller = ControllerSettings(reach_wait_ms=8_000, elect_wait_ms=7, moves_at_once=9)
    assert given == ClusterSettings(
        zookeeper_session_timeout_ms=4_000, confirm_linger_ms=3, stall_ms=1_000, tail_bytes=1, controller=controller
    )


def test_the_three_nodes_of_conf_are_one_cluster_on_one_machine() -> None:
    nodes = [load_settings(ROOT / "conf" / "cluster" / f"node-{number}.toml") for number in (1, 2, 3)]
    assert [node.node.mode for node in nodes] == ["cluster"] * 3
    assert [node.node.id for node in nodes] == [1, 2, 3]
    own = [(node.node.listen, node.peers.listen, str(node.node.data_dir), node.node.rack) for node in nodes]
    assert len({value for values in own for value in values}) == 12, "no two have an address, a directory or a rack"
    for shared in ("cluster", "zookeeper", "kafka", "group", "replica"):
        assert len({getattr(node, shared).model_dump_json() for node in nodes}) == 1
    assert nodes[0].group.snapshot_interval_records == 50_000


SECRET = "c4n4ry"


def test_a_secret_is_shown_by_no_error_no_repr_and_no_rendered_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_in = 'security_protocol = "SASL_SSL"\nsasl_mechanism = "PLAIN"\nsasl_username = "u"\n'
    for text in (
        f'[kafka]\nsasl_password = "{SECRET}"\n',
        f'[kafka]\n{log_in}sasl_password = "{SECRET}"\nsasl_token_file = "/t"\n',
        f'[kafka]\n{log_in}sasl_password = ["{SECRET}"]\n',
        f'[kafka]\n{log_in}sasl_password = "{SECRET}"\nsasl_password_file = "/p"\n',
    ):
        (line,) = errors_of(text, tmp_path)
        assert SECRET not in line
        assert "kafka" in line
    monkeypatch.setenv("KCOORD_KAFKA_SASL_PASSWORD", SECRET)
    file = tmp_path / "good.toml"
    file.write_text(f"[kafka]\n{log_in}")
    loaded = load_settings(file)
    assert loaded.kafka.sasl_password.get_secret_value() == SECRET
    rendered = config_file(loaded)
    assert SECRET not in rendered + repr(loaded) + str(loaded.model_dump())
    assert '# It is set, and not shown.\nsasl_password = ""' in rendered


def test_a_secret_as_a_flag_is_refused_with_what_to_use_instead(tmp_path: Path) -> None:
    assert errors_of("", tmp_path, {"kafka.sasl_password": SECRET}) == [
        "--set kafka.sasl_password: a secret on the command line can be read by others: use kafka.sasl_password_file "
        "or KCOORD_KAFKA_SASL_PASSWORD"
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('trusted_certificates = "/c"', "kafka.security_protocol is PLAINTEXT, which does not use TLS"),
        ('security_protocol = "SSL"\nkey = "/k"', "kafka.key is given and kafka.certificate is not"),
        ('security_protocol = "SSL"\nsasl_username = "u"', "kafka.security_protocol is SSL, which does not log in"),
        ('security_protocol = "SASL_SSL"', "kafka.sasl_mechanism is not given"),
        ('security_protocol = "SASL_SSL"\nsasl_mechanism = "PLAIN"', "kafka.sasl_username is not given"),
        (
            'security_protocol = "SASL_SSL"\nsasl_mechanism = "PLAIN"\nsasl_username = "u"',
            "kafka.sasl_password_file is not given",
        ),
        ('security_protocol = "SASL_SSL"\nsasl_mechanism = "OAUTHBEARER"', "kafka.sasl_token_file is not given"),
        (
            'security_protocol = "SASL_SSL"\nsasl_mechanism = "OAUTHBEARER"\n'
            'sasl_token_file = "/t"\nsasl_username = "u"',
            "kafka.sasl_username is given, which is not for kafka.sasl_mechanism OAUTHBEARER",
        ),
    ],
)
def test_settings_of_kafkas_security_that_do_not_go_together_are_refused(text: str, said: str, tmp_path: Path) -> None:
    (line,) = errors_of(f"[kafka]\n{text}\n", tmp_path)
    assert said in line


LOG_IN = 'mechanisms = ["SCRAM-SHA-512", "OAUTHBEARER"]\nusers_file = "/u"'
ALL_OPEN = '[node]\nlisten = "0.0.0.0:1"\nadvertised = "node1:1"\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"[authentication]\n{LOG_IN}", ""),
        ('[authentication]\nmechanisms = ["PLAIN"]', "'PLAIN' is none of SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER"),
        ('[authentication]\nmechanisms = ["SCRAM-SHA-256"]\njwks_file = "/j"', "users_file is not given"),
        ('[authentication]\nmechanisms = ["OAUTHBEARER"]', "which say whose a token is"),
        (f'[authentication]\n{LOG_IN}\njwks_file = "/j"\ntoken_issuer = "i"', "a token for somebody else would do"),
        ('[authentication]\ntoken_algorithms = ["none"]', "'none' is none of RS256"),
        ('[authentication]\ntoken_algorithms = ["HS256"]', "'HS256' is none of RS256"),
        ("[authentication]\ntoken_algorithms = []", "must name at least one"),
        (f"{ALL_OPEN}[authentication]\n{LOG_IN}", "log in by SCRAM-SHA-512, OAUTHBEARER without TLS"),
        (f'{ALL_OPEN}[authentication]\n{LOG_IN}\nwithout_tls = ["SCRAM-SHA-512"]', "log in by OAUTHBEARER without TLS"),
        (f'{ALL_OPEN}[authentication]\n{LOG_IN}\nwithout_tls = ["SCRAM-SHA-512", "OAUTHBEARER"]', ""),
        (f'{ALL_OPEN}[authentication]\n{LOG_IN}\n[tls]\ncertificate = "/c"', ""),
    ],
)
def test_settings_of_log_ins_that_do_not_go_together_are_refused(text: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text(text)
    if not said:
        assert load_settings(file).authentication.is_on
        return
    (line,) = errors_of(text, tmp_path)
    assert said in line


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "127.0.0.1:9293"),
        ('[peers]\nlisten = "[::1]:1"', ""),
        ('[peers]\nlisten = "localhost:1"', ""),
        ('[peers]\nlisten = "10.0.0.1:1"', "peers.listen is 10.0.0.1:1, which is not only for this machine"),
        ('[peers]\nlisten = "0.0.0.0:1"', "or set peers.security_protocol to PLAINTEXT"),
        ('[peers]\nlisten = "node1:1"', "which is not only for this machine"),
        ('[peers]\nlisten = "node1:1"\nsecurity_protocol = "PLAINTEXT"', ""),
        ('[peers]\nlisten = "node1:1"\ncertificate = "/c"', "which is not only for this machine"),
        ('[peers]\nlisten = "node1:1"\ncertificate = "/c"\ntrusted_certificates = "/t"', ""),
        ('[peers]\nlisten = "node1:1"\n[tls]\ncertificate = "/c"\ntrusted_certificates = "/t"', ""),
        ('[peers]\nsecurity_protocol = "SSL"', "peers.security_protocol is SSL and certificates are not given"),
        ('[peers]\nkey = "/k"', "peers.key is given and peers.certificate is not"),
    ],
)
def test_nodes_of_several_machines_show_each_other_certificates(text: str, said: str, tmp_path: Path) -> None:
    whole = f'[node]\nmode = "cluster"\n{text}\n'
    if said and not said[0].isdigit():
        (line,) = errors_of(whole, tmp_path)
        assert said in line
    else:
        file = tmp_path / "c.toml"
        file.write_text(whole)
        peers = load_settings(file)
        assert (peers.peer_tls is None) == ("trusted_certificates" not in text)


def test_nodes_have_certificates_of_their_own_or_those_for_members(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text('[node]\nmode = "cluster"\n[tls]\ncertificate = "/c"\nkey = "/k"\ntrusted_certificates = "/t"\n')
    members = load_settings(file).peer_tls
    assert members is not None
    assert (members.certificate, members.key, members.trusted_certificates) == ("/c", "/k", "/t")
    own = load_settings(file, {"peers.certificate": "/pc", "peers.trusted_certificates": "/pt"}).peer_tls
    assert own is not None
    assert (own.certificate, own.key, own.trusted_certificates, own.client_auth) == ("/pc", "", "/pt", "required")
