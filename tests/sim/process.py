"""A process of an application, of whatever kind: it lives on a host, has a clock of its own, and can be stopped.

A process that is stopped (SIGSTOP) takes in later what came meanwhile. Its connections are the network's.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.sim.world import World

TopicPartition = tuple[str, int]


class Process(ABC):
    """One process, from its start to its death; a restart is another one."""

    def __init__(self, world: "World", host: str, name: str) -> None:
        self.world = world
        self.host = host
        self.name = name
        self.is_alive = True
        """It exists, and the member's session with it."""
        self.is_running = True
        """It does what it is for."""
        self.is_paused = False
        self._waiting: list[tuple[Callable[..., object], tuple[Any, ...]]] = []
        self._base_ms = world.dice.randint(0, 10**9)

    # ---- what can be seen -------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def member_id(self) -> str:
        """Its id in the group, empty until one is known."""

    @property
    @abstractmethod
    def has_joined(self) -> bool:
        """True while it believes to be a member."""

    @property
    @abstractmethod
    def is_settled(self) -> bool:
        """True when it believes to have the whole of its target."""

    @property
    @abstractmethod
    def owned(self) -> list[TopicPartition]:
        """What it believes to own."""

    # ---- what it does -----------------------------------------------------------------------------------------------

    @abstractmethod
    def start(self) -> None:
        """Begin to run."""

    @abstractmethod
    def kill(self) -> None:
        """Kill it."""

    @abstractmethod
    def stop(self) -> None:
        """Stop it in order, to be started again."""

    @abstractmethod
    def leave(self) -> None:
        """Have it leave the group for good and end."""

    @abstractmethod
    def on_connected(self, connection_id: int) -> None:
        """Take note of an open connection."""

    @abstractmethod
    def on_bytes(self, connection_id: int, data: bytes) -> None:
        """Take what came."""

    @abstractmethod
    def on_lost(self, connection_id: int, why: str) -> None:
        """Take note of a connection that failed or is gone."""

    # ---- its life ---------------------------------------------------------------------------------------------------

    def now_ms(self) -> int:
        """The monotonic time of this process."""
        return self._base_ms + self.world.schedule.now_ms

    def do(self, work: Callable[..., object], *arguments: Any) -> None:
        """Have it do something as soon as it runs; a dead one does nothing."""
        if not self.is_alive:
            return
        if self.is_paused:
            self._waiting.append((work, arguments))
        else:
            work(*arguments)

    def later(self, ms: int, work: Callable[..., object], *arguments: Any) -> None:
        """Have it do something after a while."""
        self.world.schedule.after(ms, self.do, work, *arguments)

    def end(self) -> None:
        """End it: the operating system closes its connections."""
        if self.is_alive:
            self.is_alive = self.is_running = False
            self._waiting.clear()
            self.world.network.process_ended(self)

    def vanish(self) -> None:
        """Lose the host: nobody is told."""
        self.is_alive = self.is_running = False
        self._waiting.clear()
        self.world.network.host_lost(self.host)

    def pause(self) -> None:
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused = False
        self.drain()

    def drain(self) -> None:
        """Do what came while it was stopped."""
        waiting, self._waiting = self._waiting, []
        for work, arguments in waiting:
            work(*arguments)
