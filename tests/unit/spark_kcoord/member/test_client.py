"""The blocking client on real loopback sockets, against a scripted coordinator."""

import logging
import os
import pickle
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    Advance,
    ErrorResponse,
    FetcherStopped,
    FetchOffsets,
    FetchOffsetsResponse,
    FindCoordinator,
    FindCoordinatorResponse,
    LeaveGroup,
    ListGroups,
    ListGroupsResponse,
    RegisterConsumer,
    RegisterConsumerResponse,
)
from coordinator.protocol.parts import CommittedOffset, FinalOffset, GroupSummary
from spark_kcoord.errors import KcoordError
from spark_kcoord.member import client as member_client
from spark_kcoord.member.client import MemberClient, fetch_offsets, find_coordinator, request_once
from spark_kcoord.member.core.events import JoinCall
from spark_kcoord.member.core.machine import Member
from tests.helpers.loopback_coordinator import LoopbackCoordinator, unused_address
from tests.helpers.member_pair import accepted, claim, found, settings, start_fetcher, stop_fetcher
from tests.helpers.skipped_time import SkippedTime


@pytest.fixture
def coordinator() -> Iterator[LoopbackCoordinator]:
    with LoopbackCoordinator() as scripted:
        yield scripted


@contextmanager
def member(coordinator: LoopbackCoordinator, **changes: Any) -> Iterator[MemberClient]:
    client = MemberClient(settings(coordinators=(coordinator.address,), **changes))
    client.start()
    try:
        yield client
    finally:
        client.close()


def wait_until(condition: Callable[[], bool], what: str, timeout_s: float = 60) -> None:
    """Wait for something another thread does; the pause only spares the processor."""
    pause = threading.Event()
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline_s, f"not within {timeout_s} s: {what}"
        pause.wait(0.002)


def names_of_threads() -> set[str]:
    return {thread.name for thread in threading.enumerate()}


def why_not_joined(*coordinators: tuple[str, int]) -> str:
    """Return the error of a join, given more time where the machine was too slow for a first try."""
    said = ""
    for join_timeout_ms in (300, 3_000, 30_000):
        client = MemberClient(settings(coordinators=coordinators, join_timeout_ms=join_timeout_ms))
        with pytest.raises(KcoordError) as raised:
            client.join()
        with pytest.raises(KcoordError, match=r"kcoord\.bootstrap\.servers"):
            client.assignment()
        client.close()
        said = str(raised.value)
        if "no answer yet" not in said:
            break
    return said


# ---- a member's life ------------------------------------------------------------------------------------------------


def test_client_joins_is_assigned_claims_advances_and_leaves(coordinator: LoopbackCoordinator) -> None:
    with member(coordinator) as client:
        joined = client.join()
        assignment = client.wait_for_assignment(complete=True, timeout_s=30)
        first = client.advance((), (claim(0), claim(1)))
        statuses = client.confirm_claims((claim(0), claim(1)))
        second = client.advance((claim(0), claim(1)), (claim(0, start=5, until=9),))
        client.leave()

    assert (joined.member_id, joined.kafka_cluster_id, joined.kafka_bootstrap) == ("m1", "cluster", ("k:9092",))
    assert [part.partition for part in assignment.partitions] == [0, 1]
    assert first.claimed == (claim(0), claim(1))
    assert [status.state.name for status in statuses] == ["RUNNING", "RUNNING"]
    assert second.claimed == (claim(0, start=5, until=9),)
    assert len(coordinator.received(LeaveGroup)) == 1


def test_stop_is_obeyed_without_any_call(coordinator: LoopbackCoordinator) -> None:
    with member(coordinator) as client:
        client.join()
        client.wait_for_assignment(complete=True, timeout_s=30)
        coordinator.push(stop_fetcher(1))
        wait_until(lambda: len(coordinator.received(FetcherStopped)) == 1, "the release")
        assert coordinator.received(FetcherStopped)[0].partitions == (FinalOffset("t", 1, 10),)
        assert [part.partition for part in client.assignment().partitions] == [0]


