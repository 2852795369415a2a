"""No outcome is given as known that is not."""

from typing import Any

import pytest
from kazoo.exceptions import BadVersionError, ConnectionLoss, KazooException, RolledBackError, RuntimeInconsistency
from kazoo.protocol.states import ZnodeStat

from coordinator.core.cluster.zookeeper import (
    ZkApplied,
    ZkCheck,
    ZkCreate,
    ZkDelete,
    ZkOutcome,
    ZkRefusal,
    ZkRefused,
    ZkSet,
    ZkUnknown,
)
from coordinator.runtime.zookeeper.answers import outcome_of

OPERATIONS = (ZkCreate("/a", b""), ZkSet("/b", b"", 6), ZkCheck("/c", 4), ZkDelete("/d", 2))
STAT = ZnodeStat(0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0)


def test_versions_are_those_that_nodes_have_now() -> None:
    assert outcome_of(OPERATIONS, ["/a", STAT, True, True]) == ZkApplied((0, 7, 4, None))


def test_the_first_that_was_not_merely_undone_says_why_none_was_done() -> None:
    results = [RolledBackError(), BadVersionError(), RuntimeInconsistency(), RuntimeInconsistency()]
    refused = ZkRefused(1, ZkRefusal.BAD_VERSION, "ZkSet /b: BadVersionError")
    assert outcome_of(OPERATIONS, results) == refused


@pytest.mark.parametrize(
    "results",
    [
        None,
        [],
        ["/a", STAT, True],
        ["/a", STAT, True, True, True],
        ["/a", True, True, True],
        [STAT, "/a", True, True],
        ["/a", STAT, None, True],
        ["/a", STAT, True, ValueError("no word of a server's")],
        [RolledBackError()] * 4,
    ],
    ids=lambda results: "none" if results is None else f"{len(results)} results",
)
def test_an_answer_that_does_not_fit_is_unknown(results: Any) -> None:
    outcome: ZkOutcome = outcome_of(OPERATIONS, results)
    assert isinstance(outcome, ZkUnknown)
    assert "does not fit" in outcome.why


def test_an_error_in_the_stead_of_results_is_unknown() -> None:
    assert outcome_of(OPERATIONS, None, ConnectionLoss()) == ZkUnknown("ConnectionLoss")
    assert outcome_of(OPERATIONS, None, KazooException("over")) == ZkUnknown("KazooException: over")
