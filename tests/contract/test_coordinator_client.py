"""The promises of the coordinator's client, kept towards a real node and towards the fake that unit tests ask.

After them: a node that misbehaves, in every way that a connection can, costs the asker an error that names it.
"""

import socket
import threading
from collections.abc import Callable, Iterator, Sequence

import pytest

from coordinator.client.connection import Connection, NodeError
from coordinator.client.refusals import refusal_of
from coordinator.client.request import RequestError, RequestTimeoutError, ask, ask_until_answered
from coordinator.protocol.columns import OffsetToCommit, in_columns
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    CommitOffsets,
    CommitOffsetsResponse,
    DescribeGroup,
    DescribeGroupResponse,
    ErrorResponse,
    FetchOffsets,
    FetchOffsetsResponse,
    FindCoordinator,
    FindCoordinatorResponse,
    ListGroups,
    ListGroupsResponse,
    Probe,
    Request,
    Response,
)
from coordinator.protocol.messages.operators import (
    DeleteGroup,
    DeleteGroupResponse,
    DeleteOffsets,
    DeleteOffsetsResponse,
)
from coordinator.protocol.parts import CommittedOffset, NodeAddress
from coordinator.protocol.text.addresses import Address, format_address, parse_address
from tests.helpers.answer_cutter import answer_cutter
from tests.helpers.loopback_coordinator import LoopbackCoordinator, unused_address
from tests.helpers.loopback_proxy import LoopbackProxy
from tests.helpers.node_process import running_node
from tests.helpers.scripted_coordinator import (
    CLOSES,
    Misdeed,
    ScriptedCoordinator,
    byte_by_byte,
    framed,
    late,
    sends,
)

Ask = Callable[[Sequence[Address], Request, float], Response]

BOTH: list[Ask] = [ask, ask_until_answered]

GOOD = ListGroupsResponse()
FOUND = DescribeGroupResponse(group_id="g")


@pytest.fixture(scope="module")
def real_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    """Yield the address of a real node, without Kafka."""
    with running_node(tmp_path_factory.mktemp("node")) as node:
        yield parse_address(node.wait_until_it_serves())


@pytest.fixture(scope="module", params=["node", "fake"])
def coordinator(request: pytest.FixtureRequest) -> Iterator[Address]:
    """Yield the address of a coordinator without groups."""
    if request.param == "node":
        yield request.getfixturevalue("real_node")
        return
    answers = {
        ListGroups: ListGroupsResponse(),
        DescribeGroup: DescribeGroupResponse(ErrorCode.GROUP_ID_NOT_FOUND, "no such group"),
        FindCoordinator: lambda _: FindCoordinatorResponse(coordinator=NodeAddress(0, *fake.address)),
    }
    with ScriptedCoordinator(answers) as fake:
        yield fake.address


@pytest.mark.parametrize("way", BOTH)
def test_a_request_gets_its_response(coordinator: Address, way: Ask) -> None:
    found = way((coordinator,), FindCoordinator("g"), 10)
    assert isinstance(found, FindCoordinatorResponse)
    assert found.coordinator is not None
    assert (found.coordinator.host, found.coordinator.port) == coordinator
    assert way((coordinator,), ListGroups(), 10) == ListGroupsResponse()


@pytest.mark.parametrize("way", BOTH)
def test_a_refusal_for_good_is_the_response(coordinator: Address, way: Ask) -> None:
    refusal = refusal_of(way((coordinator,), DescribeGroup("nobody's"), 10))
    assert refusal is not None
    assert refusal[0] is ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize("way", BOTH)
def test_addresses_where_nobody_is_are_passed_over(coordinator: Address, way: Ask) -> None:
    addresses = (unused_address(), ("no.such.host.invalid", 1), coordinator)
    assert way(addresses, ListGroups(), 10) == ListGroupsResponse()


