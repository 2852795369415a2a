"""A dialing that is given up at the worst moment leaves no connection that its protocol takes for one that lives."""

import asyncio

import pytest

from coordinator.runtime.peers.dialing import dial
from tests.helpers.event_loops import run

pytestmark = pytest.mark.usefixtures("each_event_loop")


class Caller(asyncio.Protocol):
    """Gives up the task that dials as soon as the connection is made."""

    def __init__(self) -> None:
        self.dialing: asyncio.Task[None] | None = None
        self.is_made = self.is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.is_made = True
        assert self.dialing is not None
        self.dialing.cancel()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True


def test_a_protocol_whose_dialing_is_given_up_as_its_connection_is_made_is_told_that_it_is_lost() -> None:
    async def whole() -> None:
        server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
        caller = Caller()
        address = server.sockets[0].getsockname()
        caller.dialing = asyncio.ensure_future(dial([address], lambda _: caller, 5_000))
        with pytest.raises(asyncio.CancelledError):
            await caller.dialing
        assert caller.is_made
        assert caller.is_lost
        server.close()

    run(asyncio.wait_for(whole(), 60))
