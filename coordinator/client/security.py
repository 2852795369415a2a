"""The settings by which a client of a coordinator speaks: with TLS or without, and the certificate that it shows.

One module for all clients: members, Spark driver, consumers, jobs, command line. Each setting has a name of the form
`kcoord.ssl.ca.location` and an environment variable of the form KCOORD_SSL_CA_LOCATION, which counts where the name is
not given. A secret may also be the content of a file, whose path is the value of the same name with `.file` behind it.
No secret is in a representation or an error; names of secrets match the expressions by which Spark hides values.
"""

import os
import ssl
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, SupportsIndex

from coordinator.protocol.text.addresses import Address

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
SCRAM_MECHANISMS: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
TOKEN_MECHANISM: Final = "OAUTHBEARER"  # noqa: S105 - the name of a mechanism
FILE_SUFFIX: Final = ".file"


@dataclass(frozen=True, slots=True)
class SecuritySetting:
    """One setting: its name, its meaning, and whether its value is a secret or one of a few words."""

    name: str
    meaning: str
    is_secret: bool = False
    words: tuple[str, ...] = ()

    @property
    def variable(self) -> str:
        """The name of its environment variable."""
        return self.name.replace(".", "_").upper()


SECURITY_SETTINGS: Final = (
    SecuritySetting(
        "kcoord.security.protocol",
        "how a coordinator is spoken to: PLAINTEXT (the default), SSL, or with a log-in SASL_PLAINTEXT or SASL_SSL",
        words=PROTOCOLS,
    ),
    SecuritySetting(
        "kcoord.ssl.ca.location",
        "a PEM file of the certificates by which a coordinator's has to be signed; without it those of the system",
    ),
    SecuritySetting("kcoord.ssl.certificate.location", "a PEM file of the certificate that is shown to a coordinator"),
    SecuritySetting("kcoord.ssl.key.location", "a PEM file of its key; without it the certificate's file has it"),
    SecuritySetting("kcoord.ssl.key.password", "the password of that key", is_secret=True),
    SecuritySetting(
        "kcoord.ssl.endpoint.identification.algorithm",
        "https (the default) compares a coordinator's host name with its certificate; none does not",
        words=("https", "none"),
    ),
    SecuritySetting(
        "kcoord.sasl.mechanism",
        "how this client logs in: SCRAM-SHA-512 (the default with a password), SCRAM-SHA-256, or OAUTHBEARER (the "
        "default with a token)",
        words=(*SCRAM_MECHANISMS, TOKEN_MECHANISM),
    ),
    SecuritySetting("kcoord.sasl.username", "the user that logs in with a password"),
    SecuritySetting("kcoord.sasl.password", "the password of that user", is_secret=True),
    SecuritySetting("kcoord.auth.token", "the token that this client logs in with", is_secret=True),
)
"""Every setting there is."""

_BY_NAME: Final = {setting.name: setting for setting in SECURITY_SETTINGS}
SECURITY_NAMES: Final = tuple(
    name
    for setting in SECURITY_SETTINGS
    for name in ((setting.name, setting.name + FILE_SUFFIX) if setting.is_secret else (setting.name,))
)
"""Every name that may be given, those of files with secrets too."""


class SecurityError(ValueError):
    """Settings that cannot be used; the text names the setting and what is allowed, and shows no secret."""


class LogInError(SecurityError):
    """The client is not logged in; the text continues a sentence that begins with the coordinator's address."""


