"""The results of resets as they are shown: old, new, the difference, and whether it is set, waits or is refused."""

from collections.abc import Sequence
from typing import Final

from coordinator.cli.parts.tables import Cell, OutputFormat, write_document, write_rows
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.parts import ResetResult

RESET_COLUMNS: Final = ("GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "NEW-OFFSET", "DELTA", "STATE", "REMARK")


def write_results(results: Sequence[tuple[str, ResetResult]], output: OutputFormat, *, dry: bool) -> None:
    """Write the results of groups, each with its group's id."""
    if output.is_document:
        write_document(output, [row_as_json(group, result, dry=dry) for group, result in results])
        return
    rows: list[tuple[Cell, ...]] = [
        (
            group,
            result.topic,
            result.partition,
            result.old_offset,
            result.new_offset,
            delta_of(result),
            _state(result, dry=dry),
            result.message,
        )
        for group, result in results
    ]
    write_rows(output, RESET_COLUMNS, rows)


def delta_of(result: ResetResult) -> int | None:
    """Return by how many records a reset moves on, or back; None where there is no old or no new offset."""
    if result.new_offset is None or result.old_offset is None:
        return None
    return result.new_offset - result.old_offset


def row_as_json(group: str, result: ResetResult, *, dry: bool) -> dict[str, object]:
    """Return a result as JSON has it."""
    return {
        "group": group,
        "topic": result.topic,
        "partition": result.partition,
        "current_offset": result.old_offset,
        "new_offset": result.new_offset,
        "delta": delta_of(result),
        "state": _state(result, dry=dry),
        "remark": result.message or None,
    }


def _state(result: ResetResult, *, dry: bool) -> str:
    if result.error is not ErrorCode.NONE:
        return "refused"
    if dry:
        return "would-wait" if result.is_pending else "would-set"
    return "pending" if result.is_pending else "set"
