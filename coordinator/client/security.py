"""The settings by which a client of a coordinator speaks: with TLS or without, and the certificate that it shows.

One module for all clients: members, Spark driver, consumers, jobs, command line. Each setting has a name of the form
`kcoord.ssl.ca.location` and an environment variable of the form KCOORD_SSL_CA_LOCATION, which counts where the name is
not given. A secret may also be the content of a file, whose path is the value of the same name with `.file` behind it.
No secret is in a representation or an error; names of secrets match the expressions by which Spark hides values.
"""

import os
import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, SupportsIndex

from coordinator.protocol.text.addresses import Address

PROTOCOLS: Final = ("PLAINTEXT", "SSL")
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
        "kcoord.security.protocol", "how a coordinator is spoken to: PLAINTEXT (the default) or SSL", words=PROTOCOLS
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


@dataclass(frozen=True, slots=True)
class ClientSecurity:
    """The way in which one client speaks to its coordinators."""

    protocol: str = "PLAINTEXT"
    ca_location: str = ""
    certificate_location: str = ""
    key_location: str = ""
    key_password: str = field(default="", repr=False)
    checks_host: bool = True

    @property
    def is_tls(self) -> bool:
        """Say whether TLS is spoken."""
        return self.protocol.endswith("SSL")

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
    values = _values(
        {name.lower(): text for name, text in given.items()}, os.environ if environment is None else environment
    )
    security = ClientSecurity(
        protocol=values.get("kcoord.security.protocol", "PLAINTEXT"),
        ca_location=values.get("kcoord.ssl.ca.location", ""),
        certificate_location=values.get("kcoord.ssl.certificate.location", ""),
        key_location=values.get("kcoord.ssl.key.location", ""),
        key_password=values.get("kcoord.ssl.key.password", ""),
        checks_host=values.get("kcoord.ssl.endpoint.identification.algorithm", "https") != "none",
    )
    for name in given:
        if name.lower().startswith("kcoord.ssl.") and not security.is_tls:
            raise SecurityError(
                f"'{name}' is given and 'kcoord.security.protocol' is {security.protocol}, which does not use TLS: "
                "set that to SSL"
            )
    if security.key_location and not security.certificate_location:
        raise SecurityError("'kcoord.ssl.key.location' is given and 'kcoord.ssl.certificate.location' is not")
    return security


def _values(given: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    for name in given:
        if name not in SECURITY_NAMES:
            raise SecurityError(f"'{name}' is unknown; known: {', '.join(SECURITY_NAMES)}")
    values: dict[str, str] = {}
    for setting in SECURITY_SETTINGS:
        text = _text_of(setting, given, environment)
        if not text:
            continue
        if setting.words:
            text = next((word for word in setting.words if word.lower() == text.lower()), "")
            if not text:
                raise SecurityError(f"'{setting.name}' is not one of {', '.join(setting.words)}")
        values[setting.name] = text
    return values


def _text_of(setting: SecuritySetting, given: Mapping[str, str], environment: Mapping[str, str]) -> str:
    """Return the value: as given, from a file that is given, from the environment, from a file that is named there."""
    file_name, file_variable = setting.name + FILE_SUFFIX, setting.variable + "_FILE"
    if setting.is_secret and setting.name in given and file_name in given:
        raise SecurityError(f"'{setting.name}' and '{file_name}' are both given; remove one")
    if setting.name in given:
        return given[setting.name].strip() if not setting.is_secret else given[setting.name]
    if setting.is_secret and file_name in given:
        return _content(file_name, given[file_name])
    if environment.get(setting.variable):
        return environment[setting.variable]
    if setting.is_secret and environment.get(file_variable):
        return _content(file_variable, environment[file_variable])
    return ""


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

    def __new__(cls, addresses: Iterable[Address], security: ClientSecurity = PLAINTEXT) -> "Coordinators":
        """Make them of addresses."""
        made = super().__new__(cls, addresses)
        made.security = security
        return made

    def __reduce_ex__(self, protocol: SupportsIndex) -> str:
        """Refuse to be pickled: secrets stay in the process that was given them."""
        raise TypeError("coordinators with their security stay in their process: they cannot be pickled")


def security_of(coordinators: Iterable[Address]) -> ClientSecurity:
    """Return how these are spoken to; plain addresses are spoken to plainly."""
    return coordinators.security if isinstance(coordinators, Coordinators) else PLAINTEXT
