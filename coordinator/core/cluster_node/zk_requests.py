"""The questions to ZooKeeper of several rooms, each of which counts its own: they get numbers of the node's.

An answer goes to the room that asked, under the number that the room knows. Nothing here knows what is asked.
"""

from dataclasses import replace
from enum import Enum
from typing import TypeVar

from coordinator.core.cluster.zookeeper import ZkMulti, ZkMultiDone, ZkRead, ZkReadDone

AskedT = TypeVar("AskedT", bound=ZkMulti | ZkRead)
DoneT = TypeVar("DoneT", bound=ZkMultiDone | ZkReadDone)


class Room(Enum):
    """The rooms of a node that ask ZooKeeper."""

    REGISTRATION = "registration"
    CONTROLLER = "controller"
    OBSERVER = "observer"
    ISR_WRITES = "ISR writes"


class ZkRequests:
    """All that is asked and not answered."""

    def __init__(self) -> None:
        self._number = 0
        self._asked: dict[int, tuple[Room, int]] = {}

    def ask(self, room: Room, asked: AskedT) -> AskedT:
        """Return the question under a number of the node's."""
        self._number += 1
        self._asked[self._number] = room, asked.request_id
        return replace(asked, request_id=self._number)

    def answered(self, done: DoneT) -> tuple[Room, DoneT] | None:
        """Return whose question was answered, and the answer under its number; None for what nobody has asked."""
        found = self._asked.pop(done.request_id, None)
        return None if found is None else (found[0], replace(done, request_id=found[1]))
