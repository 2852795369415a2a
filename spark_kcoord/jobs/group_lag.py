"""The lag of a group, partition by partition, as the coordinator knows it; without being a member.

Ends are the high watermarks that the coordinator polled last, at most about a second old. What is not known is None,
never 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import DescribeGroup, DescribeGroupResponse
from spark_kcoord.errors import KcoordError
from spark_kcoord.member.one_shot import request_once
from spark_kcoord.options.kinds import SERVERS
from spark_kcoord.options.source_options import coordinators_at

__all__ = ["PartitionLag", "group_lag"]

TIMEOUT_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """One partition of a group: the next offset to read, the end in Kafka, and who has it."""

    topic: str
    partition: int
    committed: int | None
    end: int | None
    member: str | None
    host: str | None

    @property
    def lag(self) -> int | None:
        """The offsets from the committed one to the end; without a committed one it is not known."""
        if self.committed is None or self.end is None:
            return None
        return max(0, self.end - self.committed)


def group_lag(
    coordinators: str, group_id: str, *, timeout_s: float = TIMEOUT_S, security: Mapping[str, str] | None = None
) -> list[PartitionLag]:
    """Return the partitions of a group by topic and number; ``coordinators`` is ``host:port,…``.

    ``security`` are options such as ``kcoord.ssl.ca.location``, which say how these are spoken to.
    Raises KcoordError when no coordinator answers or there is no such group.
    """
    servers = coordinators_at(SERVERS.read("kcoord.bootstrap.servers", coordinators), security or {})
    response = request_once(servers, DescribeGroup(group_id), timeout_s=timeout_s)
    assert isinstance(response, DescribeGroupResponse)
    if response.error is not ErrorCode.NONE:
        raise KcoordError(f"Group '{group_id}' cannot be described: {response.message} ({response.error.name}).")
    hosts = {member.member_id: member.host for member in response.members}
    return [
        PartitionLag(
            one.topic, one.partition, one.committed, one.end_offset, one.member_id, hosts.get(one.member_id or "")
        )
        for one in response.partitions
    ]