@pytest.mark.parametrize("way", BOTH)
def test_an_address_that_is_silent_leaves_time_for_the_others(coordinator: Address, way: Ask) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert way((silent.getsockname(), coordinator), ListGroups(), 4.0) == ListGroupsResponse()


def test_one_connection_takes_several_requests(coordinator: Address) -> None:
    with Connection(coordinator, 10) as connection:
        assert connection.ask(ListGroups(), 10) == connection.ask(ListGroups(), 10) == ListGroupsResponse()


# ---- several nodes that do not answer -------------------------------------------------------------------------------


@pytest.mark.parametrize("way", BOTH)
def test_every_address_that_was_tried_is_named_with_its_reason(way: Ask) -> None:
    one, other = unused_address(), ("no.such.host.invalid", 1)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        silent = listener.getsockname()
        with pytest.raises(RequestError) as raised:
            way((one, other, silent), ListGroups(), 2.5)
    said = str(raised.value)
    assert said.startswith("none of 3 coordinators answered: ")
    assert f"{format_address(one)}: cannot be reached: Connection refused" in said
    assert f"{format_address(other)}: cannot be reached: " in said
    assert f"{format_address(silent)}: did not answer within " in said
    assert said.endswith("; check the addresses, and that a coordinator is running there")


def test_a_person_hears_at_once_that_nobody_can_be_reached() -> None:
    with pytest.raises(RequestError, match="none of 2 coordinators answered") as raised:
        ask((unused_address(), unused_address()), ListGroups(), 60)
    assert not isinstance(raised.value, RequestTimeoutError)


def test_a_node_that_comes_back_in_time_answers_who_waits() -> None:
    with LoopbackCoordinator() as node:
        node.script[ListGroups] = lambda _: ListGroupsResponse()
        node.kill()
        comes_back = threading.Timer(0.3, node.come_back)
        comes_back.start()
        assert ask_until_answered((node.address,), ListGroups(), 30) == ListGroupsResponse()
        comes_back.join()


def test_a_node_that_does_not_come_back_in_time_is_said_with_the_reason() -> None:
    with pytest.raises(RequestTimeoutError, match="cannot be reached: Connection refused"):
        ask_until_answered((unused_address(),), ListGroups(), 0.3)


def test_a_node_that_is_named_and_gone_is_named_with_the_one_that_named_it() -> None:
    gone = unused_address()
    found = FindCoordinatorResponse(coordinator=NodeAddress(2, *gone))
    moved = DescribeGroupResponse(ErrorCode.NOT_COORDINATOR, "the shard is led by node 2")
    with (
        ScriptedCoordinator({DescribeGroup: moved, FindCoordinator: found}) as one,
        pytest.raises(RequestTimeoutError) as raised,
    ):
        ask_until_answered((one.address,), DescribeGroup("g"), 1.5)
    assert f"{format_address(one.address)}: the shard is led by node 2 (NOT_COORDINATOR)" in raised.value.troubles
    assert f"{format_address(gone)}: cannot be reached: Connection refused" in raised.value.troubles


@pytest.mark.parametrize("way", BOTH)
def test_nodes_that_name_each_other_end_with_the_time(way: Ask) -> None:
    moved = DescribeGroupResponse(ErrorCode.NOT_COORDINATOR, "not here")
    there: dict[str, Address] = {}

    def to(name: str) -> Callable[[Request], Response]:
        return lambda _: FindCoordinatorResponse(coordinator=NodeAddress(1, *there[name]))

    with (
        ScriptedCoordinator({DescribeGroup: moved, FindCoordinator: to("other")}) as one,
        ScriptedCoordinator({DescribeGroup: moved, FindCoordinator: to("one")}) as other,
    ):
        there.update(one=one.address, other=other.address)
        if way is ask:
            assert ask((one.address,), DescribeGroup("g"), 1.5) == moved
        else:
            with pytest.raises(RequestTimeoutError, match=r"NOT_COORDINATOR.*NOT_COORDINATOR"):
                ask_until_answered((one.address,), DescribeGroup("g"), 1.5)
        assert 1 < len(one.asked) < 50, "it asked without a pause"


