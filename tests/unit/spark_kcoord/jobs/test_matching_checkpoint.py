"""A streaming job's output knows no micro-batch that its checkpoint has not reached."""

import pytest

from spark_kcoord.jobs.matching_checkpoint import why_not_together


@pytest.mark.parametrize(
    ("written", "begun"),
    [
        ([], []),
        ([], ["0", "1"]),
        (["0", "1"], ["0", "1"]),
        (["0", "1"], ["0", "1", "2"]),
        (["9.compact", "10", ".10.crc"], ["8", "9", "10"]),
    ],
)
def test_an_output_goes_with_the_checkpoint_it_was_written_with(written: list[str], begun: list[str]) -> None:
    assert why_not_together("/out", "/cp", {"/out/_spark_metadata": written, "/cp/offsets": begun}.__getitem__) is None


@pytest.mark.parametrize(
    ("written", "begun", "words"),
    [
        (["0"], [], "up to micro-batch 0, and the checkpoint /cp is new"),
        (["9.compact", "10", "_tmp"], ["metadata"], "up to micro-batch 10, and the checkpoint /cp is new"),
        (["19.compact"], ["3", "4"], "up to micro-batch 19, and the checkpoint /cp has only reached micro-batch 4"),
    ],
)
def test_an_output_of_another_checkpoint_is_refused_with_what_to_do(
    written: list[str], begun: list[str], words: str
) -> None:
    why = why_not_together("/out", "/cp", {"/out/_spark_metadata": written, "/cp/offsets": begun}.__getitem__)
    assert why is not None
    assert words in why
    assert "A new checkpoint needs a new output" in why
