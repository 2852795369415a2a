"""Verbs whose standard error takes no data."""

import os
import subprocess
import sys

import pytest

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    DescribeGroup,
    DescribeGroupResponse,
    ErrorResponse,
    FindCoordinator,
    FindCoordinatorResponse,
    ListGroups,
    ListGroupsResponse,
)
from coordinator.protocol.messages.operators import (
    ChangePause,
    ChangePauseResponse,
    DescribeControls,
    DescribeControlsResponse,
)
from coordinator.protocol.parts import GroupSummary, PartitionDescription
from tests.helpers.scripted_coordinator import ScriptedCoordinator

BEHIND = DescribeGroupResponse(group_id="orders-a", state="Empty", partitions=(PartitionDescription("t", 0, 5, 9),))
ANSWERS = {
    ListGroups: ListGroupsResponse((GroupSummary("orders-a", "Empty", 0, 1), GroupSummary("orders-b", "Empty", 0, 1))),
    FindCoordinator: FindCoordinatorResponse(),
    DescribeControls: DescribeControlsResponse(),
    DescribeGroup: BEHIND,
    ChangePause: ChangePauseResponse(),
}
ABSENT = {DescribeGroup: ErrorResponse(ErrorCode.GROUP_ID_NOT_FOUND, "")}


@pytest.fixture(params=["a full disk", "a closed pipe"])
def stderr(request):
    if request.param == "a full disk":
        file = os.open("/dev/full", os.O_WRONLY)
    else:
        reader, file = os.pipe()
        os.close(reader)
    yield file
    os.close(file)


@pytest.fixture
def run(stderr):
    def run(*arguments, **answers):
        with ScriptedCoordinator(ANSWERS | answers.get("answers", {})) as coordinator:
            address = "{}:{}".format(*coordinator.address)
            environment = os.environ | {"KCOORD_COORDINATOR": address}
            done = subprocess.run(
                [sys.executable, "-m", "coordinator", *arguments],
                stdout=subprocess.PIPE,
                stderr=stderr,
                timeout=120,
                env=environment,
            )
            return done.returncode, coordinator.asked

    return run


def test_all_groups_are_changed(run):
    code, asked = run("group", "pause", "--match", "orders-*", "--execute", "--why", "no notes")
    paused = [request.group_id for request in asked if isinstance(request, ChangePause)]
    assert (code, paused) == (0, ["orders-a", "orders-b"])


@pytest.mark.parametrize(
    ("code", "arguments", "answers"),
    [
        (0, ["group", "list", "--match", "x*"], {}),
        (2, ["group", "pause"], {}),
        (3, ["group", "describe", "nosuch"], ABSENT),
        (7, ["group", "lag", "orders-a", "--fail-above", "0"], {}),
    ],
)
def test_exit_codes_keep_their_meaning(run, code, arguments, answers):
    assert run(*arguments, answers=answers)[0] == code
