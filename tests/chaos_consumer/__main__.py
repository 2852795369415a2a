"""Kills and stops consumers and Spark queries of one group: `python -m tests.chaos_consumer --seed 0 --kills 100`.

A real broker and a real coordinator, two streaming queries and two consumers, one blocking and one of asyncio, read one
topic while records are produced. First a while in which consumers only come and go in order. Then consumers and the
processes of Spark's sources are killed, consumers are stopped for longer than their session time-out, interrupted in a
call, added and ended in order; their listeners raise all the time; coordinator and broker are killed and started again.
In the end everything that was returned is compared with what was produced, and what came twice with the coordinator's
log: each record may have come once more for each grant under which it was read and not committed. The last line is for
scripts; the exit code is 1 when a record is missing, a duplicate unexplained, or a partition had two owners.
"""

import argparse
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from coordinator.client.request import RequestError
from coordinator.local.kafka.broker import LocalKafka
from coordinator.local.node import LocalCoordinator
from tests.chaos import victims
from tests.chaos.application import Application
from tests.chaos.child import Child
from tests.chaos.log_of_cuts import cuts, uncommitted
from tests.chaos.producer import Producer
from tests.chaos.verdict import Verdict, delivered, describe_cuts, judge
from tests.chaos_consumer.read import Read, read
from tests.helpers.group_view import GroupView
from tests.helpers.leaving_no_process import leaving_no_process

SHARDS = 8
PARTITIONS = 6
RECORDS_PER_S = 120
SESSION_MS = 6_000
GROUP = TOPIC = "chaos-consumer"
KINDS = {"c1": False, "c2": True, "c3": False, "c4": True}
"""The consumers, and whether each is of asyncio; the first two run from the beginning."""
PATIENCE_S = 400.0
POLL_S = 0.05
ORDER_S = 60.0
"""How long a program may take until it hears signals, and until it has ended by one."""
LIVELY_S = 30.0
"""How long a victim is waited for until it reads something: one that owns nothing reads nothing."""
WEIGHTS = {"kill": 12, "kill source": 2, "interrupt": 4, "end": 2, "add": 1, "stop": 1, "coordinator": 1, "broker": 0.5}
CALM_ROUNDS = 3


class ChaosError(Exception):
    """Something that had to happen did not."""


class Program(Child):
    """One consumer's program."""

    def __init__(self, folder: Path, coordinator: str, *, is_async: bool) -> None:
        command = ["tests.chaos_consumer.program", "--folder", str(folder), "--coordinator", coordinator]
        command += ["--group", GROUP, "--topic", TOPIC, "--session-ms", str(SESSION_MS)]
        super().__init__(folder, [*command, *(["--asyncio"] if is_async else [])])
        self.lines = folder / "lines"

    @property
    def hears_signals(self) -> bool:
        """True once the running process ends in order by a signal; until then it is killed by one."""
        hears = self.folder / "hears"
        return self.pid is not None and hears.exists() and hears.read_text() == str(self.pid)

    def end(self) -> None:
        """End it in order, if it runs; raises ChaosError with its log when it ends otherwise or not at all."""
        deadline_s = time.monotonic() + ORDER_S
        while self.pid is not None and not self.hears_signals and time.monotonic() < deadline_s:
            time.sleep(POLL_S)
        if self.pid is None:
            return
        self.send(signal.SIGTERM)
        code = self.wait(ORDER_S)
        if code != 0:
            raise ChaosError(f"{self.folder.name} did not end in order: {code}\n{self.log_tail()}")

    @property
    def said_bytes(self) -> int:
        """The size of what it has written."""
        return self.lines.stat().st_size if self.lines.exists() else 0


@dataclass
class Outcome:
    """What a run has shown."""

    verdict: Verdict
    read: Read
    calm_duplicates: int


