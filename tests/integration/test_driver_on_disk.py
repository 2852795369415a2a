import asyncio
import threading
from pathlib import Path

import pytest

from coordinator.config import ServerSettings
from coordinator.core.effects import Append, Effect, Halt, Respond
from coordinator.core.events import BecameDurable, DiskFailed, Event, RequestArrived
from coordinator.protocol.messages import Ping, PingResponse
from coordinator.runtime.clock import SystemClock
from coordinator.runtime.disk.disk import Disk
from coordinator.runtime.disk.files import OsFiles
from coordinator.runtime.driver import Driver
from coordinator.runtime.server.port import Server
from tests.helpers.event_loops import run
from tests.helpers.loopback import Peer, RememberedLog, until

pytestmark = pytest.mark.usefixtures("each_event_loop")


class GatedFiles(OsFiles):
    """A disk whose syncs wait for a gate, or fail."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.syncs_begun = 0
        self.error: OSError | None = None

    def sync(self, descriptor: int) -> None:
        self.syncs_begun += 1
        assert self.gate.wait(60)
        if self.error is not None:
            raise self.error
        super().sync(descriptor)

    def write_synced(self, descriptor: int, data: bytes, position: int) -> None:
        self.write(descriptor, data, position)
        self.sync(descriptor)


class ParkingNode:
    """Appends a record for each ping and answers it when the record is durable, as the real node must."""

    def __init__(self) -> None:
        self.end = 0
        self.parked: list[tuple[int, Respond]] = []

    def start(self, now_ms: int, wall_ms: int, incarnation: str) -> list[Effect]:
        return []

    def step(self, event: Event, now_ms: int) -> list[Effect]:
        match event:
            case RequestArrived():
                append = Append(0, self.end, 0, (b"ping",))
                self.end += 1
                answer = Respond(event.connection_id, event.correlation_id, PingResponse(group_epoch=self.end))
                self.parked.append((self.end, answer))
                return [append]
            case BecameDurable():
                ready = [answer for end, answer in self.parked if end <= event.end_offset]
                self.parked = [(end, answer) for end, answer in self.parked if end > event.end_offset]
                return list(ready)
            case DiskFailed():
                return [Halt(event.why)]
            case _:
                return []


class Rig:
    def __init__(self, data_dir: Path) -> None:
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
        self.driver.connect(ParkingNode(), disk=self.disk, kafka=None, sender=self.server)  # type: ignore[arg-type]
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


def test_no_answer_leaves_before_its_record_is_on_disk(tmp_path: Path) -> None:
    async def act() -> None:
        async with Rig(tmp_path) as rig:
            peer = await Peer.connect(rig.address)
            await peer.next_event()
            rig.files.gate.clear()
            begun = rig.files.syncs_begun
            peer.writer.write(peer.session.send_request(Ping(1))[1] + peer.session.send_request(Ping(1))[1])
            await until(lambda: rig.files.syncs_begun > begun)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(peer.reader.read(1), 0.2)
            rig.files.gate.set()
            answers = [await peer.next_event(), await peer.next_event()]
            assert [getattr(answer, "response", None) for answer in answers] == [
                PingResponse(group_epoch=1),
                PingResponse(group_epoch=2),
            ]
            await peer.close()

    run(act())


def test_what_was_parked_when_the_disk_fails_is_never_said(tmp_path: Path) -> None:
    async def act() -> None:
        async with Rig(tmp_path) as rig:
            peer = await Peer.connect(rig.address)
            await peer.next_event()
            rig.files.error = OSError(5, "Input/output error")
            peer.writer.write(peer.session.send_request(Ping(1))[1])
            stopped = await rig.driver.run()
            assert stopped.is_failure
            assert "Input/output error (EIO)" in stopped.why
            await rig.server.close(stopped.why)
            assert await peer.read_to_end() == b""
            assert rig.log.of("bug") == []
            await peer.close()

    run(act())
