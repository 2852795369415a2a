"""The fuzzer's client itself: what it has begun to say is sent to its end before its answer is missed."""

import socket
import threading
import time
from random import Random

import pytest

from coordinator.protocol.messages import DescribeGroup, DescribeGroupResponse
from coordinator.protocol.session import RequestReceived, Role, Session
from tests.fuzz_node.verdict import Verdict
from tests.fuzz_node.wild_client import WildClient
from tests.helpers.wild_requests import Known

PATIENCE_S = 20.0


def test_a_request_that_did_not_fit_into_the_socket_is_sent_on_and_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = WildClient(server.getsockname(), Random(1), Known([], {}), Verdict())
        monkeypatch.setattr(client._requests, "any", lambda **_: DescribeGroup(group_id="g" * 900_000))
        client._dice = _Never()
        client.receive()  # connects
        peer, _ = server.accept()
        with peer:
            session = Session(Role.COORDINATOR)
            peer.sendall(session.send_hello())
            while client._session.version is None:
                client.act()
            while not client._unsent:  # nobody reads, so the socket's buffers are full at some time
                client.act()

            node = threading.Thread(target=_answer, args=(peer, session), daemon=True)
            node.start()
            deadline_s = time.monotonic() + PATIENCE_S
            while client.waits_for_answers and time.monotonic() < deadline_s:
                client.finish(0.05)
            assert client._session.unanswered == 0, client.open_requests()
            client.close()
            node.join(PATIENCE_S)


class _Never(Random):
    """Dice that bend nothing and leave nobody."""

    def random(self) -> float:
        return 0.999


def _answer(peer: socket.socket, session: Session) -> None:
    while data := peer.recv(1 << 16):
        for event in session.receive_bytes(data):
            if isinstance(event, RequestReceived):
                peer.sendall(session.send_response(event.correlation_id, DescribeGroupResponse()))
