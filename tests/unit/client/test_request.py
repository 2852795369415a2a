"""The one-shot client against a scripted coordinator on a real loopback socket."""

import socket
import threading
import time

import pytest

from coordinator.client.refusals import refusal_of
from coordinator.client.request import RequestError, RequestTimeoutError, ask
from coordinator.client.security import Coordinators
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.framing import VersionRange, encode_hello
from coordinator.protocol.messages import (
    DescribeGroup,
    DescribeGroupResponse,
    ErrorResponse,
    FindCoordinator,
    FindCoordinatorResponse,
    ListGroups,
    ListGroupsResponse,
    Probe,
)
from coordinator.protocol.messages.operators import DeleteGroup, DeleteGroupResponse
from coordinator.protocol.parts import NodeAddress
from coordinator.protocol.text.addresses import format_address
from tests.helpers.scripted_coordinator import CLOSES, ScriptedCoordinator, late
from tests.helpers.skipped_time import SkippedTime

PATIENCE_S = 60.0


def test_a_request_gets_its_response():
    expected = DescribeGroupResponse(group_id="team", state="Stable")
    with ScriptedCoordinator({DescribeGroup: expected}) as coordinator:
        assert ask((coordinator.address,), DescribeGroup("team"), PATIENCE_S) == expected
    assert coordinator.asked == [DescribeGroup("team")]


def test_pushes_are_passed_over():
    with ScriptedCoordinator({ListGroups: ListGroupsResponse()}, pushes=(Probe(), Probe())) as coordinator:
        assert ask((coordinator.address,), ListGroups(), PATIENCE_S) == ListGroupsResponse()


def test_a_refusal_is_the_response():
    refusal = DescribeGroupResponse(ErrorCode.GROUP_ID_NOT_FOUND, "no such group")
    with ScriptedCoordinator({DescribeGroup: refusal}) as coordinator:
        response = ask((coordinator.address,), DescribeGroup("team"), PATIENCE_S)
    assert response == refusal
    assert refusal_of(response) == (ErrorCode.GROUP_ID_NOT_FOUND, "no such group")
    assert refusal_of(ListGroupsResponse()) is None
    assert coordinator.asked == [DescribeGroup("team")]


def test_a_group_is_followed_to_the_node_that_coordinates_it():
    expected = DescribeGroupResponse(group_id="team", state="Stable")
    with ScriptedCoordinator({DescribeGroup: expected}) as right:
        found = FindCoordinatorResponse(coordinator=NodeAddress(2, *right.address))
        refusal = ErrorResponse(ErrorCode.NOT_COORDINATOR, "ask node 2")
        with ScriptedCoordinator({DescribeGroup: refusal, FindCoordinator: found}) as wrong:
            assert ask((wrong.address,), DescribeGroup("team"), PATIENCE_S) == expected
    assert wrong.asked == [DescribeGroup("team"), FindCoordinator("team")]
    assert right.asked == [DescribeGroup("team")]


def test_a_change_that_may_be_done_is_no_refusal_of_the_node_that_was_asked_first():
    """The refusal of who does not coordinate the group is not what became of the change at who does."""
    refusal = ErrorResponse(ErrorCode.NOT_COORDINATOR, "ask node 2")
    for timeout_s in (0.6, 5, 30):  # more where the machine was too slow for the change to get there
        with ScriptedCoordinator({DeleteGroup: late(timeout_s + 0.4, DeleteGroupResponse())}) as right:
            found = FindCoordinatorResponse(coordinator=NodeAddress(2, *right.address))
            with ScriptedCoordinator({DeleteGroup: refusal, FindCoordinator: found}) as wrong:
                try:
                    ended = ask((wrong.address,), DeleteGroup("team", "me", "why", is_dry_run=False), timeout_s)
                except RequestTimeoutError as error:
                    ended = error
        if right.asked:
            break
    assert len(right.asked) == 1
    assert isinstance(ended, RequestTimeoutError)
    assert "did not answer within" in str(ended)
    assert ended.may_be_done


def test_who_answered_last_is_asked_first():
    expected = DescribeGroupResponse(group_id="team", state="Stable")
    with ScriptedCoordinator({DescribeGroup: expected}) as right:
        found = FindCoordinatorResponse(coordinator=NodeAddress(2, *right.address))
        refusal = ErrorResponse(ErrorCode.NOT_COORDINATOR, "ask node 2")
        with ScriptedCoordinator({DescribeGroup: refusal, FindCoordinator: found}) as wrong:
            coordinators = Coordinators((wrong.address,))
            assert [ask(coordinators, DescribeGroup("team"), PATIENCE_S) for _ in range(3)] == [expected] * 3
        assert (len(wrong.asked), len(right.asked)) == (2, 3)


def test_who_answered_last_and_is_gone_costs_one_try():
    expected = DescribeGroupResponse(group_id="team", state="Stable")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        gone = listener.getsockname()
    with ScriptedCoordinator({DescribeGroup: expected}) as given:
        coordinators = Coordinators((given.address,))
        coordinators.answered_last = gone
        assert ask(coordinators, DescribeGroup("team"), PATIENCE_S) == expected
        assert coordinators.answered_last == given.address


