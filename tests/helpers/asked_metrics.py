"""The questions that boards and alert rules put to Prometheus, and the metrics that a parser finds in each."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser
import yaml

DEPLOY = Path(__file__).parents[2] / "deploy"
VARIABLES = {"$__rate_interval": "5m", "$instance": ".*", "$group": ".*"}


def boards() -> dict[str, dict[str, Any]]:
    """Return the boards by the names of their files."""
    return {path.name: json.loads(path.read_text()) for path in sorted((DEPLOY / "grafana").glob("*.json"))}


def rules() -> list[dict[str, Any]]:
    """Return every rule, alerts and recorded ones."""
    files = [yaml.safe_load((DEPLOY / "prometheus" / name).read_text()) for name in ("alerts.yaml", "recording.yaml")]
    return [rule for file in files for group in file["groups"] for rule in group["rules"]]


def questions() -> Iterator[tuple[str, str]]:
    """Yield each question with the place that it is put at."""
    for rule in rules():
        yield rule.get("alert", rule.get("record")), rule["expr"]
    for name, board in boards().items():
        for panel in board["panels"]:
            for target in panel.get("targets", ()):
                yield f"{name}: {panel['title']}", target["expr"]


def metrics_in(question: str) -> set[str]:
    """Return the names of the metrics that a question asks for; raises ValueError for one that is none."""
    for variable, value in VARIABLES.items():
        question = question.replace(variable, value)
    found: set[str] = set()

    def look(expr: object) -> bool:
        if isinstance(expr, promql_parser.VectorSelector):
            assert expr.name is not None, f"{question} asks for no name"
            found.add(expr.name)
        elif isinstance(expr, promql_parser.MatrixSelector):
            look(expr.vector_selector)
        return True

    promql_parser.walk(promql_parser.parse(question), pre_visit=look)
    return found
