"""The end of a program that has left something of a consumer undone: it ends all the same, and at once."""

import subprocess
import sys

import pytest

GIVES_UP = """
import asyncio, socket
from kcoord import AsyncConsumer

async def main():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        servers = "127.0.0.1:%d" % silent.getsockname()[1]
        async with AsyncConsumer(bootstrap_servers=servers, request_timeout_ms=100_000) as consumer:
            try:
                await asyncio.wait_for(consumer.topics(), 0.3)
            except TimeoutError:
                print("given up", flush=True)
        print("stopped", flush=True)

asyncio.run(main())
"""


FORGETS = """
import threading
from tests.helpers.fake_consuming import Rig

lock = threading.Lock()
lock.acquire()  # as one that the member's thread held when the interpreter ended
rig = Rig()
rig.poll()
rig.member.ask = lambda *_: lock.acquire()
print("done", flush=True)
"""


def end_of(program: str) -> tuple[int, list[str]]:
    """Run a program to its end, and return its exit code and what it wrote."""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    return ended.returncode, [*ended.stdout.splitlines(), *ended.stderr.splitlines()]


@pytest.mark.timeout(90)
def test_a_program_ends_though_a_question_that_it_gave_up_is_not_answered() -> None:
    assert end_of(GIVES_UP) == (0, ["given up", "stopped"])


@pytest.mark.timeout(90)
def test_a_program_ends_that_has_forgotten_a_consumer_whose_thread_stopped_with_a_lock() -> None:
    assert end_of(FORGETS) == (0, ["done"])