class Run:
    """One run in a folder."""

    def __init__(self, folder: Path, kafka: LocalKafka, coordinator: LocalCoordinator, chance: random.Random) -> None:
        self.counts: Counter[str] = Counter()
        self._kafka = kafka
        self._coordinator = coordinator
        self._chance = chance
        self._view = GroupView(coordinator.address, GROUP)
        options = {
            "kcoord.bootstrap.servers": coordinator.address,
            "kcoord.group.id": GROUP,
            "subscribe": TOPIC,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": "200",
        }
        self._queries = {
            name: Application(folder / name, options | {"kafka.client.id": name}, master="local[1]", is_attached=True)
            for name in ("a", "b")
        }
        self._programs = {
            name: Program(folder / name, coordinator.address, is_async=is_async) for name, is_async in KINDS.items()
        }

    def run(self, kills: int, say: Callable[[str], None]) -> Outcome:
        """Kill so many times, let everybody catch up, and judge."""
        self._kafka.create_topic(TOPIC, PARTITIONS)
        with ExitStack() as stack:
            producer = stack.enter_context(Producer(self._kafka.bootstrap_servers, TOPIC, PARTITIONS, RECORDS_PER_S))
            for child in (*self._queries.values(), *self._programs.values()):
                stack.enter_context(child)
            for child in (*self._queries.values(), self._programs["c1"], self._programs["c2"]):
                child.start()
            self._wait(lambda: self._members() == 4, "two queries and two consumers to be members")
            calm = self._be_calm(say)
            while self.counts["kill"] + self.counts["kill source"] < kills:
                self._disturb(say)
            producer.stop()
            ends = producer.ends
            say(f"{sum(ends.values())} records produced, waiting until all are committed")
            for child in (*self._queries.values(), self._programs["c1"], self._programs["c2"]):
                child.start_if_dead()
            self._wait(lambda: self._committed() == ends, "everything to be committed")
            for program in self._programs.values():
                program.end()
        return self._judge(ends, calm, say)

    # ---- a while in which nothing fails -----------------------------------------------------------------------------

    def _be_calm(self, say: Callable[[str], None]) -> int:
        """Have consumers come and go in order; return how many records came twice."""
        for number in range(CALM_ROUNDS):
            name = sorted(KINDS)[number % 2]
            program = self._programs[name]
            self._until_lively(program)
            program.end()
            time.sleep(1.0)
            program.start()
            self._until_lively(program)
        rows = self._rows(self._read())
        twice = len(rows) - len({row[:2] for row in rows})
        say(f"calm: {len(rows)} records, {twice} of them twice")
        return twice

    # ---- and one in which everything does ---------------------------------------------------------------------------

    def _disturb(self, say: Callable[[str], None]) -> None:
        self._bury()
        what = self._chance.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        running = [name for name, program in self._programs.items() if program.pid is not None]
        for query in self._queries.values():
            query.start_if_dead()
        name = self._chance.choice(running) if running else "c1"
        program = self._programs[name]
        program.start_if_dead()
        if what in ("coordinator", "broker"):
            service = self._coordinator if what == "coordinator" else self._kafka
            service.kill()
            time.sleep(self._chance.choice((0.0, 1.0, 4.0)))
            service.start()
        elif what == "kill source":
            name = self._chance.choice(sorted(self._queries))
            self._kill_source(name)
        elif what == "add":
            idle = [other for other in KINDS if other not in running]
            name = self._chance.choice(idle) if idle else name
            self._programs[name].start_if_dead()
        else:
            self._until_lively(program)
            self._do(what, program)
        self.counts[what] += 1
        kills = self.counts["kill"] + self.counts["kill source"]
        say(f"{what} {name if what not in ('coordinator', 'broker') else ''}, {kills} kills")
        time.sleep(self._chance.choice((0.0, 0.1, 0.5)))

    def _do(self, what: str, program: Program) -> None:
        if what == "kill":
            program.kill()
            time.sleep(self._chance.choice((0.0, 0.3)))
            program.start()
        elif what == "interrupt":
            for _ in range(5):
                program.send(signal.SIGUSR1)
                time.sleep(self._chance.random() / 5)
        elif what == "stop":
            program.send(signal.SIGSTOP)
            time.sleep(SESSION_MS / 1000 + 2.0)
            program.send(signal.SIGCONT)
        else:
            program.end()
            if len([other for other in self._programs.values() if other.pid is not None]) < 2:
                program.start()

    def _kill_source(self, name: str) -> None:
        pid = self._queries[name].pid
        sources = victims.readers(pid) if pid is not None else []
        if sources:
            victims.kill(self._chance.choice(sources))

    def _bury(self) -> None:
        """Raise when a program has ended by itself: no error that it does not expect is right."""
        for program in self._programs.values():
            code = program.wait(0.0)
            if code:
                raise ChaosError(f"{program.folder.name} ended with {code}\n{program.log_tail()}")

    def _until_lively(self, program: Program) -> None:
        """Wait until a program has read something since now, or seems to own nothing."""
        before, deadline_s = program.said_bytes, time.monotonic() + LIVELY_S
        while program.said_bytes == before and time.monotonic() < deadline_s:
            self._bury()
            time.sleep(POLL_S)

    # ---- what is there ----------------------------------------------------------------------------------------------

    def _members(self) -> int:
        try:
            return sum(member.connected for member in self._view.describe().members)
        except (RequestError, OSError):
            return 0

    def _committed(self) -> dict[int, int]:
        self._bury()
        try:
            return {one.partition: one.committed or 0 for one in self._view.describe().partitions}
        except (RequestError, OSError):
            return {}

    def _wait(self, condition: Callable[[], bool], what: str) -> None:
        deadline_s = time.monotonic() + PATIENCE_S
        while not condition():
            if time.monotonic() > deadline_s:
                children = (*self._queries.values(), *self._programs.values())
                tails = "\n".join(f"{child.folder.name}: {child.log_tail()}" for child in children)
                raise ChaosError(f"waited {PATIENCE_S:g} s for {what}\n{self._view.describe()}\n{tails}")
            time.sleep(POLL_S)

    # ---- what it says -----------------------------------------------------------------------------------------------

    def _read(self) -> Read:
        return read((program.lines for program in self._programs.values()), TOPIC)

    def _rows(self, found: Read) -> list[tuple[int, int, str]]:
        return [*found.rows, *delivered(query.folder for query in self._queries.values())]

    def _judge(self, ends: dict[int, int], calm: int, say: Callable[[str], None]) -> Outcome:
        self._coordinator.stop()
        folder, found = self._coordinator.data_dir / "data", self._read()
        known = [
            *cuts(folder, SHARDS, GROUP),
            *uncommitted(folder, SHARDS, GROUP, TOPIC, found.until),
            *found.again,
        ]
        rows = self._rows(found)
        for line in describe_cuts(rows, known):
            say(line)
        for line in found.double_owned[:5]:
            say(f"read by two owners: {line}")
        return Outcome(judge(rows, ends, known), found, calm)


