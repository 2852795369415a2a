"""How many pings and commits one coordinator process takes, how long they take, and how long its loop stands still.

Members (real connections, real groups over a real topic) each own 10 partitions. Saturated rounds keep a number of
requests in flight; the paced round sends a ping every 5 ms and so sees every stall of the loop. Figures per CPU-second
divide by what the coordinator's process used. Run: `python benchmarks/coordinator_load.py --members 512 --seconds 5`.
"""

import argparse
import asyncio
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from coordinator.local.kafka import LocalKafka
from coordinator.local.node import LocalCoordinator
from coordinator.protocol.messages import (
    CommitOffsets,
    FetcherStopped,
    Ping,
    RegisterConsumer,
    Request,
    Response,
    StartFetcher,
    StopFetcher,
)
from coordinator.protocol.parts import FinalOffset, OffsetToCommit, ResetPolicy, StartPartition, Subscription
from coordinator.protocol.session import HelloReceived, PushReceived, ResponseReceived, Role, Session

PARTITIONS_OF_A_MEMBER = 10
MEMBERS_OF_A_GROUP = 8
TOPIC = "load"


class Member(asyncio.Protocol):
    """One member that owns what it is given and lets go of what it is asked for."""

    def __init__(self, group_id: str) -> None:
        loop = asyncio.get_running_loop()
        self.group_id = group_id
        self.session = Session(Role.MEMBER)
        self.opened: asyncio.Future[None] = loop.create_future()
        self.complete: asyncio.Future[None] = loop.create_future()
        self.owned: dict[tuple[str, int], StartPartition] = {}
        self.waiting: dict[int, Callable[[Response], None]] = {}
        self.next_offset = 1

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Say hello."""
        self.transport = transport
        transport.write(self.session.send_hello())  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        """Take answers and pushes."""
        for event in self.session.receive_bytes(data):
            match event:
                case ResponseReceived(correlation_id, _, response):
                    self.waiting.pop(correlation_id)(response)
                case PushReceived(StartFetcher(partitions, is_complete)):
                    self.owned |= {(own.topic, own.partition): own for own in partitions}
                    if is_complete and len(self.owned) == PARTITIONS_OF_A_MEMBER and not self.complete.done():
                        self.complete.set_result(None)
                case PushReceived(StopFetcher(partitions)):
                    for own in partitions:
                        self.owned.pop((own.topic, own.partition), None)
                    finals = tuple(FinalOffset(own.topic, own.partition, own.owner_epoch) for own in partitions)
                    self.send(FetcherStopped(finals), lambda _: None)
                case HelloReceived():
                    self.opened.set_result(None)

    def send(self, request: Request, on_answer: Callable[[Response], None]) -> None:
        """Send a request; its answer goes to `on_answer`."""
        correlation_id, data = self.session.send_request(request)
        self.waiting[correlation_id] = on_answer
        self.transport.write(data)  # type: ignore[attr-defined]

    async def ask(self, request: Request) -> Response:
        """Send a request and wait for its answer."""
        answer: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self.send(request, answer.set_result)
        return await answer

    def registration(self) -> RegisterConsumer:
        """Return the request to join."""
        return RegisterConsumer(
            group_id=self.group_id,
            member_id="",
            incarnation=os.urandom(8).hex(),
            subscription=Subscription((TOPIC,)),
            client_id="load",
            pid=os.getpid(),
            session_timeout_ms=60_000,
            rebalance_timeout_ms=60_000,
            reset_policy=ResetPolicy("earliest"),
        )

    def ping(self) -> Request:
        """Return a ping."""
        return Ping(1)

    def commit(self) -> Request:
        """Return a commit of everything owned, one further."""
        self.next_offset += 1
        return CommitOffsets(
            self.group_id,
            tuple(
                OffsetToCommit(own.topic, own.partition, self.next_offset, own.owner_epoch)
                for own in self.owned.values()
            ),
        )


async def saturate(
    members: Sequence[Member], make: Callable[[Member], Request], in_flight: int, seconds: float
) -> list[float]:
    """Keep so many requests in flight, each member at most one; return the latencies in milliseconds."""
    latencies: list[float] = []
    end_s = time.perf_counter() + seconds
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    running = min(in_flight, len(members))
    rest = list(members[running:])

    def start(member: Member) -> None:
        sent_s = time.perf_counter()

        def answered(response: Response) -> None:
            nonlocal running
            errors = [getattr(response, "error", 0), *(result.error for result in getattr(response, "results", ()))]
            if any(errors) and not done.done():
                done.set_exception(RuntimeError(f"a request was refused: {response}"))
            now_s = time.perf_counter()
            latencies.append((now_s - sent_s) * 1000)
            if now_s < end_s:
                rest.append(member)
                start(rest.pop(0)) if len(rest) > 1 else start(rest.pop())
            else:
                running -= 1
                if running == 0 and not done.done():
                    done.set_result(None)

        member.send(make(member), answered)

    for member in members[:running]:
        start(member)
    await done
    return latencies


async def pace(members: Sequence[Member], interval_s: float, seconds: float) -> list[float]:
    """Ask at fixed times and return the latencies from those times on, in milliseconds."""
    latencies: list[float] = []
    started_s = time.perf_counter()
    for number in range(int(seconds / interval_s)):
        due_s = started_s + number * interval_s
        await asyncio.sleep(max(0.0, due_s - time.perf_counter()))
        await members[number % len(members)].ask(Ping(1))
        latencies.append((time.perf_counter() - due_s) * 1000)
    return latencies


def say(name: str, latencies: list[float], seconds: float, cpu_s: float) -> None:
    """Print one line of figures."""
    latencies.sort()
    rate = len(latencies) / seconds
    print(
        f"{name:34} {rate:9.0f}/s  {len(latencies) / max(cpu_s, 1e-9):9.0f} per CPU-s  "
        f"p50 {latencies[len(latencies) // 2]:7.2f} ms  p99 {latencies[int(len(latencies) * 0.99)]:7.2f} ms  "
        f"max {latencies[-1]:7.2f} ms  CPU {cpu_s / seconds:4.2f}",
        flush=True,
    )


def node_pid(group_id: int) -> int:
    """Return the coordinator's process id; its group also holds the supervisor."""
    listing = subprocess.run(["ps", "-eo", "pid=,pgid=,args="], capture_output=True, text=True, check=True).stdout
    for line in listing.splitlines():
        pid, group, arguments = line.split(None, 2)
        if int(group) == group_id and "supervisor.py" not in arguments:
            return int(pid)
    raise SystemExit("the coordinator's process was not found")


