"""Looks one after another, where nobody looks at a screen: as tables, as CSV, or as documents."""

import sys
from collections.abc import Sequence
from typing import Final

from coordinator.cli.parts.tables import OngoingFormat, OutputFormat, write_csv, write_document, write_line, write_table
from coordinator.cli.verbs.looking.events import time_text
from coordinator.cli.verbs.top.seen import Row, Seen, numbers, states, total
from coordinator.cli.verbs.top.text import COLUMNS, UNKNOWN, cells, head_lines, trouble_lines

CSV_COLUMNS: Final = ("TIME", *COLUMNS)


class Plain:
    """Writes looks to standard output in one form, each at once."""

    def __init__(self, output: OngoingFormat) -> None:
        self._output = output
        self._is_first = True

    def write(self, seen: Seen, rows: Sequence[Row]) -> None:
        """Write a look with the rows of it that are shown."""
        match self._output:
            case OngoingFormat.TABLE:
                self._write_table(seen, rows)
            case OngoingFormat.CSV:
                at = time_text(seen.at_ms)
                found = [[None if cell == UNKNOWN else cell for cell in (at, *cells(row))] for row in rows]
                write_csv(CSV_COLUMNS if self._is_first else (), found)
            case OngoingFormat.JSONL:
                write_line(as_json(seen, rows))
            case OngoingFormat.JSON | OngoingFormat.YAML:
                write_document(OutputFormat(self._output), as_json(seen, rows))
        self._is_first = False
        sys.stdout.flush()

    def _write_table(self, seen: Seen, rows: Sequence[Row]) -> None:
        lines = [*head_lines(seen), *trouble_lines(seen.troubles)]
        sys.stdout.write("".join(f"{line}\n" for line in ([] if self._is_first else ["", ""]) + lines))
        if rows:
            sys.stdout.write("\n")
            write_table(COLUMNS, [cells(row) for row in rows])


def as_json(seen: Seen, rows: Sequence[Row]) -> dict[str, object]:
    """Return a look as a document; what is not known is null, and sums say over how many groups they are."""
    lag = total(row.lag for row in seen.rows)
    committed = total(row.committed_per_s for row in seen.rows)
    return {
        "time": time_text(seen.at_ms),
        "cluster": _cluster_as_json(seen),
        "troubles": [{"since": time_text(one.since_ms), "text": one.text} for one in seen.troubles],
        "groups": len(seen.rows),
        "states": states(seen.rows),
        "lag": lag.value,
        "lag_of_groups": lag.groups,
        "committed_per_s": committed.value,
        "rates_of_groups": committed.groups,
        "rows": [_row_as_json(row) for row in rows],
    }


def _cluster_as_json(seen: Seen) -> dict[str, object] | None:
    if seen.cluster is None:
        return None
    found = numbers(seen.cluster)
    return {
        "cluster_id": seen.cluster.cluster_id,
        "controller": seen.cluster.controller,
        "nodes": found.nodes,
        "nodes_up": found.nodes_up,
        "shards": found.shards,
        "shards_without_leader": found.leaderless,
        "shards_not_serving": found.waiting,
        "shards_out_of_sync": found.out_of_sync,
    }


def _row_as_json(row: Row) -> dict[str, object]:
    return {
        "group": row.group,
        "state": row.state,
        "members": row.members,
        "partitions": row.partitions,
        "lag": row.lag,
        "unknown": row.unknown,
        "lag_seconds": row.lag_s,
        "committed_per_s": row.committed_per_s,
        "arriving_per_s": row.arriving_per_s,
        "way": None if row.way is None else row.way.words,
        "caught_up_in_s": None if row.way is None else row.way.caught_up_in_s,
        "status": row.status,
        "as_of": None if row.as_of_ms is None else time_text(row.as_of_ms),
        "is_old": row.is_old,
    }
