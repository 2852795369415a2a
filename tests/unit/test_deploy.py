"""The unit and the manifests, held against what a node does: ports, probes, time to stop, where its data is.

That systemd and Kubernetes take them is for `make deploy-check`, which has their programs and schemas.
"""

import configparser
import re
import tomllib
from pathlib import Path
from typing import Any

import yaml

from coordinator.config import Settings
from coordinator.config.load import load_settings

DEPLOY = Path(__file__).parents[2] / "deploy"
MANIFESTS: dict[str, list[dict[str, Any]]] = {}
for each in yaml.safe_load_all((DEPLOY / "kubernetes" / "kcoord.yaml").read_text()):
    MANIFESTS.setdefault(each["kind"], []).append(each)
STATEFUL_SET = MANIFESTS["StatefulSet"][0]
POD = STATEFUL_SET["spec"]["template"]
CONTAINER = POD["spec"]["containers"][0]
TOML = MANIFESTS["ConfigMap"][0]["data"]["coordinator.toml"]


def longest_stop_s(settings: Settings) -> float:
    """Return how long a node may take from SIGTERM to its end: every time-out on its way."""
    stop_ms = settings.cluster.drain_timeout_ms + settings.disk.close_timeout_ms + settings.server.close_timeout_ms
    return (stop_ms + settings.peers.close_timeout_ms + 1_000) / 1000


def unit() -> dict[str, dict[str, str]]:
    parser = configparser.ConfigParser(interpolation=None, delimiters="=", comment_prefixes="#")
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string((DEPLOY / "systemd" / "kcoord.service").read_text())
    return {name: dict(parser[name]) for name in parser.sections()}


def settings_of_pod(tmp_path: Path, number: int) -> Settings:
    """Return the settings of one pod: of its file, and of its environment as Kubernetes would make it."""
    (tmp_path / "coordinator.toml").write_text(TOML)
    pod = {
        "metadata.name": f"kcoord-{number}",
        "metadata.namespace": "data",
        "metadata.labels['apps.kubernetes.io/pod-index']": str(number),
        "spec.nodeName": f"machine-{number}",
    }
    environment: dict[str, str] = {}
    for variable in CONTAINER["env"]:
        value = variable.get("value") or pod[variable["valueFrom"]["fieldRef"]["fieldPath"]]
        environment[variable["name"]] = re.sub(r"\$\((\w+)\)", lambda found: environment[found[1]], value)
    flags = {
        ".".join(name.lower().removeprefix("kcoord_").split("_", 1)): value
        for name, value in environment.items()
        if name.startswith("KCOORD_")
    }
    return load_settings(tmp_path / "coordinator.toml", flags)


def test_a_pod_is_a_node_with_an_id_and_addresses_of_its_own(tmp_path: Path) -> None:
    settings = settings_of_pod(tmp_path, 2)
    assert (settings.node.id, settings.node.rack, settings.node.mode) == (2, "machine-2", "cluster")
    assert settings.node.advertised == "kcoord-2.kcoord.data.svc:9292"
    assert settings.peers.advertised == "kcoord-2.kcoord.data.svc:9293"
    assert STATEFUL_SET["spec"]["replicas"] == settings.cluster.replication_factor == 3


def test_a_pod_may_hand_over_before_it_is_killed(tmp_path: Path) -> None:
    grace_s = POD["spec"]["terminationGracePeriodSeconds"]
    assert longest_stop_s(settings_of_pod(tmp_path, 0)) <= grace_s
    assert "preStop" not in str(CONTAINER), "SIGTERM alone has a node hand over"


