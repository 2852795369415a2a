"""The holders of the partitions of a group now, as its coordinator knows them.

Asked on a connection of its own, by a member that misses partitions and has to know whether somebody else reads them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from coordinator.client.refusals import refusal_of, show_refusal
from coordinator.protocol.ids import TopicPartition
from coordinator.protocol.messages import DescribeGroup, DescribeGroupResponse
from coordinator.protocol.messages.operators import DescribeControls, DescribeControlsResponse
from coordinator.protocol.parts import ControlDescription, PartitionDescription
from coordinator.protocol.text.addresses import Address
from coordinator.protocol.vocabulary import ControlKind
from spark_kcoord.errors import KcoordError
from spark_kcoord.member.one_shot import request_once


@dataclass(frozen=True, slots=True)
class Holder:
    """The member that has a partition, None when nobody has it, and whether an operator has paused it."""

    member_id: str | None = None
    is_paused: bool = False


def ask_holders(coordinators: Sequence[Address], group_id: str, *, timeout_s: float) -> Mapping[TopicPartition, Holder]:
    """Return the holder of each partition that the group's coordinator knows; raises KcoordError."""
    described = request_once(coordinators, DescribeGroup(group_id), timeout_s=timeout_s)
    controls = request_once(coordinators, DescribeControls(group_id), timeout_s=timeout_s)
    for response in (described, controls):
        refusal = refusal_of(response)
        if refusal is not None:
            raise KcoordError(
                f"The coordinator does not say who has the partitions of group '{group_id}': "
                f"{show_refusal(refusal)}. Start the query again from its checkpoint."
            )
    assert isinstance(described, DescribeGroupResponse)
    assert isinstance(controls, DescribeControlsResponse)
    return holders_of(described.partitions, controls.controls)


def holders_of(
    partitions: Sequence[PartitionDescription], controls: Sequence[ControlDescription]
) -> dict[TopicPartition, Holder]:
    """Return who has what, from a group's description and what operators have decided."""
    is_group_paused = any(one.kind == ControlKind.GROUP_PAUSED for one in controls)
    paused = {(one.topic, one.partition) for one in controls if one.kind == ControlKind.PARTITION_PAUSED}
    return {
        (one.topic, one.partition): Holder(one.member_id, is_group_paused or (one.topic, one.partition) in paused)
        for one in partitions
    }
