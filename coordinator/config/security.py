"""The settings of a node that say who may speak to it, and by which proof; a section each for TLS and for log-ins."""

from typing import Final, Literal, Self

from pydantic import field_validator, model_validator

from coordinator.config.section import LONGEST_MS, Names, Section, setting
from coordinator.core.security.principal import SubjectRule, parse_subject_rules
from coordinator.core.security.users import MECHANISMS, SCRAM_MECHANISMS, TOKEN_MECHANISM

PUBLIC_ALGORITHMS: Final = (
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA",
)  # fmt: skip
"""Algorithms of tokens whose keys may be read by everybody: with them nobody can sign, and `none` is not one."""


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
    """The principal of a connection: `User:NAME` by a log-in or a certificate, or User:ANONYMOUS."""

    certificate_rules: str = setting(
        "DEFAULT",
        "",
        "Makes the name of a certificate's subject, as Kafka's ssl.principal.mapping.rules do: RULE:PATTERN/NAME/[LU] "
        "or DEFAULT, with commas between; the first that matches counts. DEFAULT is the whole subject.",
        max_length=10_000,
    )
    mechanisms: Names = setting(
        (),
        "",
        "Ways to log in that are taken: SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER. Without any, nobody logs in; with "
        "one, whoever has shown no certificate has to.",
    )
    users_file: str = _file("The users with their passwords' verifiers and tokens' hashes, as `kcoord user` writes it.")
    jwks_file: str = _file("The public keys by which JSON Web Tokens are signed, as JWKS, for OAUTHBEARER.")
    token_issuer: str = setting("", "", "The issuer that such a token has to name (iss).", max_length=1_000)
    token_audience: str = setting("", "", "The audience that such a token has to be for (aud).", max_length=1_000)
    token_principal_claim: str = setting(
        "sub", "", "The claim of such a token that is the principal's name.", min_length=1, max_length=100
    )
    token_algorithms: Names = setting(
        ("RS256", "PS256", "ES256", "EdDSA"), "", "Algorithms that may have signed such a token; of public keys alone."
    )
    token_leeway_ms: int = setting(
        5_000, "ms", "The clocks of the issuer and of this node may differ by so much.", ge=0, le=300_000
    )
    frame_bytes: int = setting(
        16 * 1024, "bytes", "Longest message of somebody who has not logged in.", ge=1024, le=1024 * 1024
    )
    refusal_delay_ms: int = setting(
        100,
        "ms",
        "Time until a log-in that failed is answered, which slows down whoever tries passwords.",
        ge=0,
        le=10_000,
    )
    without_tls: Names = setting(
        (),
        "",
        "Of the mechanisms, those that are taken without TLS where other machines reach the node. Whoever listens can "
        "try passwords at leisure then, and use a token.",
    )
    allow_anonymous: bool = setting(
        False,
        "",
        "Whether somebody who neither shows a certificate nor logs in is User:ANONYMOUS and not refused, as while "
        "clients are taught to log in.",
    )

    @field_validator("certificate_rules")
    @classmethod
    def _can_be_read(cls, value: str) -> str:
        parse_subject_rules(value)
        return value

    @field_validator("mechanisms", "without_tls")
    @classmethod
    def _are_known(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        _refuse_others(value, MECHANISMS)
        return value

    @field_validator("token_algorithms")
    @classmethod
    def _are_of_public_keys(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        _refuse_others(value, PUBLIC_ALGORITHMS)
        if not value:
            raise ValueError("must name at least one")
        return value

    @model_validator(mode="after")
    def _has_what_it_needs(self) -> Self:
        if any(mechanism in SCRAM_MECHANISMS for mechanism in self.mechanisms) and not self.users_file:
            raise ValueError("authentication.mechanisms names SCRAM and authentication.users_file is not given")
        if TOKEN_MECHANISM in self.mechanisms and not self.users_file and not self.jwks_file:
            raise ValueError(
                f"authentication.mechanisms names {TOKEN_MECHANISM}, and neither authentication.users_file nor "
                "authentication.jwks_file is given, which say whose a token is"
            )
        if self.jwks_file and not (self.token_issuer and self.token_audience):
            raise ValueError(
                "authentication.jwks_file is given, and authentication.token_issuer and authentication.token_audience "
                "are not both: a token for somebody else would do"
            )
        return self

    @property
    def is_on(self) -> bool:
        """Say whether anybody logs in."""
        return bool(self.mechanisms)

    @property
    def subject_rules(self) -> tuple[SubjectRule, ...]:
        """The rules, read."""
        return parse_subject_rules(self.certificate_rules)

    def refused_without_tls(self) -> tuple[str, ...]:
        """Return the mechanisms that are not to be taken without TLS from other machines."""
        return tuple(each for each in self.mechanisms if each not in self.without_tls)


def _refuse_others(value: tuple[str, ...], known: tuple[str, ...]) -> None:
    for each in value:
        if each not in known:
            raise ValueError(f"{each[:100]!r} is none of {', '.join(known)}")
