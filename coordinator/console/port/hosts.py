"""The names under which a console answers: those of loopback, of its certificate, and those it was given. Pure.

A page of another site can have a name of its own pointed to the console's address and then reads what it answers
(DNS rebinding); under that name nothing is answered.
"""

from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

from coordinator.config.section import is_loopback
from coordinator.core.security.host_names import CertificateName, is_for_host


def name_in(host: str) -> str:
    """Return the name or address in the value of a `Host` header, without its port; empty where there is none."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


@dataclass(frozen=True, slots=True)
class Hosts:
    """The names of one console; `certified` returns those of the certificate that is shown now."""

    given: frozenset[str] = frozenset()
    certified: Callable[[], tuple[CertificateName, ...]] = tuple

    def why_not(self, host: str) -> str | None:
        """Say why a request with this `Host` is not answered, or return None."""
        name = name_in(host)
        if is_loopback(name) or name in self.given or (name and is_for_host(self.certified(), name)):
            return None
        if not self.given and not self.certified():
            return "this console answers only under localhost and addresses of loopback"
        return "this console answers only under the names of its certificate, and those given with --host"