# ---- connections that break amid a request --------------------------------------------------------------------------


def commit(node: Address, group_id: str, offset: int) -> None:
    done = ask((node,), CommitOffsets(group_id, in_columns([OffsetToCommit("t", 0, offset)])), 10)
    assert done == CommitOffsetsResponse(accepted=1)


def committed(node: Address, group_id: str) -> list[int]:
    found = ask((node,), FetchOffsets(group_id), 10)
    assert isinstance(found, FetchOffsetsResponse)
    return [each.offset for each in found.offsets]


@pytest.mark.parametrize("way", BOTH)
def test_a_request_that_was_done_and_not_answered_is_asked_again_only_by_who_may(real_node: Address, way: Ask) -> None:
    """Offsets are deleted, and the answer is lost on its way: when it comes there somebody has committed again."""
    group_id = f"answer-lost-{way.__name__}"
    delete = DeleteOffsets(group_id, (("t", 0),), "ann@ops-1", is_dry_run=False)
    lost: list[object] = []

    def loses(answer: object) -> bool:
        if lost or not isinstance(answer, DeleteOffsetsResponse):
            return False
        lost.append((answer.error, committed(real_node, group_id)))
        commit(real_node, group_id, 9)
        return True

    commit(real_node, group_id, 7)
    with LoopbackProxy(real_node[1], answer_cutter(cuts_before=loses)) as proxy:
        through = parse_address(proxy.address)
        if way is ask:
            with pytest.raises(RequestError, match=r"before it answered.*; look whether what was asked for is done"):
                ask((through, real_node), delete, 10)
        else:
            assert refusal_of(ask_until_answered((through, real_node), delete, 10)) is None
    assert lost == [(ErrorCode.NONE, [])]
    assert committed(real_node, group_id) == ([9] if way is ask else [])


@pytest.mark.parametrize("way", BOTH)
def test_a_node_that_hangs_up_amid_a_request_may_have_been_asked(way: Ask) -> None:
    """How much of a request arrived nobody knows who sent it, so that half of one counts as a whole."""
    large = DeleteGroup("g" * 900_000, "me@here")
    done = DeleteGroupResponse()
    with ScriptedCoordinator({}, hangs_up_after=1_000) as bad, ScriptedCoordinator({DeleteGroup: done}) as good:
        if way is ask:
            with pytest.raises(RequestError, match="closed the connection before it answered"):
                ask((bad.address, good.address), large, 30)
        else:
            assert ask_until_answered((bad.address, good.address), large, 30) == done
        assert bad.taken == 1
        assert good.asked == ([] if way is ask else [large])


@pytest.mark.parametrize("way", BOTH)
def test_a_node_that_hangs_up_before_its_hello_was_asked_nothing(way: Ask) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, ScriptedCoordinator({ListGroups: GOOD}) as good:
        closes = threading.Thread(target=lambda: listener.accept()[0].close())
        closes.start()
        assert way((listener.getsockname(), good.address), ListGroups(), 30) == GOOD
        closes.join()


def test_a_connection_that_breaks_between_pages_begins_with_the_first_again() -> None:
    first = FetchOffsetsResponse(offsets=(CommittedOffset("t", "id", 0, 7, None, "", 1),), up_to=("t", 0))
    last = FetchOffsetsResponse(offsets=(CommittedOffset("t", "id", 1, 8, None, "", 1),))
    with ScriptedCoordinator({FetchOffsets: [first, CLOSES, first, last]}) as node:
        found = ask_until_answered((node.address,), FetchOffsets("g"), 30)
    assert isinstance(found, FetchOffsetsResponse)
    assert found.offsets == first.offsets + last.offsets
    assert [request.after for request in node.asked if isinstance(request, FetchOffsets)] == [
        None,
        ("t", 0),
        None,
        ("t", 0),
    ]


# ---- nodes that misbehave -------------------------------------------------------------------------------------------

