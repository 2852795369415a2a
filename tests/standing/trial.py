"""One case under way: its node, the good client beside it, and the verdict on both.

A node is started over a folder of the case's own, and may be stopped, killed and started again; all it says is in one
file. The verdict stops it, starts it once more, and looks whether every acknowledged commit is there.
"""

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from coordinator.local.kafka.broker import LocalKafka
from coordinator.local.process.ports import LOOPBACK, free_ports
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import FetchOffsets
from tests.helpers.node_process import NodeProcess
from tests.helpers.raw_member import RawMember
from tests.standing.case import BrokenError, must
from tests.standing.waits import Window, judge

PARTITIONS = 4
_PATIENCE_S = 60.0
_AFTERWARDS_S = 1.0
"""The time that the good client goes on after the harm."""
_TAIL = 1500


class Trial:
    """The means of a case; a context manager that leaves nothing running."""

    def __init__(self, name: str, folder: Path, kafka: LocalKafka, echo: str) -> None:
        self.name = name
        self.folder = folder
        self.kafka = kafka
        self.group = f"good-{name}"
        self.is_over = False
        """True once the node is to be gone: its end was what the case asked for."""
        self.is_traceback_expected = False
        self._echo = echo
        self._topic = f"good-{name}"
        (self.port,) = free_ports(1)
        self._node: NodeProcess | None = None
        self._settings: tuple[str, ...] = ()
        self._how: dict[str, Any] = {}
        self._client: subprocess.Popen[str] | None = None
        self._apart: list[Window] = []
        self._only_from_s = 0.0
        self._asked_losses = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._client is not None:
            self._client.kill()
            self._client.wait(_PATIENCE_S)
            assert self._client.stdout is not None
            self._client.stdout.close()
        if self._node is not None:
            self._node.kill()

    # ---- the node ---------------------------------------------------------------------------------------------------

    @property
    def node(self) -> NodeProcess:
        """The node as it runs now."""
        assert self._node is not None, "the case has not started its node"
        return self._node

    @property
    def address(self) -> str:
        """HOST:PORT of the node, the same over restarts."""
        return f"{LOOPBACK}:{self.port}"

    def start(self, *settings: str, patience_s: float = _PATIENCE_S, **how: Any) -> NodeProcess:
        """Start the node and return it when it serves: as it was started before, but for what is named.

        `how` is what NodeProcess takes: `environment`, `before`, `data_dir`, `stderr`.
        """
        node = self.launch(*settings, **how)
        node.wait_until_it_serves(patience_s)
        return node

    def launch(self, *settings: str, **how: Any) -> NodeProcess:
        """Start the node, as `start` does, and return it at once."""
        self._settings = settings or self._settings
        self._how |= how
        self._node = NodeProcess(
            self.folder / "node",
            *self._settings,
            kafka=self.kafka.bootstrap_servers,
            listen=self.address,
            **self._how,
        )
        return self._node

    def stop(self) -> None:
        """Have the node stop in order."""
        self._asked_losses += 1
        code = self.node.stop()
        must(code == 0, f"told to stop it ended with {code}: {self.node.said[-_TAIL:]}", kind="stopped")

    def kill(self) -> None:
        """End the node as a power cut would."""
        self._asked_losses += 1
        self.node.kill()

    def must_end(self, code: int, word: str, patience_s: float = _PATIENCE_S) -> None:
        """Wait until the node has ended by itself with this code and word, as the case asks it to."""
        self._asked_losses += 1
        try:
            ended = self.node.process.wait(patience_s)
        except subprocess.TimeoutExpired as error:
            raise BrokenError("wrong", f"it has not ended in {patience_s:g} s: {self.node.said[-_TAIL:]}") from error
        said = self.node.said
        must(ended == code and word in said, f"it ended with {ended} and these words: {said[-_TAIL:]}", kind="stopped")

    # ---- the good client --------------------------------------------------------------------------------------------

    def beside(self) -> None:
        """Have the good client at work from now on."""
        self.kafka.create_topic(self._topic, PARTITIONS)
        self._client = subprocess.Popen(
            [sys.executable, "-m", "tests.standing.good_client", self.address, self._echo, self.group, self._topic],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._client.stdout is not None
        must(self._client.stdout.readline() == "ready\n", "the good client could not join its group")

    @contextmanager
    def set_apart(self) -> Iterator[None]:
        """Count no wait of the good client within the block, where the case itself has it wait."""
        began_s = time.monotonic()
        try:
            yield
        finally:
            self._apart.append((began_s, time.monotonic()))

    @contextmanager
    def only_this(self) -> Iterator[None]:
        """Count only the waits within the block and after it, so that what comes before it cannot hide them."""
        self._only_from_s = time.monotonic()
        yield

    # ---- the verdict ------------------------------------------------------------------------------------------------

    def why_stopped(self) -> str | None:
        """Say how the node ended when it was not to."""
        if self._node is None or self._node.is_running or self.is_over:
            return None
        return f"the node ended with {self._node.process.returncode}: {self._node.said[-_TAIL:]}"

    def verdict(self) -> str:
        """Raise BrokenError for what did not hold, and return the figures of what did."""
        why_stopped = self.why_stopped()
        if why_stopped is not None:
            raise BrokenError("stopped", why_stopped)
        figures = "no good client"
        seen: dict[str, Any] = {"acknowledged": {}}
        if self._client is not None:
            if not self.is_over:
                threading.Event().wait(_AFTERWARDS_S)
            seen = self._seen()
            figures = self._judge(seen)
        if self._node is None:
            return figures
        said = self.node.log_path.read_text(errors="replace")
        must(
            "Traceback" not in said, f"the node says a traceback: {said[max(0, said.find('Traceback') - 500) :][:2500]}"
        )
        if not self.is_over:
            self.stop()
        self.is_over = True
        self._must_have(seen["acknowledged"])
        return figures

    def _seen(self) -> dict[str, Any]:
        assert self._client is not None
        self._client.send_signal(signal.SIGTERM)
        said, _ = self._client.communicate(timeout=_PATIENCE_S)
        seen: dict[str, Any] = json.loads(said.splitlines()[-1])
        return seen

    def _judge(self, seen: dict[str, Any]) -> str:
        refused, lost = seen["refused"], seen["lost_connections"]
        must(not refused, f"the good client was refused {len(refused)} times, first {refused[:1]}")
        must(
            len(lost) <= self._asked_losses,
            f"the good client lost its connection {len(lost)} times, and {self._asked_losses} were asked for: {lost}",
        )
        must(bool(seen["pings"]) and bool(seen["acknowledged"]), "the good client was never answered")
        waits = judge(seen["pings"], seen["echoes"], [*self._apart, (0.0, self._only_from_s)])
        must(not waits.is_slow, str(waits), kind="slow")
        return f"{waits}; {len(seen['commits'])} commits"

    def _must_have(self, acknowledged: Mapping[str, int]) -> None:
        """Start the node as its operator would, and look for what was acknowledged."""
        node = self.start(environment={}, stderr=None)
        try:
            with RawMember(self.address, self.group) as tool:
                answer = tool.ask(FetchOffsets(self.group))
        finally:
            node.kill()
        must(answer.error is ErrorCode.NONE or not acknowledged, f"the group is gone: {answer.message}", kind="lost")
        found = {str(each.partition): each.offset for each in answer.offsets}
        gone = {key: (offset, found.get(key)) for key, offset in acknowledged.items() if found.get(key, -1) < offset}
        must(not gone, f"acknowledged, and what is there after a start: {gone}", kind="lost")
