"""The one exception of this room."""


class LocalServiceError(Exception):
    """Says why a local service cannot be installed, started or stopped, to the person at the keyboard."""
