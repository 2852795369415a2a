"""Standard error of the command line: everything for people that is not data, a sentence a line.

Sentences hold names and reasons that come from members and brokers; none of them reaches the terminal unescaped.
"""

from coordinator.protocol.text.escaping import one_line


class Notes:
    """Prints notes; colours only on a terminal and without NO_COLOR."""

    def print(self, sentence: str) -> None:
        """Print a sentence as one line."""
        from rich.console import Console  # a tenth of the start of a command, and most have nothing to note

        console = Console(stderr=True, highlight=False, soft_wrap=True, markup=False, emoji=False)
        console.print(one_line(sentence))
