"""Points in time as people write them to a tool or the console, in the form of ISO 8601 that Kafka's own tool takes."""

from datetime import UTC, datetime


def parse_time_ms(text: str) -> int:
    """Read `YYYY-MM-DDTHH:mm:SS.sss`, in UTC unless it names a zone, as milliseconds since 1970; raises ValueError."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"'{text}' is not a time such as 2026-01-31T06:30:00.000") from None
    at_ms = round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
    if at_ms < 0:
        raise ValueError(f"'{text}' is before 1970")
    return at_ms
