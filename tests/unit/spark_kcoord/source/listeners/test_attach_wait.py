"""`wait` of an attachment: the micro-batch that a query's last report is of, or none where there was nothing new."""

import json
from types import SimpleNamespace
from typing import Any

import pytest

from coordinator.local.process.ports import free_ports
from coordinator.protocol.messages import FinishClaims, FinishClaimsResponse
from coordinator.protocol.parts import Claim, Outcomes
from spark_kcoord.errors import KcoordError
from spark_kcoord.microbatch.stream_offset import StreamOffset
from spark_kcoord.source.listeners.attachment import Attachment
from tests.helpers.scripted_coordinator import ScriptedCoordinator


def offset_up_to(until: int) -> str:
    claims = (Claim("t", "id", 0, 7, until - 10, until),)
    return json.dumps(StreamOffset("c", "g", "m1", claims, coordinators=("c1:7600",)).to_json())


def a_query(*ranges: tuple[str | None, str]) -> Any:
    """Return a query whose last report has sources with these offsets, and micro-batch 5."""
    sources = [{"startOffset": start, "endOffset": end, "numInputRows": 0} for start, end in ranges]
    return SimpleNamespace(lastProgress={"runId": "run", "batchId": 5, "sources": sources})


@pytest.fixture
def attachment() -> Attachment:
    session: Any = SimpleNamespace()
    return Attachment(session)


def test_a_trigger_without_news_is_not_waited_for_since_the_source_has_committed_when_it_was_asked(
    attachment: Attachment,
) -> None:
    attachment.wait(a_query((offset_up_to(10), offset_up_to(10))), 0)
    attachment.wait(a_query((offset_up_to(10), offset_up_to(10)), ('{"t":{"0":1}}', '{"t":{"0":2}}')), 0)


@pytest.mark.parametrize("start", [None, offset_up_to(10)])
def test_a_micro_batch_is_waited_for(attachment: Attachment, start: str | None) -> None:
    with pytest.raises(KcoordError, match="Micro-batch 5 was not known to be committed"):
        attachment.wait(a_query((offset_up_to(10), offset_up_to(10)), (start, offset_up_to(20))), 0)


class _Progress(dict[str, Any]):
    """A progress report, which Spark's listeners are given as an object too."""

    runId, batchId, id, name = "run", 5, "query", None  # noqa: N815 - Spark's names


def test_a_micro_batch_is_committed_where_only_nodes_are_left_that_the_query_has_met(attachment: Attachment) -> None:
    with ScriptedCoordinator({FinishClaims: FinishClaimsResponse(results=Outcomes(1))}) as node:
        gone = f"127.0.0.1:{free_ports(1)[0]}"
        claims = (Claim("t", "id", 0, 7, 0, 10),)
        offset = StreamOffset("c", "g", "m1", claims, coordinators=(gone,), nodes=(node.address,))
        query = a_query((None, json.dumps(offset.to_json())))
        attachment.onQueryProgress(SimpleNamespace(progress=_Progress(query.lastProgress)))  # type: ignore[arg-type]
        attachment.wait(query, 20)
        assert [type(request) for request in node.asked] == [FinishClaims]
