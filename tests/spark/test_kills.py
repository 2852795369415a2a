"""An application killed with SIGKILL: what is read again, what is skipped, and how fast partitions move on.

A Spark of its own takes long to start: one application has the queries of all the tests, each of its own group.
"""

import secrets
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest

from coordinator.local.kafka.broker import LocalKafka
from coordinator.local.node import LocalCoordinator
from coordinator.protocol.parts import Claim, ClaimState
from spark_kcoord.member.client import MemberClient, MemberSettings
from tests.helpers.group_view import GroupView
from tests.helpers.kafka_topics import produce_numbers
from tests.helpers.spark_application import SparkApplication
from tests.helpers.stream_application import NumberedStream
from tests.helpers.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(900)]

GRACE_S = 1.0
"""How long a closed connection with a running claim is waited for."""
SESSION_S = 10.0
"""How long a member counts of which nothing is heard."""


def a_member(coordinator: LocalCoordinator, group: str, topic: str) -> MemberClient:
    """Return a member without Spark, joined."""
    member = MemberClient(
        MemberSettings(
            coordinators=(("127.0.0.1", coordinator.port),), group_id=group, topics=(topic,), client_id="test"
        )
    )
    member.join()
    return member


def run_to_its_end(spark: "SparkSession", stream: NumberedStream) -> None:
    """Let the stream read what there is, in this process's Spark, from its checkpoint."""
    with closing_query(stream.start(spark, is_available_now=True)) as query:
        assert query.awaitTermination(150)


@contextmanager
def closing_query(query: "StreamingQuery") -> "Iterator[StreamingQuery]":
    """Stop the query at the end of a with block."""
    try:
        yield query
    finally:
        query.stop()


def running_claims(view: GroupView) -> list[Claim]:
    return [
        partition.claim
        for partition in view.describe().partitions
        if partition.claim is not None and partition.claim_state is ClaimState.RUNNING
    ]


@dataclass(frozen=True, slots=True)
class Killed:
    """Three queries of an application that was killed while a batch of each was written and not known to be done."""

    resumed: NumberedStream
    """Of 300 numbers in 3 partitions, batches of 90; nobody else is in its group."""
    fenced: NumberedStream
    """Of 100 numbers in 2 partitions, and 20 more since it was held; `other` is in its group."""
    other: MemberClient
    handover_s: float
    """From the kill until the other member had both partitions."""
    twice: NumberedStream
    """Of 200 numbers in 4 partitions, and 80 more once two of them were its own."""
    lasting: NumberedStream
    """The other query of the same group, in the Spark of the tests."""
    is_lasting: "StreamingQuery"


@pytest.fixture(scope="module")
def killed(
    spark: "SparkSession", kafka: LocalKafka, coordinator: LocalCoordinator, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Killed]:
    folder = tmp_path_factory.mktemp("killed")

    run = secrets.token_hex(4)  # another one where a test is run again

    def stream(kind: str, partitions: int, numbers: int, *options: str) -> NumberedStream:
        group = f"{kind}-{run}"
        kafka.create_topic(group, partitions)
        produce_numbers(kafka.bootstrap_servers, group, partitions, 0, numbers)
        return NumberedStream(folder / group, coordinator.address, group, group, options)

    resumed = stream("killed-resumed", 3, 300, "maxOffsetsPerTrigger=90")
    fenced = stream("killed-fenced", 2, 100)
    twice = stream("killed-twice", 4, 200)
    lasting = replace(twice, folder=folder / "lasting", options=("maxOffsetsPerTrigger=40",))
    of_fenced, of_twice = (GroupView(coordinator.address, one.group) for one in (fenced, twice))
    is_lasting = lasting.start(spark)
    with closing_query(is_lasting), SparkApplication(resumed, fenced, twice) as application:
        wait_until(lambda: of_twice.committed() == 200, query=is_lasting)
        application.hold("hold-after", of=resumed)
        application.hold("hold-after", of=fenced)
        application.start()
        wait_until(lambda: sorted(of_twice.owners().values()) == [2, 2], timeout_s=240)
        application.wait_for("batch-0.json", of=twice)
        application.hold("hold-after", of=twice)
        produce_numbers(kafka.bootstrap_servers, twice.topic, 4, 200, 80)
        application.wait_for("held-after-*", of=twice)
        application.wait_for("held-after-0", of=resumed)
        application.wait_for("held-after-0", of=fenced)
        batch = running_claims(of_fenced)
        assert {(claim.from_offset, claim.until_offset) for claim in batch} == {(0, 50)}
        other = a_member(coordinator, fenced.group, fenced.topic)
        assert other.assignment().partitions == ()
        produce_numbers(kafka.bootstrap_servers, fenced.topic, 2, 100, 20)
        killed_at = time.monotonic()  # before the signal: the connections close while the processes' end is awaited
        application.kill()
        wait_until(lambda: len(other.assignment().partitions) == 2)
        handover_s = time.monotonic() - killed_at
        application.let_go("hold-after", of=resumed)
        application.let_go("hold-after", of=fenced)
        yield Killed(resumed, fenced, other, handover_s, twice, lasting, is_lasting)
        other.close()


