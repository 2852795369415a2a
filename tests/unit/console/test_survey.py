"""The thread that asks, against scripted coordinators."""

import threading

import pytest

from coordinator.client.connection import NodeTimeoutError
from coordinator.client.every_node import NodesFound
from coordinator.client.security import Coordinators
from coordinator.console import survey as module
from coordinator.console.known.picture import Picture
from coordinator.console.settings import ConsoleSettings
from coordinator.console.survey import ENDED_BY_A_BUG, Survey
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    DescribeCluster,
    DescribeClusterResponse,
    DescribeGroup,
    ErrorResponse,
    FetchOffsets,
    FetchOffsetsResponse,
    ListGroups,
    ListGroupsResponse,
    Request,
    Response,
)
from coordinator.protocol.parts import NodeDescription, ShardDescription
from tests.helpers.console_world import NOW_MS, commit, described, partition, summary
from tests.helpers.scripted_coordinator import Misdeed, ScriptedCoordinator

CLUSTER = DescribeClusterResponse(
    1, (NodeDescription(1, "ready"),), (ShardDescription(0, "serving", 1, 1), ShardDescription(1, "offline", 1))
)
GROUPS = ListGroupsResponse((summary("g"), summary("h")), shards=(0, 1))
ANSWERS = {
    DescribeCluster: CLUSTER,
    ListGroups: GROUPS,
    FetchOffsets: FetchOffsetsResponse(offsets=(commit(0, 1, NOW_MS - 9),)),
    DescribeGroup: lambda request: described(request.group_id, partition(0, 1, 5)),
}
HANGS_UP = Misdeed(lambda connection, _: None)


def survey_of(coordinator: ScriptedCoordinator, picture: Picture, refresh_s: float = 1.0) -> Survey:
    settings = ConsoleSettings(Coordinators([coordinator.address]), ("127.0.0.1", 0), refresh_s=refresh_s, timeout_s=60)
    return Survey(settings, picture, lambda: NOW_MS)


def test_it_asks_for_nodes_then_for_groups_then_for_each() -> None:
    picture = Picture()
    with ScriptedCoordinator(dict(ANSWERS)) as coordinator:
        survey = survey_of(coordinator, picture)
        survey.look_once()
        survey.stop_asking()
    rows = {group.row.group: group.row for group in picture.heard().groups}
    assert {name: (row.lag, row.last_commit_ms) for name, row in rows.items()} == {
        "g": (4, NOW_MS - 9),
        "h": (4, NOW_MS - 9),
    }
    assert picture.heard().trouble is None


def test_a_group_that_is_refused_and_one_that_breaks_the_connection_keep_nobody_from_the_others() -> None:
    picture = Picture()
    answers = dict(ANSWERS)
    answers[DescribeGroup] = [
        ErrorResponse(ErrorCode.NOT_COORDINATOR, "elsewhere"),
        lambda request: described(request.group_id, partition(0, 1, 5)),
    ]
    answers[FetchOffsets] = [ANSWERS[FetchOffsets], HANGS_UP, ANSWERS[FetchOffsets]]
    with ScriptedCoordinator(answers) as coordinator:
        survey = survey_of(coordinator, picture)
        survey.look_once()
        survey.stop_asking()
    rows = {group.row.group: group.row.lag for group in picture.heard().groups}
    assert rows == {"g": None, "h": 4}


def test_a_node_that_hangs_is_asked_for_two_groups_and_then_for_the_nodes_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    picture, asked = Picture(), []
    listed = tuple(summary(f"g{number}") for number in range(9))
    hangs: set[str] = set()

    class Node:
        """A connection to a node that answers for all groups but some, for which it takes too long."""

        def __init__(self, *_: object) -> None:
            pass

        def __exit__(self, *_: object) -> None:
            pass

        def ask(self, request: Request, timeout_s: float) -> Response:
            if isinstance(request, ListGroups):
                return ListGroupsResponse(listed, shards=(0, 1))
            assert isinstance(request, FetchOffsets | DescribeGroup)
            asked.append(request.group_id)
            if request.group_id in hangs:
                raise NodeTimeoutError("did not answer within 10 s", "allow more time")
            return FetchOffsetsResponse() if isinstance(request, FetchOffsets) else described(request.group_id)

    address = ("10.0.0.1", 1)
    monkeypatch.setattr(module, "Connection", Node)
    monkeypatch.setattr(module, "find_nodes", lambda *_: NodesFound({1: CLUSTER}, {1: address}, {}))
    survey = Survey(ConsoleSettings(Coordinators([address]), ("127.0.0.1", 0)), picture, lambda: NOW_MS)
    hangs.add("g3")  # one that is too large to be told in time keeps nobody from the others
    survey.look_once()
    assert {group.row.group for group in picture.heard().groups if group.measured is None} == {"g3"}
    for _ in range(2):
        asked.clear()
        hangs.update(f"g{number}" for number in range(9))
        survey.look_once()
        assert asked == ["g0", "g1"]


def test_shards_that_nobody_lists_keep_their_groups_as_they_were() -> None:
    picture = Picture()
    groups = ListGroupsResponse((summary("e"), summary("g"), summary("h")), shards=(0, 1))
    answers = {**ANSWERS, ListGroups: [groups, ListGroupsResponse((summary("g"),), shards=(0,))]}
    with ScriptedCoordinator(answers) as coordinator:
        survey = survey_of(coordinator, picture)
        survey.look_once()
        survey.stop_asking()  # a scripted coordinator talks to one at a time
        survey.look_once()
        survey.stop_asking()
    assert (picture.heard().unlisted, picture.group("e") is not None) == ((1,), True)
    assert picture.group("h") is None, "it is of shard 0, which is listed, and is not there any more"


def test_nobody_there_is_told_and_what_was_heard_stays() -> None:
    picture = Picture()
    with ScriptedCoordinator(dict(ANSWERS)) as coordinator:
        survey = survey_of(coordinator, picture)
        survey.look_once()
        survey.stop_asking()
    survey.look_once()
    heard = picture.heard()
    assert heard.trouble is not None
    assert "cannot be reached" in heard.trouble
    assert len(heard.groups) == 2


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_bug_in_the_survey_is_told_on_every_page(monkeypatch: pytest.MonkeyPatch) -> None:
    picture = Picture()
    told = threading.Event()
    monkeypatch.setattr(threading, "excepthook", lambda _: told.set())
    with ScriptedCoordinator(dict(ANSWERS)) as coordinator:
        survey = survey_of(coordinator, picture)
        monkeypatch.setattr(survey, "look_once", lambda: 1 // 0)
        survey.start()
        assert told.wait(30)
    assert picture.heard().trouble == ENDED_BY_A_BUG
