"""The probes and metrics of a node's admin port, asked for and judged; what is needed of the metrics is read here.

The pages are our own: a line of the metrics is a name, labels or none, and a value.
"""

import re
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from typing import Final

from coordinator.cli.diagnosis.doctor_check import SLOW_FSYNC_MS, Check
from coordinator.protocol.text.addresses import Address, format_address

MOST_BYTES: Final = 16 * 1024 * 1024
"""A page is read so far, which is as long as that of some 100,000 partitions."""
_SAMPLE: Final = re.compile(r"^(\w+)(\{.*\})? (\S+)$", re.MULTILINE)
_STATE: Final = re.compile(r'^kcoord_zk_session_state\{state="(\w+)"\} 1', re.MULTILINE)


class PageError(Exception):
    """A page that did not come; the text says why."""


@dataclass(frozen=True, slots=True)
class Page:
    """A page: its status, its text, and whether that was cut because it is too long."""

    status: int
    text: str
    is_cut: bool = False


def read_page(address: Address, path: str, timeout_s: float) -> Page:
    """Return a page of an admin port, all of which comes within the time; raises PageError."""
    where = f"{format_address(address)}{path}"
    connection = HTTPConnection(*address, timeout=timeout_s)
    until_s = time.monotonic() + timeout_s
    late = threading.Event()
    end: threading.Timer | None = None
    try:
        connection.connect()
        # A time-out of the socket is that of each read, which a port that trickles never lets come.
        end = threading.Timer(max(0.0, until_s - time.monotonic()), _cut_off, (connection.sock, late))
        end.daemon = True
        end.start()
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read(MOST_BYTES + 1)
    except (OSError, HTTPException, ValueError) as error:
        is_late = late.is_set() or isinstance(error, TimeoutError)
        why = "timed out" if is_late else getattr(error, "strerror", None) or repr(error)
        raise PageError(f"{where} cannot be read: {why}") from error
    finally:
        if end is not None:
            end.cancel()
        connection.close()
    if late.is_set():
        raise PageError(f"{where} cannot be read: timed out")
    text = body[:MOST_BYTES].decode(errors="replace")
    is_cut = len(body) > MOST_BYTES
    return Page(answer.status, text[: text.rfind("\n") + 1] if is_cut else text, is_cut)


def _cut_off(connection: socket.socket, late: threading.Event) -> None:
    late.set()
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def admin_checks(addresses: tuple[Address, ...], timeout_s: float) -> Iterator[Check]:
    """Yield the checks of admin ports, or that none was named."""
    if not addresses:
        yield Check("admin", "skip", "not named", "name nodes' admin.listen with --admin, for probes and fsync times")
    for address in addresses:
        where = format_address(address)
        try:
            yield ready_check(where, read_page(address, "/readyz", timeout_s))
            metrics = read_page(address, "/metrics", timeout_s).text
        except PageError as error:
            yield Check(
                "admin", "fail", where, f"{error}; is it that node's admin.listen, and may this machine ask it?"
            )
            continue
        yield fsync_check(where, samples(metrics))
        yield from session_checks(where, metrics)


def ready_check(where: str, page: Page) -> Check:
    """Check whether a node lets members in, by its own word."""
    said = page.text.strip()
    if page.status != 200:
        return Check("admin", "fail", where, f"{said}; members are not let in there: look at that node's log")
    if said != "ready":
        return Check("admin", "warn", where, f"{said}; its log has the line and docs/OPERATIONS.md what to do")
    return Check("admin", "ok", where, said)


def fsync_check(where: str, told: Mapping[str, float]) -> Check:
    """Check the mean time of a sync of a shard's log since the node started, of which every commit waits for one."""
    count, sum_s = told.get("kcoord_fsync_seconds_count", 0.0), told.get("kcoord_fsync_seconds_sum", 0.0)
    if not count:
        return Check("fsync", "skip", where, "it has not synced anything yet, or tells nothing of it")
    mean_ms = sum_s / count * 1000
    value = f"{where} {mean_ms:.2f} ms"
    why = f"mean of {count:.0f} since it started"
    if mean_ms > SLOW_FSYNC_MS:
        return Check("fsync", "warn", value, f"{why}; every commit waits for one: give node.data_dir a faster disk")
    return Check("fsync", "ok", value, why)


def session_checks(where: str, metrics: str) -> Iterator[Check]:
    """Yield a check of the session with ZooKeeper, of a node of a cluster."""
    state = _STATE.search(metrics)
    if state is None:
        return
    if state[1] == "registered":
        yield Check("zk-session", "ok", f"{where} {state[1]}")
    else:
        why = "it leads nothing new until it is registered: look at ZooKeeper's servers and at its zookeeper.hosts"
        yield Check("zk-session", "fail", f"{where} {state[1]}", why)


def samples(metrics: str) -> dict[str, float]:
    """Return the samples without labels, by name; what else is on the page is passed over, which may be another's."""
    found: dict[str, float] = {}
    for name, labels, value in _SAMPLE.findall(metrics):
        if not labels:
            with suppress(ValueError):
                found[name] = float(value)
    return found
