"""The good client beside a node: a member in a process of its own that pings and commits all the time.

`python -m tests.standing.good_client NODE ECHO GROUP TOPIC` says `ready` once it has its partitions, goes on until
SIGTERM, comes back whenever its connection is lost, and then prints all it saw as one line of JSON. The echo is asked
as often as the node is. Knows nothing of the case.
"""

import json
import signal
import socket
import sys
import time
from contextlib import closing
from types import FrameType
from typing import Any

from coordinator.protocol.columns import OffsetToCommit, in_columns
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import CommitOffsets, Ping, Request
from tests.helpers.raw_member import RawMember

INTERVAL_S = 0.02
_RETRY_S = 0.02


class EndedError(BaseException):
    """SIGTERM came; raised wherever the client is at work, or waits for an answer."""


class GoodClient:
    """One member; `seen` is what it has to tell."""

    def __init__(self, node: str, echo: str, group: str, topic: str) -> None:
        self._member = RawMember(node, group, topic)
        self._echo = echo
        self._group, self._topic = group, topic
        self._epoch = 0
        self._next = 1
        self._asking_since_s: float | None = None
        self.seen: dict[str, Any] = {
            "pings": [],
            "echoes": [],
            "commits": [],
            "acknowledged": {},
            "lost_connections": [],
            "refused": [],
        }

    def run(self) -> None:
        """Ping and commit until SIGTERM comes; a ping that is not answered then has waited until then."""
        signal.signal(signal.SIGTERM, _end)
        host, _, port = self._echo.rpartition(":")
        try:
            self._join()
            print("ready", flush=True)
            with closing(socket.create_connection((host, int(port)), 20)) as echo:
                echo.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                while True:
                    self._turn(echo)
        except EndedError:
            if self._asking_since_s is not None:
                self._note("pings", self._asking_since_s)

    def _turn(self, echo: socket.socket) -> None:
        began_s = time.monotonic()
        echo.sendall(b"x" * 20)
        echo.recv(100)
        self._note("echoes", began_s)
        self._asking_since_s = asked_s = time.monotonic()
        try:
            answer = self._ask(Ping(self._epoch))
            self._asking_since_s = None
            self._note("pings", asked_s)
            if answer.error is not ErrorCode.NONE:
                self.seen["refused"].append((asked_s, f"a ping: {answer.error.name} {answer.message}"))
                self._join()
            self._commit()
        except (EOFError, OSError) as error:
            self._asking_since_s = None
            self.seen["lost_connections"].append((asked_s, repr(error)))
            self._join()
        time.sleep(max(0.0, began_s + INTERVAL_S - time.monotonic()))

    def _ask(self, request: Request) -> Any:
        """Ask until it is answered by more than that the same may be asked again soon."""
        while True:
            answer = self._member.ask(request)
            if getattr(answer, "error", ErrorCode.NONE) is not ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                return answer
            time.sleep(_RETRY_S)

    def _commit(self) -> None:
        offsets = [
            OffsetToCommit(topic, partition, self._next, start.owner_epoch)
            for (topic, partition), start in self._member.owned.items()
        ]
        asked_s = time.monotonic()
        answer = self._ask(CommitOffsets(self._group, in_columns(offsets)))
        self._note("commits", asked_s)
        for result in answer.refused:
            self.seen["refused"].append((asked_s, f"a commit: {result.error.name} {result.message}"))
        if answer.accepted == len(offsets):
            self.seen["acknowledged"] = {str(each.partition): self._next for each in offsets}
        self._next += 1

    def _join(self) -> None:
        """Become a member, as who it was, however long nobody listens."""
        while True:
            try:
                self._member.connect()
                answer = self._member.register()
                if answer.error is ErrorCode.NONE:
                    self._member.wait_until_complete()
                    self._epoch = answer.member_epoch
                    return
            except (EOFError, OSError, AssertionError):
                pass
            time.sleep(_RETRY_S)

    def _note(self, kind: str, began_s: float) -> None:
        self.seen[kind].append((began_s, time.monotonic() - began_s))


def _end(_number: int, _frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise EndedError


if __name__ == "__main__":
    client = GoodClient(*sys.argv[1:])
    client.run()
    print(json.dumps(client.seen), flush=True)
