"""The spans and metrics of a consumer with `otel`, as OpenTelemetry's SDK has them."""

import asyncio
import logging
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.propagate import get_global_textmap, set_global_textmap
from opentelemetry.propagators.textmap import TextMapPropagator
from opentelemetry.trace import SpanKind, StatusCode

from coordinator.protocol.errors import ErrorCode
from spark_kcoord.consumer import errors
from spark_kcoord.consumer.telemetry.facts import MOST_LINKS
from spark_kcoord.consumer.values import TopicPartition
from tests.helpers.fake_consuming import AsyncRig, Rig, owned
from tests.helpers.kept_telemetry import KeptTelemetry, kept_telemetry

P0 = TopicPartition("t", 0)
TRACE = 0x0AF7651916CD43DD8448EB211C80319C
OF_CLIENT = {
    "messaging.system": "kafka",
    "messaging.consumer.group.name": "g",
    "messaging.client.id": "me",
}
OF_POLL = OF_CLIENT | {"messaging.operation.name": "poll", "messaging.operation.type": "receive"}
OF_COMMIT = OF_CLIENT | {"messaging.operation.name": "commit", "messaging.operation.type": "settle"}
OF_TOPIC = {"messaging.destination.name": "t"}
OF_PARTITION = OF_TOPIC | {"messaging.destination.partition.id": "0"}


@pytest.fixture
def kept() -> KeptTelemetry:
    return kept_telemetry()


def rig(ends: dict[tuple[str, int], int] | None = None, **settings: Any) -> Rig:
    return Rig(ends, otel=True, client_id="me", **settings)


def produced_in(offset: int) -> list[tuple[str, bytes | None]]:
    """Return the headers of a record that was produced in a span whose number is that of the offset and one."""
    return [("traceparent", b"00-%032x-%016x-01" % (TRACE, offset + 1)), ("secret", b"hush")]


def of(spans: list[Any]) -> list[tuple[str, dict[str, Any]]]:
    return [(span.name, dict(span.attributes)) for span in spans]


# ---- polls ----------------------------------------------------------------------------------------------------------


def test_a_poll_is_a_span_of_the_caller_s_with_links_to_the_producers_spans(kept: KeptTelemetry) -> None:
    with rig() as consumer, trace.get_tracer("program").start_as_current_span("program") as around:
        consumer.kafka.headers = {offset: produced_in(offset) for offset in (2, 5)}
        consumer.poll()
        (span,) = kept.spans()
        assert of([span]) == [("poll t", OF_POLL | OF_PARTITION | {"messaging.batch.message_count": 10})]
        assert (span.kind, span.status.status_code) == (SpanKind.CLIENT, StatusCode.UNSET)
        assert span.parent is not None
        assert span.parent.span_id == around.get_span_context().span_id
        assert [(link.context.trace_id, link.context.span_id) for link in span.links] == [(TRACE, 3), (TRACE, 6)]
        assert [dict(link.attributes or {}) for link in span.links] == [
            OF_PARTITION | {"messaging.kafka.offset": offset} for offset in (2, 5)
        ]


def test_arrow_batches_are_recorded_as_records_are_also_without_their_headers(kept: KeptTelemetry) -> None:
    with rig() as consumer:
        consumer.kafka.headers = {9: produced_in(9)}
        (batch, *_) = consumer.poll_arrow()
        assert "headers" not in batch.schema.names
        (span,) = kept.spans()
        assert of([span]) == [("poll t", OF_POLL | OF_PARTITION | {"messaging.batch.message_count": 10})]
        assert [link.context.span_id for link in span.links] == [10]


def test_a_poll_that_returns_nothing_is_not_recorded(kept: KeptTelemetry) -> None:
    with rig({("t", 0): 0}, consumer_timeout_ms=0) as consumer:
        assert (consumer.poll(), consumer.poll_arrow(), list(consumer)) == ({}, [], [])
        assert (kept.spans(), kept.points()) == ([], {})


def test_links_are_bounded_and_headers_that_name_no_span_make_none(kept: KeptTelemetry) -> None:
    with rig({("t", 0): 400}) as consumer:
        consumer.kafka.headers = {offset: produced_in(offset) for offset in range(1, 400)}
        consumer.kafka.headers[0] = [("traceparent", b"\xff\x00 what"), ("tracestate", b"," * 100_000)]
        consumer.poll()
        (span,) = kept.spans()
        assert [link.context.span_id for link in span.links] == list(range(2, MOST_LINKS + 1))


