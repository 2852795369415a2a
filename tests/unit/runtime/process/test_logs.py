import io
import json
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from coordinator.runtime.process.logs import make_log


def test_a_line_is_json_where_no_eyes_are(capsys: pytest.CaptureFixture[str]) -> None:
    make_log("auto", "info").info("member-expired", why="no message for 10000 ms", group="g")
    line = json.loads(capsys.readouterr().err)
    assert line.pop("timestamp").endswith("Z")
    assert line == {"event": "member-expired", "level": "info", "why": "no message for 10000 ms", "group": "g"}


@pytest.mark.parametrize("value", ["Zoë", "a file \udcff", "two\nlines", 2**70, ("m", 1), {"at": {1: None}}])
def test_a_line_of_any_value_is_one_line_of_ascii(value: object, capsys: pytest.CaptureFixture[str]) -> None:
    make_log("json", "info").info("kind", why="w", value=value)
    said = capsys.readouterr().err
    assert said.isascii()
    assert said.endswith("}\n")
    assert json.loads(said)["value"] == json.loads(json.dumps(value))


@dataclass
class Account:
    """A value whose repr keeps a secret."""

    password: str

    def __repr__(self) -> str:
        return "Account(***)"


def test_a_value_that_is_not_json_is_said_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    make_log("json", "info").info("kind", why="w", path=Path("/x"), error=OSError("é"), whose=Account("p"))
    line = json.loads(capsys.readouterr().err)
    assert (line["path"], line["error"], line["whose"]) == ("/x", "é", "Account(***)")


def test_a_line_for_eyes_begins_with_its_kind_and_reason(capsys: pytest.CaptureFixture[str]) -> None:
    make_log("console", "info").warning("kafka-unreachable", why="nobody listens")
    said = capsys.readouterr().err
    assert "kafka-unreachable" in said
    assert "nobody listens" in said
    assert "\x1b" not in said


def test_lines_below_the_level_are_not_said(capsys: pytest.CaptureFixture[str]) -> None:
    log = make_log("json", "warning")
    log.info("quiet", why="x")
    log.warning("loud", why="x")
    assert [json.loads(line)["event"] for line in capsys.readouterr().err.splitlines()] == ["loud"]


def test_secrets_are_never_said(capsys: pytest.CaptureFixture[str]) -> None:
    make_log("json", "info").info(
        "settings", sasl_plain_password="p1", nested={"api_key": "p2", "host": "h"}, token="p3"
    )
    said = capsys.readouterr().err
    assert not any(secret in said for secret in ("p1", "p2", "p3"))
    assert json.loads(said)["nested"] == {"api_key": "***", "host": "h"}


def test_a_broken_standard_error_loses_the_line_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(io.StringIO):
        def write(self, _: str) -> int:
            raise OSError(28, "No space left on device")

    log = make_log("json", "info")
    monkeypatch.setattr(sys, "stderr", Full())
    log.error("anything", why="x")
