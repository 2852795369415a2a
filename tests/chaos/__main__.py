"""Kills Spark applications in every way while two of them share a group: `python -m tests.chaos --seed 0 --kills 100`.

A real broker, a real coordinator (killed now and then too) and two applications whose sink is idempotent by batch id
run while records are produced, one of them with a cluster of its own. Half of the kills happen under `takeover`, half
under `hold`: of whole drivers, of the process the source lives in, of Python workers and of executors; most of them
while a claim of the victim is running, which is looked up just before and just after. In the end the sinks are compared
with what was produced, and each record that came twice with the ranges that were cut in the coordinator's log. The last
line is for scripts; the exit code is 1 when a record is missing, came twice under `hold`, or came twice without a cut.
"""

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from coordinator.client.request import RequestError
from coordinator.local.kafka.broker import LocalKafka
from coordinator.local.node import LocalCoordinator
from coordinator.protocol.parts import ClaimState
from tests.chaos import victims
from tests.chaos.application import Application
from tests.chaos.log_of_cuts import cuts
from tests.chaos.producer import Producer
from tests.chaos.verdict import Verdict, delivered, describe_cuts, judge
from tests.helpers.group_view import GroupView
from tests.helpers.leaving_no_process import leaving_no_process

SHARDS = 8
PARTITIONS = 6
RECORDS_PER_S = 120
PATIENCE_S = 400.0
"""How long anything that has to happen may take: a machine may be slow, a query must not stand still."""

POLL_S = 0.03

WAYS = ("reader",) * 8 + ("worker",) * 5 + ("driver",) * 4 + ("executor",) * 3
MASTERS = {"a": "local[2,4]", "b": "local-cluster[1,2,1024]"}
"""A task is tried four times, so that a worker or an executor that is killed costs tasks and not the query."""
IN_BATCH_SHARE = 0.8
COORDINATOR_EVERY = 12

Running = dict[tuple[str, int], tuple[int, int, int]]


class ChaosError(Exception):
    """Something that had to happen did not."""


@dataclass
class Counts:
    """What was done."""

    kills: int = 0
    in_batch: int = 0
    ways: Counter[str] = field(default_factory=Counter)
    coordinator: int = 0


class Phase:
    """One hand-over mode with a group, a topic and two applications of its own."""

    def __init__(
        self, handover: str, folder: Path, kafka: LocalKafka, coordinator: LocalCoordinator, chance: random.Random
    ) -> None:
        self.handover = handover
        self.folder = folder / handover
        self.group = self.topic = f"chaos-{handover}"
        self._kafka = kafka
        self._coordinator = coordinator
        self._chance = chance
        self._view = GroupView(coordinator.address, self.group)
        self._member_of: dict[str, str] = {}
        self.applications = {name: self._application(name) for name in ("a", "b")}

    def _application(self, name: str) -> Application:
        options = {
            "kcoord.bootstrap.servers": self._coordinator.address,
            "kcoord.group.id": self.group,
            "subscribe": self.topic,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": "400",
            "kafka.client.id": name,
        }
        if self.handover == "hold":
            options |= {"kcoord.handover": "hold", "kcoord.instance.id": name}
        return Application(self.folder / name, options, master=MASTERS[name], is_attached=name == "b")

    def run(self, kills: int, counts: Counts, say: Callable[[str], None]) -> Verdict:
        """Kill so many times, let the queries catch up, and judge."""
        self._kafka.create_topic(self.topic, PARTITIONS)
        with ExitStack() as stack:
            producer = stack.enter_context(
                Producer(self._kafka.bootstrap_servers, self.topic, PARTITIONS, RECORDS_PER_S)
            )
            for application in self.applications.values():
                stack.enter_context(application)
                application.start()
            self._wait(lambda: all(self.running(name) for name in self.applications), "both queries to run")
            for number in range(kills):
                if number % COORDINATOR_EVERY == COORDINATOR_EVERY // 2:
                    self._coordinator.kill()
                    self._coordinator.start()
                    counts.coordinator += 1
                    say("coordinator killed and started again")
                self._kill_one(counts, say)
            producer.stop()
            ends = producer.ends
            say(f"{sum(ends.values())} records produced, waiting until all are committed")
            for application in self.applications.values():
                application.start_if_dead()
            self._wait(lambda: self._committed() == ends, "everything to be committed")
        self._coordinator.stop()
        try:
            found = cuts(self._coordinator.data_dir / "data", SHARDS, self.group)
        finally:
            self._coordinator.start()
        rows = delivered(application.folder for application in self.applications.values())
        for line in describe_cuts(rows, found):
            say(line)
        return judge(rows, ends, found)

    # ---- kills ------------------------------------------------------------------------------------------------------

    def _kill_one(self, counts: Counts, say: Callable[[str], None]) -> None:
        way = self._chance.choice(WAYS)
        name = "b" if way == "executor" else self._chance.choice(sorted(self.applications))
        wants_batch = self._chance.random() < IN_BATCH_SHARE
        application = self.applications[name]
        application.start_if_dead()
        if wants_batch:
            self._wait(lambda: self._is_reading(name) and bool(_pids(way, application)), f"{name} to run a claim")
        else:
            self._wait(lambda: bool(_pids(way, application)), f"a {way} of {name}")
        is_reading = self._is_reading(name)
        before = self.running(name)
        pids = _pids(way, application)
        if way == "driver":
            application.kill()
        elif pids:
            victims.kill(self._chance.choice(pids))
        after = self.running(name)
        is_in_batch = is_reading and any(after.get(partition) == claim for partition, claim in before.items())
        counts.kills += 1
        counts.ways[way] += 1
        counts.in_batch += is_in_batch
        shown = ", ".join(f"{key[1]} [{claim[1]}, {claim[2]})" for key, claim in sorted(before.items()))
        say(f"kill {counts.kills}: {way} of {name}" + (f", reading {shown}" if is_in_batch else ""))

    # ---- what is there ----------------------------------------------------------------------------------------------

    def running(self, name: str) -> Running:
        """Return the running claims of an application's member, also of one that is gone."""
        try:
            group = self._view.describe()
        except (RequestError, OSError):
            return {}
        self._member_of.update({member.member_id: member.client_id for member in group.members})
        return {
            (one.topic, one.partition): (one.claim.owner_epoch, one.claim.from_offset, one.claim.until_offset)
            for one in group.partitions
            if one.claim is not None
            and one.claim_state is ClaimState.RUNNING
            and self._member_of.get(one.member_id or "") == name
        }

    def _is_reading(self, name: str) -> bool:
        """Say whether the source's process of an application lives, is a member now and has claims running.

        Under hold a claim also runs on while its owner is dead; a kill then is not one in a batch.
        """
        pid = self.applications[name].pid
        try:
            members = self._view.describe().members
        except (RequestError, OSError):
            return False
        living = victims.readers(pid) if pid is not None else []
        is_member = any(one.client_id == name and one.connected and one.pid in living for one in members)
        return is_member and bool(self.running(name))

    def _committed(self) -> dict[int, int]:
        try:
            return {one.partition: one.committed or 0 for one in self._view.describe().partitions}
        except (RequestError, OSError):
            return {}

    def _wait(self, condition: Callable[[], bool], what: str) -> None:
        deadline_s = time.monotonic() + PATIENCE_S
        while not condition():
            if time.monotonic() > deadline_s:
                tails = "\n".join(application.log_tail() for application in self.applications.values())
                raise ChaosError(f"waited {PATIENCE_S:g} s for {what}\n{self._view.describe()}\n{tails}")
            time.sleep(POLL_S)


