"""OpenTelemetry's own SDK, which keeps what is recorded in memory: set once for a process, as the library allows."""

from functools import cache
from typing import Any

from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import Counter, Histogram, MeterProvider
from opentelemetry.sdk.metrics.export import AggregationTemporality, InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

__all__ = ["KeptTelemetry", "kept_telemetry"]

DELTA = AggregationTemporality.DELTA


class KeptTelemetry:
    """The spans and metrics of this process since they were taken last."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self._reader = InMemoryMetricReader(preferred_temporality={Counter: DELTA, Histogram: DELTA})
        tracers = TracerProvider(shutdown_on_exit=False)
        tracers.add_span_processor(SimpleSpanProcessor(self._exporter))
        trace.set_tracer_provider(tracers)
        metrics.set_meter_provider(MeterProvider([self._reader], shutdown_on_exit=False))

    def spans(self) -> list[ReadableSpan]:
        """Return the spans that ended, in order."""
        found = list(self._exporter.get_finished_spans())
        self._exporter.clear()
        return found

    def points(self) -> dict[str, list[Any]]:
        """Return the points of metrics by name: `value` of counters, `sum` and `count` of histograms."""
        data = self._reader.get_metrics_data()
        return {
            metric.name: list(metric.data.data_points)
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }


@cache
def _of_this_process() -> KeptTelemetry:
    return KeptTelemetry()


def kept_telemetry() -> KeptTelemetry:
    """Return what keeps them, with nothing kept."""
    kept = _of_this_process()
    kept.spans()
    kept.points()
    return kept
