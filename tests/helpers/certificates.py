"""Certificates that are made for one test: an authority, a node's, a client's, and those that are to be refused."""

import datetime
import ssl
from dataclasses import dataclass
from pathlib import Path

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtensionOID, NameOID

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

    def contexts(self) -> tuple[ssl.SSLContext, ssl.SSLContext]:
        """Make a context of a server with a certificate for loopback, and one of a client that trusts it."""
        pair = self.pair()
        serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        serving.load_cert_chain(pair.certificate, pair.key)
        return serving, ssl.create_default_context(cafile=str(self.trusted))

    def pair_without_subject(self, file: str, *names: str) -> Pair:
        """Make a certificate whose subject is empty: these other names alone say whose it is."""
        key = ec.generate_private_key(ec.SECP256R1())
        now = datetime.datetime.now(datetime.UTC)
        issuer = x509.load_pem_x509_certificate(self._ca.cert_pem.bytes()).subject
        asked = x509.CertificateBuilder(
            issuer, x509.Name([]), key.public_key(), x509.random_serial_number(), now, now + YEAR
        )
        others = x509.SubjectAlternativeName([x509.DNSName(name) for name in names])
        made = asked.add_extension(others, critical=True).sign(self._key, hashes.SHA256())
        return _written(self._folder, file, made, key)

    @property
    def _key(self) -> ec.EllipticCurvePrivateKey:
        key = serialization.load_pem_private_key(self._ca.private_key_pem.bytes(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        return key

    def revocations(self, file: str, *revoked: Pair) -> Path:
        """Write a list of revoked certificates that has those of these pairs in it; return the file."""
        now = datetime.datetime.now(datetime.UTC)
        issuer = x509.load_pem_x509_certificate(self._ca.cert_pem.bytes()).subject
        made = x509.CertificateRevocationListBuilder(issuer, now - YEAR, now + YEAR)
        for pair in revoked:
            number = x509.load_pem_x509_certificate(pair.certificate.read_bytes()).serial_number
            one = x509.RevokedCertificateBuilder(number, now - YEAR).build()
            made = made.add_revoked_certificate(one)
        path = self._folder / f"{file}.pem"
        path.write_bytes(made.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        return path


def self_signed(folder: Path, file: str, names: bytes = b"\x30\x0b\x82\x09localhost") -> Pair:
    """Make a certificate that nobody but itself has signed; `names` are its other names (subjectAltName) in DER."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "nobody")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now, now + YEAR)
        .add_extension(x509.UnrecognizedExtension(ExtensionOID.SUBJECT_ALTERNATIVE_NAME, names), critical=False)
        .sign(key, hashes.SHA256())
    )
    return _written(folder, file, made, key)


def _written(folder: Path, file: str, made: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Pair:
    pair = Pair(folder / f"{file}.pem", folder / f"{file}.key")
    pair.certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    pair.key.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
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