def test_an_iteration_is_recorded_by_polls_with_the_records_that_were_given(kept: KeptTelemetry) -> None:
    with rig(max_poll_records=4, consumer_timeout_ms=0) as consumer:
        consumer.kafka.headers = {offset: produced_in(offset) for offset in range(10)}
        assert [next(consumer).offset for _ in range(4)] == [0, 1, 2, 3]
        assert kept.spans() == [], "the next step tells that all were given"
        assert [next(consumer).offset for _ in range(2)] == [4, 5]
        (first,) = kept.spans()
        assert dict(first.attributes or {})["messaging.batch.message_count"] == 4
        assert [link.context.span_id for link in first.links] == [1, 2, 3, 4]
    (second,) = kept.spans()
    assert dict(second.attributes or {})["messaging.batch.message_count"] == 2
    assert [link.context.span_id for link in second.links] == [5, 6]
    assert second.start_time >= first.end_time


def test_what_an_iteration_has_fetched_and_not_given_is_delivered_by_the_poll_that_returns_it(
    kept: KeptTelemetry,
) -> None:
    with rig() as consumer:
        next(consumer)
        consumer.poll()
        counts = [dict(span.attributes or {})["messaging.batch.message_count"] for span in kept.spans()]
        assert counts == [1, 9]
        assert [point.value for point in kept.points()["messaging.client.consumed.messages"]] == [10]


def test_a_poll_that_fails_says_the_code_and_not_the_message(kept: KeptTelemetry) -> None:
    def fail(value: bytes) -> str:
        raise ValueError(f"the value is {value!r}")

    with rig(value_deserializer=fail) as consumer:
        with pytest.raises(errors.RecordDeserializationError):
            consumer.poll()
        with pytest.raises(errors.RecordDeserializationError):
            next(consumer)
        spans = kept.spans()
        assert of(spans) == [("poll", OF_POLL | {"error.type": "RECORD_DESERIALIZATION"})] * 2
        assert {(span.status.status_code, span.status.description) for span in spans} == {(StatusCode.ERROR, None)}
        assert [span.events for span in spans] == [(), ()]


def test_a_poll_that_the_program_ends_is_not_recorded(kept: KeptTelemetry) -> None:
    with rig({("t", 0): 0}) as consumer:
        consumer.interrupt()
        with pytest.raises(errors.InterruptedPollError):
            consumer.poll()
        assert kept.spans() == []


# ---- commits --------------------------------------------------------------------------------------------------------


def test_a_commit_is_a_span_and_one_of_nothing_is_none(kept: KeptTelemetry) -> None:
    with rig({("t", 0): 3, ("t", 1): 3}, enable_auto_commit=False) as consumer:
        consumer.wait_for_assignment(0)
        consumer.member.give(owned(0), owned(1))
        consumer.commit()
        consumer.poll()
        consumer.poll()
        kept.spans()
        consumer.commit()
        (span,) = kept.spans()
        assert of([span]) == [("commit t", OF_COMMIT | OF_TOPIC)]
        assert (span.kind, span.links) == (SpanKind.CLIENT, ())


def test_a_commit_that_nobody_waits_for_is_recorded_when_its_answer_is_told(kept: KeptTelemetry) -> None:
    told: list[Any] = []
    with rig(enable_auto_commit=False) as consumer:
        consumer.poll()
        kept.spans()
        consumer.member.holds_answers = True
        consumer.commit_async({P0: 3}, lambda *outcome: told.append(outcome))
        consumer.commit_async({P0: 5})
        consumer.poll()
        assert (kept.spans(), told) == ([], [])
        consumer.member.holds_answers = False
        consumer.member.answer()
        consumer.poll()
        assert told == [({P0: 3}, None)]
        consumer.poll()
        assert of(kept.spans()) == [("commit t", OF_COMMIT | OF_PARTITION)] * 2


def test_a_commit_that_is_refused_says_so(kept: KeptTelemetry) -> None:
    told: list[Any] = []
    with rig(enable_auto_commit=False) as consumer:
        consumer.poll()
        kept.spans()
        consumer.member.refusals[0] = ErrorCode.FENCED_OWNER_EPOCH
        with pytest.raises(errors.CommitRefusedError):
            consumer.commit({P0: 3})
        consumer.commit_async({P0: 3}, lambda *outcome: told.append(outcome))
        with pytest.raises(errors.PartitionsNotOwnedError):
            consumer.commit_async({TopicPartition("u", 0): 3})
        consumer.poll()
        refused = OF_COMMIT | OF_PARTITION
        assert of(kept.spans()) == [
            ("commit t", refused | {"error.type": "COMMIT_FAILED"}),
            ("commit u", refused | {"messaging.destination.name": "u", "error.type": "ILLEGAL_PARTITIONS"}),
            ("commit t", refused | {"error.type": "COMMIT_FAILED"}),
        ]
        assert len(told) == 1


def test_what_is_no_commit_is_refused_as_without_and_not_recorded(kept: KeptTelemetry) -> None:
    with rig() as consumer:
        consumer.poll()
        kept.spans()
        with pytest.raises(TypeError):
            consumer.commit([P0])  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            consumer.commit_async({P0: 3}, "callback")  # type: ignore[arg-type]
        assert kept.spans() == []


