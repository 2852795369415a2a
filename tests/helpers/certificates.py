"""Certificates that are made for one test: an authority, a node's, a client's, and those that are to be refused."""

import datetime
from dataclasses import dataclass
from pathlib import Path

import trustme
from cryptography.hazmat.primitives import serialization

LOOPBACK_NAMES = ("localhost", "127.0.0.1")
YEAR = datetime.timedelta(days=365)


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, each in a file."""

    certificate: Path
    key: Path


class Authority:
    """Signs certificates; `trusted` is the file by which they are known."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder = folder
        self._ca = trustme.CA(organization_name=name)
        self.trusted = folder / f"{name}.pem"
        self._ca.cert_pem.write_to_path(str(self.trusted))

    def pair(
        self,
        file: str = "node",
        *names: str,
        common_name: str | None = None,
        ends: datetime.datetime | None = None,
    ) -> Pair:
        """Make a certificate for these names, loopback's if none is given; the files are written over."""
        made = self._ca.issue_cert(*(names or LOOPBACK_NAMES), common_name=common_name, not_after=ends)
        pair = Pair(self._folder / f"{file}.pem", self._folder / f"{file}.key")
        made.private_key_pem.write_to_path(str(pair.key))
        pair.certificate.write_bytes(b"".join(blob.bytes() for blob in made.cert_chain_pems))
        return pair


def lock(pair: Pair, password: str) -> Pair:
    """Encrypt the key of a pair, in its file; return the pair."""
    key = serialization.load_pem_private_key(pair.key.read_bytes(), None)
    pair.key.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(password.encode()),
        )
    )
    return pair


def long_ago() -> datetime.datetime:
    """Return an end of a certificate that has passed."""
    return datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)
