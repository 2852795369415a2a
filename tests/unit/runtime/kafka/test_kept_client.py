"""A client that is kept for one thread: when it is another, and how it is interrupted from outside."""

from collections.abc import Callable
from typing import cast

import pytest

from coordinator.runtime.kafka.access import KafkaAccess
from coordinator.runtime.kafka.client import KafkaAwayError
from coordinator.runtime.kafka.kept_client import KeptClient
from coordinator.runtime.security.reread import Reread
from tests.helpers.loopback import RememberedLog


class FakeClient:
    def __init__(self, access: KafkaAccess) -> None:
        self.access = access
        self.seen: list[str] = []
        self.fails_to_close = False

    def interrupt(self) -> None:
        self.seen.append("interrupt")

    def close(self) -> None:
        self.seen.append("close")
        if self.fails_to_close:
            raise RuntimeError("it was closed before")


class Changing:
    """Access that is another once a test says so."""

    def __init__(self) -> None:
        self.value = KafkaAccess()


def kept(
    make: Callable[[KafkaAccess], FakeClient] = FakeClient, log: RememberedLog | None = None
) -> tuple[KeptClient[FakeClient], Changing]:
    access = Changing()
    return KeptClient(make, (log or RememberedLog()).logger, cast(Reread[KafkaAccess], access)), access


def test_client_is_the_same_until_it_is_dropped_or_its_access_is_another() -> None:
    client, access = kept()
    first = client.get()
    assert client.get() is first
    client.drop()
    second = client.get()
    access.value = KafkaAccess()
    third = client.get()
    assert third.access is access.value
    assert (first.seen, second.seen, third.seen) == (["close"], ["close"], [])


def test_client_that_connects_while_it_is_interrupted_is_interrupted_then() -> None:
    def connect(access: KafkaAccess) -> FakeClient:
        client.interrupt()
        return FakeClient(access)

    client, _ = kept(connect)
    assert client.get().seen == ["interrupt"]


def test_client_that_cannot_be_closed_is_said_and_left_alone() -> None:
    log = RememberedLog()
    client, _ = kept(log=log)
    first = client.get()
    first.fails_to_close = True
    client.drop()
    assert client.get() is not first
    assert [line["event"] for line in log.lines] == ["bug"]


def test_client_that_could_not_be_made_is_tried_again() -> None:
    answers = iter((KafkaAwayError("gone"), None))

    def connect(access: KafkaAccess) -> FakeClient:
        if (error := next(answers)) is not None:
            raise error
        return FakeClient(access)

    client, _ = kept(connect)
    with pytest.raises(KafkaAwayError):
        client.get()
    assert client.get().seen == []
