"""Rounds of load over open connections: saturated (so many requests in flight) or paced (at fixed times).

A paced request counts from the time at which it was due, so a server that stands still is charged for everything that
should have been asked meanwhile. Between rounds a load takes what comes for a while, or until something is so. Knows no
protocol: what is asked is given as a function from a peer to bytes.
"""

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from benchmarks.group_sockets import Peer, Security, Sockets

_DRAIN_S = 30.0
_TURN_S = 0.05
_LIMIT_S = 60.0

P = TypeVar("P", bound=Peer)


@dataclass(frozen=True, slots=True)
class Round:
    """The figures of one round; latencies in milliseconds, sorted."""

    latencies_ms: tuple[float, ...]
    seconds: float
    load_cpu_s: float

    @property
    def per_s(self) -> float:
        """Answers per second."""
        return len(self.latencies_ms) / self.seconds

    @property
    def load_share(self) -> float:
        """Share of its core that the load used: near 1 means that the load was the limit."""
        return self.load_cpu_s / self.seconds

    def percentile_ms(self, percent: float) -> float:
        """Return the latency that so many percent of the answers do not exceed."""
        return percentile(self.latencies_ms, percent)


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Return the smallest value that at least so many percent of the sorted values do not exceed (nearest rank)."""
    if not ordered:
        raise ValueError("there is nothing to take a percentile of")
    rank = -(-len(ordered) * percent // 100)
    return ordered[max(0, min(len(ordered), int(rank)) - 1)]


def saturate(
    sockets: Sockets[P], peers: Sequence[P], request: Callable[[P], bytes], in_flight: int, seconds: float
) -> Round:
    """Keep so many requests in flight, at most one a peer, the peers taking turns."""
    rest = deque(peers)
    latencies: list[float] = []
    now_s = time.perf_counter
    started_s, used_s = now_s(), time.process_time()
    end_s = started_s + seconds
    for _ in range(min(in_flight, len(peers))):
        peer = rest.popleft()
        peer.sent_s = now_s()
        sockets.send(peer, request(peer))
    running = min(in_flight, len(peers))
    counted = 0
    ended_s = used_at_end_s = 0.0
    while running:
        for answered in sockets.turn(_TURN_S):
            at_s = now_s()
            latencies.append((at_s - answered.sent_s) * 1000)
            rest.append(answered)
            if at_s < end_s:
                peer = rest.popleft()
                peer.sent_s = at_s
                sockets.send(peer, request(peer))
            else:
                if not ended_s:
                    counted, ended_s, used_at_end_s = len(latencies), at_s, time.process_time()
                running -= 1
        if now_s() > end_s + _DRAIN_S:
            raise RuntimeError(f"{running} requests were not answered {_DRAIN_S:g} s after the end of their round")
    return Round(tuple(sorted(latencies[:counted])), ended_s - started_s, used_at_end_s - used_s)


def pace(sockets: Sockets[P], peers: Sequence[P], request: Callable[[P], bytes], per_s: float, seconds: float) -> Round:
    """Ask at fixed times, the peers taking turns; while all wait, what is due waits too."""
    rest = deque(peers)
    latencies: list[float] = []
    now_s = time.perf_counter
    started_s, used_s = now_s(), time.process_time()
    number, total, running = 0, int(per_s * seconds), 0
    due_s = started_s
    while number < total or running:
        at_s = now_s()
        while number < total and due_s <= at_s and rest:
            peer = rest.popleft()
            peer.sent_s = due_s
            sockets.send(peer, request(peer))
            running += 1
            number += 1
            due_s = started_s + number / per_s
        wait_s = due_s - now_s() if number < total and rest else _TURN_S
        for answered in sockets.turn(max(0.0, wait_s)):
            latencies.append((now_s() - answered.sent_s) * 1000)
            rest.append(answered)
            running -= 1
        if at_s > started_s + seconds + _DRAIN_S:
            raise RuntimeError(f"{running} requests were not answered {_DRAIN_S:g} s after the end of their round")
    return Round(tuple(sorted(latencies)), now_s() - started_s, time.process_time() - used_s)


class TurningLoad(Generic[P]):
    """The connections of this process to one side, with what is done between rounds."""

    def __init__(self, limit_s: float = _LIMIT_S, security: Security | None = None) -> None:
        self.sockets: Sockets[P] = Sockets(security)
        self._limit_s = limit_s

    def close(self) -> None:
        """Close all connections."""
        self.sockets.close_all()

    def turn(self, timeout_s: float = _TURN_S) -> list[P]:
        """Take what comes; return the peers whose timed request was answered."""
        return self.sockets.turn(timeout_s)

    def turn_for(self, seconds: float) -> None:
        """Take what comes for a while."""
        end_s = time.perf_counter() + seconds
        while time.perf_counter() < end_s:
            self.turn()

    def wait_until(self, is_met: Callable[[], bool], what: str) -> None:
        """Take what comes until a condition holds; raises TimeoutError."""
        end_s = time.perf_counter() + self._limit_s
        while not is_met():
            if time.perf_counter() > end_s:
                raise TimeoutError(f"waited {self._limit_s:g} s in vain for {what}")
            self.turn()
