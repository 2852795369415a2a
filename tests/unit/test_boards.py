"""Boards and alert rules: read by a parser of PromQL, held against their pages and the script that makes them."""

import re
from pathlib import Path

from scripts import boards as making
from tests.helpers.asked_metrics import boards, metrics_in, questions, rules

ROOT = Path(__file__).parents[2]
ALERTS = (ROOT / "docs" / "ALERTS.md").read_text()


def test_every_question_is_one() -> None:
    asked = dict(questions())
    assert len(asked) > 80
    for place, question in asked.items():
        assert metrics_in(question), place


def test_every_metric_that_is_asked_for_is_in_the_manual() -> None:
    manual = (ROOT / "docs" / "OPERATIONS.md").read_text()
    told = set(re.findall(r"^\| `((?:kcoord|process)_[a-z_]+)(?:\{[^`]*\})?` \|", manual, flags=re.MULTILINE))
    of_histogram = {re.sub(r"_(bucket|sum|count)$", "", name): name for name in asked_names()}
    assert set(of_histogram) - told == {"up"}


def asked_names() -> set[str]:
    return set().union(*(metrics_in(question) for _, question in questions()))


def test_boards_are_as_the_script_makes_them() -> None:
    assert {path: path.read_text() for path in making.texts()} == making.texts()


def test_no_panel_lies_on_another_and_each_board_has_an_address_of_its_own() -> None:
    assert len({board["uid"] for board in boards().values()}) == len(boards()) == 4
    for name, board in boards().items():
        taken: set[tuple[int, int]] = set()
        for panel in board["panels"]:
            at = panel["gridPos"]
            cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
            assert at["x"] + at["w"] <= 24
            assert taken.isdisjoint(cells), f"{name}: {panel['title']}"
            taken |= cells


def test_each_alert_has_its_page_and_each_page_its_alert() -> None:
    alerts = [rule for rule in rules() if "alert" in rule]
    assert re.findall(r"^## (Kcoord\w+)$", ALERTS, flags=re.MULTILINE) == [rule["alert"] for rule in alerts]
    for rule in alerts:
        assert rule["annotations"]["runbook"] == f"ALERTS.md#{rule['alert'].lower()}"
        section = ALERTS.split(f"## {rule['alert']}\n")[1].split("\n## ")[0]
        assert section.strip().lower().startswith(rule["labels"]["severity"] + ".")
        assert "- Look: " in section
        assert "- Do: " in section


def test_recorded_metrics_are_named_as_prometheus_wants_it() -> None:
    for rule in rules():
        assert "alert" in rule or re.fullmatch(r"kcoord:[a-z_]+:[a-z0-9]+", rule["record"])
