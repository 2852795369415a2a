"""A consumer's program of a chaos run ends in order whenever it is told to."""

from pathlib import Path

from tests.chaos_consumer.__main__ import Program

NOBODY = "127.0.0.1:1"


def test_a_program_that_is_ended_as_soon_as_it_was_started_ends_in_order(tmp_path: Path) -> None:
    with Program(tmp_path / "c", NOBODY, is_async=False) as program:
        for _ in range(2):  # what the one before has said does not count for the next
            program.start()
            program.end()
            assert program.wait(0.0) == 0
