"""A full node: one client takes all the room that there is, and goes on asking for more.

Beside the good client, whose commits do not grow, there are members that lose their connections and come back, as the
same process and as another, and an operator who makes room.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from coordinator.protocol.columns import OffsetToCommit, in_columns
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import CommitOffsets, FetchOffsets, ListGroups
from coordinator.protocol.messages.operators import ChangePause, DeleteGroup, DeleteOffsets
from coordinator.protocol.messages.pages import next_page
from tests.helpers.raw_member import RawMember
from tests.standing.case import Case, must
from tests.standing.cases.kafka_numbers import registration
from tests.standing.load import wait
from tests.standing.trial import PARTITIONS, Trial

MIB = 1 << 20
GROUP_MAX = 2 * MIB
MOST = 5 * MIB
SIZES = (4_000, 400, 40, 0)
"""Metadata of the flood, by and by less, so that in the end there is not room for one more offset."""
AT_ONCE = 200
RETURNS = 3
FLOOD_S = 2.0
COPIES_ON_DISK = 6
"""How often the state may be on disk: in a log, in a snapshot that is written and in those that are kept."""
WORDS = ("delete offsets or groups", "kcoord group delete-offsets", "less metadata", "raise group.")


class Flood:
    """A client that wants ever more: offsets with metadata, groups, members."""

    def __init__(self, trial: Trial, topic: str) -> None:
        self._trial = trial
        self._topic = topic
        self._number = self._joined = 0
        self._begun: dict[tuple[str, int], int] = {}
        """From which partition on a group may have none of a size, so that no room is left to others for long."""
        self.refusals: dict[str, str] = {}
        """The newest refusal of each limit, by the setting that it names."""
        self.counts: dict[str, int] = {}

    def fill(self) -> None:
        """Commit, with new groups whenever one is full, until there is not room for one more offset anywhere."""
        with RawMember(self._trial.address, "flood") as tool:
            for size in SIZES:
                while not self._fill_group(tool, f"flood-{self._number}", size):
                    self._number += 1

    def _fill_group(self, tool: RawMember, group: str, size: int) -> bool:
        """Fill a group with offsets of a size; return whether it is another limit than the group's that is met."""
        for first in range(self._begun.get((group, size), 0), GROUP_MAX // 48, AT_ONCE):
            self._begun[group, size] = first
            numbers = range(first, first + AT_ONCE)
            wishes = in_columns(OffsetToCommit(f"of-{size}", number, 1, metadata="m" * size) for number in numbers)
            answer = tool.ask(CommitOffsets(group, wishes))
            refused = {self._note(each.error, each.message) for each in answer.refused}
            if refused:
                return refused != {"group_max_bytes"}
        must(False, f"{group} has taken {GROUP_MAX} bytes and is not full")
        return True

    def register(self) -> None:
        """Join groups that are new, and have each connection go."""
        for _ in range(20):
            self._joined += 1
            group = f"new-{self._joined}"
            with RawMember(self._trial.address, group) as member:
                answer = member.ask(registration(group, self._topic))
                if answer.error is not ErrorCode.NONE:
                    self._note(answer.error, answer.message)

    def _note(self, error: ErrorCode, why: str) -> str:
        must(error is ErrorCode.STATE_LIMIT_REACHED, f"it is refused with {error.name}: {why}")
        must(all(word in why for word in WORDS), f"a refusal does not say what to do: {why}")
        setting = why.rpartition("raise group.")[2]
        self.refusals[setting] = why
        self.counts[setting] = self.counts.get(setting, 0) + 1
        return setting

    @contextmanager
    def going_on(self) -> Iterator[None]:
        """Take whatever room there is within the block, all the time."""
        is_over = threading.Event()

        def go_on() -> None:
            while not is_over.is_set():
                with suppress(EOFError, OSError):
                    self.fill()
                    self.register()

        with ThreadPoolExecutor(1) as pool:
            flood = pool.submit(go_on)
            try:
                yield
            finally:
                is_over.set()
            flood.result(30)


def bytes_by_group(trial: Trial) -> Mapping[str, int]:
    """Return what each group takes, as the node says."""
    found: dict[str, int] = {}
    with RawMember(trial.address, "flood") as tool:
        request: ListGroups | None = ListGroups()
        while request is not None:
            answer = tool.ask(request)
            found |= {group.group_id: group.bytes for group in answer.groups}
            request = next_page(request, answer)
    return found


def commit_all(member: RawMember, offset: int) -> None:
    """Commit every partition that a member has, which must be accepted."""
    wishes = [
        OffsetToCommit(topic, partition, offset, start.owner_epoch)
        for (topic, partition), start in member.owned.items()
    ]
    answer = member.ask(CommitOffsets(member.group_id, in_columns(wishes)))
    must(answer.accepted == len(wishes) > 0, f"a commit that takes no more is refused: {answer}")


def come_back(
    member: RawMember, offset: int, *, is_other_process: bool, meanwhile: Callable[[], None] = lambda: None
) -> None:
    """Lose the connection of a member, and have it back with all its partitions and at work.

    The node removes it at once, and `meanwhile` others may have what it took.
    """
    member.disconnect()
    wait(0.2)
    meanwhile()
    if is_other_process:
        member.incarnation = f"{member.incarnation[:8]}-{offset}"
    member.connect()
    answer = member.register()
    must(answer.error is ErrorCode.NONE, f"a member that was there is not let in: {answer.error.name} {answer.message}")
    member.wait_until_complete()
    commit_all(member, offset)


def on_disk(folder: Path) -> int:
    """Return the bytes of a node's files."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def is_fresh(trial: Trial, topic: str) -> bool:
    """Say whether a group that is new gets a member and has room for metadata."""
    with RawMember(trial.address, "fresh", topic) as member:
        if member.register().error is not ErrorCode.NONE:
            return False
        member.wait_until_complete()
        wishes = [
            OffsetToCommit(*partition, 1, start.owner_epoch, metadata="m" * 4_000)
            for partition, start in member.owned.items()
        ]
        return bool(member.ask(CommitOffsets("fresh", in_columns(wishes))).accepted == len(wishes))


def full(trial: Trial, limit: str) -> None:
    """Fill a node up to a limit of all groups, have others at work on it, kill it, and make room."""
    topic = f"full-{trial.name}"
    trial.kafka.create_topic(topic, PARTITIONS)
    trial.start(f"group.group_max_bytes={GROUP_MAX}", f"group.{limit}={MOST}")
    trial.beside()
    flood = Flood(trial, topic)
    with ExitStack() as opened:
        members = [opened.enter_context(RawMember(trial.address, f"back-{number}", topic)) for number in range(3)]
        for member in members:
            must(member.register().error is ErrorCode.NONE, "it is not full yet")
            member.wait_until_complete()
            commit_all(member, 1)
        flood.fill()
        flood.register()
        for number, member in enumerate(members):
            come_back(member, 2, is_other_process=number > 0, meanwhile=flood.fill)
        with flood.going_on():
            for round_ in range(RETURNS):
                for number, member in enumerate(members):
                    come_back(member, 3 + round_, is_other_process=number > 0)
            wait(FLOOD_S)
        must(not is_fresh(trial, topic), "a full node has room for another group")
        must(set(flood.refusals) == {"group_max_bytes", limit}, f"refused for {flood.refusals}")
        size = on_disk(trial.node.data_dir)
        must(size < COPIES_ON_DISK * MOST, f"{size} bytes are on disk for {MOST} of state")
        before = bytes_by_group(trial)
        with trial.set_apart():
            trial.kill()
            trial.start()
            for member in members:
                come_back(member, 3 + RETURNS, is_other_process=True)
        after = bytes_by_group(trial)
        lost = {group for group, count in before.items() if group.startswith("flood-") and after.get(group) != count}
        must(not lost, f"after a start groups take something else: {lost}", kind="lost")
        with flood.going_on():
            for member in members:
                come_back(member, 4 + RETURNS, is_other_process=False)
        make_room(trial, members[0], topic, after)
        for member in members:
            come_back(member, 5 + RETURNS, is_other_process=True)
        must(is_fresh(trial, topic), "room was made and a new group has none")


def make_room(trial: Trial, member: RawMember, topic: str, groups: Mapping[str, int]) -> None:
    """Do what an operator can: pause what is owned and delete it, delete offsets, delete groups."""
    with RawMember(trial.address, "room") as tool:
        must(not is_fresh(trial, topic), "it is full no more before anybody has made room")
        paused = tool.ask(ChangePause(member.group_id, ((topic, 0),), True, "ann", "it is full", is_dry_run=False))
        must(paused.error is ErrorCode.NONE, f"an operator cannot pause on a full node: {paused.message}")
        tool.ask(ChangePause(member.group_id, ((topic, 0),), False, "ann", is_dry_run=False))
        largest = max((group for group in groups if group.startswith("flood-")), key=lambda group: groups[group])
        named = tuple((each.topic, each.partition) for each in tool.ask(FetchOffsets(largest)).offsets)
        deleted = tool.ask(DeleteOffsets(largest, named, "ann", "nobody needs them", is_dry_run=False))
        must(all(each.error is ErrorCode.NONE for each in deleted.results), "offsets of nobody are not deleted")
        must(bytes_by_group(trial)[largest] < groups[largest], "what was deleted is counted on")
        for group in groups:
            if group.startswith(("flood-", "new-")):
                answer = tool.ask(DeleteGroup(group, "ann", "nobody needs it", is_dry_run=False))
                must(answer.error is ErrorCode.NONE, f"group {group} cannot be deleted: {answer.message}")
    left = sum(bytes_by_group(trial).values())
    must(left < MIB, f"{left} bytes are in use after everything of the flood was deleted")


def _of(limit: str) -> Callable[[Trial], None]:
    return lambda trial: full(trial, limit)


CASES = [
    Case(
        "full-node",
        "on a full node commits go on that do not grow, members come back, and an operator makes room",
        _of("node_max_bytes"),
        120,
    ),
    Case(
        "full-principal",
        "where a principal has no room left, what is there goes on, and an operator makes room",
        _of("principal_max_bytes"),
        120,
    ),
]
