"""Does everything to a real cluster that may happen to one: `python -m tests.chaos_cluster --minutes 10 --seed 0`.

Three nodes, ZooKeeper and a Kafka; members that commit and readers that ask each node. Faults come in bursts; behind
each burst all is healed, every shard has to be whole again and every partition of every group has to come on. In the
end the checker (`history.py`) is asked whether clients saw anything that cannot be. The last line is for scripts; the
exit code is 1 when there was, 2 when the run proves nothing because too little has happened (void).
"""

import argparse
import logging
import os
import random
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

from coordinator.local.kafka.broker import LocalKafka
from coordinator.local.zookeeper import LocalZooKeeper
from tests.chaos_cluster.clients import SESSION_MS, TOPIC, Committer, Reader, Recorder
from tests.chaos_cluster.cluster import NODES, ZOOKEEPER_MS, ChaosCluster, ChaosError, Seen
from tests.chaos_cluster.faults import COUNTED, Counts, Faults
from tests.chaos_cluster.frame_proxy import FrameProxies
from tests.chaos_cluster.history import KINDS, Anomaly, Calm, Outcome, judge
from tests.helpers.leaving_no_process import leaving_no_process

GROUPS = ("g0", "g1", "g2", "g3")
PARTITIONS = 4
MEMBERS_OF_A_GROUP = 2
BURST = 8
PATIENCE_S = (2 * SESSION_MS + 2 * ZOOKEEPER_MS) / 1000 + 10
"""The time in which every partition has to have a commit accepted after all has been healed."""
MOST_SHOWN = 20


class Run:
    """One run; everything is there when it begins."""

    def __init__(self, cluster: ChaosCluster, recorder: Recorder, seed: int) -> None:
        self.cluster = cluster
        self.recorder = recorder
        self._started_s = time.monotonic()
        self._dice = random.Random(seed)
        self.members = [
            Committer(cluster.addresses, group, recorder, seed + 100 * number)
            for number in range(MEMBERS_OF_A_GROUP)
            for group in GROUPS
        ]
        self.readers = [Reader(f"node {number}", cluster.direct(number), GROUPS, recorder) for number in NODES]
        self.faults = Faults(cluster, self.members, seed, self.say)

    def say(self, what: str) -> None:
        """Print a line with the time."""
        print(f"{time.monotonic() - self._started_s:7.1f} s  {what}", flush=True)

    def run(self, minutes: float) -> None:
        """Do faults for so long, with a calm behind each burst."""
        for client in (*self.members, *self.readers):
            client.start()
        self.calm()
        end_s = time.monotonic() + minutes * 60
        while time.monotonic() < end_s:
            for _ in range(BURST):
                self.faults.one()
                time.sleep(self._dice.choice((0.0, 0.2, 1.0)))
            self.calm()

    def calm(self) -> None:
        """Heal everything, and see that all is whole and goes on; raises ChaosError when it does not become whole."""
        cluster = self.cluster
        cluster.heal()
        for number in NODES:
            if not cluster.is_running(number):
                raise ChaosError(f"node {number} has ended by itself. It said: {cluster.said(number)}")
        cluster.await_whole()
        since_s = time.monotonic()
        until_s = since_s + PATIENCE_S
        while not self.recorder.have_all_moved(since_s) and time.monotonic() < until_s:
            time.sleep(0.05)
        self.recorder.calm(Calm(since_s, until_s))
        seen = cluster.watch.seen
        self.say(
            f"whole, and all has moved after {time.monotonic() - since_s:.1f} s; so far {self.faults.counts.faults} "
            f"faults, {seen.leader_changes} leader changes, {self.recorder.count(Outcome.ACKED)} commits accepted"
        )

    def end(self) -> None:
        """Have all clients end."""
        for client in (*self.members, *self.readers):
            client.stop()
        for client in (*self.members, *self.readers):
            client.join(30)


def line_of(minutes: float, counts: Counts, seen: Seen, recorder: Recorder, found: list[Anomaly]) -> str:
    """Return the figures of the last line."""
    kinds = Counter(anomaly.kind for anomaly in found)
    figures = [f"minutes={minutes:g}", f"faults={counts.faults}"]
    figures += [f"{kind}={counts.kinds[kind]}" for kind in COUNTED]
    figures += [f"leader_changes={seen.leader_changes}", f"shrinks={seen.shrinks}", f"expands={seen.expands}"]
    figures += [f"{outcome.value}={recorder.count(outcome)}" for outcome in (Outcome.ACKED, Outcome.UNKNOWN)]
    figures.append(f"fenced={recorder.count(Outcome.FENCED)}")
    return " ".join([*figures, *(f"{kind}={kinds[kind]}" for kind in KINDS)])


def why_void(counts: Counts, seen: Seen, recorder: Recorder) -> str:
    """Say what did not happen without which a run proves nothing; empty if all did."""
    needed = {
        "a kill": counts.kinds["kills"],
        "a leader change": seen.leader_changes,
        "a shrunk in-sync set": seen.shrinks,
        "an in-sync set that grew": seen.expands,
        "a commit that was accepted": recorder.count(Outcome.ACKED),
        "a commit that was refused": recorder.count(Outcome.FENCED),
    }
    return ", ".join(name for name, count in needed.items() if not count)


def main() -> int:
    """Run, judge, and print the last line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="a new folder in which everything is left")
    arguments = parser.parse_args()
    logging.disable(logging.ERROR)  # of clients whose connections end all the time
    troubles: list[str] = []
    with ExitStack() as stack:
        stack.enter_context(leaving_no_process())
        folder = arguments.keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kcoord-chaos-")))
        kafka = stack.enter_context(LocalKafka(folder / "kafka"))
        kafka.create_topic(TOPIC, PARTITIONS)
        zookeeper = stack.enter_context(LocalZooKeeper(folder / "zookeeper"))
        proxies = stack.enter_context(FrameProxies(arguments.seed))
        cluster = ChaosCluster(folder, kafka.bootstrap_servers, zookeeper, proxies, arguments.seed)
        stack.callback(cluster.kill_all)
        cluster.start()
        recorder = Recorder(GROUPS, PARTITIONS)
        run = Run(cluster, recorder, arguments.seed)
        try:
            run.run(arguments.minutes)
        except ChaosError as error:
            troubles.append(str(error))
        finally:
            run.end()
        troubles += cluster.bugs()
    found = judge(recorder.history())
    print(f"faults by name: {dict(run.faults.counts.names)}")
    for anomaly in found[:MOST_SHOWN]:
        print(f"{anomaly.kind}: {anomaly.key}: {anomaly.why}")
    for trouble in troubles[:MOST_SHOWN]:
        print(f"trouble: {trouble}")
    void = why_void(run.faults.counts, cluster.watch.seen, recorder)
    if void:
        print(f"void: there was not {void}")
    verdict = "FAILED" if found or troubles else "VOID" if void else "OK"
    line = line_of(arguments.minutes, run.faults.counts, cluster.watch.seen, recorder, found)
    print(f"chaos: {verdict} {line}", flush=True)
    return {"OK": 0, "VOID": 2}.get(verdict, 1)


if __name__ == "__main__":
    sys.stdout.flush()
    code = main()
    sys.stdout.flush()
    os._exit(code)  # threads of clients that wait for a cluster that is gone end with it
