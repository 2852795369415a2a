"""Changes of a cluster, asked of the node that decides them: of the controller, or of the node that is concerned.

The controller is the one that the nodes name; it may be another one a moment later, so it is looked for again while
time is left. A request that may have been heard is not asked twice. Blocking.
"""

import time
from collections.abc import Sequence
from typing import Final

from coordinator.client.cluster_view import ClusterView, view
from coordinator.client.every_node import find_nodes
from coordinator.client.refusals import refusal_of
from coordinator.client.request import RequestError, RequestTimeoutError, ask
from coordinator.client.security import Coordinators, security_of
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import DrainNode, ElectLeaders, ReassignShards, Response
from coordinator.protocol.text.addresses import Address

_PAUSE_S: Final = 0.2


def ask_controller(
    coordinators: Sequence[Address], request: ReassignShards | ElectLeaders, timeout_s: float
) -> Response:
    """Return the controller's answer, also a refusal; raises RequestError where nobody knows a controller in time."""
    deadline_s = time.monotonic() + timeout_s
    while True:
        cluster = view(find_nodes(coordinators, max(deadline_s - time.monotonic(), _PAUSE_S)))
        address, why = _controller_of(cluster)
        if address is not None:
            response = ask(
                Coordinators([address], security_of(coordinators)),
                request,
                max(deadline_s - time.monotonic(), _PAUSE_S),
            )
            refusal = refusal_of(response)
            if refusal is None or refusal[0] is not ErrorCode.NOT_CONTROLLER:
                return response
            why = refusal[1]
        if time.monotonic() + _PAUSE_S >= deadline_s:
            text = f"no node decides about shards now: {why}; `kcoord cluster status` says what is wrong"
            raise RequestTimeoutError(text, why, None)
        time.sleep(_PAUSE_S)


def ask_node(coordinators: Sequence[Address], request: DrainNode, timeout_s: float) -> Response:
    """Return the answer of the node that is named; raises RequestError where it cannot be asked."""
    cluster = view(find_nodes(coordinators, timeout_s))
    node = next((each for each in cluster.nodes if each.described.node_id == request.node_id), None)
    if node is None:
        known = ", ".join(str(each.described.node_id) for each in cluster.nodes)
        raise RequestError(f"no node has the id {request.node_id}; there are {known}")
    if node.address is None or node.why_not_asked:
        raise RequestError(
            f"node {request.node_id} could not be asked: it {node.why_not_asked}; a node that does not run has nothing "
            "to hand on"
        )
    return ask(Coordinators([node.address], security_of(coordinators)), request, timeout_s)


def _controller_of(cluster: ClusterView) -> tuple[Address | None, str]:
    """Return where a change is to be asked for, or why that is not known; a node that is alone refuses it itself."""
    if cluster.cluster_id is None:
        return cluster.nodes[0].address, ""
    node = next((each for each in cluster.nodes if each.is_controller), None)
    if node is None:
        return None, "no node knows a controller"
    if node.why_not_asked:
        return None, f"node {node.described.node_id}, the controller, {node.why_not_asked}"
    return node.address, ""
