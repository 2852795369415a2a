"""A real node where clients log in over TLS, by password, by a token of the node's, and by JSON Web Tokens."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

from coordinator.client.request import ask
from coordinator.client.security import Coordinators, security_of_options
from coordinator.protocol.messages import ListGroups
from coordinator.protocol.text.addresses import parse_addresses
from coordinator.runtime.security.users_store import add_password, add_token
from tests.helpers.certificates import Authority
from tests.helpers.node_process import NodeProcess, running_node

PASSWORD = "c4n4ry-p4ssw0rd"
ISSUER, AUDIENCE = "https://issuer.example", "kcoord"
KEY, OTHER_KEY = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
PATIENCE_S = 60


def signed(key: Any = KEY, **more: object) -> str:
    """Return a JSON Web Token of `robot` that ends in ten minutes, but for these claims."""
    claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "robot", "exp": int(time.time()) + 600} | more
    return jwt.encode(claims, key, "ES256", headers={"kid": "one"})


@dataclass
class Secured:
    """A node where clients log in, and what they need to."""

    node: NodeProcess
    address: str
    trusting: dict[str, str]
    folder: Path
    token: str
    authority: Authority

    def by_password(self, name: str = "alice", password: str = PASSWORD) -> dict[str, str]:
        return self.trusting | {"kcoord.sasl.username": name, "kcoord.sasl.password": password}

    def by_token(self, token: str) -> dict[str, str]:
        return self.trusting | {"kcoord.auth.token": token}

    def ask(self, options: dict[str, str]) -> object:
        coordinators = Coordinators(parse_addresses(self.address), security_of_options(options, {}))
        return ask(coordinators, ListGroups(), PATIENCE_S)

    def kcoord(self, options: dict[str, str], *words: str) -> "subprocess.CompletedProcess[str]":
        """Run the command line as whoever logs in so."""
        config = self.folder / "client.properties"
        config.touch(mode=0o600)
        config.write_text("".join(f"{name}={value}\n" for name, value in options.items()))
        command = [sys.executable, "-m", "coordinator", "--command-config", str(config), *words]
        command += ["--coordinator", self.address]
        return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


@contextmanager
def secured(
    folder: Path, kafka: str, rules: str, *more: str, people: tuple[str, ...] = ("alice", "mallory")
) -> Iterator[Secured]:
    """Yield such a node with these rules, more settings, and people who all have the same password."""
    authority = Authority(folder)
    pair = authority.pair()
    users, jwks, rules_file = folder / "users", folder / "jwks.json", folder / "rules"
    for name in people:
        add_password(users, name, PASSWORD, ("SCRAM-SHA-256", "SCRAM-SHA-512"), 4096)
    token = add_token(users, "ci")
    key = ECAlgorithm.to_jwk(KEY.public_key(), as_dict=True)
    jwks.write_text(json.dumps({"keys": [key | {"kid": "one"}]}))
    rules_file.write_text(rules)
    settings = [
        f"tls.certificate={pair.certificate}",
        f"tls.key={pair.key}",
        "authentication.mechanisms=SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        f"authentication.users_file={users}",
        f"authentication.jwks_file={jwks}",
        f"authentication.token_issuer={ISSUER}",
        f"authentication.token_audience={AUDIENCE}",
        f"authorization.rules_file={rules_file}",
        *more,
    ]
    trusting = {"kcoord.security.protocol": "SASL_SSL", "kcoord.ssl.ca.location": str(authority.trusted)}
    with running_node(folder / "node", *settings, kafka=kafka) as node:
        yield Secured(node, node.wait_until_it_serves(), trusting, folder, token, authority)