# ---- metrics --------------------------------------------------------------------------------------------------------


def test_durations_are_those_of_spans_and_records_are_counted_by_partition(kept: KeptTelemetry) -> None:
    with rig({("t", 0): 8, ("t", 1): 3}, enable_auto_commit=False) as consumer:
        consumer.wait_for_assignment(0)
        consumer.member.give(owned(0), owned(1))
        consumer.poll()
        consumer.commit()
        spans, points = kept.spans(), kept.points()
        seconds = {span.name: ((span.end_time or 0) - (span.start_time or 0)) / 1e9 for span in spans}
        of_poll = {name: value for name, value in OF_POLL.items() if name != "messaging.client.id"} | OF_TOPIC
        of_commit = {name: value for name, value in OF_COMMIT.items() if name != "messaging.client.id"} | OF_TOPIC
        durations = points["messaging.client.operation.duration"]
        assert [(dict(point.attributes), point.count) for point in durations] == [(of_poll, 1), (of_commit, 1)]
        assert [point.sum for point in durations] == [seconds["poll t"], seconds["commit t"]]
        assert durations[0].explicit_bounds[:2] == (0.005, 0.01)
        counts = {
            point.attributes["messaging.destination.partition.id"]: point.value
            for point in points["messaging.client.consumed.messages"]
        }
        assert counts == {"0": 8, "1": 3}


# ---- asyncio --------------------------------------------------------------------------------------------------------


def test_an_asyncio_consumer_is_recorded_as_a_blocking_one_is(kept: KeptTelemetry) -> None:
    async def main() -> None:
        consumer = AsyncRig(otel=True, client_id="me", enable_auto_commit=False)
        await consumer.getone()
        await consumer.getone()
        await consumer.commit()
        await consumer.getmany(max_records=3)
        await consumer.getmany_arrow()
        await consumer.stop()

    asyncio.run(main())
    found = [(span.name, dict(span.attributes or {}).get("messaging.batch.message_count")) for span in kept.spans()]
    assert found == [("commit t", None), ("poll t", 2), ("poll t", 3), ("poll t", 5)]


def test_an_iteration_that_stop_ends_has_not_failed(kept: KeptTelemetry) -> None:
    async def main() -> None:
        consumer = AsyncRig({("t", 0): 0}, otel=True)
        consumer.is_still = True
        reading = asyncio.create_task(anext(aiter(consumer), None))
        await asyncio.sleep(0)
        await consumer.stop()
        assert await reading is None

    asyncio.run(main())
    assert kept.spans() == []


# ---- the program's own telemetry ------------------------------------------------------------------------------------


class Broken(TextMapPropagator):
    """A propagator that raises."""

    def extract(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("broken")

    def inject(self, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError("broken")

    @property
    def fields(self) -> set[str]:
        return set()


@pytest.fixture
def _broken() -> Iterator[None]:
    known = get_global_textmap()
    set_global_textmap(Broken())
    yield
    set_global_textmap(known)


@pytest.mark.usefixtures("_broken")
def test_a_propagator_that_raises_loses_spans_and_no_record_and_is_told_once(
    kept: KeptTelemetry, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, logger="spark_kcoord.consumer.telemetry")
    with rig(max_poll_records=5) as consumer:
        consumer.kafka.headers = {offset: produced_in(offset) for offset in range(10)}
        assert [at for _ in range(2) for _, at in consumer.offsets()] == list(range(10))
        assert kept.spans() == []
        known = "spark_kcoord.consumer.telemetry"
        ours = [record.message for record in caplog.records if record.name.startswith(known)]
        assert ours == ["spans or metrics of a consumer are lost: RuntimeError"]


# ---- without it -----------------------------------------------------------------------------------------------------

USE = """
import sys
from tests.helpers.fake_consuming import Rig
rig = Rig({settings})
rig.poll(max_records=2); next(rig); rig.poll_arrow(); rig.commit(); rig.close()
print(sorted(name for name in sys.modules if name.partition(".")[0] == "opentelemetry")[:1])
"""


@pytest.mark.parametrize(("settings", "found"), [("", "[]"), ("otel=True", "['opentelemetry']")])
def test_without_the_setting_opentelemetry_is_not_imported(settings: str, found: str) -> None:
    run = subprocess.run(
        [sys.executable, "-c", USE.format(settings=settings)], capture_output=True, text=True, timeout=60, check=True
    )
    assert run.stdout.strip() == found


def test_without_the_setting_the_calls_are_the_plain_ones(kept: KeptTelemetry) -> None:
    with Rig() as consumer:
        assert type(consumer._calls).__module__ == "spark_kcoord.consumer.calls"
        assert type(consumer._reading).__module__ == "spark_kcoord.consumer.reading"
        consumer.poll()
        consumer.commit()
    assert (kept.spans(), kept.points()) == ([], {})
