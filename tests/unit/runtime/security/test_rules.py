"""The rules file of a node: an error at the start, and the old rules when a later text has a mistake."""

from pathlib import Path

import pytest
import structlog
from structlog.testing import capture_logs

from coordinator.config import AuthorizationSettings, ConfigError
from coordinator.core.events import RulesChanged
from coordinator.core.security.acl import Acl, Operation, ResourceKind
from coordinator.core.security.principal import Principal
from coordinator.runtime.security.rules import read_rules, rules_of

LOG = structlog.get_logger()


def settings_of(file: Path, *superusers: str) -> AuthorizationSettings:
    return AuthorizationSettings(rules_file=str(file), superusers=superusers)


def may_read(acl: Acl, name: str, group: str) -> bool:
    return acl.decide(Principal(name), Operation.READ, ResourceKind.GROUP, group).is_allowed


def test_nobody_is_asked_without_a_file() -> None:
    assert rules_of(AuthorizationSettings(), LOG, print) is None


@pytest.mark.parametrize(
    ("text", "why"),
    [(b"allow User:a read group literal g\nallow bob\n", "line 2: a rule has another form"), (b"\xff", "not UTF-8")],
)
def test_mistake_in_the_rules_is_an_error_at_the_start(tmp_path: Path, text: bytes, why: str) -> None:
    file = tmp_path / "rules"
    file.write_bytes(text)
    with pytest.raises(ConfigError, match=why):
        rules_of(settings_of(file), LOG, print)
    file.unlink()
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        rules_of(settings_of(file), LOG, print)


def test_rules_that_an_editor_of_windows_has_written_are_rules(tmp_path: Path) -> None:
    file = tmp_path / "rules"
    file.write_bytes(b"\xef\xbb\xbfallow User:a read group literal g\r\n\r\n# the end\r\n")
    assert may_read(read_rules(settings_of(file)), "a", "g")


def test_changed_rules_are_told_and_a_mistake_keeps_the_old_ones(tmp_path: Path) -> None:
    file = tmp_path / "rules"
    file.write_text("allow User:a read group literal g\n")
    told: list[RulesChanged] = []
    rules = rules_of(settings_of(file, "User:root"), LOG, told.append)
    assert rules is not None
    assert not rules.look()
    file.write_text("allow User:a read group literal g\npermit User:b\n")
    with capture_logs() as said:
        assert not rules.look(in_any_case=True)
    assert "rules: line 2: a rule has another form" in said[0]["why"]
    assert (told, may_read(rules.value, "a", "g")) == ([], True)
    file.write_text("allow User:b read group literal g\n")
    assert rules.look(in_any_case=True)
    (event,) = told
    assert [may_read(event.acl, name, "g") for name in ("a", "b", "root")] == [False, True, True]