def main() -> int:
    """Run it and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos_consumer", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="of the choice of victims")
    parser.add_argument("--kills", type=int, default=100, help="how many")
    arguments = parser.parse_args()
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:7.1f} s  {text}", flush=True)

    outcome, counts = None, Counter[str]()
    with tempfile.TemporaryDirectory(prefix="kcoord-chaos-", ignore_cleanup_errors=True) as folder:
        root = Path(folder)
        try:
            with (
                LocalKafka(root / "kafka") as kafka,
                LocalCoordinator(kafka.bootstrap_servers, root / "coordinator") as coordinator,
            ):
                run = Run(root, kafka, coordinator, random.Random(arguments.seed))
                counts = run.counts
                outcome = run.run(arguments.kills, say)
                for example in outcome.verdict.examples:
                    say(example)
        except ChaosError as error:
            print(error, file=sys.stderr)
    return _report(outcome, counts, arguments.seed, round(time.monotonic() - began))


def _report(outcome: Outcome | None, counts: Counter[str], seed: int, seconds: int) -> int:
    figures: dict[str, object] = {
        "kills": counts["kill"] + counts["kill source"],
        "stops": counts["stop"],
        "restarts": counts["coordinator"] + counts["broker"],
    }
    is_good = outcome is not None
    if outcome is not None:
        verdict, found = outcome.verdict, outcome.read
        is_good = verdict.is_good and not found.double_owned and not outcome.calm_duplicates
        figures |= {
            "missing": verdict.missing + verdict.wrong,
            "double_owned": len(found.double_owned),
            "dup_calm": outcome.calm_duplicates,
            "dup": verdict.duplicates,
            "handover_ms": found.handover_ms,
            "unexplained": verdict.unexplained,
            "records": verdict.records,
        }
    figures |= {
        "interrupts": counts["interrupt"],
        "ends": counts["end"],
        "adds": counts["add"],
        "seed": seed,
        "seconds": seconds,
    }
    shown = " ".join(f"{name}={figure}" for name, figure in figures.items())
    print(f"chaos-consumer: {'OK' if is_good else 'FAILED'} {shown}", flush=True)
    return 0 if is_good else 1


if __name__ == "__main__":
    with leaving_no_process():
        code = main()
    sys.exit(code)
