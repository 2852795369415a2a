"""The settings of a node that say where Kafka is, how it is spoken to, and as whom."""

from typing import Literal, Self

from pydantic import SecretStr, model_validator

from coordinator.config.section import LONGEST_MS, Addresses, Section, setting


class KafkaSettings(Section):
    """The Kafka cluster whose topics the groups read, and how this node logs in to it."""

    bootstrap_servers: Addresses = setting(
        ("127.0.0.1:9092",),
        "HOST:PORT, ...",
        "Brokers to ask first; members are told the same.",
        min_length=1,
        max_length=100,
    )
    topics_poll_ms: int = setting(
        5_000,
        "ms",
        "Time between two looks at the topics: how soon new partitions are seen.",
        ge=100,
        le=LONGEST_MS,
    )
    ends_poll_ms: int = setting(
        1_000,
        "ms",
        "Time between two looks at the ends of partitions: how old a lag may be. Where reading takes long, as of tens "
        "of thousands, it is done more rarely, in a twentieth of the time.",
        ge=100,
        le=LONGEST_MS,
    )
    request_timeout_ms: int = setting(
        5_000,
        "ms",
        "Time a broker has to answer; members wait for it when they join.",
        ge=100,
        le=60_000,
    )
    connect_timeout_ms: int = setting(4_000, "ms", "Time a broker has to accept a connection.", ge=100, le=60_000)
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = setting(
        "PLAINTEXT", "", "How this node speaks to the brokers; members have their own kafka.security.protocol."
    )
    trusted_certificates: str = setting(
        "", "file", "Certificates as PEM, by one of which a broker's has to be signed. Empty: those of the system."
    )
    certificate: str = setting("", "file", "The certificate shown to brokers, as PEM, where they ask for one.")
    key: str = setting("", "file", "Its private key, as PEM. Empty: it is in the certificate's file.")
    key_password_file: str = setting("", "file", "Holds the password of that key, where it has one.")
    endpoint_identification: Literal["https", "none"] = setting(
        "https", "", "https compares a broker's host name with its certificate; none does not."
    )
    sasl_mechanism: Literal["", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"] = setting(
        "", "", "How this node logs in, with SASL_PLAINTEXT or SASL_SSL."
    )
    sasl_username: str = setting("", "", "Who logs in, with PLAIN and SCRAM.", max_length=1_000)
    sasl_password: SecretStr = setting(
        SecretStr(""),
        "",
        "Its password. Better in a file, or in the environment as KCOORD_KAFKA_SASL_PASSWORD; never as a flag.",
    )
    sasl_password_file: str = setting("", "file", "Holds the password instead, and is read anew when it has changed.")
    sasl_token_file: str = setting(
        "", "file", "Holds the token of OAUTHBEARER; it is read at each log-in, so whatever renews it needs no restart."
    )

    @property
    def is_tls(self) -> bool:
        """Say whether TLS is spoken to brokers."""
        return self.security_protocol.endswith("SSL")

    @property
    def is_sasl(self) -> bool:
        """Say whether this node logs in to brokers."""
        return self.security_protocol.startswith("SASL")

    @model_validator(mode="after")
    def _tls_goes_together(self) -> Self:
        for name in ("trusted_certificates", "certificate", "key", "key_password_file"):
            if getattr(self, name) and not self.is_tls:
                raise ValueError(
                    f"kafka.{name} is given and kafka.security_protocol is {self.security_protocol}, which does not "
                    "use TLS: set that to SSL or SASL_SSL"
                )
        for name in ("key", "key_password_file"):
            if getattr(self, name) and not self.certificate:
                raise ValueError(f"kafka.{name} is given and kafka.certificate is not")
        return self

    @model_validator(mode="after")
    def _log_in_goes_together(self) -> Self:
        has_password = bool(self.sasl_password.get_secret_value())
        given = {
            "sasl_mechanism": bool(self.sasl_mechanism),
            "sasl_username": bool(self.sasl_username),
            "sasl_password": has_password,
            "sasl_password_file": bool(self.sasl_password_file),
            "sasl_token_file": bool(self.sasl_token_file),
        }
        if not self.is_sasl:
            for name in (name for name, is_given in given.items() if is_given):
                raise ValueError(
                    f"kafka.{name} is given and kafka.security_protocol is {self.security_protocol}, which does not "
                    "log in: set that to SASL_SSL or SASL_PLAINTEXT"
                )
            return self
        if not self.sasl_mechanism:
            raise ValueError(
                f"kafka.security_protocol is {self.security_protocol} and kafka.sasl_mechanism is not given: PLAIN, "
                "SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER"
            )
        if has_password and self.sasl_password_file:
            raise ValueError("kafka.sasl_password and kafka.sasl_password_file are both given, not one of them")
        by_token = self.sasl_mechanism == "OAUTHBEARER"
        wanted = ("sasl_token_file",) if by_token else ("sasl_username", "sasl_password_file")
        for name in wanted:
            if not given[name] and not (name == "sasl_password_file" and has_password):
                raise ValueError(f"kafka.sasl_mechanism is {self.sasl_mechanism} and kafka.{name} is not given")
        unused = ("sasl_username", "sasl_password", "sasl_password_file") if by_token else ("sasl_token_file",)
        for name in (name for name in unused if given[name]):
            raise ValueError(f"kafka.{name} is given, which is not for kafka.sasl_mechanism {self.sasl_mechanism}")
        return self