def cpu_s_of(pid: int) -> float:
    """Return the CPU time a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def measure(node: LocalCoordinator, count: int, seconds: float) -> None:
    """Join, then run every round."""
    loop = asyncio.get_running_loop()
    pid = node_pid(node.process_group_id)
    started_s, used_s = time.perf_counter(), cpu_s_of(pid)
    members = [
        (await loop.create_connection(lambda n=n: Member(f"g{n // MEMBERS_OF_A_GROUP}"), "127.0.0.1", node.port))[1]
        for n in range(count)
    ]
    await asyncio.gather(*(member.opened for member in members))
    await asyncio.gather(*(member.ask(member.registration()) for member in members))
    await asyncio.gather(*(member.complete for member in members))
    took_s = time.perf_counter() - started_s
    print(f"{count} members joined and own everything after {took_s:.2f} s, CPU {cpu_s_of(pid) - used_s:.2f} s")

    for name, make, in_flight in (
        ("pings, 64 in flight", Member.ping, 64),
        ("pings, 256 in flight", Member.ping, 256),
        ("commits of 10, 64 in flight", Member.commit, 64),
        ("commits of 10, 256 in flight", Member.commit, 256),
    ):
        used_s = cpu_s_of(pid)
        latencies = await saturate(members, make, in_flight, seconds)
        say(name, latencies, seconds, cpu_s_of(pid) - used_s)
    used_s = cpu_s_of(pid)
    latencies = await pace(members, 0.005, seconds)
    say("pings every 5 ms (stalls)", latencies, seconds, cpu_s_of(pid) - used_s)


def main() -> None:
    """Start Kafka and a coordinator, measure, stop."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--members", type=int, default=512, help="rounded down to whole groups of 8")
    parser.add_argument("--seconds", type=float, default=5.0, help="length of each round")
    arguments = parser.parse_args()
    count = max(1, arguments.members // MEMBERS_OF_A_GROUP) * MEMBERS_OF_A_GROUP
    with tempfile.TemporaryDirectory(prefix="kcoord-load-") as name, LocalKafka(Path(name) / "kafka") as kafka:
        kafka.create_topic(TOPIC, PARTITIONS_OF_A_MEMBER * MEMBERS_OF_A_GROUP)
        settings = {"log.level": "warning"}
        with LocalCoordinator(kafka.bootstrap_servers, Path(name) / "node", settings=settings) as node:
            asyncio.run(measure(node, count, arguments.seconds))
            print(node.log_path.read_text(), end="")


if __name__ == "__main__":
    main()
