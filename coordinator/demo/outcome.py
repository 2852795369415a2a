"""The last line of the demo. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Outcome:
    """The figures of a demo that ran to its end."""

    flights: int
    missing: int
    duplicates: int
    lag: int
    moved: int
    """Partitions that the second application got from the first while both lived."""
    taken_over: int
    """Partitions that the first application got back after the second was killed."""
    handover_ms: int
    """From SIGKILL to the grant of the last of them, by the group's timeline."""
    nodes: int = 1
    failover_ms: int | None = None
    """From SIGKILL to the group's node until a micro-batch was committed at the next one; None if none was killed."""


def final_line(outcome: Outcome) -> str:
    """Return the line of a demo that went well."""
    failover = "" if outcome.failover_ms is None else f" nodes={outcome.nodes} failover_ms={outcome.failover_ms}"
    return (
        f"demo: OK flights={outcome.flights} missing={outcome.missing} duplicates={outcome.duplicates} "
        f"lag={outcome.lag} moved={outcome.moved} taken_over={outcome.taken_over} handover_ms={outcome.handover_ms}"
        f"{failover}"
    )


def failure_line(reason: str) -> str:
    """Return the line of a demo that did not; the reason is put on one line."""
    return f"demo: FAILED {' '.join(reason.split())}"
