"""The settings of one console: whom it asks, where it listens, who may look, and whether it may change anything.

Without a log-in whoever can reach it sees all, and with changes allowed may do what an operator may: so it listens on
loopback alone. Anywhere else people log in, over TLS.
"""

from dataclasses import dataclass
from typing import Final

from coordinator.client.security import Coordinators
from coordinator.config.section import is_loopback
from coordinator.protocol.text.addresses import Address, format_address
from coordinator.runtime.security.tls_files import TlsFiles

TUNNEL: Final = "reach it by a tunnel, as `ssh -L 7480:127.0.0.1:7480 HOST` makes one"


@dataclass(frozen=True, slots=True)
class ConsoleSettings:
    """The settings of a console; `who` is the name under which it changes something where nobody logs in."""

    coordinators: Coordinators
    listen: Address
    allow_changes: bool = False
    refresh_s: float = 2.0
    timeout_s: float = 10.0
    who: str = "console"
    wants_log_in: bool = False
    tls: TlsFiles | None = None
    hosts: tuple[str, ...] = ()

    @property
    def is_far(self) -> bool:
        """Say whether other machines reach it."""
        return not is_loopback(self.listen[0])

    @property
    def is_log_in(self) -> bool:
        """Say whether people log in, as they always do where other machines reach it."""
        return self.wants_log_in or self.is_far


def why_not(settings: ConsoleSettings) -> str | None:
    """Say why there can be no console with these settings, and what to do, or return None."""
    listen, security = settings.listen, settings.coordinators.security
    if settings.is_far and settings.tls is None:
        return (
            f"{format_address(listen)} can be reached from other machines, to which passwords and tokens would travel "
            "unencrypted: name a certificate and its key with --tls-certificate and --tls-key, or listen at 127.0.0.1 "
            f"and {TUNNEL}"
        )
    if settings.hosts and not settings.is_log_in:
        return (
            "--host names a host, and nobody logs in to this console, which therefore answers under names of loopback "
            "alone: add --log-in, or leave --host out"
        )
    if not settings.is_log_in:
        return None
    if not security.is_log_in:
        return (
            "people log in to this console as they do to the coordinators, and the console itself logs in to none: "
            "have the coordinators ask for a log-in (authentication.mechanisms), and give the console a user or a "
            "token of its own by kcoord.security.protocol=SASL_SSL, or listen at 127.0.0.1 without --log-in and "
            f"{TUNNEL}"
        )
    far = [address for address in settings.coordinators if not is_loopback(address[0])]
    if far and not security.is_tls:
        return (
            f"what people log in with would travel to {format_address(far[0])} unencrypted: set "
            "kcoord.security.protocol to SASL_SSL"
        )
    return None
