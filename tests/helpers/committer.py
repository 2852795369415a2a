"""A connection that keeps commits in flight, as much as a node takes, until the node closes it."""

import contextlib
import socket
import threading

from coordinator.protocol.columns import OffsetToCommit, in_columns
from coordinator.protocol.messages import CommitOffsets
from coordinator.protocol.session import ResponseReceived, Role, Session

IN_FLIGHT = 40


class Committer(threading.Thread):
    """Keeps commits in flight until the node closes the connection, and counts what was acknowledged."""

    def __init__(self, address: str, group: str) -> None:
        super().__init__(daemon=True)
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), 20)
        self._session = Session(Role.MEMBER)
        self.group = group
        self.acknowledged = 0

    def run(self) -> None:
        with contextlib.closing(self._socket), contextlib.suppress(ConnectionError):
            self._socket.sendall(self._session.send_hello())
            while data := self._socket.recv(1 << 16):
                for event in self._session.receive_bytes(data):
                    self.acknowledged += isinstance(event, ResponseReceived) and event.response.accepted == 1
                while self._session.version is not None and self._session.unanswered < IN_FLIGHT:
                    offsets = in_columns((OffsetToCommit("t", 0, self.acknowledged),))
                    self._socket.sendall(self._session.send_request(CommitOffsets(self.group, offsets))[1])
