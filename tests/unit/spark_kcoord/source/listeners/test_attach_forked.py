"""An attachment in a forked child of the Spark driver program, which ends with its parent's exit handlers."""

import os
import signal
from typing import Any

import pytest

from spark_kcoord.source.listeners.attachment import attach


class Session:
    """A session of Spark that has listeners alone."""

    def __init__(self) -> None:
        self.listeners: list[Any] = []
        self.streams = self

    def addListener(self, listener: Any) -> None:  # noqa: N802 (Spark's name)
        self.listeners.append(listener)

    def removeListener(self, listener: Any) -> None:  # noqa: N802
        self.listeners.remove(listener)


@pytest.mark.timeout(60)
def test_a_child_that_ends_leaves_the_listener_of_its_parent_in_place() -> None:
    session: Any = Session()
    attachment = attach(session, coordinators="c:1")
    child = os.fork()
    if not child:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(20)
        attachment.close()
        os._exit(0 if session.listeners else 1)
    assert os.waitpid(child, 0)[1] == 0
    attachment.close()
    assert not session.listeners
