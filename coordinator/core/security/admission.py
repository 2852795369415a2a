"""The connections that a listener lets in: bounds in all, by address, of strangers, and on failures.

A connection is half-open until its peer is known: until its hello, and its log-in where there is one. So many may be; a
newcomer beyond them is let in, and the oldest of the address that has the most of them gives way. So a flood of silent
connections pushes out its own, and whoever speaks at once gets through. A crowd is not a flood: what has just come may
wait to be heard, so it gives way to addresses alone that have far fewer, and other newcomers have to come again. The
last places of all are kept for addresses from which members have come. An address from which too much has failed has to
wait, later where members have come from it: behind one address that translates may be a whole cluster, of which one job
has the wrong password. Knows no sockets; time is an argument; an address of IPv6 stands for its network of 64 bits,
which its owner has whole.
"""

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from coordinator.core.security.addresses import address_of
from coordinator.core.token_buckets import Rate, TokenBuckets

T = TypeVar("T", bound=Hashable)

MOST_ADDRESSES_OF_MEMBERS: Final = 10_000
"""Addresses that are remembered for the members that came from them, those of the last ones."""
REMEMBERED_MS: Final = 30 * 60_000
"""The time for which places are kept for an address after its last connection is gone."""
SPARED_MS: Final = 2_000
"""The time for which a half-open connection gives way to addresses alone that have far fewer of them."""
FAILURES_WITH_MEMBERS: Final = 10
"""So many times as much may fail that comes from an address from which members have come."""


@dataclass(frozen=True, slots=True)
class AdmissionLimits:
    """The bounds of one listener, in connections."""

    connections: int
    connections_of_address: int
    half_open: int
    kept: int
    """Of all connections those for addresses of members alone."""
    failures: Rate
    """The failures that one address may have."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason for which a newcomer is not let in, and the setting that says so."""

    setting: str
    why: str


@dataclass(frozen=True, slots=True)
class Admitted(Generic[T]):
    """A newcomer is let in; a half-open connection may have to give way to it."""

    gives_way: T | None = None


class Admission(Generic[T]):
    """The connections of one listener, each named by whatever its owner names it by."""

    def __init__(self, limits: AdmissionLimits) -> None:
        self.limits = limits
        self.count = 0
        self.half_open_count = 0
        self._by_address: Counter[str] = Counter()
        self._half_open: dict[str, dict[T, int]] = {}
        """Those of each address, with the time at which they came, the oldest first."""
        self._with_as_many: dict[int, dict[str, None]] = {}
        """The addresses by how many those are; looked at instead of all of them, since addresses may be invented."""
        self._most_half_open = 0
        self._of_members: dict[str, int] = {}
        self._failures = TokenBuckets(limits.failures)
        more = Rate(FAILURES_WITH_MEMBERS * limits.failures.burst, FAILURES_WITH_MEMBERS * limits.failures.per_s)
        self._failures_with_members = TokenBuckets(more)

    @property
    def most_of_an_address(self) -> int:
        """The connections of the address that has the most."""
        return max(self._by_address.values(), default=0)

    @property
    def failing_addresses(self) -> int:
        """Addresses from which something has failed lately."""
        return len(self._failures)

    def admit(self, newcomer: T, host: str, now_ms: int) -> Admitted[T] | Refusal:
        """Let a newcomer in, half-open, or say why not."""
        limits, address = self.limits, address_of(host)
        wait_ms = self._failures.wait_ms(address, now_ms)
        if wait_ms and self._has_members(address, now_ms):
            wait_ms = self._failures_with_members.wait_ms(address, now_ms)
        if wait_ms:
            why = f"too much has failed that came from {host} lately, and nobody is let in from there for {wait_ms} ms"
            return Refusal("server.failures_burst", why)
        if self._by_address[address] >= limits.connections_of_address:
            why = f"{host} has {limits.connections_of_address} connections, and one address may have no more"
            return Refusal("server.connections_per_address", why)
        if self.count >= limits.connections:
            why = f"{self.count} connections are open and no more are allowed"
            return Refusal("server.max_connections", why)
        if self.count >= limits.connections - limits.kept and not self._has_members(address, now_ms):
            why = (
                f"{self.count} connections are open, and the last {limits.kept} places are kept for addresses from "
                f"which members have come, which {host} is not"
            )
            return Refusal("server.kept_for_members_percent", why)
        gives_way = None
        if self.half_open_count >= limits.half_open:
            gives_way = self._gives_way_to(address, now_ms)
            if gives_way is None:
                why = f"{self.half_open_count} connections have not said yet who they are, and all have just come"
                return Refusal("server.half_open_max", why)
        self.count += 1
        self._by_address[address] += 1
        of_address = self._half_open.setdefault(address, {})
        of_address[newcomer] = now_ms
        self._move(address, len(of_address) - 1, len(of_address))
        self.half_open_count += 1
        return Admitted(gives_way)

    def known(self, connection: T, host: str) -> None:
        """Take note that it is known who a connection is; it is not half-open any more."""
        self._not_half_open(connection, address_of(host))

    def member_came(self, host: str, now_ms: int) -> None:
        """Take note that a member has registered from an address."""
        self._remember(address_of(host), now_ms)

    def failed(self, host: str, now_ms: int) -> None:
        """Take note that something has failed which came from an address: a log-in, a hello, a frame."""
        address = address_of(host)
        self._failures.take(address, now_ms)
        self._failures_with_members.take(address, now_ms)

    def gone(self, connection: T, host: str, now_ms: int) -> None:
        """Take note that a connection that was let in is gone."""
        address = address_of(host)
        self._not_half_open(connection, address)
        self.count -= 1
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]
        if address in self._of_members:
            self._remember(address, now_ms)

    def _not_half_open(self, connection: T, address: str) -> None:
        of_address = self._half_open.get(address)
        if of_address is None or connection not in of_address:
            return
        del of_address[connection]
        self._move(address, len(of_address) + 1, len(of_address))
        self.half_open_count -= 1
        if not of_address:
            del self._half_open[address]

    def _move(self, address: str, before: int, now: int) -> None:
        """Take note that an address has one half-open connection more or less."""
        if before:
            as_many = self._with_as_many[before]
            del as_many[address]
            if not as_many:
                del self._with_as_many[before]
        if now:
            self._with_as_many.setdefault(now, {})[address] = None
        if now > self._most_half_open or (before == self._most_half_open and before not in self._with_as_many):
            self._most_half_open = now

    def _gives_way_to(self, address: str, now_ms: int) -> T | None:
        """Return the half-open connection that goes for a newcomer from an address, None when none has to."""
        most = next(iter(self._with_as_many[self._most_half_open]))
        oldest, since_ms = next(iter(self._half_open[most].items()))
        has_far_fewer = 2 * len(self._half_open.get(address, ())) < len(self._half_open[most])
        if not has_far_fewer and now_ms - since_ms < SPARED_MS:
            return None
        self._not_half_open(oldest, most)
        return oldest

    def _remember(self, address: str, now_ms: int) -> None:
        self._of_members.pop(address, None)
        self._of_members[address] = now_ms
        if len(self._of_members) > MOST_ADDRESSES_OF_MEMBERS:
            del self._of_members[next(iter(self._of_members))]

    def _has_members(self, address: str, now_ms: int) -> bool:
        since_ms = self._of_members.get(address)
        if since_ms is None:
            return False
        if self._by_address[address] or now_ms - since_ms < REMEMBERED_MS:
            return True
        del self._of_members[address]
        return False
