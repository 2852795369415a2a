"""A ZooKeeper session that somebody else takes over: who knows its id can, since servers derive its password from it.

A server that has not been told otherwise makes the password of session `s` with `java.util.Random`, seeded with `s`
and a constant of ZooKeeper's; the generator is the one that Java's documentation defines.
"""

from typing import Final

from kazoo.client import KazooClient

_SERVERS_CONSTANT: Final = 0xB3415C00
_MULTIPLIER: Final = 0x5DEECE66D
_MASK: Final = (1 << 48) - 1
_PASSWORD_BYTES: Final = 16


def password_of(session_id: int) -> bytes:
    """Return the password that servers gave to a session."""
    state = ((session_id ^ _SERVERS_CONSTANT) ^ _MULTIPLIER) & _MASK
    password = b""
    while len(password) < _PASSWORD_BYTES:
        state = (state * _MULTIPLIER + 0xB) & _MASK
        password += ((state >> 16) & 0xFFFFFFFF).to_bytes(4, "little")
    return password


def close_session(hosts: str, session_id: int) -> None:
    """Take a session over from whoever has it, and close it; all that is ephemeral of it is gone afterwards."""
    client = KazooClient(hosts=hosts, client_id=(session_id, password_of(session_id)), timeout=4.0)
    client.start(timeout=20)
    try:
        assert client.client_id[0] == session_id, "it was refused, and another session given"
    finally:
        client.stop()
        client.close()
