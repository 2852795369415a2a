"""The lines of a node: to a reader that has stopped, and when somebody makes it say the same all the time."""

import os
import threading

from tests.standing.case import Case, must
from tests.standing.load import for_so_long, say_bytes
from tests.standing.trial import Trial

STRANGER = b"GET / HTTP/1.1\r\n\r\n"
MOST_SAID_BYTES = 4 << 20
STRANGERS = 1_000


def nobody_reads(trial: Trial) -> None:
    """Make a node say far more than a pipe holds, and read nothing of it; then have it stop."""
    pipe_out, pipe_in = os.pipe()
    try:
        node = trial.start(stderr=pipe_in)
        trial.beside()
        for _ in range(STRANGERS):
            say_bytes(trial.address, STRANGER)
        trial.stop()
        must(not node.is_running, "it is told to stop and is there")
        trial.start()
    finally:
        os.close(pipe_out)
        os.close(pipe_in)


def reader_gone(trial: Trial) -> None:
    """Close the end of the pipe that was to be read, as when a log collector dies."""
    pipe_out, pipe_in = os.pipe()
    try:
        trial.start(stderr=pipe_in)
        trial.beside()
        os.close(pipe_out)
        for _ in range(100):
            say_bytes(trial.address, STRANGER)
    finally:
        os.close(pipe_in)


def flood_of_lines(trial: Trial) -> None:
    """Have strangers come for seconds, each of which is a line."""
    node = trial.start("log.most_per_minute=100")
    trial.beside()
    came = [0]

    def come() -> None:
        came[0] += for_so_long(5, lambda: say_bytes(trial.address, STRANGER))

    threads = [threading.Thread(target=come, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    must(came[0] > 500, f"only {came[0]} strangers came")
    said = node.said.count('"stranger"')
    must(said <= 110, f"{said} lines for {came[0]} strangers")


CASES = [
    Case("stderr-unread", "a node whose standard error nobody reads goes on and stops in order", nobody_reads),
    Case("stderr-closed", "a node whose standard error is closed at the other end goes on", reader_gone),
    Case("flood-of-lines", "a flood of one kind of line is bounded in the log", flood_of_lines),
]
