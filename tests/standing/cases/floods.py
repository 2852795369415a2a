"""Floods: of connections, of frames, of requests, and of answers that nobody reads."""

import os
import random
import socket
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress

from coordinator.local.process.ports import LOOPBACK
from coordinator.protocol.messages import ListGroups
from coordinator.protocol.session import Role, Session
from tests.standing.case import Case, must
from tests.standing.load import for_so_long, resident_mib, say_bytes, wait
from tests.standing.trial import Trial

SECONDS = 4.0
MOST_GROWTH_MIB = 500


def beside_each_other(count: int, act: Callable[[], None], *, least: int = 0) -> int:
    """Do something on several threads, over and over, until it was done often enough; return how often in all."""
    done: list[int] = []

    def keep_at_it() -> None:
        times = for_so_long(SECONDS, act)
        while times * count < least:
            act()
            times += 1
        done.append(times)

    threads = [threading.Thread(target=keep_at_it, daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS + 60)
    must(len(done) == count, "the flood has not ended")
    return sum(done)


def of_connections(trial: Trial) -> None:
    """Connect and go, thousands of times, and keep a thousand connections that say nothing."""
    trial.start()
    trial.beside()

    def come_and_go() -> None:
        with suppress(OSError), socket.create_connection((LOOPBACK, trial.port), 10) as one:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")

    with ExitStack() as opened:
        for _ in range(1_000):
            opened.enter_context(socket.create_connection((LOOPBACK, trial.port), 10))
        count = beside_each_other(2, come_and_go)
    must(count > 500, f"only {count} connections came")


def of_wild_frames(trial: Trial) -> None:
    """Send frames of chance: to strangers' connections, and after a hello."""
    trial.start()
    trial.beside()
    chance = random.Random(16)
    hello = Session(Role.MEMBER).send_hello()

    def send() -> None:
        body = chance.randbytes(chance.randrange(1, 2_000))
        frame = len(body).to_bytes(4, "big") + body
        with suppress(OSError):
            say_bytes(trial.address, (hello if chance.random() < 0.8 else b"") + frame * chance.randrange(1, 20))

    beside_each_other(2, send, least=200)


def of_requests(trial: Trial) -> None:
    """Send as many requests at once as a connection may, on several connections, and read the answers slowly."""
    trial.start()
    trial.beside()

    def ask() -> None:
        session = Session(Role.MEMBER)
        with suppress(OSError), socket.create_connection((LOOPBACK, trial.port), 10) as one:
            one.sendall(session.send_hello())
            while session.version is None:
                list(session.receive_bytes(one.recv(1 << 16)))
            for _ in range(5):
                one.sendall(b"".join(session.send_request(ListGroups())[1] for _ in range(60)))
                while session.unanswered:
                    list(session.receive_bytes(one.recv(1 << 16)))

    must(beside_each_other(2, ask) >= 10, "the flood was none")


def of_large_frames(trial: Trial) -> None:
    """Begin frames of the largest size and never end them, on many connections."""
    node = trial.start()
    trial.beside()
    hello = Session(Role.MEMBER).send_hello()
    begun = (1 << 20).to_bytes(4, "big") + os.urandom(900_000)
    before = resident_mib(node.process.pid)
    with ExitStack() as opened:
        for _ in range(800):
            one = opened.enter_context(socket.create_connection((LOOPBACK, trial.port), 10))
            one.settimeout(5)
            with suppress(OSError):
                one.sendall(hello + begun)
        wait(3)
        grown = resident_mib(node.process.pid) - before
    must(grown < MOST_GROWTH_MIB, f"frames that are not whole took {grown} MiB")


CASES = [
    Case("flood-of-connections", "a flood of connections keeps nobody waiting", of_connections),
    Case("flood-of-wild-frames", "frames of chance end their connection and nothing else", of_wild_frames),
    Case("flood-of-requests", "connections that ask as much as they may keep nobody else waiting", of_requests),
    Case("flood-of-begun-frames", "frames that are begun and not ended keep nobody waiting", of_large_frames),
]
