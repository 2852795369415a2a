"""The clients of the chaos: members that commit, one member that is killed now and then, and readers of each node.

Members are the product's own. A member commits all that it owns again and again, each partition one further than
before, and now and then under an owner epoch that it has no more. Readers ask one node each, past every proxy, so that
a leader that is deposed and does not know it is asked, too. All that they see goes into the recorder.
"""

import random
import socket
import threading
import time
from collections.abc import Sequence
from contextlib import suppress

from coordinator.protocol.columns import OffsetToCommit
from coordinator.protocol.errors import ErrorCode, ProtocolError
from coordinator.protocol.messages import FetchOffsets, FetchOffsetsResponse, FindCoordinator, Request, Response
from coordinator.protocol.parts import ResetPolicy
from coordinator.protocol.session import ResponseReceived, Role, Session
from coordinator.protocol.text.addresses import parse_addresses
from spark_kcoord.errors import KcoordError
from spark_kcoord.member.client import MemberClient
from spark_kcoord.member.settings import MemberSettings
from tests.chaos_cluster.history import NOTHING, Calm, Commit, Grant, History, Key, Outcome, Read

SESSION_MS = 6_000
TOPIC = "chaos"
COMMIT_EVERY_S = 0.02
READ_EVERY_S = 0.15
ASK_TIMEOUT_S = 2.0
STUBBORN_SHARE = 0.02
_UNKNOWN = frozenset({ErrorCode.REQUEST_TIMED_OUT})


class Recorder:
    """The history as it is being made; any thread."""

    def __init__(self, groups: Sequence[str], partitions: int) -> None:
        self.keys: tuple[Key, ...] = tuple((group, TOPIC, number) for group in groups for number in range(partitions))
        self._lock = threading.Lock()
        self._commits: list[Commit] = []
        self._reads: list[Read] = []
        self._grants: list[Grant] = []
        self._calms: list[Calm] = []
        self._last_acked_s: dict[Key, float] = {}
        """When the last commit that was accepted had begun."""

    def commits(self, commits: Sequence[Commit]) -> None:
        """Take note of commits."""
        with self._lock:
            self._commits += commits
            for commit in commits:
                if commit.outcome is Outcome.ACKED:
                    self._last_acked_s[commit.key] = max(commit.began_s, self._last_acked_s.get(commit.key, 0.0))

    def reads(self, reads: Sequence[Read]) -> None:
        """Take note of reads."""
        with self._lock:
            self._reads += reads

    def grant(self, grant: Grant) -> None:
        """Take note of a grant."""
        with self._lock:
            self._grants.append(grant)

    def calm(self, calm: Calm) -> None:
        """Take note of a time without faults."""
        with self._lock:
            self._calms.append(calm)

    def have_all_moved(self, since_s: float) -> bool:
        """Say whether of every partition a commit was accepted that began later."""
        with self._lock:
            return all(self._last_acked_s.get(key, 0.0) >= since_s for key in self.keys)

    def count(self, outcome: Outcome) -> int:
        """Return how many commits had an outcome."""
        with self._lock:
            return sum(commit.outcome is outcome for commit in self._commits)

    def history(self) -> History:
        """Return all that was recorded."""
        with self._lock:
            return History(tuple(self._commits), tuple(self._reads), tuple(self._grants), tuple(self._calms), self.keys)


