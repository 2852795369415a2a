"""Standard error of the command line: everything for people that is not data, a sentence a line.

Sentences hold names and reasons that come from members and brokers; none of them reaches the terminal unescaped.
"""

from enum import StrEnum

from coordinator.protocol.text.escaping import one_line


class DocCode(StrEnum):
    """The kinds of errors of the command line by their codes, which `kcoord explain` knows; none changes."""

    NO_ANSWER = "KC-3001"
    LATE = "KC-3002"
    NOT_LET_IN = "KC-3003"
    OTHER_RELEASE = "KC-3004"
    NOT_KNOWN_NOW = "KC-3005"
    NAME = "KC-3006"
    STATE = "KC-3007"
    KAFKA = "KC-3008"
    FILE = "KC-3009"
    INPUT = "KC-3010"
    OUTPUT = "KC-3011"
    SERVICE = "KC-3012"
    LAG = "KC-3013"
    SETTINGS = "KC-4001"
    START = "KC-4002"


class Notes:
    """Prints notes; colours only on a terminal and without NO_COLOR."""

    def print(self, sentence: str) -> None:
        """Print a sentence as one line."""
        from rich.console import Console  # a tenth of the start of a command, and most have nothing to note

        console = Console(stderr=True, highlight=False, soft_wrap=True, markup=False, emoji=False)
        console.print(one_line(sentence))

    def error(self, sentence: str, doc_code: str) -> None:
        """Print why a command fails, with the code of its kind at the end."""
        self.print(f"error: {sentence} [{doc_code}]")
