"""What is said of a run's files finds what it is there to find."""

import json
from pathlib import Path
from typing import Any

from tests.chaos.log_of_cuts import Cut
from tests.chaos_consumer.read import Read, read


def records(pid: int, began: float, epoch: int, *offsets: int) -> dict[str, Any]:
    rows = [[0, offset, f"0:{offset}"] for offset in offsets]
    return {"what": "records", "pid": pid, "began": began, "ended": began + 0.1, "epochs": {"0": epoch}, "rows": rows}


def said(folder: Path, *lines: dict[str, Any]) -> Read:
    path = folder / "lines"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return read([path, folder / "never-started"], "t")


def test_rows_and_where_each_grant_was_read_to(tmp_path: Path) -> None:
    found = said(tmp_path, records(1, 0.0, 5, 0, 1), records(2, 1.0, 6, 1, 2))
    assert found.rows == [(0, 0, "0:0"), (0, 1, "0:1"), (0, 1, "0:1"), (0, 2, "0:2")]
    assert (found.until, found.again, found.double_owned) == ({(0, 5): 2, (0, 6): 3}, [], [])


def test_a_call_that_begins_under_an_earlier_owner_epoch_is_a_second_owner(tmp_path: Path) -> None:
    found = said(tmp_path, records(2, 1.0, 6, 1), records(1, 1.2, 5, 2))
    assert len(found.double_owned) == 1


def test_a_call_that_began_before_the_next_owner_had_anything_is_none(tmp_path: Path) -> None:
    late = records(1, 0.9, 5, 2) | {"ended": 9.0}
    assert said(tmp_path, records(2, 1.0, 6, 1), late).double_owned == []


def test_what_comes_again_under_one_owner_epoch_is_explained_by_a_loss_alone(tmp_path: Path) -> None:
    lost = {"what": "lost", "pid": 1, "partitions": [0]}
    assert said(tmp_path, records(1, 0.0, 5, 0, 1, 2), records(1, 1.0, 5, 1)).again == []
    found = said(tmp_path, records(1, 0.0, 5, 0, 1, 2), lost, records(1, 1.0, 5, 1, 2))
    assert found.again == [Cut("t", 0, 5, 1, 3, "1", "lost")]


def test_a_hand_over_is_timed_from_an_orderly_end_to_the_first_record_of_the_next(tmp_path: Path) -> None:
    closing = {"what": "closing", "pid": 1, "at": 0.5}
    assert said(tmp_path, records(1, 0.0, 5, 0), closing, records(2, 0.6, 6, 1)).handover_ms == 200
    assert said(tmp_path, records(1, 0.0, 5, 0), records(2, 0.6, 6, 1)).handover_ms == 0
