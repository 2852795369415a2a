"""A consumer that nobody has told where Kafka is, and that is not in its group: it asks its coordinators."""

import pytest

from coordinator.protocol.messages import FindCoordinator
from kcoord import TopicPartition
from spark_kcoord.consumer.errors import CoordinatorUnavailableError
from tests.helpers.fake_consuming import Rig
from tests.helpers.member_pair import found
from tests.helpers.scripted_coordinator import ScriptedCoordinator


def test_partitions_by_hand_are_read_where_the_coordinators_say_that_kafka_is() -> None:
    with ScriptedCoordinator({FindCoordinator: found()}) as coordinator:
        rig = Rig(topics=(), coordinators=f"127.0.0.1:{coordinator.address[1]}")
        rig.assign({TopicPartition("t", 0): 0})
        rig.assign({TopicPartition("t", 0): 0})
        assert len(rig.offsets()) == 10
        rig.close()
    assert coordinator.asked == [FindCoordinator("g")], "it asks once"


def test_where_no_coordinator_says_so_the_reason_is_told_in_time() -> None:
    rig = Rig(topics=(), coordinators="127.0.0.1:1")
    with pytest.raises(CoordinatorUnavailableError, match=r"127\.0\.0\.1:1: cannot be reached"):
        rig.topics(timeout_ms=20)
    rig.close()
