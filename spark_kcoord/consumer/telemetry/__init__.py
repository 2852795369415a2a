"""The spans and metrics of a consumer by OpenTelemetry, for one that was made with the setting `otel`.

Without the setting nothing of this is made: the calls and the reading of a consumer are the plain ones, OpenTelemetry
is not imported, and no call asks whether it is wanted.
"""

from __future__ import annotations

from spark_kcoord.consumer.calls import Calls
from spark_kcoord.consumer.conduct.flows import Flows
from spark_kcoord.consumer.reading import Reading
from spark_kcoord.consumer.settings import Settings
from spark_kcoord.extras import naming_the_extra

__all__ = ["calls_and_reading"]


def calls_and_reading(settings: Settings, flows: Flows) -> tuple[Calls, Reading]:
    """Return the calls of a consumer, those that record what they do where `otel` is set.

    Raises ModuleNotFoundError, naming the extra, where OpenTelemetry is then not installed.
    """
    if not settings["otel"]:
        return Calls(settings, flows), Reading(settings, flows)
    with naming_the_extra("A consumer with 'otel'", "otel"):
        from spark_kcoord.consumer.telemetry.recorder import Recorder
    from spark_kcoord.consumer.telemetry.recorded import RecordedCalls, RecordedReading

    recorder = Recorder(settings.group_id, settings.client_id)
    return RecordedCalls(settings, flows, recorder), RecordedReading(settings, flows, recorder)
