"""A wait looks until everything holds at one moment, within its time, and is stopped by what does not pass."""

import socket
import time

import pytest

from coordinator.client.operating import waiting
from coordinator.client.operating.waiting import Wait, WaitRefusedError, WaitTimeoutError, Wanted
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import DescribeGroup, DescribeGroupResponse, ErrorResponse
from coordinator.protocol.parts import MemberDescription, PartitionDescription
from coordinator.protocol.vocabulary import GroupStatus
from tests.helpers.scripted_coordinator import CLOSES, ScriptedCoordinator

M1 = MemberDescription("m1", None, "c1", "h1", 1, "Stable", 3, 1, True, 1, 1)
STABLE = DescribeGroupResponse(
    group_id="g", state="Stable", members=(M1,), partitions=(PartitionDescription("t", 0, 5, 9, "m1", 41),)
)


def missing(wanted, group):
    return [why for condition in wanted.conditions() if (why := condition(group)) is not None]


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        (Wanted(state=GroupStatus.STABLE, members=1, lag_below=5), []),
        (Wanted(state=GroupStatus.EMPTY), ["it has 1 member"]),
        (Wanted(state=GroupStatus.ASSIGNING), ["it is Stable"]),
        (Wanted(members=2, lag_below=4), ["it has 1 member", "its lag is 4"]),
    ],
)
def test_every_condition_says_why_it_does_not_hold(wanted, why):
    assert missing(wanted, STABLE) == why


def test_nothing_wanted_is_no_condition():
    assert Wanted().conditions() == []


def waited(answers, wanted):
    with ScriptedCoordinator({DescribeGroup: answers}) as coordinator:
        found = wait_for(Wait((coordinator.address,), "g", wanted.conditions(), 60.0, 0.01))
    return found, len(coordinator.asked)


def wait_for(wait):
    while (found := wait.look()) is None:
        time.sleep(wait.pause_s)
    return found


def test_a_coordinator_that_breaks_off_is_asked_again():
    assert waited([CLOSES, STABLE], Wanted(members=1)) == (STABLE, 2)


def test_a_group_that_is_not_there_is_empty():
    missing_group = DescribeGroupResponse(ErrorCode.GROUP_ID_NOT_FOUND, "there is none")
    found, _ = waited(missing_group, Wanted(state=GroupStatus.EMPTY))
    assert (found.group_id, found.state) == ("g", "")


def test_a_refusal_that_does_not_pass_ends_it_at_once():
    with pytest.raises(WaitRefusedError) as ended:
        waited(ErrorResponse(ErrorCode.GROUP_AUTHORIZATION_FAILED, "not yours"), Wanted(members=1))
    assert ended.value.refusal == (ErrorCode.GROUP_AUTHORIZATION_FAILED, "not yours")


def test_a_silent_coordinator_does_not_make_it_outlast_its_time(monkeypatch):
    """A look took five seconds whatever was left."""
    given, ask = [], waiting.ask
    monkeypatch.setattr(waiting, "ask", lambda *asked: given.append(asked[-1]) or ask(*asked))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        wait = Wait((silent.getsockname(),), "g", Wanted(members=5).conditions(), 0.5, 0.01)
        with pytest.raises(WaitTimeoutError, match=r"not as wanted after 0.5 s: .* did not answer within"):
            wait_for(wait)
    assert len(given) == 1
    assert given[0] <= 0.5
