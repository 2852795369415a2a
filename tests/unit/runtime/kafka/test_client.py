"""A client of Kafka at its beginning, where something else than a broker answers."""

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from coordinator.runtime.kafka.client import KafkaAwayError, KafkaClient
from tests.helpers.waiting import wait_until


def answer(listening: socket.socket) -> None:
    """Answer each request with its number and zeros, which can be read as far as that goes and means nothing."""
    while True:
        try:
            connection, _ = listening.accept()
        except OSError:
            return
        with connection:
            while head := connection.recv(4, socket.MSG_WAITALL):
                request = connection.recv(struct.unpack(">i", head)[0], socket.MSG_WAITALL)
                said = request[4:8] + bytes(60)
                connection.sendall(struct.pack(">i", len(said)) + said)


@pytest.fixture
def no_broker() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=answer, args=(listening,), daemon=True)
        thread.start()
        yield f"127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)
        thread.join()


def held() -> set[object]:
    """Return the threads and the open files of this process, of which those of other tests may end meanwhile."""
    found: set[object] = set(threading.enumerate())
    for path in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # it is closed meanwhile, as that of the directory is
            found.add((path.name, path.readlink()))
    return found


def test_what_the_library_stumbles_over_is_no_broker_and_leaves_nothing_behind(no_broker: str) -> None:
    before = held()
    for _ in range(3):
        with pytest.raises(KafkaAwayError, match=r"does not answer as a Kafka broker \(TypeError"):
            KafkaClient([no_broker, no_broker], 20_000, 20_000)
    wait_until(lambda: not held() - before, what="all that is new is gone")


def test_a_start_that_ends_early_leaves_nothing_behind(no_broker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(KafkaClient, "_greet", stop)
    before = held()
    with pytest.raises(KeyboardInterrupt):
        KafkaClient([no_broker], 20_000, 20_000)
    wait_until(lambda: not held() - before, what="all that is new is gone")
