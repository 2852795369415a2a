"""A console without a process: its picture filled by hand, its application asked as a browser asks it."""

import time
from collections.abc import Callable, Iterable
from typing import Any

import httpx2
from starlette.testclient import TestClient

from coordinator.client.cluster_view import view
from coordinator.client.every_node import NodesFound
from coordinator.client.security import Coordinators
from coordinator.console.known.picture import Picture
from coordinator.console.settings import ConsoleSettings
from coordinator.console.web.app import OPEN, Front, make_app
from coordinator.console.web.changes import Changes
from coordinator.console.web.guard import MARK
from coordinator.console.web.reading import Reader
from coordinator.protocol.messages import DescribeClusterResponse, DescribeGroupResponse
from coordinator.protocol.parts import (
    CommittedOffset,
    GroupSummary,
    MemberDescription,
    NodeDescription,
    PartitionDescription,
    ShardDescription,
)
from coordinator.protocol.text.addresses import Address

NOW_MS = 1_800_000_000_000
NOWHERE: Address = ("127.0.0.1", 1)


def summary(name: str, state: str = "Stable", members: int = 1) -> GroupSummary:
    return GroupSummary(name, state, 3, members, 500)


def member(member_id: str, client_id: str = "client", owned: int = 1) -> MemberDescription:
    return MemberDescription(member_id, None, client_id, "10.0.0.1", 42, "Stable", 3, 1, True, owned, owned)


def partition(
    number: int, committed: int | None, end: int | None, owner: str | None = "m", topic: str = "t"
) -> PartitionDescription:
    return PartitionDescription(topic, number, committed, end, owner, None if owner is None else 7)


def described(
    name: str, *partitions: PartitionDescription, members: tuple[MemberDescription, ...] = (member("m"),)
) -> DescribeGroupResponse:
    return DescribeGroupResponse(
        group_id=name,
        state="Stable",
        group_epoch=3,
        assignor="sticky",
        members=members,
        partitions=partitions,
        bytes=500,
    )


def commit(number: int, offset: int, commit_ms: int, topic: str = "t") -> CommittedOffset:
    return CommittedOffset(topic, "id", number, offset, None, "", commit_ms)


def fill(picture: Picture, *groups: DescribeGroupResponse, now_ms: int = NOW_MS, address: Address = NOWHERE) -> None:
    """Have a node of one shard be heard, with these groups and no others."""
    cluster = DescribeClusterResponse(
        1, (NodeDescription(1, "ready", *address),), (ShardDescription(0, "serving", 1, 1, (1,), (1,), 10, 10),)
    )
    picture.see_cluster(view(NodesFound({1: cluster}, {1: address}, {})), now_ms)
    picture.see_list({one.group_id: (summary(one.group_id, members=len(one.members)), 1) for one in groups}, ())
    for one in groups:
        commits = [commit(p.partition, p.committed, now_ms - 5_000, p.topic) for p in one.partitions if p.committed]
        picture.see_described(one, commits, now_ms)


class ConsoleWorld:
    """The application of a console over a picture; `get` asks it under its own name."""

    def __init__(
        self,
        *,
        coordinators: Iterable[Address] = (NOWHERE,),
        allow_changes: bool = False,
        front: Front = OPEN,
        url: str = "http://127.0.0.1:7480",
        timeout_s: float = 5,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        asked = coordinators if isinstance(coordinators, Coordinators) else Coordinators(coordinators)
        settings = ConsoleSettings(
            asked,
            ("127.0.0.1", 7480),
            allow_changes=allow_changes,
            timeout_s=timeout_s,
            who="test",
            wants_log_in=front.people is not None,
        )
        self.picture = Picture()
        self.now_ms = NOW_MS
        self.reader = Reader(settings, self.picture, lambda: self.now_ms, now_s)
        self.changes = Changes(self.picture)
        self.client = TestClient(make_app(self.reader, self.changes, front), base_url=url)

    def get(self, path: str, **headers: str) -> httpx2.Response:
        return self.client.get(path, headers=headers)

    def post(self, path: str, body: Any, **headers: str) -> httpx2.Response:
        return self.client.post(path, json=body, headers={MARK: "test", **headers})
