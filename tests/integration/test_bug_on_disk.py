"""A bug of ours beside a real disk: the shard is read again from its files while the node goes on."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from coordinator.config import ServerSettings
from coordinator.core.limits import Limits
from coordinator.core.node import Node
from coordinator.protocol.columns import OffsetToCommit, in_columns
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    CommitOffsets,
    CommitOffsetsResponse,
    ErrorResponse,
    FetchOffsets,
    FetchOffsetsResponse,
    Request,
    Response,
)
from coordinator.protocol.parts import NodeAddress
from coordinator.protocol.session import ResponseReceived
from coordinator.runtime.clock import SystemClock
from coordinator.runtime.disk.disk import Disk
from coordinator.runtime.driver import Driver
from coordinator.runtime.server.port import Server
from tests.helpers.event_loops import run
from tests.helpers.loopback import Peer, RememberedLog, until
from tests.helpers.planted_bugs import plant
from tests.helpers.silent_kafka import SilentKafka
from tests.integration.test_driver_on_disk import GatedFiles

pytestmark = pytest.mark.usefixtures("each_event_loop")


class Rig:
    """A node on a real disk, for tools; its Kafka says nothing."""

    def __init__(self, data_dir: Path, wrap: Callable[[Disk], object] = lambda disk: disk) -> None:
        self.log = RememberedLog()
        self.files = GatedFiles()
        self.driver = Driver(SystemClock(), self.log.logger, asyncio.get_running_loop())
        self.server = Server(ServerSettings(max_connections=10), self.driver, self.driver.clock, self.log.logger)
        self.disk = Disk.open(
            data_dir,
            1,
            new_directory_id="d",
            on_durable=self.driver.became_durable,
            on_failure=self.driver.disk_failed,
            files=self.files,
        )
        self.disk.recover(0)
        self.node = Node(Limits(), 1, NodeAddress(0, "localhost", 1), ("k:9092",))
        disk: Any = wrap(self.disk)
        self.driver.connect(self.node, disk=disk, kafka=SilentKafka(), sender=self.server)
        self.driver.start()

    async def __aenter__(self) -> "Rig":
        self.address = await self.server.bind("127.0.0.1", 0)
        await self.server.accept()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.files.gate.set()
        self.driver.stop("the test is over")
        await self.server.close("the test is over")
        await asyncio.to_thread(self.disk.close)


async def ask(rig: Rig, request: Request) -> Response:
    """Ask on a connection of its own until the shard is in service."""
    async with asyncio.timeout(60):
        while True:
            peer = await Peer.connect(rig.address)
            await peer.next_event()
            peer.writer.write(peer.session.send_request(request)[1])
            event = await peer.next_event()
            await peer.close()
            assert isinstance(event, ResponseReceived)
            if not isinstance(event.response, ErrorResponse):
                return event.response
            assert event.response.error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def committing(offset: int) -> CommitOffsets:
    return CommitOffsets("g", in_columns([OffsetToCommit("t", 0, offset)]))


def test_bug_costs_one_request_and_what_was_written_before_it_stays(tmp_path: Path) -> None:
    async def act() -> None:
        async with Rig(tmp_path) as rig:
            peer = await Peer.connect(rig.address)
            await peer.next_event()
            rig.files.gate.clear()
            peer.writer.write(peer.session.send_request(committing(5))[1])
            await until(lambda: rig.node.hard_state(0).groups)
            plant(rig.node, 0, 1, is_after=True)
            peer.writer.write(peer.session.send_request(committing(9))[1])
            await until(lambda: rig.log.of("bug"))
            rig.files.gate.set()
            answer = await peer.next_event()
            assert isinstance(answer, ResponseReceived)
            assert answer.response == CommitOffsetsResponse(accepted=1)
            assert await peer.read_to_end() == b""
            await peer.close()
            found = await ask(rig, FetchOffsets("g"))
            assert isinstance(found, FetchOffsetsResponse)
            assert [each.offset for each in found.offsets] == [5]
            assert await ask(rig, committing(7)) == CommitOffsetsResponse(accepted=1)
            (line,) = rig.log.of("bug")
            assert line["why"].startswith("CommitOffsets (1 offsets) met a bug at planted_bugs.py:")
            assert type(line["exc_info"]).__name__ == "PlantedBugError"

    run(act())


def test_records_that_the_disk_does_not_take_cost_their_shard_a_load(tmp_path: Path) -> None:
    class Refusing:
        """A disk that once finds the records odd."""

        def __init__(self, disk: Disk) -> None:
            self._disk = disk
            self.left = 1

        def append(self, *arguments: object) -> None:
            is_beginning = arguments[1] == 0
            if self.left and not is_beginning:
                self.left -= 1
                raise ValueError("shard 0: append at offset 7, but the log ends at 0")
            self._disk.append(*arguments)  # type: ignore[arg-type]

        def __getattr__(self, name: str) -> object:
            return getattr(self._disk, name)

    async def act() -> None:
        async with Rig(tmp_path, Refusing) as rig:
            peer = await Peer.connect(rig.address)
            await peer.next_event()
            peer.writer.write(peer.session.send_request(committing(5))[1])
            assert await peer.read_to_end() == b""
            await peer.close()
            assert await ask(rig, committing(7)) == CommitOffsetsResponse(accepted=1)
            assert [line["why"] for line in rig.log.of("bug")] == [
                "the log of shard 0 did not take records; it is loaded again"
            ]

    run(act())
