"""Mistakes in how members find the leader of their group, and in what they go on with on the way."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from coordinator.core.groups.membership import registration
from coordinator.core.requests.finding import Finder
from spark_kcoord.member.core.held.holdings import Holdings
from tests.sim.cluster.leaving import LeavingWorld
from tests.sim.cluster.machines import FailoverWorld
from tests.sim.cluster.world import ClusterWorld

Patches = list[tuple[Any, str, Any]]


def owns_nothing_until_told() -> Patches:
    return [(Holdings, "begin_anew", lambda holdings, held: holdings.forget_grants())]


def never_knows_better() -> Patches:
    return [
        (Finder, "_knows_better", lambda finder, shard, leader_epoch: False),
        (Finder, "_leads", lambda finder, node, shard, leader_epoch: False),
    ]


def joins_again_to_leave() -> Patches:
    return [(registration, "_is_there", lambda group, member_id: True)]


MISTAKES: Final[Mapping[str, tuple[str, Callable[[], Patches], type[ClusterWorld]]]] = {
    "owns-nothing-until-told": (
        "a member that is back gives up what it has before it is told what that is",
        owns_nothing_until_told,
        FailoverWorld,
    ),
    "never-knows-better": (
        "a node holds every question for a leader that another node is",
        never_knows_better,
        FailoverWorld,
    ),
    "joins-again-to-leave": (
        "a member whose leave was decided, and not answered, is let in anew to leave again",
        joins_again_to_leave,
        LeavingWorld,
    ),
}
