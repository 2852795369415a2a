"""A node that resigns a shard and leads it again, beside a real disk whose writes and readings take their time."""

from pathlib import Path

import pytest

from coordinator.core.events import LeadershipGiven, LeadershipTaken
from coordinator.protocol.messages import CommitOffsetsResponse, FetchOffsets, FetchOffsetsResponse
from coordinator.runtime.disk.disk import Disk
from tests.helpers.event_loops import run
from tests.helpers.loopback import Peer, until
from tests.integration.test_bug_on_disk import Rig, ask, committing

pytestmark = pytest.mark.usefixtures("each_event_loop")


def test_shard_that_is_resigned_amid_a_write_is_read_whole_and_its_answer_never_comes(tmp_path: Path) -> None:
    async def act() -> None:
        async with Rig(tmp_path) as rig:
            peer = await Peer.connect(rig.address)
            await peer.next_event()
            rig.files.gate.clear()
            peer.writer.write(peer.session.send_request(committing(5))[1])
            await until(lambda: rig.node.hard_state(0).groups)
            rig.driver.post(LeadershipTaken(0, "somebody wanted it"))
            rig.driver.post(LeadershipGiven(0, 7))
            assert await peer.read_to_end() == b""
            await peer.close()
            rig.files.gate.set()
            found = await ask(rig, FetchOffsets("g"))
            assert isinstance(found, FetchOffsetsResponse)
            assert [each.offset for each in found.offsets] == [5]
            assert await ask(rig, committing(9)) == CommitOffsetsResponse(accepted=1)

    run(act())


def test_leaderships_that_change_faster_than_a_log_is_read_end_in_the_last_one(tmp_path: Path) -> None:
    async def act() -> None:
        async with Rig(tmp_path) as rig:
            assert await ask(rig, committing(5)) == CommitOffsetsResponse(accepted=1)
            for leader_epoch in (3, 4, 8):
                rig.driver.post(LeadershipTaken(0, "somebody wanted it"))
                rig.driver.post(LeadershipGiven(0, leader_epoch))
            assert await ask(rig, committing(9)) == CommitOffsetsResponse(accepted=1)
            assert not rig.log.of("bug")
        disk = Disk.open(tmp_path, 1, new_directory_id="", on_durable=lambda *_: None, on_failure=pytest.fail)
        try:
            assert disk.recover(0).leader_epoch == 8
        finally:
            disk.close()

    run(act())
