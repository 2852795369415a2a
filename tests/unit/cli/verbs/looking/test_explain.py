"""`kcoord explain`: an error's code or name, however it is written, and a hint for one that is none."""

import json

import pytest
from typer.testing import CliRunner

from coordinator.cli import app
from coordinator.cli.diagnosis import explained


def kcoord(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["explain", *arguments])
    return result.exit_code, result.stdout, result.stderr


@pytest.mark.parametrize("wanted", ["KC-1002", "kc-1002", "1002", "[KC-1002]", "PARTITION_OWNED", "partition_owned"])
def test_a_code_is_found_however_it_is_written(wanted: str) -> None:
    code, out, err = kcoord(wanted)
    assert (code, err) == (0, "")
    assert out.startswith("KC-1002 PARTITION_OWNED\n\nA partition belongs to a member")
    assert "\nWhy: " in out
    assert "\nWhat to do: stop the member" in out


def test_short_numbers_are_filled_up() -> None:
    assert kcoord("kc-25")[1] == kcoord("KC-0025")[1]


@pytest.mark.parametrize(("wanted", "hint"), [("PARTITON_OWNED", "did you mean PARTITION_OWNED?"), ("xyz", "lists")])
def test_what_is_none_gets_the_nearest(wanted: str, hint: str) -> None:
    code, out, err = kcoord(wanted)
    assert (code, out) == (3, "")
    assert hint in err
    assert err.endswith("[KC-3006]\n")


def test_without_a_code_all_are_listed() -> None:
    code, out, _ = kcoord("-o", "json")
    rows = json.loads(out)
    assert code == 0
    assert [row["code"] for row in rows] == [each.code for each in explained.explained(explained.page())]
    assert len(rows) > 60


def test_one_can_be_had_for_programs() -> None:
    (row,) = json.loads(kcoord("KC-2002", "-o", "json")[1])
    assert (row["code"], row["error"]) == ("KC-2002", "DataLossError")
    assert "failOnDataLoss" in row["text"]


def test_an_install_without_the_page_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def page() -> str:
        raise FileNotFoundError("no page")

    monkeypatch.setattr(explained, "page", page)
    code, out, err = kcoord("KC-1002")
    assert (code, out) == (1, "")
    assert "install kcoord anew" in err
