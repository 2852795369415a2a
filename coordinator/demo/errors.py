"""The one exception of the demo."""


class DemoError(Exception):
    """The demo cannot go on or has shown something wrong; the text is the reason in its last line."""