def _pids(way: str, application: Application) -> list[int]:
    pid = application.pid
    if pid is None:
        return []
    found = {
        "driver": lambda _: [pid],
        "executor": victims.executors,
        "reader": victims.readers,
        "worker": victims.workers,
    }
    return found[way](pid)


def main() -> int:
    """Run both phases and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="of the choice of victims")
    parser.add_argument("--kills", type=int, default=100, help="how many, over both modes")
    arguments = parser.parse_args()
    chance = random.Random(arguments.seed)
    counts = Counts()
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:7.1f} s  {text}", flush=True)

    verdicts: dict[str, Verdict] = {}
    with tempfile.TemporaryDirectory(prefix="kcoord-chaos-", ignore_cleanup_errors=True) as folder:
        root = Path(folder)
        try:
            with (
                LocalKafka(root / "kafka") as kafka,
                LocalCoordinator(kafka.bootstrap_servers, root / "coordinator") as coordinator,
            ):
                for handover, share in (("takeover", arguments.kills // 2), ("hold", -(-arguments.kills // 2))):
                    say(f"{handover}: {share} kills")
                    verdict = Phase(handover, root, kafka, coordinator, chance).run(share, counts, say)
                    verdicts[handover] = verdict
                    for example in verdict.examples:
                        say(example)
        except ChaosError as error:
            print(error, file=sys.stderr)
    return _report(verdicts, counts, arguments.seed, round(time.monotonic() - began))


def _report(verdicts: dict[str, Verdict], counts: Counts, seed: int, seconds: int) -> int:
    takeover, hold = verdicts.get("takeover"), verdicts.get("hold")
    is_good = takeover is not None and hold is not None and takeover.is_good and hold.is_good and hold.duplicates == 0
    figures = {
        "kills": counts.kills,
        "in_batch_kills": counts.in_batch,
        "missing": sum(verdict.missing + verdict.wrong for verdict in verdicts.values()),
        "dup_hold": hold.duplicates if hold is not None else "unknown",
        "dup_takeover": takeover.duplicates if takeover is not None else "unknown",
        "unexplained": sum(verdict.unexplained for verdict in verdicts.values()),
        "records": sum(verdict.records for verdict in verdicts.values()),
        **{f"{way}s": counts.ways[way] for way in ("driver", "executor", "reader", "worker")},
        "coordinators": counts.coordinator,
        "seed": seed,
        "seconds": seconds,
    }
    result = "OK" if is_good else "FAILED"
    print(f"chaos-spark: {result} " + " ".join(f"{name}={figure}" for name, figure in figures.items()), flush=True)
    return 0 if is_good else 1


if __name__ == "__main__":
    with leaving_no_process():
        code = main()
    sys.exit(code)