MISDEEDS: dict[str, tuple[Misdeed, str]] = {
    "late": (late(1.5, GOOD), r"did not answer within (1|0\.\d+) s"),
    "closed without a byte": (CLOSES, "closed the connection before it answered"),
    "closed midway": (sends(lambda number: framed(number, GOOD)[:-1]), "closed the connection before it answered"),
    "closed within the length": (sends(lambda _: b"\0\0"), "closed the connection before it answered"),
    "an empty frame": (sends(lambda _: bytes(4)), "does not speak as a kcoord coordinator: "),
    "a short frame": (sends(lambda _: b"\0\0\0\2\0\1"), "does not speak as a kcoord coordinator: "),
    "a frame too long": (sends(lambda _: b"\xff" * 8), "does not speak as a kcoord coordinator: "),
    "no message": (sends(lambda number: framed(number, GOOD)[:-1] + b"\xc1"), "an answer cannot be read"),
    "another correlation id": (
        sends(lambda number: framed(number + 1, GOOD)),
        "a response came for correlation id 2, which asks nothing",
    ),
    "the answer to another request": (
        sends(lambda number: framed(number, FetchOffsetsResponse())),
        "FetchOffsetsResponse came as the response to ListGroups",
    ),
    "a push with a correlation id": (sends(lambda number: framed(number, Probe())), "a push came with a correlation"),
    "pushes and no answer": (sends(lambda _: framed(0, Probe()) * 3), "closed the connection before it answered"),
}


@pytest.mark.parametrize("name", MISDEEDS)
def test_a_node_that_misbehaves_is_an_error_that_says_how(name: str) -> None:
    misdeed, why = MISDEEDS[name]
    with ScriptedCoordinator({ListGroups: misdeed}) as node:
        with pytest.raises(RequestError, match=why) as raised:
            ask((node.address,), ListGroups(), 1.0 if name == "late" else 10)
        assert str(raised.value).startswith(f"the coordinator at {format_address(node.address)} ")
        assert len(node.asked) == 1, "a request that may be done was asked again"


@pytest.mark.parametrize("name", MISDEEDS)
def test_what_may_be_asked_twice_is_asked_of_the_next_node(name: str) -> None:
    with ScriptedCoordinator({ListGroups: MISDEEDS[name][0]}) as bad, ScriptedCoordinator({ListGroups: GOOD}) as good:
        assert ask_until_answered((bad.address, good.address), ListGroups(), 10) == GOOD
        assert len(bad.asked) == 1


@pytest.mark.parametrize("name", MISDEEDS)
def test_what_may_be_done_is_not_asked_of_another_node(name: str) -> None:
    request, why = DeleteGroup("g", "me@here"), MISDEEDS[name][1].replace("ListGroups", "DeleteGroup")
    with (
        ScriptedCoordinator({DeleteGroup: MISDEEDS[name][0]}) as bad,
        ScriptedCoordinator({DeleteGroup: DeleteGroupResponse()}) as good,
    ):
        with pytest.raises(RequestError, match=why if "answer to another" not in name else "came as the response"):
            ask((bad.address, good.address), request, 1.0 if name == "late" else 10)
        assert good.asked == []


@pytest.mark.parametrize("name", [name for name in MISDEEDS if name != "late"])
def test_what_only_reads_is_asked_of_another_node(name: str) -> None:
    with ScriptedCoordinator({ListGroups: MISDEEDS[name][0]}) as bad, ScriptedCoordinator({ListGroups: GOOD}) as good:
        assert ask((bad.address, good.address), ListGroups(), 10) == GOOD
        assert len(bad.asked) == 1


@pytest.mark.parametrize("misdeed", [byte_by_byte(GOOD), late(0.2, GOOD)], ids=["byte by byte", "late but in time"])
def test_a_slow_answer_is_an_answer(misdeed: Misdeed) -> None:
    with ScriptedCoordinator({ListGroups: misdeed}) as node:
        assert ask((node.address,), ListGroups(), 10) == GOOD


