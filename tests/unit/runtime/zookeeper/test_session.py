"""One session tells of itself what kazoo's client tells of it, and nothing of what that client begins afterwards."""

from collections.abc import Callable
from typing import Any

import pytest
import structlog
from kazoo.exceptions import ConnectionLoss, NoChildrenForEphemeralsError

from coordinator.core.cluster.zookeeper import ZkEvent, ZkSession, ZkState
from coordinator.runtime.zookeeper import session as sessions
from coordinator.runtime.zookeeper.session import Session, ZooKeeperSettings

OWNER = 7


class Client:
    """The part of kazoo's client that tells of states and makes the root; `root` is the error of that."""

    root: Exception | None = None
    client_id = (OWNER, b"")
    client_state = "EXPIRED_SESSION"
    default_acl = None

    def __init__(self, **_settings: object) -> None:
        self.said: Callable[[str], None] = lambda _: None
        self.exception = self.root

    def add_listener(self, listener: Callable[[str], None]) -> None:
        self.said = listener

    def ensure_path_async(self, _path: str, _acl: object) -> "Client":
        return self

    def rawlink(self, done: Callable[[Any], None]) -> None:
        done(self)


class World:
    """A session over such a client; `told` is what it has said."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, root: Exception | None = None) -> None:
        made: list[Client] = []

        def client(**settings: object) -> Client:
            made.append(Client(**settings))
            made[0].exception = root
            return made[0]

        monkeypatch.setattr(sessions, "KazooClient", client)
        self.told: list[ZkEvent] = []
        self.lost: list[Session] = []
        settings = ZooKeeperSettings("127.0.0.1:1")
        self.session = Session(3, settings, self.told.append, self.lost.append, structlog.get_logger())
        (self.client,) = made


def test_a_session_that_is_lost_says_nothing_more_though_its_client_connects_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch)
    for state in ("CONNECTED", "LOST", "CONNECTED", "LOST"):
        world.client.said(state)
    assert world.told == [ZkSession(3, ZkState.CONNECTED, OWNER), ZkSession(3, ZkState.LOST)]
    assert world.lost == [world.session]


def test_a_path_that_cannot_be_made_is_said_and_keeps_nobody_from_hearing_that_a_server_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch, NoChildrenForEphemeralsError())
    with structlog.testing.capture_logs() as lines:
        world.client.said("CONNECTED")
    assert world.told == [ZkSession(3, ZkState.CONNECTED, OWNER)]
    (why,) = [line["why"] for line in lines if line["event"] == "zookeeper-root"]
    assert why == "/kcoord cannot be made in ZooKeeper: make it (NoChildrenForEphemeralsError)"


def test_a_path_whose_connection_ended_is_made_with_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, ConnectionLoss())
    world.client.said("CONNECTED")
    assert world.told == []
    world.client.exception = None
    world.client.said("CONNECTED")
    assert world.told == [ZkSession(3, ZkState.CONNECTED, OWNER)]
