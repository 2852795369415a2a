"""The results of resets as they are shown: old, new, the difference, and whether it is set, waits or is refused."""

from collections.abc import Sequence
from typing import Final

from coordinator.cli.parts.tables import Cell, OutputFormat, write_document, write_rows
from coordinator.client.operating.resets import delta_of, state_of
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
            state_of(result, dry=dry),
            result.message,
        )
        for group, result in results
    ]
    write_rows(output, RESET_COLUMNS, rows)


def row_as_json(group: str, result: ResetResult, *, dry: bool) -> dict[str, object]:
    """Return a result as JSON has it."""
    return {
        "group": group,
        "topic": result.topic,
        "partition": result.partition,
        "current_offset": result.old_offset,
        "new_offset": result.new_offset,
        "delta": delta_of(result),
        "state": state_of(result, dry=dry),
        "remark": result.message or None,
    }
