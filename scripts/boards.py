"""Makes the Grafana boards of deploy/grafana: `boards: OK boards=4 panels=N`, or what differs with `--check`.

The boards are data in `boards_of_nodes` and `boards_of_groups` and JSON there, so that a panel is a line and no board
forgets its data source. They are made for Prometheus under the variable `datasource`; names are those of
docs/OPERATIONS.md. It is run in the project's folder: `.venv/bin/python -m scripts.boards`.
"""

import json
import sys
from pathlib import Path
from typing import Any, Final

from scripts.board_panels import Board, Panel
from scripts.boards_of_groups import GROUP_BOARD, SPARK
from scripts.boards_of_nodes import OVERVIEW, REPLICATION

BOARDS: Final = (OVERVIEW, GROUP_BOARD, REPLICATION, SPARK)
FOLDER: Final = Path(__file__).resolve().parents[1] / "deploy" / "grafana"
_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
_WIDTH: Final = 24


def document(board: Board) -> dict[str, Any]:
    """Return a board as Grafana takes it."""
    panels: list[dict[str, Any]] = []
    y = 0
    for heading, row in board.rows:
        panels.append(
            {"id": len(panels) + 1, "type": "row", "title": heading, "gridPos": {"x": 0, "y": y, "w": _WIDTH, "h": 1}}
        )
        y += 1
        x = 0
        for panel in row:
            if x + panel.width > _WIDTH:
                x, y = 0, y + panel.height
            panels.append(_panel(panel, len(panels) + 1, x, y))
            x += panel.width
        y += row[-1].height
    return {
        "uid": board.uid,
        "title": board.title,
        "tags": ["kcoord"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": [_data_source(), *(_variable(*variable) for variable in board.variables)]},
        "links": [
            {"type": "dashboards", "tags": ["kcoord"], "title": "kcoord", "asDropdown": True, "includeVars": True}
        ],
        "panels": panels,
    }


def _panel(panel: Panel, number: int, x: int, y: int) -> dict[str, Any]:
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.about,
        "datasource": _SOURCE,
        "gridPos": {"x": x, "y": y, "w": panel.width, "h": panel.height},
        "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + place), "datasource": _SOURCE, "expr": expr, "legendFormat": legend or "__auto"}
            for place, (expr, legend) in enumerate(panel.asks)
        ],
    }


def _data_source() -> dict[str, Any]:
    return {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"}


def _variable(name: str, label: str, query: str) -> dict[str, Any]:
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": _SOURCE,
        "query": query,
        "refresh": 2,
        "includeAll": True,
        "multi": True,
        "current": {"text": "All", "value": "$__all"},
    }


def texts() -> dict[Path, str]:
    """Return the content of each file."""
    return {FOLDER / f"{board.uid}.json": json.dumps(document(board), indent=1) + "\n" for board in BOARDS}


def main(arguments: list[str]) -> int:
    """Write the boards, or say which are not as they would be written; return the exit code."""
    wrong = [path.name for path, text in texts().items() if not path.is_file() or path.read_text() != text]
    if "--check" in arguments and wrong:
        print(f"boards: FAILED differ={','.join(wrong)}; run .venv/bin/python -m scripts.boards")
        return 1
    for path, text in texts().items():
        path.write_text(text)
    panels = sum(len(row) for board in BOARDS for _, row in board.rows)
    print(f"boards: OK boards={len(BOARDS)} panels={panels}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
