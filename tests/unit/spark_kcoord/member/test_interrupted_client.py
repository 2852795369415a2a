"""Ctrl-C at any step of a call of a member's client, a fork, and a consumer that is collected: nothing is stuck."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from types import FrameType
from typing import Any

import pytest

import spark_kcoord.member.client
from spark_kcoord.member.client import MemberClient
from spark_kcoord.member.core.events import JoinCall
from tests.helpers.loopback_coordinator import LoopbackCoordinator
from tests.helpers.member_pair import settings
from tests.helpers.processes import eventually
from tests.helpers.signal_within import SignalWithin

CLIENT = spark_kcoord.member.client.__file__


@pytest.fixture
def coordinator() -> Iterator[LoopbackCoordinator]:
    with LoopbackCoordinator() as scripted:
        yield scripted


def begin(client: MemberClient) -> None:
    client.ask(JoinCall())


def go_on(client: MemberClient) -> None:
    client.polled()
    client.assignment()


def interrupted(client: MemberClient, call: Callable[[MemberClient], None], at: int) -> list[str]:
    ctrl_c = SignalWithin(CLIENT, at)
    try:
        with ctrl_c.coming():
            call(client)
    except KeyboardInterrupt:
        assert at
    return ctrl_c.steps


@pytest.mark.timeout(120)
@pytest.mark.parametrize("call", [begin, go_on])
def test_ctrl_c_at_any_step_of_a_call_leaves_the_member_at_work(
    coordinator: LoopbackCoordinator, call: Callable[[MemberClient], None]
) -> None:
    def member() -> MemberClient:
        client = MemberClient(settings(coordinators=(coordinator.address,)))
        if call is not begin:
            client.join()
        return client

    counting = member()
    steps = interrupted(counting, call, 0)
    counting.close()
    stuck = []
    for at, step in enumerate(steps, 1):
        client = member()
        interrupted(client, call, at)
        try:
            client.ask(JoinCall()).result(30)
            client.close()
        except (TimeoutError, RuntimeError) as error:
            stuck.append(f"{step}: {error!r}")
    assert not stuck, f"{len(stuck)} of {len(steps)} steps: {stuck}"


@pytest.mark.timeout(60)
def test_what_is_asked_in_the_middle_of_taking_what_was_asked_is_not_lost(coordinator: LoopbackCoordinator) -> None:
    """A consumer is collected, and leaves, wherever the collector runs: also on the thread of its own member."""
    asked: list[Future[Any]] = []

    def collect(frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code is not MemberClient._take_asked.__code__:
            return None
        if event == "line" and len(asked) < 10:
            asked.append(client.ask(JoinCall()))
        return collect

    client = MemberClient(settings(coordinators=(coordinator.address,)))
    threading.settrace(collect)
    try:
        client.join()  # by then its thread, which has taken note of the tracing, has taken what was asked
    finally:
        threading.settrace(None)
    assert eventually(lambda: len(asked) == 10)
    assert len(wait(asked, 20).done) == 10
    client.close()


@pytest.mark.timeout(60)
def test_a_forked_child_closes_a_member_without_waiting_for_a_thread_that_it_has_not(
    coordinator: LoopbackCoordinator,
) -> None:
    client = MemberClient(settings(coordinators=(coordinator.address,)))
    client.join()
    is_held, is_over = threading.Event(), threading.Event()

    def hold() -> None:
        with client._lock:
            is_held.set()
            is_over.wait(30)

    holder = threading.Thread(target=hold)
    holder.start()
    is_held.wait(30)
    child = os.fork()
    if not child:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(10)
        client.close()
        os._exit(0)
    is_over.set()
    holder.join()
    assert os.waitpid(child, 0)[1] == 0
    client.assignment()
    client.close()
