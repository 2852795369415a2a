"""A target of the fuzzer: what reads input from outside, and the errors by which it is declared to refuse it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

Choice = TypeVar("Choice")

LARGEST_INPUT: Final = 4096


@dataclass(frozen=True)
class Target:
    """Something that reads input.

    `read` takes an input and checks what it can of the outcome; it raises one of `refusals`, or the input is a finding.
    `seeds` are inputs from which the fuzzer begins.
    """

    name: str
    read: Callable[[bytes], object]
    refusals: tuple[type[Exception], ...]
    seeds: Callable[[], Sequence[bytes]]

    def take(self, data: bytes) -> bool:
        """Have it read; return whether it was refused. Anything that is no declared refusal comes out."""
        try:
            self.read(data)
        except self.refusals:
            return True
        return False


class Taken:
    """Takes an input apart into numbers, choices, texts and bytes; what is behind its end is zero and empty."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def is_empty(self) -> bool:
        """True when all is taken."""
        return self._at >= len(self._data)

    def piece(self, count: int) -> bytes:
        """Take at most so many bytes."""
        taken = self._data[self._at : self._at + count]
        self._at += count
        return taken

    def rest(self) -> bytes:
        """Take all that is left."""
        return self.piece(len(self._data))

    def number(self, width: int = 1) -> int:
        """Take a number of so many bytes."""
        return int.from_bytes(self.piece(width), "big")

    def one_of(self, choices: Sequence[Choice]) -> Choice:
        """Take one of these."""
        return choices[self.number(1 if len(choices) <= 256 else 2) % len(choices)]

    def text(self) -> str:
        """Take a short text, of any letters."""
        return self.piece(self.number() % 40).decode(errors="surrogateescape" if self.number() % 8 == 0 else "replace")

    def changed(self, data: bytes) -> bytes:
        """Return bytes of which now and then some are others."""
        said = bytearray(data)
        for _ in range(self.number() % 8 - 4):
            said[self.number(2) % len(said)] = self.number()
        return bytes(said)

    def value(self, depth: int = 4) -> Any:
        """Take a value of any kind that msgpack has, nested at most so deeply."""
        kind = self.number() % (10 if depth else 7)
        match kind:
            case 0:
                return None
            case 1:
                return self.number() % 2 == 1
            case 2:
                return self.number()
            case 3:
                return self.number(8)
            case 4:
                return -self.number(8) // 2
            case 5:
                return self.piece(self.number() % 40).decode(errors="replace")
            case 6:
                return self.piece(self.number() % 40)
            case 7:
                return {str(number): self.value(depth - 1) for number in range(self.number() % 4)}
            case _:
                return [self.value(depth - 1) for _ in range(self.number() % 6)]
