"""A member of a group without Spark, for tests that need a second one."""

from collections.abc import Iterator
from contextlib import contextmanager

from coordinator.local.node import LocalCoordinator
from coordinator.protocol.parts import ResetPolicy
from spark_kcoord.member.client import MemberClient, MemberSettings


@contextmanager
def a_member(coordinator: LocalCoordinator, group: str, topic: str) -> Iterator[MemberClient]:
    """Have a member join for the time of a with block."""
    member = MemberClient(
        MemberSettings(
            coordinators=(("127.0.0.1", coordinator.port),),
            group_id=group,
            topics=(topic,),
            client_id="test",
            reset_policy=ResetPolicy("earliest"),
        )
    )
    member.join()
    try:
        yield member
    finally:
        member.close()