def test_a_killed_query_resumes_its_claims_and_writes_every_row_once(
    spark: "SparkSession", kafka: LocalKafka, coordinator: LocalCoordinator, killed: Killed
) -> None:
    stream = killed.resumed
    view = GroupView(coordinator.address, stream.group)
    wait_until(lambda: view.describe().members == ())
    assert len(running_claims(view)) == 3
    assert stream.rows().total() == 90
    produce_numbers(kafka.bootstrap_servers, stream.topic, 3, 300, 30)
    run_to_its_end(spark, stream)
    assert stream.rows() == Counter(range(330))
    assert view.committed() == 330
    assert view.events("taken-over") == []


def test_partitions_of_a_killed_query_are_handed_over_within_the_grace_and_a_little_and_come_back_fenced(
    spark: "SparkSession", kafka: LocalKafka, coordinator: LocalCoordinator, killed: Killed
) -> None:
    """The case of a partition that goes away and comes back around a replayed batch.

    The first batch is written but not known to be done when its query is killed. Another member takes its partitions
    over, reads past the batch, commits and leaves. The query comes back from its checkpoint and replays the batch: it
    may neither read the range again nor commit it, and goes on where the other one stopped.
    """
    stream, other = killed.fenced, killed.other
    view = GroupView(coordinator.address, stream.group)
    taken = other.assignment().partitions
    assert [partition.start for partition in taken] == [0, 0]
    ahead = [Claim(p.topic, p.topic_id, p.partition, p.owner_epoch, 0, 60) for p in taken]
    assert len(other.advance((), ahead).claimed) == 2
    assert all(status.state is ClaimState.RUNNING for status in other.confirm_claims(ahead))
    other.advance(ahead, ())
    other.leave()
    assert view.committed() == 120
    produce_numbers(kafka.bootstrap_servers, stream.topic, 2, 120, 10)
    run_to_its_end(spark, stream)
    assert view.committed() == 130
    taken_over = [event.duration_ms for event in view.events("taken-over") if event.duration_ms is not None]
    print(f"\nhandover: {killed.handover_s * 1000:.0f} ms after SIGKILL, {taken_over} ms by the timeline")
    # By the node's time, which waits for nobody; by that of the test, before a dead member's session would have ended.
    assert taken_over
    assert all(GRACE_S <= each / 1000 < GRACE_S + 1.0 for each in taken_over)
    assert GRACE_S <= killed.handover_s < SESSION_S
    # The replayed batch 0 was overwritten by nothing: its rows are the other member's now.
    assert stream.rows() == Counter(range(120, 130))


def test_a_batch_written_before_the_kill_and_taken_over_is_the_only_thing_delivered_twice(
    coordinator: LocalCoordinator, killed: Killed
) -> None:
    view = GroupView(coordinator.address, killed.twice.group)
    wait_until(lambda: view.committed() == 280, query=killed.is_lasting)
    once, again = killed.lasting.rows(), killed.twice.rows()
    assert once == Counter(range(280))
    assert 0 < again.total() <= 40
    assert set(again) <= set(range(200, 280))
