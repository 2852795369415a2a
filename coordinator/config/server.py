"""The settings of the members' port: how many may connect, how long they may take, and how much they may have wait."""

from coordinator.config.section import LONGEST_MS, Section, setting
from coordinator.protocol.session import SessionLimits

_CLIENTS = SessionLimits()
"""The limits by which members and tools cut what they say and bound what they hear; no node tells them other ones."""
_LEAST_ANSWER_BYTES = 2 * 1024 * 1024
"""More than the longest push takes, of `group.push_max_partitions` with the longest names."""


class ServerSettings(Section):
    """Connections of members and tools."""

    max_connections: int = setting(
        100_000,
        "connections",
        "More are refused. The limit on open files lowers it, which is said at the start.",
        ge=1,
        le=1_000_000,
    )
    connections_per_address: int = setting(
        20_000,
        "connections",
        "Connections from one address; of IPv6 from one network of 64 bits.",
        ge=1,
        le=1_000_000,
    )
    kept_for_members_percent: int = setting(
        10,
        "percent",
        "Part of max_connections that is kept for addresses from which members have come.",
        ge=0,
        le=90,
    )
    half_open_max: int = setting(
        5_000,
        "connections",
        "Connections whose peer is not known yet; past this the oldest of the address that has most of them is closed.",
        ge=1,
        le=1_000_000,
    )
    failures_burst: int = setting(
        100,
        "failures",
        "Refused log-ins, bad hellos and broken frames that one address may have at once before it has to wait.",
        ge=1,
        le=1_000_000,
    )
    failures_per_s: int = setting(10, "failures", "As many more it may have each second.", ge=1, le=1_000_000)
    backlog: int = setting(
        1024,
        "connections",
        "Connections that may wait to be accepted, after a restart for instance.",
        ge=16,
        le=65_535,
    )
    hello_timeout_ms: int = setting(10_000, "ms", "Time a new connection has to say its hello.", ge=100, le=600_000)
    first_request_timeout_ms: int = setting(
        60_000, "ms", "Time a connection has for its first request, from its hello on.", ge=100, le=LONGEST_MS
    )
    frame_timeout_ms: int = setting(30_000, "ms", "Time the rest of a begun frame has to come.", ge=100, le=600_000)
    read_timeout_ms: int = setting(
        30_000,
        "ms",
        "Time in which a peer that is behind with reading has to read 64 KiB, or all that waits for it.",
        ge=100,
        le=LONGEST_MS,
    )
    close_timeout_ms: int = setting(
        5_000,
        "ms",
        "Time a connection that is closed has to take its last bytes.",
        ge=100,
        le=60_000,
    )
    output_buffer_bytes: int = setting(
        32 * 1024 * 1024,
        "bytes",
        "Who lets more than this wait for it does not read and is disconnected.",
        ge=64 * 1024,
        le=1024**3,
    )
    input_total_bytes: int = setting(
        256 * 1024 * 1024,
        "bytes",
        "Frames of all connections that have begun to come; past this those are disconnected of whom most has come.",
        ge=1024 * 1024,
        le=1024**4,
    )
    requests_total_bytes: int = setting(
        256 * 1024 * 1024,
        "bytes",
        "Requests of all connections that wait for their answers. From half of it on those that send much at once are "
        "left unread, past it all.",
        ge=1024 * 1024,
        le=1024**4,
    )
    output_total_bytes: int = setting(
        256 * 1024 * 1024,
        "bytes",
        "Output that may wait for all who do not read; past this those are disconnected for whom the most waits.",
        ge=1024 * 1024,
        le=1024**4,
    )
    hello_bytes: int = setting(
        16 * 1024, "bytes", "Largest first frame, from a peer that is not known yet.", ge=64, le=1024**2
    )
    frame_bytes: int = setting(
        _CLIENTS.frame_bytes, "bytes", "Largest frame of a member.", ge=_CLIENTS.frame_bytes, le=64 * 1024**2
    )
    answer_bytes: int = setting(
        _CLIENTS.answer_bytes,
        "bytes",
        "Largest answer; whoever asks for more is told to ask for less.",
        ge=_LEAST_ANSWER_BYTES,
        le=_CLIENTS.answer_bytes,
    )
    requests_in_flight: int = setting(
        _CLIENTS.in_flight,
        "requests",
        "Requests of one connection that may wait for their answers.",
        ge=_CLIENTS.in_flight,
        le=10_000,
    )
