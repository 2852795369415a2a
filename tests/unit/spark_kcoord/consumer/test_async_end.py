"""The end of a program with an asyncio consumer whose question to Kafka is never answered."""

import subprocess
import sys

import pytest

PROGRAM = """
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


@pytest.mark.timeout(90)
def test_a_program_ends_though_a_question_that_it_gave_up_is_not_answered() -> None:
    ended = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout.split("\n")[:2], ended.stderr) == (0, ["given up", "stopped"], "")
