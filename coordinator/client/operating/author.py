"""The author of a change as the coordinator records it: the user and the host of this process."""

import getpass
import os
import socket


def who_asks() -> str:
    """Return `user@host` of this process, in characters that can be printed."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = f"uid-{os.getuid()}"
    name = f"{user}@{socket.gethostname()}"
    return "".join(letter if letter.isprintable() else "?" for letter in name)[:250]
