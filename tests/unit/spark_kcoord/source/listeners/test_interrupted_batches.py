"""Ctrl-C while a program waits for its last micro-batch to be committed: Spark's listener and the thread go on."""

import threading
from contextlib import suppress

import pytest

import spark_kcoord.source.listeners.finished_batches
from spark_kcoord.errors import KcoordError
from spark_kcoord.source.listeners.finished_batches import FinishedBatch, FinishedBatches
from tests.helpers.signal_within import SignalWithin

HERE = str(spark_kcoord.source.listeners.finished_batches.__file__)
NOTHING = FinishedBatch("run", 1, {})


def wait_with(signal: SignalWithin) -> FinishedBatches:
    """Wait for a micro-batch that has not come, until the signal comes or for a moment."""
    finished = FinishedBatches(timeout_s=1)
    with suppress(KeyboardInterrupt, KcoordError), signal.coming():
        finished.wait("run", 1, 0.01)
    return finished


def goes_on(finished: FinishedBatches) -> bool:
    """Say whether Spark's thread can tell of a micro-batch, and it is told of."""

    def tell() -> None:
        finished.add(NOTHING)
        finished.wait("run", 1, 30)
        told.set()

    told = threading.Event()
    threading.Thread(target=tell, daemon=True).start()
    return told.wait(30)


@pytest.mark.timeout(120)
def test_ctrl_c_at_any_step_of_the_wait_leaves_listener_and_thread_at_work() -> None:
    steps = SignalWithin(HERE)
    wait_with(steps)
    assert len(steps.steps) > 5
    stuck = [step for at, step in enumerate(steps.steps, 1) if not goes_on(wait_with(SignalWithin(HERE, at)))]
    assert not stuck
