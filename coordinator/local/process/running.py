"""A local service, or several, as a context: started when it is entered and stopped when it is left."""

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Running(ABC):
    """Something that is started and stopped, also by `with`."""

    def __enter__(self) -> Self:
        """Start it."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop it."""
        self.stop()

    @abstractmethod
    def start(self) -> None:
        """Start it and return when it serves; raises LocalServiceError."""

    @abstractmethod
    def stop(self) -> None:
        """Stop it and return when it is gone; does nothing if it does not run."""
