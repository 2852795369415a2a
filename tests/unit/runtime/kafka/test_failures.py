"""The reasons that people read when Kafka cannot be asked: what is, and not what the library happened to raise."""

import socket
import subprocess
import sys

import pytest
from kafka.errors import (
    KafkaConnectionError,
    KafkaTimeoutError,
    RequestTimedOutError,
    TopicAuthorizationFailedError,
)

from coordinator.runtime.kafka.client import KafkaAwayError, KafkaClient
from coordinator.runtime.kafka.failures import say_failure, why_no_descriptor

ASKS_WITH_FEW_DESCRIPTORS = """
import os, resource, socket, sys
from coordinator.runtime.kafka.client import KafkaAwayError, KafkaClient

listening = socket.create_server(("127.0.0.1", 0))  # accepts and says nothing
address = f"127.0.0.1:{listening.getsockname()[1]}"
resource.setrlimit(resource.RLIMIT_NOFILE, (256, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
held = []
try:
    while True:
        held.append(os.dup(0))
except OSError:
    pass
for _ in range(int(sys.argv[1])):
    os.close(held.pop())
try:
    KafkaClient([address], 300, 300)
except KafkaAwayError as error:
    sys.stdout.write(str(error))
"""


def said_with(free: int) -> str:
    """Return the error of a process that has so many file descriptors left."""
    command = [sys.executable, "-c", ASKS_WITH_FEW_DESCRIPTORS, str(free)]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout


@pytest.mark.parametrize("free", range(4))
def test_process_without_descriptors_is_told_so_and_not_that_kafka_is_none(free: int) -> None:
    said = said_with(free)
    assert "no file descriptor left for a connection (its limit is 256); raise the limit with `ulimit -n`" in said
    assert "broker" not in said


def test_bootstrap_server_that_is_no_name_is_told_and_costs_no_other_one() -> None:
    """The server behind it was never asked, and the node told of a bug of its own."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        second = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(KafkaAwayError) as raised:
            KafkaClient(["kafka-1..example:9092", second], 300, 300)
    said = str(raised.value)
    assert "kafka-1..example:9092 names no host that a name server could be asked for" in said
    assert "does not answer as a Kafka broker in 300 ms" in said


def test_silence_is_told_as_silence() -> None:
    assert "does not answer as a Kafka broker in 300 ms; it is none, or it is stopped or overloaded" in said_with(20)
    assert why_no_descriptor() is None


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            RequestTimedOutError(),
            "a broker that was asked said nothing for 5000 ms; it is stopped, overloaded or cut off "
            "(RequestTimedOutError)",
        ),
        (
            KafkaTimeoutError("Unable to bootstrap"),
            "a broker that was asked said nothing for 5000 ms; it is stopped, overloaded or cut off "
            "(KafkaTimeoutError)",
        ),
        (KafkaConnectionError("Closed by peer."), "the connection to a broker broke: Closed by peer"),
        (TopicAuthorizationFailedError(), "TopicAuthorizationFailedError: "),
        (OSError(113, "No route to host"), "No route to host"),
        (RuntimeError("the loop has ended"), "the loop has ended"),
        (RuntimeError(), "RuntimeError"),
    ],
)
def test_failures_are_words(error: Exception, said: str) -> None:
    assert say_failure(error, 5_000).startswith(said)
    assert "[Error" not in say_failure(error, 5_000)