def test_ports_and_probes_are_those_of_the_node(tmp_path: Path) -> None:
    settings = settings_of_pod(tmp_path, 0)
    listens = {"members": settings.node.listen, "peers": settings.peers.listen, "admin": settings.admin.listen}
    ports = {port["name"]: port["containerPort"] for port in CONTAINER["ports"]}
    assert {name: f"0.0.0.0:{port}" for name, port in ports.items()} == listens
    service = MANIFESTS["Service"][0]
    assert {port["name"]: port["port"] for port in service["spec"]["ports"]} == ports
    assert service["spec"]["publishNotReadyAddresses"] is True, "nodes find each other before they are ready"
    assert POD["metadata"]["annotations"]["prometheus.io/port"] == str(ports["admin"])
    assert CONTAINER["livenessProbe"]["httpGet"] == {"path": "/livez", "port": "admin"}
    assert CONTAINER["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "admin"}
    startup = CONTAINER["startupProbe"]
    assert startup["httpGet"] == {"path": "/startupz", "port": "admin"}
    assert startup["failureThreshold"] * startup["periodSeconds"] >= 30 * 60, "a large log takes its time to load"


def test_prometheus_asks_the_port_that_the_manual_gives_to_probes_and_metrics() -> None:
    (job,) = yaml.safe_load((DEPLOY / "prometheus" / "scrape.yaml").read_text())["scrape_configs"]
    (target,) = [target for one in job["static_configs"] for target in one["targets"]]
    assert f"--admin {target} " in (DEPLOY.parent / "docs" / "PRODUCTION.md").read_text()
    assert target.rpartition(":")[2] == POD["metadata"]["annotations"]["prometheus.io/port"]


def test_kubernetes_puts_no_setting_into_the_environment_by_itself() -> None:
    assert POD["spec"]["enableServiceLinks"] is False, "KCOORD_PORT of the service would be read as a setting"


def test_the_budget_and_the_services_are_about_these_pods() -> None:
    labels = POD["metadata"]["labels"]
    budget = MANIFESTS["PodDisruptionBudget"][0]["spec"]
    assert budget["selector"]["matchLabels"] == STATEFUL_SET["spec"]["selector"]["matchLabels"] == labels
    assert budget["maxUnavailable"] == 1
    assert MANIFESTS["Service"][0]["spec"]["selector"] == labels
    assert STATEFUL_SET["spec"]["serviceName"] == MANIFESTS["Service"][0]["metadata"]["name"]


def test_data_is_on_the_volume_and_files_are_where_they_are_mounted(tmp_path: Path) -> None:
    settings = settings_of_pod(tmp_path, 0)
    mounts = {mount["name"]: Path(mount["mountPath"]) for mount in CONTAINER["volumeMounts"]}
    assert settings.node.data_dir.is_relative_to(mounts["data"])
    assert settings.node.data_dir != mounts["data"], "a volume may hold lost+found, which is no data directory"
    for file in (settings.tls.certificate, settings.tls.key, settings.tls.trusted_certificates):
        assert Path(file).is_relative_to(mounts["tls"])
    assert str(mounts["config"]) == CONTAINER["command"][-1]
    claimed = {claim["metadata"]["name"] for claim in STATEFUL_SET["spec"]["volumeClaimTemplates"]}
    assert claimed | {volume["name"] for volume in POD["spec"]["volumes"]} == set(mounts)


def test_the_unit_gives_a_node_time_to_stop_and_starts_it_again() -> None:
    service = unit()["Service"]
    assert float(service["TimeoutStopSec"]) >= longest_stop_s(Settings())
    assert (service["KillSignal"], service["Restart"]) == ("SIGTERM", "on-failure")
    assert service["ExecReload"].endswith("kill -HUP $MAINPID")


def test_the_unit_may_write_where_its_data_is() -> None:
    service = unit()["Service"]
    assert f"--data /var/lib/{service['StateDirectory']}" in service["ExecStart"]
    assert f"--config /etc/{service['ConfigurationDirectory']}/" in service["ExecStart"]
    assert service["StateDirectoryMode"] == "0700"


def test_the_unit_may_write_where_the_page_has_the_audit_log() -> None:
    service = unit()["Service"]
    assert (service["ProtectSystem"], service["LogsDirectoryMode"]) == ("strict", "0700")
    page = (DEPLOY.parent / "docs" / "PRODUCTION.md").read_text()
    assert f"`/var/lib/{service['StateDirectory']}`, `/var/log/{service['LogsDirectory']}` for [`audit.file`]" in page


def test_the_settings_of_the_manifest_are_settings() -> None:
    assert set(tomllib.loads(TOML)) <= set(Settings.model_fields)
