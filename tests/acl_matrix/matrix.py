"""Every verb, resource and kind of principal asked of a node, beside the table: what was got and what was expected.

A cell is one request on a connection of a principal. It is refused when its answer is one of the three codes that say
so, or has one for the topic that it commits; whatever else the answer is, it was let through.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from coordinator.core.events import RulesChanged
from coordinator.core.security.acl import Acl
from coordinator.core.security.acl_file import parse_rules
from coordinator.core.security.authorizer import Authorizer
from coordinator.core.security.principal import Principal
from coordinator.protocol import messages as m
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import CommitOffsetsResponse, ErrorResponse, ListGroupsResponse, Request, Response
from coordinator.protocol.messages import operators as o
from coordinator.protocol.parts import NewGroup, ResetTarget, Subscription, TopicOffsets
from coordinator.protocol.vocabulary import ResetKind
from tests.acl_matrix.table import (
    EXISTING,
    FILTERED,
    GROUPS,
    KINDS,
    OF_CLUSTER,
    OF_GROUP,
    OF_GROUP_AND_TOPIC,
    OF_NOBODY,
    OF_OWN_GROUP,
    TOPICS,
    Kind,
)
from tests.helpers.node_member import Member
from tests.helpers.node_world import NodeWorld

REFUSALS = {
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
}
OPEN = Acl(superusers=frozenset(Principal(name) for name in (*KINDS, "founder")))

ABOUT_GROUP: dict[str, Callable[[str], Request]] = {
    "FindCoordinator": m.FindCoordinator,
    "FetchOffsets": m.FetchOffsets,
    "DescribeGroup": m.DescribeGroup,
    "ListGroupEvents": m.ListGroupEvents,
    "DescribeControls": o.DescribeControls,
    "ChangePause": lambda group: o.ChangePause(group, None, True, "ann"),
    "ChangeDrain": lambda group: o.ChangeDrain(group, "m", True, "ann"),
    "ResetOffsets": lambda group: o.ResetOffsets(group, (), "ann"),
    "CancelResets": lambda group: o.CancelResets(group, None, "ann"),
    "ReleaseClaims": lambda group: o.ReleaseClaims(group, (), "ann"),
    "DeleteOffsets": lambda group: o.DeleteOffsets(group, (), "ann"),
    "DeleteGroup": lambda group: o.DeleteGroup(group, "ann"),
    "FinishClaims": lambda group: m.FinishClaims(group, "m", ()),
    "BeginClaims": lambda group: m.BeginClaims(group, "m", ()),
}


def register(group: str, topic: str) -> Request:
    """Return a registration for one topic."""
    timeouts = {"session_timeout_ms": 10_000, "rebalance_timeout_ms": 60_000}
    return m.RegisterConsumer(group, "", "a process", Subscription((topic,)), "client", 42, **timeouts)


def reset(group: str, topic: str) -> Request:
    """Return a reset that asks Kafka, also of a group that is not there."""
    return o.ResetOffsets(group, (ResetTarget(topic, 0, ResetKind.LATEST),), "ann", new_group=NewGroup())


ABOUT_TOPIC: dict[str, Callable[[str, str], Request]] = {
    "ResetOffsets": reset,
    "DeleteOffsets": lambda group, topic: o.DeleteOffsets(group, ((topic, 0),), "ann"),
    "CommitOffsets": lambda group, topic: m.CommitOffsets(group, (TopicOffsets(topic, (0,), (1,)),)),
    "RegisterConsumer": register,
}
OWN: dict[str, Request] = {
    "Ping": m.Ping(0),
    "FetcherStarted": m.FetcherStarted(()),
    "FetcherStopped": m.FetcherStopped(()),
    "Advance": m.Advance((), ()),
    "ConfirmClaims": m.ConfirmClaims(()),
    "ReportOutOfRange": m.ReportOutOfRange(()),
    "LeaveGroup": m.LeaveGroup(),
}
OTHERS: dict[str, Request] = {
    "DescribeCluster": m.DescribeCluster(),
    "ReassignShards": m.ReassignShards((), "ann"),
    "ElectLeaders": m.ElectLeaders((), "ann"),
    "DrainNode": m.DrainNode(1, True, "ann"),
    "ListClaims": m.ListClaims(),
    "ListGroups": m.ListGroups(),
}


@dataclass(frozen=True)
class Cell:
    """One question, what the table says, and what a node did."""

    principal: str
    verb: str
    resource: str
    expected: object
    got: object
    said: str = ""

    @property
    def is_wrong(self) -> bool:
        """Return whether the node does other than the table says."""
        return self.expected != self.got


def cells() -> Iterator[Cell]:
    """Yield every cell."""
    for name, kind in KINDS.items():
        yield from _Asking(name, kind).cells()


class _Asking:
    """A node with the rules of one kind of principal."""

    def __init__(self, name: str, kind: Kind) -> None:
        self._name, self._kind = name, kind
        self._who = Principal(name)
        self._authorizer = Authorizer(OPEN)
        self._world = NodeWorld(dict.fromkeys(TOPICS, 2), authorizer=self._authorizer)
        for group in EXISTING:
            self._world.join(f"founder-{group}", group_id=group, principal=Principal("founder"))
        self._own = {
            (verb, group): self._world.join(group_id=group, principal=self._who) for verb in OWN for group in EXISTING
        }
        superusers = frozenset([self._who]) if kind.is_superuser else frozenset()
        self._world.happen(RulesChanged(Acl(parse_rules(kind.rules), superusers)))

    def _answer(self, member: Member, request: Request) -> Response:
        sent = member.send(request)
        self._world.settle()
        response = member.answer(sent)
        assert response is not None, f"{request} was not answered"
        return response

    def cells(self) -> Iterator[Cell]:
        """Yield the cells of this kind; what may make a group comes last."""
        kind = self._kind
        for verb in FILTERED:
            shown = tuple(group for group in sorted(EXISTING) if "D" in kind.groups.get(group, ""))
            yield Cell(self._name, verb, "*", shown, self._listed(OTHERS[verb]))
        for verb in OF_NOBODY:
            yield self._cell(verb, "", OTHERS[verb], expected=True)
        for verb, right in OF_CLUSTER.items():
            yield self._cell(verb, "cluster", OTHERS[verb], expected=right in kind.cluster)
        for verb, right in OF_GROUP.items():
            for group in GROUPS:
                yield self._cell(verb, group, ABOUT_GROUP[verb](group), expected=right in kind.groups.get(group, ""))
        for verb, right in OF_OWN_GROUP.items():
            for group in EXISTING:
                member = self._own[verb, group]
                yield self._cell(verb, group, OWN[verb], right in kind.groups.get(group, ""), member)
        for verb, (right, on_topic) in OF_GROUP_AND_TOPIC.items():
            for group in GROUPS:
                for topic in TOPICS:
                    request = ABOUT_TOPIC[verb](group, topic)
                    may = right in kind.groups.get(group, "") and set(on_topic) <= set(kind.topics.get(topic, ""))
                    yield self._cell(verb, f"{group}/{topic}", request, expected=may)

    def _listed(self, request: Request) -> tuple[str, ...]:
        response = self._answer(self._world.connect(principal=self._who), request)
        assert isinstance(response, ListGroupsResponse)
        return tuple(line.group_id for line in response.groups)

    def _cell(self, verb: str, resource: str, request: Request, expected: bool, member: Member | None = None) -> Cell:
        response = self._answer(member or self._world.connect(principal=self._who), request)
        said = [response.message] if isinstance(response, ErrorResponse) and response.error in REFUSALS else []
        if isinstance(response, CommitOffsetsResponse):
            said += [part.message for part in response.refused if part.error in REFUSALS]
        return Cell(self._name, verb, resource, expected, not said, "".join(said))
