"""The nodes that are asked as a person, in which order, and what comes of one that is silent. Nodes are a fake."""

from dataclasses import replace

import pytest

from coordinator.client.cluster_view import view
from coordinator.client.connection import NodeError, NodeRefusalError
from coordinator.client.every_node import NodesFound
from coordinator.client.security import ClientSecurity, Coordinators
from coordinator.console.known.picture import Picture
from coordinator.console.known.sight import ASKED_AGAIN_S, OUTAGE_S
from coordinator.console.people.credential import Credential
from coordinator.console.people.looking import Listing, Looker, NobodyAnswersError, RefusedByNodeError
from coordinator.console.settings import ConsoleSettings
from coordinator.protocol.messages import DescribeClusterResponse
from coordinator.protocol.parts import NodeDescription
from coordinator.protocol.text.addresses import Address

ALICE = Credential("alice", "s3cret")
ONE, TWO, THREE = (("10.0.0.1", 1), ("10.0.0.2", 1), ("10.0.0.3", 1))


class Nodes:
    """Says what each node says; `asked` are those that were asked."""

    def __init__(self) -> None:
        self.says: dict[Address, Listing | NodeError] = {}
        self.asked: list[Address] = []
        self.asked_for_cluster: list[Address] = []

    def ask(self, address: Address, security: ClientSecurity, timeout_s: float, asks_cluster: bool) -> Listing:
        assert (security.username, security.password.read(), timeout_s) == ("alice", "s3cret", 5.0)
        self.asked.append(address)
        if asks_cluster:
            self.asked_for_cluster.append(address)
        said = self.says[address]
        if isinstance(said, NodeError):
            raise said
        return said if asks_cluster else replace(said, sees_cluster=None)


def listing(name: str, *, sees_cluster: bool) -> Listing:
    """Return what the node says that serves the shard of a group alone."""
    return Listing(frozenset(name), frozenset([ord(name)]), sees_cluster)


AWAY = NodeError("cannot be reached: Connection refused", "look")
REFUSED = NodeRefusalError("refused the log-in: user name and password do not fit", "look")


def looker(nodes: Nodes, *heard: Address) -> Looker:
    """Return one whose survey has heard of these nodes; it was given the first two."""
    picture = Picture()
    if heard:
        described = {
            number: DescribeClusterResponse(number, (NodeDescription(number, "ready", *address),), cluster_id="c")
            for number, address in enumerate(heard, 1)
        }
        picture.see_cluster(view(NodesFound(described, dict(enumerate(heard, 1)), {})), 1)
    return Looker(ConsoleSettings(Coordinators([ONE, TWO]), ("127.0.0.1", 1)), picture, nodes.ask)


def test_all_nodes_that_the_survey_knows_are_asked_and_list_together() -> None:
    nodes = Nodes()
    nodes.says = {
        ONE: listing("a", sees_cluster=True),
        TWO: listing("b", sees_cluster=True),
        THREE: listing("c", sees_cluster=True),
    }
    sight = looker(nodes, ONE, TWO, THREE).look(ALICE, None, 0.0)
    assert (sight.groups, sight.sees_cluster) == (frozenset("abc"), True)
    assert nodes.asked_for_cluster == [ONE]


def test_who_may_not_describe_the_cluster_is_seldom_asked_for_it_since_each_time_is_a_line_of_the_audit_log() -> None:
    nodes = Nodes()
    nodes.says = {ONE: listing("a", sees_cluster=False), TWO: listing("b", sees_cluster=False)}
    at = looker(nodes, ONE, TWO)
    sight = at.look(ALICE, None, 0.0)
    for now_s in (10.0, 20.0, ASKED_AGAIN_S - 1):
        sight = at.look(ALICE, sight, now_s)
        assert not sight.sees_cluster
    assert nodes.asked_for_cluster == [ONE]
    nodes.says[ONE] = listing("a", sees_cluster=True)
    sight = at.look(ALICE, sight, ASKED_AGAIN_S)
    assert sight.sees_cluster
    nodes.says[ONE] = listing("a", sees_cluster=False)  # a right that is taken is noticed at once
    assert not at.look(ALICE, sight, ASKED_AGAIN_S + 10).sees_cluster


def test_one_node_decides_about_the_log_in_so_that_a_wrong_password_is_one_failure() -> None:
    nodes = Nodes()
    nodes.says = dict.fromkeys((ONE, TWO, THREE), REFUSED)
    with pytest.raises(RefusedByNodeError) as caught:
        looker(nodes, ONE, TWO, THREE).look(ALICE, None, 0.0)
    assert nodes.asked == [ONE]
    assert str(caught.value).startswith("the coordinator at 10.0.0.1:1 refused the log-in")
    assert caught.value.told == "the coordinator refused the log-in: user name and password do not fit"


def test_while_nothing_was_heard_the_addresses_that_were_given_are_asked_in_turn() -> None:
    nodes = Nodes()
    nodes.says = {ONE: AWAY, TWO: listing("b", sees_cluster=False)}
    assert looker(nodes).look(ALICE, None, 0.0).groups == frozenset("b")
    nodes.says[TWO] = AWAY
    with pytest.raises(NobodyAnswersError, match=r"10\.0\.0\.1:1 .*; .*10\.0\.0\.2:1 cannot be reached"):
        looker(nodes).look(ALICE, None, 0.0)


@pytest.mark.parametrize("failure", [AWAY, REFUSED])
def test_what_another_node_has_listed_counts_for_a_while_when_it_does_not_answer(failure: NodeError) -> None:
    nodes = Nodes()
    nodes.says = {ONE: listing("a", sees_cluster=True), TWO: listing("b", sees_cluster=True)}
    at = looker(nodes, ONE, TWO)
    first = at.look(ALICE, None, 0.0)
    nodes.says[TWO] = failure
    later = at.look(ALICE, first, OUTAGE_S - 1)
    assert later.groups == frozenset("ab")
    assert at.look(ALICE, later, OUTAGE_S).groups == frozenset("a")