def test_a_refusal_that_passes_is_asked_again():
    loading = DescribeGroupResponse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "loading")
    loaded = DescribeGroupResponse(state="Stable")
    with ScriptedCoordinator({DescribeGroup: [loading, loaded]}) as coordinator:
        assert ask((coordinator.address,), DescribeGroup("team"), PATIENCE_S) == loaded


def test_a_refusal_that_does_not_pass_in_time_is_returned(monkeypatch):
    monkeypatch.setattr("coordinator.client.request.time", SkippedTime(20))
    loading = DescribeGroupResponse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "loading")
    with ScriptedCoordinator({DescribeGroup: loading}) as coordinator:
        assert ask((coordinator.address,), DescribeGroup("team"), PATIENCE_S) == loading
        assert len(coordinator.asked) > 1


def test_nobody_there_is_said_with_the_address():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()
    with pytest.raises(RequestError, match=f"{format_address(address)} cannot be reached: Connection refused; check"):
        ask((address,), ListGroups(), PATIENCE_S)


def test_addresses_of_one_host_share_its_time(monkeypatch):
    connect, look_up, given = socket.create_connection, socket.getaddrinfo, []

    def drops_first(address, timeout):
        if address[0] != "192.0.2.1":
            return connect(address, timeout)
        given.append(timeout)
        raise TimeoutError("timed out")

    def found(host, port, family=0, type=0, proto=0, flags=0):  # noqa: A002 - the names that callers use
        first = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.1", port))] if host == "two.example" else []
        return first + look_up("127.0.0.1", port, family, type, proto, flags)

    monkeypatch.setattr(socket, "create_connection", drops_first)
    with ScriptedCoordinator({ListGroups: ListGroupsResponse()}) as coordinator:
        monkeypatch.setattr(socket, "getaddrinfo", found)
        assert ask((("two.example", coordinator.address[1]),), ListGroups(), 80) == ListGroupsResponse()
    assert 20 < given[0] <= 40, "half of the time"


def test_a_node_that_stands_still_is_left_for_the_next_one_and_asked_no_more(monkeypatch):
    monkeypatch.setattr("coordinator.client.request.LONGEST_HELLO_S", 0.5)
    with (
        ScriptedCoordinator({ListGroups: ListGroupsResponse()}) as coordinator,
        socket.create_server(("127.0.0.1", 0)) as still,
    ):
        coordinators = Coordinators((still.getsockname(), coordinator.address))
        began_s = time.monotonic()
        assert [ask(coordinators, ListGroups(), PATIENCE_S) for _ in range(3)] == [ListGroupsResponse()] * 3
        assert time.monotonic() - began_s < PATIENCE_S / 3, "a third of the time is what it would get of the time-out"
        still.setblocking(False)
        still.accept()[0].close()
        with pytest.raises(BlockingIOError):
            still.accept()


def test_a_silent_address_costs_no_more_than_the_time_out():
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        pytest.raises(RequestTimeoutError, match=r"did not answer within 0\.\d+ s; check"),
    ):
        ask((listener.getsockname(),), ListGroups(), 0.2)


@pytest.mark.parametrize(
    ("greeting", "why"),
    [
        (b"", "closed the connection without an answer; check that the address is a kcoord coordinator's"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "the first bytes are those of an HTTP answer"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "the first bytes are those of an SSH greeting"),
        (encode_hello(VersionRange(7, 9)), "speaks protocol version 7 to 9, this end 1; upgrade the older one"),
    ],
    ids=["nothing", "HTTP", "SSH", "newer"],
)
def test_a_stranger_is_named(greeting, why):
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer():
            connection, _ = listener.accept()
            with connection:
                connection.recv(64)
                connection.sendall(greeting)

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(RequestError, match=why):
            ask((listener.getsockname(),), ListGroups(), PATIENCE_S)
        thread.join()


def test_a_coordinator_that_closes_after_its_hello_is_one():
    """It was stopped, or met a bug: nothing is wrong with the address, and what was asked for may be done."""
    with ScriptedCoordinator({DescribeGroup: CLOSES}) as coordinator:
        name = format_address(coordinator.address)
        with pytest.raises(RequestError) as raised:
            ask((coordinator.address,), DescribeGroup("team"), PATIENCE_S)
    assert str(raised.value) == (
        f"the coordinator at {name} closed the connection before it answered: it was stopped, or met a bug, which its "
        "log says; look whether what was asked for is done, and ask again"
    )


def test_a_request_too_large_is_an_error_of_the_tool():
    with ScriptedCoordinator({}) as coordinator, pytest.raises(RequestError, match="cannot be sent: DescribeGroup has"):
        ask((coordinator.address,), DescribeGroup("g" * 2_000_000), PATIENCE_S)
