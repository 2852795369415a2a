"""The settings of a node that say who may speak to it, and by which proof; a section each for TLS and for log-ins."""

from typing import Literal, Self

from pydantic import field_validator, model_validator

from coordinator.config.section import LONGEST_MS, Section, setting
from coordinator.core.security.principal import SubjectRule, parse_subject_rules


def _file(why: str) -> str:
    """Declare a setting that names a file, or is empty."""
    declared: str = setting("", "file", why)
    return declared


class TlsSettings(Section):
    """TLS on the members' port and between nodes. Without a certificate there is none."""

    certificate: str = _file("The node's certificate and those between it and the trusted one, as PEM. Empty: no TLS.")
    key: str = _file("The certificate's private key, as PEM. Empty: it is in the certificate's file.")
    key_password_file: str = _file("Holds the password of the key, where it has one.")
    trusted_certificates: str = _file("Certificates as PEM, by one of which a client's has to be signed.")
    client_auth: Literal["none", "requested", "required"] = setting(
        "none", "", "Whether members and tools show a certificate: none, whoever has one, or everybody."
    )
    min_version: Literal["1.2", "1.3"] = setting("1.2", "", "The oldest version of TLS that is spoken.")
    look_ms: int = setting(
        5_000,
        "ms",
        "Time between two looks whether a file of this section, of log-ins or of rules changed; SIGHUP looks at once.",
        ge=100,
        le=LONGEST_MS,
    )

    @property
    def is_on(self) -> bool:
        """Say whether TLS is spoken."""
        return self.certificate != ""

    @model_validator(mode="after")
    def _goes_together(self) -> Self:
        for name in ("key", "key_password_file", "trusted_certificates"):
            if getattr(self, name) and not self.is_on:
                raise ValueError(f"tls.{name} is given and tls.certificate is not; without that there is no TLS")
        if self.client_auth != "none" and not self.trusted_certificates:
            raise ValueError(
                f"tls.client_auth is {self.client_auth} and tls.trusted_certificates is not given, which says by whom "
                "the certificates of clients are signed"
            )
        return self


class AuthenticationSettings(Section):
    """The principal that a connection acts for: `User:NAME`, or User:ANONYMOUS where nobody has said who it is."""

    certificate_rules: str = setting(
        "DEFAULT",
        "",
        "Makes the name of a certificate's subject, as Kafka's ssl.principal.mapping.rules do: RULE:PATTERN/NAME/[LU] "
        "or DEFAULT, with commas between; the first that matches counts. DEFAULT is the whole subject.",
        max_length=10_000,
    )

    @field_validator("certificate_rules")
    @classmethod
    def _can_be_read(cls, value: str) -> str:
        parse_subject_rules(value)
        return value

    @property
    def subject_rules(self) -> tuple[SubjectRule, ...]:
        """The rules, read."""
        return parse_subject_rules(self.certificate_rules)
