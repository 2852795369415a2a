"""The one exception of the demo."""


class DemoError(Exception):
    """The demo cannot go on or has shown something wrong; the text is the reason, for the demo's last line.

    `details` is what helps to find the cause, such as the end of a log; many lines, or empty.
    """

    def __init__(self, reason: str, details: str = "") -> None:
        super().__init__(reason)
        self.details = details
