"""The client for programs on an event loop: each call of `Client` runs in a thread, and is awaited here.

A call that is cancelled, or whose time is over, is left at once. What its thread has asked goes on until its answer or
the client's time-out: a change may still be done then, so look at the group before asking again. `wait` holds a thread
only while it looks. The threads are those of `asyncio.to_thread`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, Final, ParamSpec, Self, TypeVar

from spark_kcoord.client import told, values
from spark_kcoord.client.arguments import Duration
from spark_kcoord.client.client import DEFAULT_TIMEOUT_S, Client, look
from spark_kcoord.client.errors import CallTimeoutError, ClientError

_GRACE_S: Final = 0.5
"""The time after the client's in which its own error, which says more, is waited for."""

_Given = ParamSpec("_Given")
_Returned = TypeVar("_Returned")


def _awaited(
    call: Callable[Concatenate[Client, _Given], _Returned], *, is_change: bool = False
) -> Callable[Concatenate[AsyncClient, _Given], Coroutine[Any, Any, _Returned]]:
    """Return a call of `Client` as one that is awaited, with its arguments, its result and its errors."""

    @wraps(call)
    async def awaited(self: AsyncClient, /, *args: _Given.args, **kwargs: _Given.kwargs) -> _Returned:
        client = self._client
        work = asyncio.to_thread(call, client, *args, **kwargs)
        return await _within(work, client.timeout_s, is_change=is_change)

    return awaited


class AsyncClient:
    """`Client` with calls that are awaited: the same arguments, results and errors."""

    def __init__(
        self,
        coordinators: str,
        *,
        timeout: Duration = DEFAULT_TIMEOUT_S,
        security: Mapping[str, str] | None = None,
    ) -> None:
        self._client = Client(coordinators, timeout=timeout, security=security)

    @classmethod
    def from_context(cls, name: str | None = None, *, timeout: Duration = DEFAULT_TIMEOUT_S) -> Self:
        """Return a client of a cluster by its name, as `Client.from_context` does."""
        made = cls.__new__(cls)
        made._client = Client.from_context(name, timeout=timeout)
        return made

    def __repr__(self) -> str:
        """Show addresses and time-out, and no setting that may be a secret."""
        return f"Async{self._client!r}"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    async def close(self) -> None:
        """Have every later call fail with ClientClosedError."""
        self._client.close()

    groups = _awaited(Client.groups)
    describe = _awaited(Client.describe)
    members = _awaited(Client.members)
    partitions = _awaited(Client.partitions)
    lag = _awaited(Client.lag)
    committed = _awaited(Client.committed)
    events = _awaited(Client.events)
    nodes = _awaited(Client.nodes)
    shards = _awaited(Client.shards)
    pause = _awaited(Client.pause, is_change=True)
    resume = _awaited(Client.resume, is_change=True)
    drain = _awaited(Client.drain, is_change=True)
    undrain = _awaited(Client.undrain, is_change=True)
    reset_offsets = _awaited(Client.reset_offsets, is_change=True)
    delete_offsets = _awaited(Client.delete_offsets, is_change=True)
    delete = _awaited(Client.delete, is_change=True)

    async def wait(
        self,
        group: str,
        *,
        lag_below: int | None = None,
        state: str | None = None,
        members: int | None = None,
        timeout: Duration = "5m",
        every: Duration = 0.5,
    ) -> values.Group:
        """Wait as `Client.wait` does, without a thread between two looks; cancelled, it looks no more."""
        wait = self._client.waiting(
            group, lag_below=lag_below, state=state, members=members, timeout=timeout, every=every
        )

        async def looked() -> values.Group:
            while (found := await asyncio.to_thread(look, wait, group)) is None:
                await asyncio.sleep(wait.pause_s)
            return told.group_waited_for(found)

        return await _within(looked(), wait.timeout_s)


async def _within(work: Coroutine[Any, Any, _Returned], timeout_s: float, *, is_change: bool = False) -> _Returned:
    """Return what comes of work in threads, which ends itself in time; else, for what no time-out reaches, here."""
    try:
        async with asyncio.timeout(timeout_s + _GRACE_S):
            return await work
    except TimeoutError as error:
        if isinstance(error, ClientError):
            raise
        raise CallTimeoutError(
            f"The call was not over after {timeout_s:g} s: its thread waited for others, or for the look-up of a host "
            "name. Give the client more time, or the event loop's executor more threads.",
            is_retriable=not is_change,
            may_be_done=is_change,
        ) from None
