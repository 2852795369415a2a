"""Limits of the connections between nodes, apart from those of members."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PeerLimits:
    """Times and sizes; a frame's length is bounded by the protocol (`MAX_FRAME_BYTES` of peer_messages)."""

    ping_ms: int = 300
    """An end that has said nothing for so long says that it lives."""
    silence_ms: int = 1_500
    """A connection on which nothing came for so long is closed; so long a node has to accept one, too."""
    hello_ms: int = 3_000
    """Time that a new connection has to say an acceptable hello."""
    frame_ms: int = 30_000
    """Time the rest of a begun frame has to come."""
    close_ms: int = 1_000
    """Time a connection that is closed has to take its last bytes."""
    output_bytes: int = 64 * 1024 * 1024
    """A peer that lets more than this wait for it does not read, and its contact ends."""
    held_bytes: int = 32 * 1024 * 1024
    """Most bytes that a peer may say before the contact has begun at this end."""
    strangers: int = 64
    """Connections that may be there at once without an acceptable hello; more are closed."""
