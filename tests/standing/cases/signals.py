"""Signals in every phase, and standstills."""

import signal
import threading

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import FetchOffsets, Ping
from coordinator.runtime.process.signals import IGNORED
from tests.helpers.committer import IN_FLIGHT, Committer
from tests.helpers.processes import eventually
from tests.helpers.raw_member import RawMember
from tests.standing.case import Case, must
from tests.standing.load import fill, for_so_long, stopped_for, wait
from tests.standing.trial import Trial

HARMLESS = (*IGNORED, signal.SIGUSR1, signal.SIGQUIT)
CONNECTIONS = 8
STOPS = 4
GROUPS = 100
OFFSETS = 10_000


def storm_of_signals(trial: Trial) -> None:
    """Send a node that serves every signal that is not to stop it, hundreds of times."""
    node = trial.start()
    trial.beside()
    sent = iter(range(10**9))

    def send() -> None:
        node.send(HARMLESS[next(sent) % len(HARMLESS)])
        wait(0.005)

    count = for_so_long(4, send)
    must(count > 100, f"only {count} signals were sent")
    for kind in ("signal-ignored", '"state"', '"stack"'):
        node.wait_until_it_says(kind)


def told_to_stop_under_load(trial: Trial) -> None:
    """Stop a node in order, several times, with hundreds of commits in flight."""
    trial.start()
    trial.beside()
    for number in range(STOPS):
        stop_amid_commits(trial, [Committer(trial.address, f"load-{number}-{each}") for each in range(CONNECTIONS)])


def stop_amid_commits(trial: Trial, committers: list[Committer]) -> None:
    """Stop the node in order while all of them have commits in flight, start it, and look for what was answered."""
    for committer in committers:
        committer.start()
    must(eventually(lambda: all(each.acknowledged > 100 for each in committers)), "no commit is answered")
    with trial.set_apart():
        trial.stop()
        must("disk failed" not in trial.node.said, f"the stop is told as a failure: {trial.node.said[-1500:]}")
        for committer in committers:
            committer.join(10)
        trial.start()
    for committer in committers:
        with RawMember(trial.address, committer.group) as tool:
            (committed,) = tool.ask(FetchOffsets(committer.group)).offsets
        must(
            committed.offset >= committer.acknowledged - IN_FLIGHT,
            f"{committer.acknowledged} were acknowledged and {committed.offset} is there",
            kind="lost",
        )


def signals_while_it_loads(trial: Trial) -> None:
    """Send each signal to a node that loads a long log: SIGTERM stops it well, no other ends it."""
    trial.start()
    trial.beside()
    for number in range(GROUPS):
        fill(trial.address, f"history-{number}", "history", OFFSETS)
    with trial.set_apart():
        trial.kill()
        for number in (signal.SIGTERM, signal.SIGINT):
            node = trial.launch()
            node.wait_until_it_says('"starting"')
            node.send(number)
            trial.must_end(0, f"{number.name} came while the log was loaded")
        for _ in range(2):
            node = trial.launch()
            node.wait_until_it_says('"starting"')  # before its first line it is Python's and the system's
            for number in HARMLESS:
                node.send(number)
                wait(0.05)
            node.wait_until_it_serves()
            trial.kill()
        trial.start()


def stands_still_for_long(trial: Trial) -> None:
    """Stop the whole process for 15 s: longer than the session of everybody beside."""
    node = trial.start()
    trial.beside()
    with trial.set_apart(), stopped_for(node, 15):
        pass
    wait(2)
    must("member-expired" not in node.said, "a member was expired for the node's own standstill")
    must("this process stood still for 1" in node.said, f"the standstill is not said: {node.said[-1500:]}")


def short_sessions(trial: Trial) -> None:
    """Stop the process for longer than the smallest session, ten times, with members of that session."""
    node = trial.start()
    trial.beside()
    topic = f"short-{trial.name}"
    trial.kafka.create_topic(topic, 1)
    with RawMember(trial.address, "short", topic) as one:
        one.session_timeout_ms = 1_000
        epoch = one.register().member_epoch
        one.wait_until_complete()
        for _ in range(10):
            one.ask(Ping(epoch))
            with trial.set_apart(), stopped_for(node, 1.2):
                pass
            must(one.ask(Ping(epoch)).error is ErrorCode.NONE, "the member is not known any more")
    must("member-expired" not in node.said, "a member was expired for the node's own standstill")


def stops_and_goes(trial: Trial) -> None:
    """Stop and continue the process many times a second, below every time-out."""
    node = trial.start()
    trial.beside()
    ended = threading.Event()

    def act() -> None:
        with stopped_for(node, 0.01):
            pass
        ended.wait(0.03)

    for_so_long(4, act)


CASES = [
    Case("signals-serving", "no signal but those that stop ends a node that serves", storm_of_signals),
    Case(
        "sigterm-under-load",
        "a node stops with status 0 amid commits, and keeps all it answered",
        told_to_stop_under_load,
    ),
    Case(
        "signals-loading",
        "SIGTERM stops a node that loads, in order, and no other signal does",
        signals_while_it_loads,
        150,
    ),
    Case("sigstop-15", "a node that stood still for 15 s expires nobody and goes on", stands_still_for_long),
    Case("sigstop-short-sessions", "a standstill expires no member of the smallest session", short_sessions),
    Case("sigstop-often", "a node that is stopped many times a second goes on", stops_and_goes),
]