def test_an_answer_that_comes_twice_is_taken_once_and_the_second_ends_the_connection() -> None:
    twice = sends(lambda number: framed(number, GOOD) * 2)
    with ScriptedCoordinator({ListGroups: twice}) as node, Connection(node.address, 10) as connection:
        assert connection.ask(ListGroups(), 10) == GOOD
        with pytest.raises(NodeError, match="a response came for correlation id 1, which asks nothing"):
            connection.ask(ListGroups(), 10)


def test_a_page_that_never_comes_is_an_error_and_no_short_answer() -> None:
    first = FetchOffsetsResponse(offsets=(CommittedOffset("t", "id", 0, 7, None, "", 1),), up_to=("t", 0))
    with (
        ScriptedCoordinator({FetchOffsets: sends(lambda number: framed(number, first))}) as node,
        pytest.raises(RequestError, match="closed the connection before it answered"),
    ):
        ask((node.address,), FetchOffsets("g"), 10)


def test_a_request_that_cannot_be_sent_is_said_so_and_not_tried_elsewhere() -> None:
    with ScriptedCoordinator({}) as node, pytest.raises(RequestError, match=r"^the request cannot be sent: Describe"):
        ask_until_answered((node.address,), DescribeGroup("g" * 2_000_000), 10)
    assert node.asked == []


# ---- a cluster ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", BOTH)
def test_a_leader_that_is_gone_is_asked_for_by_its_epoch_and_the_next_one_is_followed(way: Ask) -> None:
    moved = ErrorResponse(ErrorCode.NOT_COORDINATOR, "shard 3 is not led by this node")
    gone = NodeAddress(1, *unused_address())
    with ScriptedCoordinator({DescribeGroup: FOUND}) as leader:
        answers: list[Response] = [
            FindCoordinatorResponse(coordinator=gone, leader_epoch=4),
            FindCoordinatorResponse(coordinator=NodeAddress(2, *leader.address), leader_epoch=5),
        ]
        with ScriptedCoordinator({DescribeGroup: moved, FindCoordinator: list(answers)}) as other:
            assert way((other.address,), DescribeGroup("g"), 10) == FOUND
            questions = [request for request in other.asked if isinstance(request, FindCoordinator)]
            assert questions == [FindCoordinator("g"), FindCoordinator("g", 4)]


@pytest.mark.parametrize("way", BOTH)
def test_nodes_that_point_at_each_other_cost_the_time_and_no_more(way: Ask) -> None:
    moved = ErrorResponse(ErrorCode.NOT_COORDINATOR, "shard 3 is not led by this node")
    there: dict[str, Address] = {}

    def points_to(name: str) -> Callable[[Request], Response]:
        return lambda _: FindCoordinatorResponse(coordinator=NodeAddress(1, *there[name]), leader_epoch=4)

    with (
        ScriptedCoordinator({DescribeGroup: moved, FindCoordinator: points_to("b")}) as a,
        ScriptedCoordinator({DescribeGroup: moved, FindCoordinator: points_to("c")}) as b,
        ScriptedCoordinator({DescribeGroup: moved, FindCoordinator: points_to("a")}) as c,
    ):
        there.update(a=a.address, b=b.address, c=c.address)
        if way is ask:
            assert ask((a.address,), DescribeGroup("g"), 1.0) == moved
        else:
            with pytest.raises(RequestTimeoutError):
                ask_until_answered((a.address,), DescribeGroup("g"), 1.0)
        assert max(node.taken for node in (a, b, c)) <= 12, "the pause between rounds grows"


def test_a_node_that_does_not_speak_for_all_groups_says_so_at_once() -> None:
    refused = ErrorResponse(ErrorCode.NOT_COORDINATOR, "shard 3 is not led by this node")
    with ScriptedCoordinator({ListGroups: refused}) as node:
        assert ask((node.address,), ListGroups(), 10) == refused
        assert len(node.asked) == 1
