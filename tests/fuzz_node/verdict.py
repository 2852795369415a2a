"""The findings of a fuzz of a node, as counts and as one line."""

from dataclasses import dataclass, field

_MOST_SAID = 20


@dataclass
class Verdict:
    """The number of frames that were sent, and what became of them and of the node."""

    frames: int = 0
    refused: int = 0
    closed: int = 0
    stopped: int = 0
    undeclared: int = 0
    unanswered: int = 0
    bugs: int = 0
    """Bugs that the node met, contained and said."""
    seconds: float = 0.0
    said: list[str] = field(default_factory=list)

    def say(self, what: str) -> None:
        """Keep a finding for people; of very many the first."""
        if len(self.said) < _MOST_SAID:
            self.said.append(what[:500])

    @property
    def is_fine(self) -> bool:
        """True when the node stayed, met no bug, answered all and said nothing but declared codes."""
        return not (self.stopped or self.undeclared or self.unanswered or self.bugs)

    def __str__(self) -> str:
        word = "OK" if self.is_fine else "FAILED"
        more = "" if self.is_fine else f" unanswered={self.unanswered} bugs={self.bugs}"
        return (
            f"fuzz-node: {word} frames={self.frames} refused={self.refused} closed={self.closed} "
            f"stopped={self.stopped} undeclared={self.undeclared}{more} seconds={self.seconds:.0f}"
        )
