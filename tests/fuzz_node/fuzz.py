"""Messages of valid form with wild values, by every verb, over real sockets to a real node that asks a real Kafka."""

import time
from collections.abc import Callable
from random import Random

from coordinator.local.kafka.broker import LocalKafka
from coordinator.local.node import LocalCoordinator
from tests.fuzz_node.verdict import Verdict
from tests.fuzz_node.wild_client import WildClient
from tests.helpers.wild_requests import Known

CLIENTS = 12
TOPICS = {"wild-t": 4, "wild-u": 3, "w" * 249: 2}
LAST_ANSWERS_S = 60.0
_LOOK_EVERY = 500
_WORD_EVERY_S = 5.0


def fuzz(
    kafka: LocalKafka, node: LocalCoordinator, *, seed: int, frames: int, tell: Callable[[str], None] = lambda _: None
) -> Verdict:
    """Send so many frames and judge the node; a node that ends is started again. `tell` hears how far it is."""
    for topic, partitions in TOPICS.items():
        kafka.create_topic(topic, partitions)
    begun_s = time.monotonic()
    verdict, known, dice = Verdict(), Known([f"g{number}" for number in range(6)], dict(TOPICS)), Random(seed)
    host, _, port = node.address.rpartition(":")
    clients = [WildClient((host, int(port)), dice, known, verdict) for _ in range(CLIENTS)]
    turns = 0
    next_word_s = begun_s + _WORD_EVERY_S
    while verdict.frames < frames:
        if time.monotonic() >= next_word_s:
            next_word_s = time.monotonic() + _WORD_EVERY_S
            left_s = (next_word_s - begun_s) * (frames / max(1, verdict.frames) - 1)
            tell(f"fuzz-node: {verdict.frames} of {frames} frames, {verdict.refused} refused, {left_s:.0f} s left")
        turns += 1
        if turns % _LOOK_EVERY == 0:
            _look_after(node, verdict)
        try:
            dice.choice(clients).act()
        except OSError:
            _look_after(node, verdict)
    deadline_s = time.monotonic() + LAST_ANSWERS_S
    while any(client.waits_for_answers for client in clients) and time.monotonic() < deadline_s:
        for client in clients:
            if client.waits_for_answers:
                client.finish(0.05)
    verdict.unanswered = sum(client.waits_for_answers for client in clients)
    for client in clients:
        if client.waits_for_answers:
            verdict.say(f"not answered within {LAST_ANSWERS_S:g} s: {client.open_requests()}")
    for client in clients:
        client.close()
    _look_after(node, verdict)
    for line in node.log_path.read_text().splitlines():
        if "critical" in line and "bug" in line:
            verdict.bugs += 1
            verdict.say(line)
    node.restart()  # what it has written can be loaded
    verdict.seconds = time.monotonic() - begun_s
    return verdict


def _look_after(node: LocalCoordinator, verdict: Verdict) -> None:
    if not node.is_running:
        verdict.stopped += 1
        verdict.say("the node ended: " + node.log_tail(5))
        node.restart()
