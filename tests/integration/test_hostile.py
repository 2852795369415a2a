"""The short form of `make hostile`: nothing ends, leaks or writes without bound, and the good client is served."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.hostile import siege
from tests.hostile.siege import Scale, under_siege
from tests.hostile.verdict import Verdict
from tests.standing.__main__ import echo

if TYPE_CHECKING:
    from coordinator.local.kafka.broker import LocalKafka

pytestmark = pytest.mark.kafka


def test_a_node_stands_attacks_beside_a_good_client(
    kafka: "LocalKafka", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ALONE_S", "SETTLE_S", "UNREAD_S", "CROWD_S"):
        monkeypatch.setattr(siege, name, 0.5)
    with echo() as address:
        verdict, lines = under_siege(kafka, tmp_path, address, Scale(frames=2_000, part=0.01), 1, lambda _: None)
    # How long others wait is judged by `make hostile`: this machine may be doing anything meanwhile.
    verdict.good_p99_ratio = 1.0
    assert verdict.missed() == [], "\n".join([*lines, str(verdict)])
    assert verdict.frames >= 2_000


def test_every_bar_that_is_missed_is_told() -> None:
    fine = Verdict(10, 10, 0, 64, 2.0, 16, 0)
    assert (fine.missed(), str(fine)) == (
        [],
        "hostile: OK frames=10 crashes=0 rss_growth_mib=64 good_p99_ratio=2.00 log_mib=16.0 fds_left=0",
    )
    bad = Verdict(9, 10, 1, 65, 2.1, 17, 1, 1)
    assert len(bad.missed()) == 7
    assert str(bad).startswith("hostile: FAILED frames=9 ")
