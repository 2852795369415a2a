"""The choice of Unix sockets between Spark and its Python processes, which cost less than its TCP ones.

Spark 4.1 and later can, in classic sessions. It names such a socket ``.UUID.sock`` in the JVM's temporary directory, or
in ``spark.python.unix.domain.socket.dir``, and the session ends with an error where that path is longer than the system
allows. An older Spark passes over the settings. Decides from settings alone, without Spark; stdlib only.
"""

from __future__ import annotations

import os
import socket
import sys
import uuid
from collections.abc import Mapping
from typing import Final

__all__ = ["DIRECTORY", "ENABLED", "fits_sockets", "socket_settings", "why_no_sockets"]

ENABLED: Final = "spark.python.unix.domain.socket.enabled"
DIRECTORY: Final = "spark.python.unix.domain.socket.dir"
_BY_ENVIRONMENT: Final = "PYSPARK_UDS_MODE"
"""Spark's own default of the setting."""
_LARGEST_PATH_BYTES: Final = 107 if sys.platform == "linux" else 103
_NAME: Final = f".{uuid.UUID(int=0)}.sock"


def fits_sockets(directory: str) -> bool:
    """Say whether the path of a socket in this directory is short enough for the system."""
    return len(os.fsencode(os.path.join(directory, _NAME))) <= _LARGEST_PATH_BYTES  # noqa: PTH118 (Spark joins so)


def socket_settings(conf: Mapping[str, str], environ: Mapping[str, str], temporary_directory: str) -> dict[str, str]:
    """Return what to add to a new session's settings: the sockets, where they can work and nobody has said anything.

    ``conf`` are the settings that the session would have, ``temporary_directory`` is the JVM's. Containers of YARN have
    temporary directories of their own, whose paths are too long.
    """
    is_said = ENABLED in conf or _BY_ENVIRONMENT in environ
    is_on_yarn = conf.get("spark.master", "").startswith("yarn") and DIRECTORY not in conf
    if is_said or is_on_yarn or not hasattr(socket, "AF_UNIX"):
        return {}
    return {ENABLED: "true"} if fits_sockets(conf.get(DIRECTORY, temporary_directory)) else {}


def why_no_sockets(conf: Mapping[str, str], temporary_directory: str) -> str | None:
    """Return why a session with these settings cannot start, where that is because of its sockets."""
    directory = conf.get(DIRECTORY, temporary_directory)
    if conf.get(ENABLED, "").lower() != "true" or fits_sockets(directory):
        return None
    return (
        f"'{ENABLED}' is true, but the path of a socket in '{directory}' would be longer than the "
        f"{_LARGEST_PATH_BYTES} bytes that this system allows. Name a shorter directory that every machine has in "
        f"'{DIRECTORY}', or set '{ENABLED}' to false."
    )
