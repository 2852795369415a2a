"""A real broker that also listens with TLS and with log-ins, and the options a reader needs for each listener."""

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kafka.admin import KafkaAdminClient, UserScramCredentialUpsertion

from coordinator.local.java.runtime import find_java
from coordinator.local.kafka.broker import LocalKafka
from coordinator.local.process.ports import LOOPBACK, free_ports
from tests.helpers.processes import eventually

USER, PASSWORD = "reader", "reader-secret"
PROTOCOLS = ("SSL", "SASL_PLAINTEXT", "SASL_SSL")
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
REAUTHENTICATE_MS = 1_500
KEYTOOL_TIMEOUT_S = 60
STORE_PASSWORD = "changeit"
_PLAIN = f"org.apache.kafka.common.security.plain.PlainLoginModule required user_{USER}='{PASSWORD}';"
_TOKEN = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
_TOKEN += "unsecuredLoginStringClaim_sub='broker';"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"


@dataclass(frozen=True)
class SecureKafka:
    """The broker, where each of its listeners is, and the certificate to trust."""

    broker: LocalKafka
    ports: dict[str, int]
    certificate: Path

    def options(self, protocol: str, mechanism: str | None = None) -> dict[str, str]:
        """Return a reader's options for one listener."""
        port = self.broker.port if protocol == "PLAINTEXT" else self.ports[protocol]
        options = {"kafka.bootstrap.servers": f"{LOOPBACK}:{port}", "kafka.security.protocol": protocol}
        if protocol.endswith("SSL"):
            options["kafka.ssl.ca.location"] = str(self.certificate)
        if mechanism is not None:
            options |= {
                "kafka.sasl.mechanism": mechanism,
                "kafka.sasl.username": USER,
                "kafka.sasl.password": PASSWORD,
            }
        return options


@contextmanager
def secure_kafka(directory: Path, more: Mapping[str, str] | None = None) -> Iterator[SecureKafka]:
    """Start the broker, with `more` of its settings; log-ins on SASL_SSL must be repeated every REAUTHENTICATE_MS."""
    store, certificate = _make_key(directory)
    ports = dict(zip(PROTOCOLS, free_ports(len(PROTOCOLS)), strict=True))
    config = {
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(store),
        "ssl.keystore.password": STORE_PASSWORD,
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        "listener.name.sasl_ssl.connections.max.reauth.ms": str(REAUTHENTICATE_MS),
    }
    for listener in ("sasl_plaintext", "sasl_ssl"):
        config[f"listener.name.{listener}.plain.sasl.jaas.config"] = _PLAIN
        config[f"listener.name.{listener}.scram-sha-256.sasl.jaas.config"] = _SCRAM
        config[f"listener.name.{listener}.scram-sha-512.sasl.jaas.config"] = _SCRAM
        config[f"listener.name.{listener}.oauthbearer.sasl.jaas.config"] = _TOKEN
    config |= more or {}
    with LocalKafka(directory / "kafka", config=config, secure_ports=ports) as broker:
        with KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers) as admin:
            for mechanism in SCRAM:  # Kafka refuses two for one user in one request
                admin.alter_user_scram_credentials([UserScramCredentialUpsertion(USER, mechanism, PASSWORD)])
            assert eventually(lambda: _knows_user(admin)), "the broker learns of them a moment later"
        yield SecureKafka(broker, ports, certificate)


def _knows_user(admin: KafkaAdminClient) -> bool:
    """Say whether the broker lets its user in by each mechanism."""
    told = admin.describe_user_scram_credentials([USER])[USER]
    return len(told["credential_infos"]) == len(SCRAM)


def _make_key(directory: Path) -> tuple[Path, Path]:
    """Return a key store with a key for loopback and the PEM file of its certificate."""
    store, certificate = directory / "broker.p12", directory / "broker.pem"
    keytool = find_java().executable.resolve().with_name("keytool")
    common = ["-keystore", str(store), "-storepass", STORE_PASSWORD, "-alias", "broker"]
    made = ["-genkeypair", "-storetype", "PKCS12", "-keyalg", "EC", "-groupname", "secp256r1", "-validity", "2"]
    names = ["-dname", "CN=localhost", "-ext", f"SAN=ip:{LOOPBACK},dns:localhost"]
    for arguments in (made + names, ["-exportcert", "-rfc", "-file", str(certificate)]):
        subprocess.run(
            [keytool, *arguments, *common], check=True, capture_output=True, text=True, timeout=KEYTOOL_TIMEOUT_S
        )
    return store, certificate