class Committer(threading.Thread):
    """One member that commits; when it is told to, its connection ends and another member begins in its place."""

    def __init__(self, addresses: str, group: str, recorder: Recorder, seed: int) -> None:
        super().__init__(daemon=True, name=f"member of {group}")
        self._addresses = addresses
        self._group = group
        self._recorder = recorder
        self._dice = random.Random(seed)
        self._is_over = threading.Event()
        self._is_replaced = threading.Event()
        self.troubles: list[str] = []

    def run(self) -> None:
        """Be one member after the other."""
        while not self._is_over.is_set():
            self._is_replaced.clear()
            client = MemberClient(self._settings())
            with suppress(KcoordError):
                self._live(client)
            with suppress(KcoordError):
                client.close()

    def replace(self) -> None:
        """Have another member begin in its place, which knows nothing of it."""
        self._is_replaced.set()

    def stop(self) -> None:
        """End."""
        self._is_over.set()

    def _settings(self) -> MemberSettings:
        return MemberSettings(
            coordinators=parse_addresses(self._addresses),
            group_id=self._group,
            client_id="chaos",
            topics=(TOPIC,),
            session_timeout_ms=SESSION_MS,
            reset_policy=ResetPolicy("earliest"),
            coordinator_timeout_ms=15_000,
            join_timeout_ms=10_000,
        )

    def _live(self, client: MemberClient) -> None:
        member = client.join().member_id
        last: dict[tuple[int, int], int] = {}
        """The offset tried last of a partition under an owner epoch."""
        while not self._is_over.is_set() and not self._is_replaced.is_set():
            owned: list[OffsetToCommit] = []
            for part in client.assignment().partitions:
                if part.is_stopping:
                    continue
                at = part.partition, part.owner_epoch
                if at not in last:
                    key = self._group, TOPIC, part.partition
                    self._recorder.grant(Grant(key, member, part.owner_epoch, part.start, time.monotonic()))
                    last[at] = part.start
                last[at] += 1
                owned.append(OffsetToCommit(TOPIC, part.partition, last[at], part.owner_epoch))
            if self._dice.random() < STUBBORN_SHARE:
                owned += self._stubborn(last, owned)
            if owned:
                self._commit(client, member, owned)
            self._is_over.wait(COMMIT_EVERY_S)

    def _stubborn(self, last: dict[tuple[int, int], int], owned: list[OffsetToCommit]) -> list[OffsetToCommit]:
        """Return a commit of what it owns no more, one further than it had come."""
        now = {part.partition for part in owned}
        gone = [at for at in last if at[0] not in now]
        if not gone:
            return []
        at = self._dice.choice(gone)
        last[at] += 1
        return [OffsetToCommit(TOPIC, at[0], last[at], at[1])]

    def _commit(self, client: MemberClient, member: str, offsets: list[OffsetToCommit]) -> None:
        began_s = time.monotonic()
        outcomes = [Outcome.UNKNOWN] * len(offsets)
        try:
            results = client.commit(offsets)
            outcomes = [
                Outcome.ACKED
                if result.error is ErrorCode.NONE
                else Outcome.UNKNOWN
                if result.error in _UNKNOWN
                else Outcome.FENCED
                for result in results
            ]
        finally:
            ended_s = time.monotonic()
            self._recorder.commits(
                [
                    Commit(
                        (self._group, TOPIC, each.partition),
                        member,
                        each.owner_epoch or 0,
                        each.offset,
                        began_s,
                        ended_s,
                        outcome,
                    )
                    for each, outcome in zip(offsets, outcomes, strict=True)
                ]
            )


class Line:
    """A connection to one node for questions, made anew when it ends; no answer in time ends it."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._address = host, int(port)
        self._socket: socket.socket | None = None
        self._session = Session(Role.MEMBER)

    def ask(self, request: Request) -> Response | None:
        """Return the answer; None if there is none."""
        try:
            if self._socket is None:
                self._connect()
            assert self._socket is not None
            _, data = self._session.send_request(request)
            self._socket.sendall(data)
            end_s = time.monotonic() + ASK_TIMEOUT_S
            while time.monotonic() < end_s:
                for event in self._read():
                    if isinstance(event, ResponseReceived):
                        return event.response
        except (OSError, EOFError, ProtocolError):
            pass
        self.close()
        return None

    def close(self) -> None:
        """End the connection."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _connect(self) -> None:
        self._socket = socket.create_connection(self._address, timeout=ASK_TIMEOUT_S)
        self._session = Session(Role.MEMBER)
        self._socket.sendall(self._session.send_hello())
        while self._session.version is None:
            self._read()

    def _read(self) -> list[object]:
        assert self._socket is not None
        data = self._socket.recv(1 << 16)
        if not data:
            raise EOFError
        return list(self._session.receive_bytes(data))


class Reader(threading.Thread):
    """Asks one node again and again what is committed of each group, whoever leads."""

    def __init__(self, name: str, address: str, groups: Sequence[str], recorder: Recorder) -> None:
        super().__init__(daemon=True, name=f"reader of {name}")
        self._node = name
        self._line = Line(address)
        self._groups = groups
        self._recorder = recorder
        self._is_over = threading.Event()

    def run(self) -> None:
        """Ask until it is over."""
        while not self._is_over.wait(READ_EVERY_S):
            for group in self._groups:
                self._read(group)
        self._line.close()

    def stop(self) -> None:
        """End."""
        self._is_over.set()

    def _read(self, group: str) -> None:
        began_s = time.monotonic()
        answer = self._line.ask(FetchOffsets(group))
        ended_s = time.monotonic()
        if not isinstance(answer, FetchOffsetsResponse):
            return
        if answer.error not in (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND):
            return
        found = {part.partition: part.offset for part in answer.offsets}
        self._recorder.reads(
            [
                Read(key, found.get(key[2], NOTHING), began_s, ended_s, self._node)
                for key in self._recorder.keys
                if key[0] == group
            ]
        )


def answers(address: str) -> bool:
    """Say whether a node answers members now."""
    line = Line(address)
    try:
        return line.ask(FindCoordinator("g0")) is not None
    finally:
        line.close()