class LogInRefusedError(LogInError):
    """This client is not let in, or has no secret to log in with, and trying again with the same one would not help."""


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret as text, or the file that it is read from each time it is wanted, so that it may be exchanged."""

    text: str = field(default="", repr=False)
    path: str = ""
    name: str = ""
    """The setting that names the file."""

    def __bool__(self) -> bool:
        """Say whether there is one."""
        return bool(self.text or self.path)

    def read(self) -> str:
        """Return it as it is now; raises SecurityError."""
        return _content(self.name, self.path) if self.path else self.text


NO_SECRET: Final = Secret()


@dataclass(frozen=True, slots=True)
class ClientSecurity:
    """The way in which one client speaks to its coordinators."""

    protocol: str = "PLAINTEXT"
    ca_location: str = ""
    certificate_location: str = ""
    key_location: str = ""
    key_password: str = field(default="", repr=False)
    checks_host: bool = True
    mechanism: str = ""
    username: str = ""
    password: Secret = NO_SECRET
    token: Secret = NO_SECRET

    @property
    def is_tls(self) -> bool:
        """Say whether TLS is spoken."""
        return self.protocol.endswith("SSL")

    @property
    def is_log_in(self) -> bool:
        """Say whether this client logs in."""
        return self.protocol.startswith("SASL")

    def __reduce__(self) -> str:
        """Refuse to be pickled: secrets stay in the process that was given them."""
        raise TypeError("the secrets of a ClientSecurity stay in their process: it cannot be pickled")

    def tls_context(self) -> ssl.SSLContext:
        """Return a context made of the files as they are now; raises SecurityError."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if not self.checks_host:
            context.check_hostname = False
        if self.ca_location:
            with _Naming("kcoord.ssl.ca.location", self.ca_location):
                context.load_verify_locations(cafile=self.ca_location)
        else:
            context.load_default_certs()
        if self.certificate_location:
            with _Naming("kcoord.ssl.certificate.location", self.certificate_location):
                context.load_cert_chain(
                    self.certificate_location, self.key_location or None, password=self.key_password
                )
        return context


class _Naming:
    """Turns what OpenSSL or the system says of a file into a SecurityError that names the setting."""

    def __init__(self, name: str, path: str) -> None:
        self._name, self._path = name, path

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(self, kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, OSError | ValueError):
            reason = getattr(error, "reason", None)
            why = reason.lower().replace("_", " ") if reason else getattr(error, "strerror", None) or "it is not PEM"
            raise SecurityError(f"'{self._name}' is {self._path}, which cannot be used: {why}") from None


PLAINTEXT: Final = ClientSecurity()
"""No TLS."""


def security_of_options(given: Mapping[str, str], environment: Mapping[str, str] | None = None) -> ClientSecurity:
    """Read the settings from options by their names, whatever their case, and from the environment.

    Raises SecurityError for a name that there is not, a value that is not allowed and a file that cannot be read.
    """
    lowered = {name.lower(): text for name, text in given.items()}
    environment = os.environ if environment is None else environment
    values = _values(lowered, environment)
    password, token = (
        _given_of(_BY_NAME[name], lowered, environment) for name in ("kcoord.sasl.password", "kcoord.auth.token")
    )
    protocol = values.get("kcoord.security.protocol", "PLAINTEXT")
    security = ClientSecurity(
        protocol=protocol,
        ca_location=values.get("kcoord.ssl.ca.location", ""),
        certificate_location=values.get("kcoord.ssl.certificate.location", ""),
        key_location=values.get("kcoord.ssl.key.location", ""),
        key_password=values.get("kcoord.ssl.key.password", ""),
        checks_host=values.get("kcoord.ssl.endpoint.identification.algorithm", "https") != "none",
        mechanism=_mechanism_of(values, password, token) if protocol.startswith("SASL") else "",
        username=values.get("kcoord.sasl.username", ""),
        password=password,
        token=token,
    )
    _must_go_together(security, [name.lower() for name in given])
    return security


def _mechanism_of(values: Mapping[str, str], password: Secret, token: Secret) -> str:
    """Return how the client logs in: as it is told, else by what it has to show; raises SecurityError for two."""
    named = values.get("kcoord.sasl.mechanism", "")
    if token and password and not named:
        raise SecurityError(
            "'kcoord.sasl.password' and 'kcoord.auth.token' are both given, here or in the environment, and may be of "
            f"two users: set 'kcoord.sasl.mechanism' to {SCRAM_MECHANISMS[-1]} or {TOKEN_MECHANISM}, or remove one"
        )
    return named or (TOKEN_MECHANISM if token and not password else SCRAM_MECHANISMS[-1])