def test_wait_for_assignment_returns_what_there_is_when_time_is_over(coordinator: LoopbackCoordinator) -> None:
    coordinator.grants = [start_fetcher(0, complete=False)]
    with member(coordinator) as client:
        client.join()
        assert not client.wait_for_assignment(complete=False, timeout_s=30).is_complete
        started_s = time.monotonic()
        late = client.wait_for_assignment(complete=True, timeout_s=0.05)
        assert time.monotonic() - started_s >= 0.05
        assert ([part.partition for part in late.partitions], late.is_complete) == ([0], False)


def test_many_threads_may_call_at_once(coordinator: LoopbackCoordinator) -> None:
    with member(coordinator) as client:
        client.join()
        outcomes: list[object] = []

        def advance(partition: int) -> None:
            outcomes.append(client.advance((), (claim(partition),)).claimed[0].partition)

        threads = [threading.Thread(target=advance, args=(partition,)) for partition in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert sorted(map(str, outcomes)) == sorted(map(str, range(20)))


def test_close_is_harmless_twice_and_says_nothing_to_the_group(coordinator: LoopbackCoordinator) -> None:
    with member(coordinator) as client:
        client.join()
        client.close()
        client.close()
        wait_until(lambda: "kcoord-member-g" not in names_of_threads(), "the end of the member's thread")
        assert not coordinator.received(LeaveGroup)
        with pytest.raises(KcoordError, match="is closed"):
            client.advance((), ())
        with pytest.raises(KcoordError, match="is closed"):
            client.assignment()
        client.leave()


def test_close_ends_the_background_thread(coordinator: LoopbackCoordinator) -> None:
    with member(coordinator, group_id="ended") as client:
        client.join()
    # A close waits for the thread no longer than a second.
    wait_until(lambda: "kcoord-member-ended" not in names_of_threads(), "the end of the member's thread")


def test_close_fails_a_call_that_waits(coordinator: LoopbackCoordinator) -> None:
    coordinator.script[Advance] = lambda _: None
    with member(coordinator) as client:
        client.join()
        errors: list[str] = []

        def advance() -> None:
            try:
                client.advance((), (claim(),))
            except KcoordError as error:
                errors.append(str(error))

        thread = threading.Thread(target=advance)
        thread.start()
        wait_until(lambda: bool(coordinator.received(Advance)), "the call")
        client.close()
        thread.join(30)
        assert len(errors) == 1
        assert "is closed" in errors[0]


def test_client_that_was_never_started_closes_too() -> None:
    client = MemberClient(settings())
    client.close()
    with pytest.raises(KcoordError, match="is closed"):
        client.join()


def test_who_stood_still_past_its_session_owns_nothing_before_its_thread_has_seen_it(
    coordinator: LoopbackCoordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    stands, goes_on = threading.Event(), threading.Event()

    def stand_still() -> None:
        if not goes_on.is_set() and client.assignment().partitions:
            stands.set()
            goes_on.wait(60)

    client = MemberClient(settings(coordinators=(coordinator.address,)), on_change=stand_still)
    try:
        client.start()
        client.ask(JoinCall())
        assert stands.wait(60)
        known = client.assignment()
        assert ([part.partition for part in known.partitions], known.is_complete) == ([0, 1], True)
        assert client.assignment() is known
        later_ms = member_client._monotonic_ms() + settings().session_timeout_ms
        monkeypatch.setattr(member_client, "_monotonic_ms", lambda: later_ms)
        woken = client.assignment()
        assert (woken.partitions, woken.is_complete, woken.member_epoch) == ((), False, known.member_epoch)
    finally:
        goes_on.set()
        client.close()


# ---- trouble --------------------------------------------------------------------------------------------------------


def test_unreachable_coordinator_is_a_clear_error() -> None:
    address = unused_address()
    said = why_not_joined(address)
    for part in ("kcoord.bootstrap.servers", f"127.0.0.1:{address[1]}", "Connection refused", "'g'"):
        assert part in said


def test_default_time_for_an_unreachable_coordinator_is_below_ten_seconds() -> None:
    assert settings().join_timeout_ms < 10_000


def test_name_that_cannot_be_resolved_is_a_clear_error() -> None:
    assert "no.such.host.invalid:7600: " in why_not_joined(("no.such.host.invalid", 7600))


@pytest.mark.parametrize("host", ["a" * 70, "bad\0name", ""])
def test_host_no_resolver_takes_is_a_clear_error(host: str) -> None:
    said = why_not_joined((host, 1))
    assert "could not be joined" in said
    assert "no answer yet" not in said


@pytest.mark.parametrize("greeting", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0\0\0\x06\0\0\0\0\0\0", b"\xff" * 64])
def test_stranger_at_the_address_is_a_clear_error(greeting: bytes) -> None:
    with LoopbackCoordinator(greeting) as stranger:
        said = why_not_joined(stranger.address)
    assert "check address and port" in said or "over the limit" in said
    assert "kcoord.bootstrap.servers" in said


def test_final_refusal_is_raised_at_once_and_by_every_later_call(coordinator: LoopbackCoordinator) -> None:
    refusal = RegisterConsumerResponse(error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message="topic t is not there")
    coordinator.script[RegisterConsumer] = lambda _: refusal
    with member(coordinator) as client:
        for _ in range(2):
            with pytest.raises(KcoordError, match="topic t is not there"):
                client.join()
        with pytest.raises(KcoordError, match="topic t is not there"):
            client.assignment()


def test_coordinator_killed_and_back_on_the_same_port_is_found_again(
    coordinator: LoopbackCoordinator, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "spark_kcoord")
    with member(coordinator) as client:
        client.join()
        client.wait_for_assignment(complete=True, timeout_s=30)
        coordinator.kill()
        outcomes: list[object] = []
        thread = threading.Thread(target=lambda: outcomes.append(client.advance((), (claim(),)).claimed))
        thread.start()
        wait_until(lambda: "disconnected" in caplog.text, "the notice")
        assert [part.partition for part in client.assignment().partitions] == [0, 1]
        coordinator.come_back()
        thread.join(30)

        assert outcomes == [(claim(),)]
        again = coordinator.received(RegisterConsumer)[-1]
        assert (again.member_id, again.owned) == ("m1", ())
        assert again.incarnation == coordinator.received(RegisterConsumer)[0].incarnation
        assert "rejoined" in caplog.text


def test_advance_whose_answer_was_lost_is_asked_again(coordinator: LoopbackCoordinator) -> None:
    tries: list[Advance] = []

    def lose_the_first(request: Advance) -> Any:
        tries.append(request)
        if len(tries) == 1:
            coordinator.drop_connections()
            return None
        return accepted(request)

    coordinator.script[Advance] = lose_the_first
    with member(coordinator) as client:
        client.join()
        client.wait_for_assignment(complete=True, timeout_s=30)
        assert client.advance((), (claim(),)).claimed == (claim(),)
        assert tries == [tries[0], tries[0]]


def test_call_without_a_coordinator_fails_at_its_time_out(coordinator: LoopbackCoordinator) -> None:
    with member(coordinator, coordinator_timeout_ms=300) as client:
        client.join()
        started_s = time.monotonic()
        coordinator.kill()
        with pytest.raises(KcoordError, match=r"kcoord\.coordinator\.timeout"):
            client.advance((), (claim(),))
        assert time.monotonic() - started_s > 0.29


def test_member_that_asks_for_nothing_is_told_that_its_coordinator_is_away(coordinator: LoopbackCoordinator) -> None:
    with member(coordinator, coordinator_timeout_ms=300) as client:
        client.join()
        known = client.wait_for_assignment(complete=True, timeout_s=30)
        started_s = time.monotonic()
        coordinator.kill()
        with pytest.raises(KcoordError, match=r"kcoord\.coordinator\.timeout"):
            client.wait_for_change(known, timeout_s=60)
        assert time.monotonic() - started_s > 0.29
        with pytest.raises(KcoordError, match=r"kcoord\.coordinator\.timeout"):
            client.assignment()
        with pytest.raises(KcoordError, match=r"kcoord\.coordinator\.timeout"):
            client.wait_for_assignment(complete=True, timeout_s=30)


def test_garbage_in_the_middle_of_a_conversation_leads_to_a_new_one(coordinator: LoopbackCoordinator) -> None:
    with member(coordinator) as client:
        client.join()
        client.wait_for_assignment(complete=True, timeout_s=30)
        coordinator.say(b"\0\0\0\x05\0\0\0\0\xc1")
        wait_until(lambda: len(coordinator.received(RegisterConsumer)) == 2, "a second registration")
        assert client.advance((), (claim(),)).claimed == (claim(),)


def test_bug_on_the_background_thread_fails_every_caller(
    coordinator: LoopbackCoordinator, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("planted")

    monkeypatch.setattr(Member, "step", fail)
    with member(coordinator) as client:
        with pytest.raises(KcoordError, match=r"stopped by a bug in kcoord \(RuntimeError: planted\)"):
            client.join()
        with pytest.raises(KcoordError, match="planted"):
            client.assignment()
    assert "Traceback" in caplog.text


def test_call_before_the_join_is_a_clear_error(coordinator: LoopbackCoordinator) -> None:
    unstarted = MemberClient(settings())
    with pytest.raises(KcoordError, match=r"call join\(\) first"):
        unstarted.advance((), ())
    with member(coordinator) as started, pytest.raises(KcoordError, match=r"call join\(\) first"):
        started.advance((), ())


# ---- its process ----------------------------------------------------------------------------------------------------


def test_client_cannot_be_pickled() -> None:
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(MemberClient(settings()))


def test_client_refuses_to_be_used_in_another_process(
    coordinator: LoopbackCoordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    with member(coordinator) as client:
        client.join()
        home = os.getpid()
        with monkeypatch.context() as patch:
            patch.setattr(os, "getpid", lambda: home + 1)
            with pytest.raises(KcoordError, match=f"belongs to process {home}"):
                client.assignment()


def test_settings_without_a_coordinator_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one coordinator"):
        settings(coordinators=())


# ---- one-shot questions ---------------------------------------------------------------------------------------------


def test_find_coordinator_names_node_and_kafka(coordinator: LoopbackCoordinator) -> None:
    answer = find_coordinator((unused_address(), coordinator.address), "g", timeout_s=30)
    assert answer.coordinator is not None
    assert (answer.coordinator.port, answer.kafka_bootstrap) == (coordinator.address[1], ("k:9092",))


def test_fetch_offsets_asks_the_groups_coordinator(coordinator: LoopbackCoordinator) -> None:
    with LoopbackCoordinator() as other:
        other.script[FetchOffsets] = lambda _: FetchOffsetsResponse(
            offsets=(CommittedOffset("t", "id", 3, 0, None, "", 1),)
        )
        coordinator.script[FetchOffsets] = lambda _: FetchOffsetsResponse(error=ErrorCode.NOT_COORDINATOR)
        coordinator.script[FindCoordinator] = lambda _: found(other.address)
        assert fetch_offsets((coordinator.address,), "g", timeout_s=30) == {("t", 3): 0}


def test_question_about_an_unknown_group_is_an_error_naming_it(coordinator: LoopbackCoordinator) -> None:
    coordinator.script[FetchOffsets] = lambda _: FetchOffsetsResponse(error=ErrorCode.GROUP_ID_NOT_FOUND)
    with pytest.raises(KcoordError, match=r"'g'.*GROUP_ID_NOT_FOUND"):
        fetch_offsets((coordinator.address,), "g", timeout_s=30)


def test_question_is_asked_again_while_the_refusal_may_pass(coordinator: LoopbackCoordinator) -> None:
    answers = iter(
        [
            ErrorResponse(error=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, message="loading"),
            ListGroupsResponse(groups=(GroupSummary("g", "Stable", 1, 1),)),
        ]
    )
    coordinator.script[ListGroups] = lambda _: next(answers)
    response = request_once((coordinator.address,), ListGroups(), timeout_s=30)
    assert response == ListGroupsResponse(groups=(GroupSummary("g", "Stable", 1, 1),))


def test_refused_question_is_an_error(coordinator: LoopbackCoordinator) -> None:
    coordinator.script[ListGroups] = lambda _: ErrorResponse(error=ErrorCode.INVALID_REQUEST, message="not so")
    with pytest.raises(KcoordError, match="not so"):
        request_once((coordinator.address,), ListGroups(), timeout_s=30)


def test_question_nobody_answers_fails_with_every_reason() -> None:
    with pytest.raises(KcoordError, match=r"Connection refused.*kcoord\.bootstrap\.servers"):
        request_once((unused_address(),), ListGroups(), timeout_s=0.3)


def test_question_to_a_silent_node_fails_in_time() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        pytest.raises(KcoordError, match=r"did not answer within 0\.\d+ s"),
    ):
        request_once((silent.getsockname(),), ListGroups(), timeout_s=0.3)


def test_question_to_a_node_that_knows_no_coordinator_fails_saying_so(
    coordinator: LoopbackCoordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coordinator.client.request.time", SkippedTime(25))
    coordinator.script[FetchOffsets] = lambda _: FetchOffsetsResponse(error=ErrorCode.NOT_COORDINATOR)
    coordinator.script[FindCoordinator] = lambda _: FindCoordinatorResponse()
    with pytest.raises(KcoordError, match="knows no coordinator"):
        fetch_offsets((coordinator.address,), "g", timeout_s=60)
    assert len(coordinator.received(FindCoordinator)) > 1


def test_coordinator_that_moved_is_found_at_an_address_known_only_from_an_earlier_answer() -> None:
    with LoopbackCoordinator() as old, LoopbackCoordinator() as new:
        old.script[FindCoordinator] = lambda _: found(old.address, new.address)
        new.grants = [start_fetcher(0, epoch=11)]
        with member(old) as client:
            client.join()
            remembered = client.advance((), ()).nodes
            old.kill()
            wait_until(lambda: bool(new.received(RegisterConsumer)), "the registration at the new coordinator")
            assert new.received(RegisterConsumer)[0].member_id == "m1"
        assert remembered == (new.address,)

        # A later process has only the checkpoint, and the option still names the node that is gone.
        later = MemberClient(settings(coordinators=(old.address,)), member_id="m1", nodes=remembered)
        try:
            assert later.join().member_id == "m1"
        finally:
            later.close()


def test_micro_batch_of_five_thousand_partitions_takes_several_requests_and_has_one_outcome(
    coordinator: LoopbackCoordinator,
) -> None:
    coordinator.grants = [start_fetcher(*range(5_000))]
    with member(coordinator) as client:
        client.join()
        client.wait_for_assignment(complete=True, timeout_s=30)
        claims = tuple(claim(number) for number in range(5_000))
        first = client.advance((), claims)
        assert first.claimed == claims
        assert [status.partition for status in client.confirm_claims(claims)] == list(range(5_000))
        second = client.advance(claims, tuple(claim(number, start=5, until=9) for number in range(5_000)))
        assert (len(second.finished), len(second.claimed)) == (5_000, 5_000)
        asked = coordinator.received(Advance)
        assert [request.keeps_offered for request in asked] == [False, True, True] * 2
        assert all(part.has_claim and part.position == 9 for part in client.assignment().partitions)
