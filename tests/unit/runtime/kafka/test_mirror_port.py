"""Writes of the mirror are answered once each, in their order, and those of a shard that is resigned are not sent."""

import threading
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from coordinator.config import KafkaSettings
from coordinator.core.effects import MirroredTopic, MirrorEnded, MirrorOffsets
from coordinator.core.mirror.events import MirrorAnswered, Outcome
from coordinator.runtime.kafka import group_client
from coordinator.runtime.kafka.client import KafkaAwayError
from coordinator.runtime.kafka.group_client import GroupClient, GroupWrite, Written
from coordinator.runtime.kafka.mirror_port import MirrorPort
from tests.helpers.loopback import RememberedLog
from tests.helpers.waiting import wait_until

PATIENCE_S = 60.0


def write_of(attempt: int, shard: int = 0, **more: Any) -> MirrorOffsets:
    topic = MirroredTopic("t", (0,), (attempt,), (None,), ("",))
    return MirrorOffsets(shard, f"g{attempt}", attempt, (topic,), **more)


class ScriptedClient:
    """A client that writes as told; `gate` holds the writes that have come until it is set."""

    def __init__(self, answer: Callable[[GroupWrite], Written] = lambda _: Written(Outcome.DONE)) -> None:
        self.answer = answer
        self.gate = threading.Event()
        self.gate.set()
        self.came = threading.Event()
        self.sent: list[str] = []
        self.is_worn = False
        self.closed = 0

    def write(self, writes: Sequence[GroupWrite]) -> list[Written | None]:
        self.came.set()
        assert self.gate.wait(PATIENCE_S)
        answers: list[Written | None] = []
        for write in writes:
            if write.is_wanted():
                self.sent.append(write.group)
                answers.append(self.answer(write))
            else:
                answers.append(None)
        return answers

    def interrupt(self) -> None:
        self.gate.set()

    def close(self) -> None:
        self.closed += 1


class Ported:
    """A port on scripted clients, closed when the block ends."""

    def __init__(self, *clients: ScriptedClient | KafkaAwayError, prefix: str = "") -> None:
        self.answers: list[MirrorAnswered] = []
        self.log = RememberedLog()
        self._clients = list(clients)
        self.port = MirrorPort(prefix, KafkaSettings(), self.answers.append, self.log.logger, connect=self._connect)

    def _connect(self) -> GroupClient:
        client = self._clients[0] if len(self._clients) == 1 else self._clients.pop(0)
        if isinstance(client, KafkaAwayError):
            raise client
        return cast(GroupClient, client)

    def __enter__(self) -> "Ported":
        self.port.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.port.close()

    def outcomes(self, count: int) -> list[tuple[int, Outcome]]:
        wait_until(lambda: len(self.answers) >= count)
        return [(answer.attempt, answer.outcome) for answer in self.answers]


def test_writes_are_answered_in_their_order_under_the_prefix() -> None:
    client = ScriptedClient()
    with Ported(client, prefix="kcoord-") as ported:
        for attempt in range(1, 4):
            ported.port.write(write_of(attempt))
        assert ported.outcomes(3) == [(attempt, Outcome.DONE) for attempt in range(1, 4)]
    assert client.sent == ["kcoord-g1", "kcoord-g2", "kcoord-g3"]
    assert client.closed == 1


def test_what_waits_of_a_shard_that_is_resigned_is_neither_sent_nor_answered() -> None:
    client = ScriptedClient()
    client.gate.clear()
    with Ported(client) as ported:
        ported.port.write(write_of(1, shard=0))
        assert client.came.wait(PATIENCE_S)
        ported.port.write(write_of(2, shard=0))
        ported.port.write(write_of(3, shard=1))
        ported.port.end(MirrorEnded(0))
        client.gate.set()
        assert ported.outcomes(1) == [(3, Outcome.DONE)]
    assert client.sent == ["g3"]


def test_kafka_that_is_away_is_said_to_all_and_asked_anew() -> None:
    client = ScriptedClient()
    with Ported(KafkaAwayError("gone"), client) as ported:
        ported.port.write(write_of(1))
        assert ported.outcomes(1) == [(1, Outcome.AWAY)]
        assert ported.answers[0].why == "gone"
        ported.port.write(write_of(2))
        assert ported.outcomes(2)[1:] == [(2, Outcome.DONE)]


def test_a_bug_costs_a_client_and_no_thread() -> None:
    def fail(_: GroupWrite) -> Written:
        raise ValueError("a bug")

    bad, good = ScriptedClient(fail), ScriptedClient()
    with Ported(bad, good) as ported:
        ported.port.write(write_of(1))
        assert ported.outcomes(1) == [(1, Outcome.AWAY)]
        ported.port.write(write_of(2))
        assert ported.outcomes(2)[1:] == [(2, Outcome.DONE)]
    assert (bad.closed, len(ported.log.of("bug"))) == (1, 1)


def test_a_worn_client_is_exchanged() -> None:
    worn, fresh = ScriptedClient(), ScriptedClient()
    worn.is_worn = True
    with Ported(worn, fresh) as ported:
        ported.port.write(write_of(1))
        ported.outcomes(1)
        ported.port.write(write_of(2))
        ported.outcomes(2)
    assert (worn.sent, worn.closed, fresh.sent) == (["g1"], 1, ["g2"])


def test_a_port_is_closed_while_kafka_is_silent() -> None:
    client = ScriptedClient()
    client.gate.clear()
    with Ported(client) as ported:
        ported.port.write(write_of(1))
        assert client.came.wait(PATIENCE_S)
    assert ported.answers == []


def commit_response(*codes: int) -> Any:
    parts = [SimpleNamespace(partition_index=number, error_code=code) for number, code in enumerate(codes)]
    return SimpleNamespace(topics=[SimpleNamespace(name="t", partitions=parts)])


@pytest.mark.parametrize(
    ("codes", "outcome", "refused"),
    [
        ((0, 0), Outcome.DONE, []),
        ((0, 3), Outcome.DONE, []),
        ((0, 29), Outcome.DONE, [1]),
        ((0, 12), Outcome.DONE, [1]),
        ((25, 25), Outcome.HAS_MEMBERS, []),
        ((113, 113), Outcome.HAS_MEMBERS, []),
        ((16, 16), Outcome.LATER, []),
        ((30, 30), Outcome.REFUSED, []),
    ],
)
def test_what_kafka_says_of_partitions_is_an_answer_about_the_group(
    codes: tuple[int, ...], outcome: Outcome, refused: list[int]
) -> None:
    written = group_client._answer(commit_response(*codes), "g", deletes=False)
    assert (written.outcome, [number for _, number, _ in written.refused]) == (outcome, refused)
    assert outcome is Outcome.DONE or written.why
    assert written.unknown == tuple(("t", number) for number, code in enumerate(codes) if code == 3)
    assert group_client._answer(commit_response(*codes), "g", deletes=True).unknown == ()


def test_an_offset_that_may_not_be_deleted_keeps_no_other_from_kafka() -> None:
    response = SimpleNamespace(error_code=30, topics=[])
    write = GroupWrite("g", write_of(1, deleted=(("t", (1, 2)),)))
    written = group_client._delete_answer(response, write)
    assert written.outcome is Outcome.DONE
    assert [(topic, number, "Delete" in why) for topic, number, why in written.refused] == [("t", 1, True)]
