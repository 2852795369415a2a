"""Samples of the size of records."""

from dataclasses import replace
from typing import Any

from kafka.protocol.consumer import FetchRequest

from spark_kcoord.fetch.sizes import sample_sizes
from tests.helpers.scripted_kafka import SETTINGS, ScriptedKafka, fetched, values


class FollowedKafka(ScriptedKafka):
    """A leader that sends readers of another rack to a replica."""

    async def send(self, node_id: int, request: Any) -> Any:
        assert isinstance(request, FetchRequest)
        return fetched(replica=2) if request.rack_id else await super().send(node_id, request)


def test_size_is_sampled_at_the_leader_whatever_the_rack() -> None:
    batch = values(0, 1, 2, 3)
    kafka = FollowedKafka(fetched(batch))
    kafka.settings = replace(SETTINGS, rack="east")

    sizes = kafka.run(lambda: sample_sizes(kafka, {("t", 0): 0}), 1)  # type: ignore[arg-type]  # a stand-in

    assert sizes == {("t", 0): len(batch) / 4}
