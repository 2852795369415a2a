"""Asks the coordinators as one person: whether they let that person in, and what they list to them.

Each look opens its own connections and logs in on each, so that a password that was changed and a user that was taken
off are noticed; no secret is kept. One node decides about the log-in before others are asked, so that a wrong password
is one failure there and not one for each node; it alone is asked for the cluster, since each refusal of that is a line
of its audit log. Blocking.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, TypeAlias

from coordinator.client.connection import Connection, NodeError, NodeRefusalError
from coordinator.client.security import ClientSecurity
from coordinator.console.known.picture import Picture
from coordinator.console.known.sight import Listed, Sight, sight_of
from coordinator.console.people.credential import Credential
from coordinator.console.settings import ConsoleSettings
from coordinator.protocol.errors import LocalProtocolError
from coordinator.protocol.messages import DescribeCluster, DescribeClusterResponse, ListGroups, ListGroupsResponse
from coordinator.protocol.messages.pages import ask_for_all
from coordinator.protocol.text.addresses import Address, format_address

LONGEST_LOOK_S: Final = 5.0
"""The time that one node has to let somebody in and answer."""
_AT_ONCE: Final = 8

AskNode: TypeAlias = "Callable[[Address, ClientSecurity, float, bool], Listing]"
"""Asks one node as a person, for the cluster too or not."""


class RefusedByNodeError(Exception):
    """The coordinators do not let this person in; the text is for the log, `told` for the person."""

    def __init__(self, address: Address, why: str) -> None:
        super().__init__(f"the coordinator at {format_address(address)} {why}")
        self.told = f"the coordinator {why}"


class NobodyAnswersError(Exception):
    """No coordinator says whether this person may be let in; the text says why."""


@dataclass(frozen=True, slots=True)
class Listing:
    """The answer of one node to a person: its groups that they may see, and whether they may describe the cluster.

    `shards` are those that the node has listed. `sees_cluster` is None where that was not asked.
    """

    groups: frozenset[str]
    shards: frozenset[int]
    sees_cluster: bool | None = None


def ask_as(address: Address, security: ClientSecurity, timeout_s: float, asks_cluster: bool) -> Listing:  # noqa: FBT001
    """Log in to one node and return what it lists; raises NodeError and LocalProtocolError."""
    with Connection(address, timeout_s, security) as connection:
        listed = ask_for_all(lambda page: connection.ask(page, timeout_s), ListGroups(of_served=True))
        sees = None
        if asks_cluster:
            sees = isinstance(connection.ask(DescribeCluster(), timeout_s), DescribeClusterResponse)
    if not isinstance(listed, ListGroupsResponse):
        return Listing(frozenset(), frozenset(), sees)
    return Listing(frozenset(group.group_id for group in listed.groups), frozenset(listed.shards), sees)


class Looker:
    """Asks about people; its calls block and come from any thread."""

    def __init__(self, settings: ConsoleSettings, picture: Picture, ask_node: AskNode = ask_as) -> None:
        self._settings = settings
        self._picture = picture
        self._ask_node = ask_node
        self._timeout_s = min(settings.timeout_s, LONGEST_LOOK_S)

    def look(self, credential: Credential, old: Sight | None, now_s: float) -> Sight:
        """Return what a person may see now; raises RefusedByNodeError and NobodyAnswersError."""
        security = credential.security(self._settings.coordinators.security)
        addresses = self._addresses()
        asks_cluster = old is None or old.may_ask_cluster(now_s)
        first, heard = self._ask_one(addresses, security, asks_cluster=asks_cluster)
        others = [address for address in addresses if address != first]
        answers = {first: heard, **self._ask_others(others, security)}
        return sight_of(
            {address: Listed(said.groups, said.shards, now_s) for address, said in answers.items()},
            sees_cluster=heard.sees_cluster,
            old=old,
            now_s=now_s,
        )

    def _addresses(self) -> Sequence[Address]:
        """Return the nodes that answered the survey last, or those that were given."""
        cluster = self._picture.heard().cluster
        nodes = () if cluster is None else cluster.nodes
        known = [node.address for node in nodes if node.address is not None and not node.why_not_asked]
        return list(dict.fromkeys(known)) or list(dict.fromkeys(self._settings.coordinators))

    def _ask_one(
        self, addresses: Sequence[Address], security: ClientSecurity, *, asks_cluster: bool
    ) -> tuple[Address, Listing]:
        whys = []
        for address in addresses:
            try:
                return address, self._ask_node(address, security, self._timeout_s, asks_cluster)
            except NodeRefusalError as error:
                raise RefusedByNodeError(address, str(error)) from None
            except (NodeError, LocalProtocolError) as error:
                whys.append(f"the coordinator at {format_address(address)} {error}")
        raise NobodyAnswersError("; ".join(whys))

    def _ask_others(self, addresses: Sequence[Address], security: ClientSecurity) -> dict[Address, Listing]:
        """Ask the other nodes of a cluster; one that does not answer lists nothing new."""
        if not addresses:
            return {}

        def ask(address: Address) -> Listing | None:
            try:
                return self._ask_node(address, security, self._timeout_s, False)
            except (NodeError, LocalProtocolError):
                return None

        with ThreadPoolExecutor(min(_AT_ONCE, len(addresses)), thread_name_prefix="kcoord-console-look") as pool:
            said = list(pool.map(ask, addresses))
        return {address: heard for address, heard in zip(addresses, said, strict=True) if heard is not None}