def _must_go_together(security: ClientSecurity, given: Collection[str]) -> None:
    for name in given:
        if name.startswith("kcoord.ssl.") and not security.is_tls:
            raise SecurityError(
                f"'{name}' is given and 'kcoord.security.protocol' is {security.protocol}, which does not use TLS: "
                "set that to SSL, or to SASL_SSL for a log-in"
            )
        if name.startswith(("kcoord.sasl.", "kcoord.auth.")) and not security.is_log_in:
            raise SecurityError(
                f"'{name}' is given and 'kcoord.security.protocol' is {security.protocol}, which logs nobody in: set "
                "that to SASL_SSL"
            )
    if security.key_location and not security.certificate_location:
        raise SecurityError("'kcoord.ssl.key.location' is given and 'kcoord.ssl.certificate.location' is not")
    if not security.is_log_in:
        return
    if security.mechanism == TOKEN_MECHANISM:
        missing = "" if security.token else "kcoord.auth.token"
    else:
        missing = (
            "kcoord.sasl.username" if not security.username else "" if security.password else "kcoord.sasl.password"
        )
    if missing:
        raise SecurityError(
            f"'{missing}' is not given, and 'kcoord.security.protocol' is {security.protocol} with the mechanism "
            f"{security.mechanism}, which needs it"
        )


def _values(given: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    for name in given:
        if name not in SECURITY_NAMES:
            import difflib  # loaded for an error alone: executors read settings too

            near = difflib.get_close_matches(name, SECURITY_NAMES, 1)
            nearest = f"the nearest is '{near[0]}'" if near else f"known: {', '.join(SECURITY_NAMES)}"
            raise SecurityError(f"'{name}' is unknown; {nearest}")
    values: dict[str, str] = {}
    for setting in SECURITY_SETTINGS:
        text = _given_of(setting, given, environment).read()
        if not text:
            continue
        if setting.words:
            text = next((word for word in setting.words if word.lower() == text.lower()), "")
            if not text:
                raise SecurityError(f"'{setting.name}' is not one of {', '.join(setting.words)}")
        values[setting.name] = text
    return values


def _given_of(setting: SecuritySetting, given: Mapping[str, str], environment: Mapping[str, str]) -> Secret:
    """Return the value: as given, from a file that is given, from the environment, from a file that is named there."""
    file_name, file_variable = setting.name + FILE_SUFFIX, setting.variable + "_FILE"
    if setting.is_secret and setting.name in given and file_name in given:
        raise SecurityError(f"'{setting.name}' and '{file_name}' are both given; remove one")
    if setting.name in given:
        return Secret(given[setting.name].strip() if not setting.is_secret else given[setting.name])
    if setting.is_secret and file_name in given:
        return Secret(path=given[file_name], name=file_name)
    if environment.get(setting.variable):
        return Secret(environment[setting.variable])
    if setting.is_secret and environment.get(file_variable):
        return Secret(path=environment[file_variable], name=file_variable)
    return NO_SECRET


def _content(name: str, path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").rstrip("\r\n")
    except OSError as error:
        raise SecurityError(f"'{name}' is {path}, which cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SecurityError(f"'{name}' is {path}, which is no text") from None


class Coordinators(tuple[Address, ...]):
    """The addresses of coordinators with the way in which they are spoken to, so that neither travels alone."""

    security: ClientSecurity
    answered_last: Address | None
    """The node that answered the last single request, which the next one is put to first."""

    def __new__(cls, addresses: Iterable[Address], security: ClientSecurity = PLAINTEXT) -> "Coordinators":
        """Make them of addresses."""
        made = super().__new__(cls, addresses)
        made.security = security
        made.answered_last = None
        return made

    def __reduce_ex__(self, protocol: SupportsIndex) -> str:
        """Refuse to be pickled: secrets stay in the process that was given them."""
        raise TypeError("coordinators with their security stay in their process: they cannot be pickled")


def security_of(coordinators: Iterable[Address]) -> ClientSecurity:
    """Return how these are spoken to; plain addresses are spoken to plainly."""
    return coordinators.security if isinstance(coordinators, Coordinators) else PLAINTEXT
