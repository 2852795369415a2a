"""A shard under random events against a model that reads its log: two dicts, who owns and what is committed."""

from collections.abc import Iterable

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from coordinator.core.groups.journal import Journal
from coordinator.core.groups.operator_records import ClaimsReleased, OffsetsDeleted, ResetApplied
from coordinator.core.groups.partition_table import TopicPartition
from coordinator.core.groups.records import (
    Advanced,
    ClaimsClosed,
    ClaimsGivenUp,
    ClaimsRunning,
    CommittedPart,
    Granted,
    GroupSettings,
    MemberJoined,
    MemberRemoved,
    OffsetsCommitted,
    Record,
    Released,
    Taken,
    decode_record,
)
from coordinator.core.groups.replay import replay
from coordinator.core.groups.snapshot import records_of
from coordinator.core.groups.state import ShardState
from coordinator.core.limits import Limits
from coordinator.protocol.columns import OffsetToCommit, in_columns, one_by_one, results_of
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    Advance,
    AdvanceResponse,
    CommitOffsets,
    CommitOffsetsResponse,
    ConfirmClaims,
    FetcherStopped,
    FetcherStoppedResponse,
    LeaveGroup,
    Ping,
)
from coordinator.protocol.operator_messages import (
    CancelResets,
    ChangeDrain,
    ChangePause,
    DeleteOffsets,
    ReleaseClaims,
    ResetOffsets,
)
from coordinator.protocol.parts import Claim, FinalOffset, ResetTarget
from tests.helpers.committed_parts import parts_of
from tests.helpers.node_world import Member, NodeWorld

NAMES = ("m1", "m2", "m3")
PARTITIONS = tuple((topic, number) for topic, count in (("t", 3), ("u", 4)) for number in range(count))
WHICH = st.integers(0, len(NAMES) - 1)
"""Stands for one of the members that are connected."""


class LogReader:
    """Reads a log from its beginning and asserts what must hold at every point of it."""

    def __init__(self) -> None:
        self.read = 0
        self.owners: dict[TopicPartition, tuple[str, int]] = {}
        self.committed: dict[TopicPartition, int] = {}
        self.claims: dict[TopicPartition, tuple[int, int]] = {}
        self.running: set[TopicPartition] = set()
        self.granted: set[tuple[str, TopicPartition, int]] = set()
        self.offered: set[tuple[TopicPartition, int, int, int]] = set()
        self.members: set[str] = set()
        self.handover = ""
        self.highest: dict[TopicPartition, int] = {}
        self.owner_commits: set[tuple[TopicPartition, int, int]] = set()

    def read_on(self, log: list[bytes]) -> None:
        for data in log[self.read :]:
            self._look_at(decode_record(data), self.read)
            self.read += 1

    def _look_at(self, record: Record, offset: int) -> None:
        match record:
            case GroupSettings():
                self.handover = record.handover
            case MemberJoined():
                self.members.add(record.facts.member_id)
            case Granted():
                assert record.member_id in self.members
                assert record.owner_epoch == offset
                assert record.partitions == tuple(sorted(set(record.partitions)))
                assert record.starts is None or record.starts.partitions == record.partitions
                for number in record.partitions:
                    self._grant(record, number, offset)
            case ResetApplied():
                self._reset(record, offset)
            case OffsetsDeleted():
                for partition in record.partitions:
                    assert partition not in self.owners, "the offset of an owned partition is deleted"
                    del self.committed[partition]
            case ClaimsReleased():
                for partition in record.partitions:
                    assert self.owners[partition][0] not in self.members, "the claim of a living owner is released"
                self._release(record.partitions)
            case OffsetsCommitted():
                self._commit(parts_of(record), ())
            case Released():
                self._commit(record.committed, ())
                self._release((part.topic, part.partition) for part in record.partitions)
            case Advanced():
                finals = {(part.topic, part.partition) for part in record.released}
                self._commit(record.committed, set(record.finished) - finals)
                for partition in record.finished:
                    self._close_claim(partition)
                self._release(finals)
                for partition, owner in self.owners.items():
                    if owner[0] == record.member_id and partition not in self.running:
                        self._close_claim(partition)
                for claim in record.offered:
                    partition = (claim.topic, claim.partition)
                    member_id, owner_epoch = self.owners[partition]
                    assert member_id == record.member_id
                    assert claim.from_offset == self.committed[partition], "a claim leaves a gap or overlaps"
                    assert partition not in self.running, "a claim replaces one that runs"
                    self.claims[partition] = (claim.from_offset, claim.until_offset)
                    self.offered.add((partition, owner_epoch, claim.from_offset, claim.until_offset))
            case ClaimsRunning():
                self.running.update(record.partitions)
            case ClaimsClosed():
                for partition in record.partitions:
                    self._close_claim(partition)
            case ClaimsGivenUp():
                self._release(record.partitions)
            case Taken():
                for partition in record.partitions:
                    assert self.owners[partition][0] == record.member_id in self.members
                self._release(record.partitions)
            case MemberRemoved():
                self.members.discard(record.member_id)
                had = [partition for partition, owner in self.owners.items() if owner[0] == record.member_id]
                if not record.keeps_running_claims:
                    self._release(had)
                else:
                    self._release(partition for partition in had if partition not in self.running)

    def _grant(self, record: Granted, number: int, offset: int) -> None:
        partition = (record.topic, number)
        owner = self.owners.get(partition)
        assert owner is None or owner[0] not in self.members, f"{partition} is granted while {owner} owns it"
        is_held = self.handover == "hold" and partition in self.running
        assert not is_held, f"{partition} is granted while {owner} has a running claim on it"
        self._close_claim(partition)
        self.owners[partition] = (record.member_id, offset)
        self.granted.add((record.member_id, partition, offset))
        if record.starts is not None:
            assert partition not in self.committed, "a start is written once"
            self._write(partition, dict(zip(record.starts.partitions, record.starts.offsets, strict=True))[number])

    def _commit(self, parts: Iterable[CommittedPart], finished: Iterable[TopicPartition]) -> None:
        finished = set(finished)
        for part in parts:
            partition = (part.topic, part.partition)
            owner = self.owners.get(partition)
            if part.owner_epoch is None:
                assert owner is None, "an operator committed what is owned"
            else:
                assert owner is not None
                assert part.owner_epoch == owner[1], f"{partition} was committed under another owner epoch than {owner}"
                if partition not in finished:
                    self.owner_commits.add((partition, part.owner_epoch, part.offset))
            assert part.offset >= self.committed.get(partition, 0), f"{partition} was committed backwards"
            if partition in finished:
                assert part.offset == self.claims[partition][1], "a commit went past the finished claim"
            self._write(partition, part.offset)

    def _write(self, partition: TopicPartition, offset: int) -> None:
        self.committed[partition] = offset
        self.highest[partition] = max(self.highest.get(partition, 0), offset)

    def _reset(self, record: ResetApplied, offset: int) -> None:
        """The one record that may move a committed offset back; never while a member owns the partition."""
        partition = (record.topic, record.partition)
        owner = self.owners.pop(partition, None)
        assert owner is None or owner[0] not in self.members, f"{partition} is reset while {owner} owns it"
        self._close_claim(partition)
        self._write(partition, record.offset)
        if record.member_id is not None:
            assert record.member_id in self.members
            assert record.owner_epoch == offset
            self.owners[partition] = (record.member_id, offset)
            self.granted.add((record.member_id, partition, offset))

    def _release(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in list(partitions):
            del self.owners[partition]
            self._close_claim(partition)

    def _close_claim(self, partition: TopicPartition) -> None:
        self.claims.pop(partition, None)
        self.running.discard(partition)


class ShardMachine(RuleBasedStateMachine):
    @initialize(
        is_durable_at_once=st.booleans(),
        snapshot_interval=st.sampled_from([15, 1_000]),
        slices=st.sampled_from([(1, 1, 1), (2, 1, 300), (500, 100, 65_536)]),
        members=st.integers(0, 2),
        handover=st.sampled_from(["takeover", "hold"]),
    )
    def begin(
        self,
        is_durable_at_once: bool,
        snapshot_interval: int,
        slices: tuple[int, int, int],
        members: int,
        handover: str,
    ) -> None:
        self.handover: dict[str, object] = {"handover": handover}
        if handover == "hold":
            self.handover["claim_timeout_ms"] = 5_000
        self.world = NodeWorld(
            {"t": 3, "u": 2},
            shards=1,
            limits=Limits(
                snapshot_interval_records=snapshot_interval,
                slice_partitions=slices[0],
                slice_members=slices[1],
                slice_bytes=slices[2],
            ),
            is_durable_at_once=is_durable_at_once,
        )
        self.reader = LogReader()
        self.acknowledged: dict[TopicPartition, int] = {}
        self.current: dict[str, Member] = {}
        self.incarnations = 0
        self.claims: dict[str, dict[TopicPartition, Claim]] = {name: {} for name in NAMES}
        self.stale: list[tuple[str, Claim]] = []
        for name in NAMES[:members]:
            self.register(name, is_new_process=False, lists_claims=False)
            self.world.sync()
            self.world.settle()
            self.world.sync()

    # ---- members ----

    @rule(name=st.sampled_from(NAMES), is_new_process=st.booleans(), lists_claims=st.booleans())
    def register(self, name: str, is_new_process: bool, lists_claims: bool) -> None:
        if is_new_process:
            self.incarnations += 1
        member = self.world.joining(
            name,
            incarnation=f"process-{self.incarnations}" if is_new_process else None,
            topics=("t", "u") if name == "m1" else ("t",) if name == "m2" else ("u", "t"),
            session_timeout_ms=6_000,
            rebalance_timeout_ms=4_000,
            claims=list(self.claims[name].values()) if lists_claims else (),
            instance_id=f"instance-of-{name}",
            streams=2 if name == "m1" else 1,
            wants_streams=name == "m1",
            **self.handover,  # type: ignore[arg-type]
        )
        assert member.registration is not None
        member.send(member.registration)
        self.current[name] = member

    @rule(name=st.sampled_from(NAMES))
    def close(self, name: str) -> None:
        if name in self.current:
            self.current.pop(name).close()

    @rule(name=st.sampled_from(NAMES))
    def leave(self, name: str) -> None:
        if name in self.current:
            self.current.pop(name).send(LeaveGroup())

    def _chosen(self, which: int) -> list[tuple[str, Member]]:
        """Return one of those who are members as far as they know, or none when there are none."""
        members = [(name, member) for name, member in self.current.items() if member.member_id and not member.fenced]
        return members[which % len(members) :][:1] if members else []

    @rule(which=WHICH)
    def ping(self, which: int) -> None:
        for _, member in self._chosen(which):
            member.send(Ping(0))

    @rule(which=WHICH, final=st.none() | st.integers(0, 60))
    def let_go(self, which: int, final: int | None) -> None:
        for _, member in self._chosen(which):
            known = [partition for partition in member.stopping if partition in member.owned]
            finals = tuple(
                FinalOffset(
                    *partition,
                    member.epoch(partition),
                    None if final is None else member.owned[partition].offset + final,
                )
                for partition in known
            )
            member.send(FetcherStopped(finals))
            member.stopping.clear()

    # ---- offsets and claims ----

    @rule(which=WHICH, ahead=st.integers(-20, 60), off_by=st.sampled_from([0, 0, 0, -1, 1]))
    def commit(self, which: int, ahead: int, off_by: int) -> None:
        for _, member in self._chosen(which):
            offsets = tuple(
                OffsetToCommit(*partition, max(0, part.offset + ahead), part.owner_epoch + off_by)
                for partition, part in member.owned.items()
            )
            member.send(CommitOffsets("g", in_columns(offsets)))

    @rule(partition=st.sampled_from([("t", 0), ("u", 1)]), offset=st.integers(0, 200))
    def commit_as_operator(self, partition: TopicPartition, offset: int) -> None:
        self.world.connect().send(CommitOffsets("g", in_columns((OffsetToCommit(*partition, offset),))))

    @rule(which=WHICH, size=st.integers(0, 9), off_by=st.sampled_from([0, 0, 0, 1]))
    def offer(self, which: int, size: int, off_by: int) -> None:
        for name, member in self._chosen(which):
            self._advance(name, member, size, off_by, releases=False)

    @rule(which=WHICH, size=st.integers(1, 9))
    def begin_batch(self, which: int, size: int) -> None:
        """Advance and run what was claimed, as a micro-batch does."""
        for name, member in self._chosen(which):
            self._advance(name, member, size, 0, releases=True)
            self._confirm(name, member)

    @rule(which=WHICH)
    def confirm(self, which: int) -> None:
        for name, member in self._chosen(which):
            self._confirm(name, member)

    def _advance(self, name: str, member: Member, size: int, off_by: int, *, releases: bool) -> None:
        finished = list(self.claims[name].values())
        claims = []
        for (topic, number), part in member.owned.items():
            begin = self._position((topic, number), part.offset, finished) + off_by
            claims.append(Claim(topic, part.topic_id, number, part.owner_epoch, begin, begin + size))
        released = [
            FinalOffset(*partition, member.epoch(partition))
            for partition in member.stopping
            if partition in member.owned
        ]
        member.send(Advance(tuple(finished), tuple(claims), tuple(released) if releases else ()))
        if releases:
            member.stopping.clear()
        self.stale.extend((name, claim) for claim in finished)
        self.claims[name] = {(claim.topic, claim.partition): claim for claim in claims}

    def _position(self, partition: TopicPartition, granted: int, finished: list[Claim]) -> int:
        for claim in finished:
            if (claim.topic, claim.partition) == partition:
                return claim.until_offset
        return max(granted, self.reader.committed.get(partition, 0))

    def _confirm(self, name: str, member: Member) -> None:
        member.send(ConfirmClaims(tuple(self.claims[name].values())))

    @precondition(lambda self: self.stale)
    @rule(data=st.data())
    def replay_an_old_advance(self, data: st.DataObject) -> None:
        name, claim = data.draw(st.sampled_from(self.stale))
        if name in self.current:
            self.current[name].send(Advance((claim,), ()))

    # ---- operators ----

    @rule(
        partition=st.sampled_from(PARTITIONS),
        where_to=st.sampled_from(
            [("earliest", None), ("latest", None), ("offset", 30), ("shift", -15), ("current", None)]
        ),
        release_claims=st.booleans(),
    )
    def reset(self, partition: TopicPartition, where_to: tuple[str, int | None], release_claims: bool) -> None:
        asked = ResetOffsets("g", (ResetTarget(*partition, *where_to),), "ann", "", release_claims, is_dry_run=False)
        self.world.connect().send(asked)

    @rule()
    def cancel_resets(self) -> None:
        self.world.connect().send(CancelResets("g", None, "ann", is_dry_run=False))

    @rule(partition=st.none() | st.sampled_from(PARTITIONS), is_paused=st.booleans())
    def pause_or_resume(self, partition: TopicPartition | None, is_paused: bool) -> None:
        named = None if partition is None else (partition,)
        self.world.connect().send(ChangePause("g", named, is_paused, "ann", is_dry_run=False))

    @rule(name=st.sampled_from(NAMES), is_drained=st.booleans())
    def drain_or_undrain(self, name: str, is_drained: bool) -> None:
        self.world.connect().send(ChangeDrain("g", name, is_drained, "ann", is_dry_run=False))

    @rule(partition=st.sampled_from(PARTITIONS), request=st.sampled_from([DeleteOffsets, ReleaseClaims]))
    def delete_or_release(self, partition: TopicPartition, request: type[DeleteOffsets] | type[ReleaseClaims]) -> None:
        self.world.connect().send(request("g", (partition,), "ann", is_dry_run=False))

    # ---- the world ----

    @rule(ms=st.sampled_from([10, 60, 60, 60, 1_100, 2_100, 4_100, 6_500]))
    def time_passes(self, ms: int) -> None:
        self.world.advance(ms)

    @rule()
    def disk_syncs(self) -> None:
        self.world.sync()

    @rule(is_away=st.booleans())
    def kafka_comes_or_goes(self, is_away: bool) -> None:
        self.world.kafka.is_away = is_away
        self.world.poll_topics()

    @rule()
    def topic_grows(self) -> None:
        self.world.kafka.topics["u"] = min(4, self.world.kafka.topics["u"] + 1)
        self.world.poll_topics()

    @rule()
    def coordinator_crashes(self) -> None:
        self._take_acknowledgements()
        self.world.restart()
        self.current.clear()
        self.reader = LogReader()
        self.reader.read_on(self.world.written[0])
        self._check_acknowledged()

    # ---- what must hold ----

    @invariant()
    def what_is_promised_holds(self) -> None:
        self.reader.read_on(self.world.written[0])
        self._take_acknowledgements()
        self._check_acknowledged()
        self._live_state_is_what_the_model_read()
        self._replay_equals_live_state()
        self._snapshot_equals_live_state()

    def _live_state_is_what_the_model_read(self) -> None:
        for group in self.world.state(0).groups.values():
            owners = {partition: (grant.member_id, grant.owner_epoch) for partition, grant in group.grants.items()}
            assert owners == self.reader.owners
            assert {partition: offset.offset for partition, offset in group.offsets.items()} == self.reader.committed
            for partition, grant in group.grants.items():
                assert grant.member_id in group.members or grant.has_running_claim, f"{partition} is nobody's"

    def _replay_equals_live_state(self) -> None:
        journal = Journal(0)
        journal.load(None, 0, [(0, self.world.written[0])])
        assert journal.state == self.world.state(0)

    def _snapshot_equals_live_state(self) -> None:
        rebuilt = ShardState()
        for record in records_of(self.world.state(0)):
            replay(rebuilt, record, None)
        assert rebuilt == self.world.state(0)

    def _take_acknowledgements(self) -> None:
        for member in self.world.members.values():
            for correlation_id, request in list(member.asked.items()):
                response = member.answer(correlation_id)
                match response:
                    case CommitOffsetsResponse(refused=refused):
                        assert isinstance(request, CommitOffsets)
                        wished = tuple(one_by_one(request.offsets))
                        results = results_of(wished, refused)
                        assert response.error is not ErrorCode.NONE or response.accepted == len(wished) - len(refused)
                        for asked, result in zip(wished, results, strict=True):
                            if result.error is ErrorCode.NONE and asked.owner_epoch is not None:
                                grant = (member.member_id, (asked.topic, asked.partition), asked.owner_epoch)
                                assert grant in self.reader.granted, f"a commit under no grant was accepted: {asked}"
                    case AdvanceResponse():
                        assert isinstance(request, Advance)
                        results = response.finished + response.released
                        self._check_finished(request, response)
                    case FetcherStoppedResponse():
                        results = response.results
                    case _:
                        continue
                for result in results:
                    if result.error is ErrorCode.NONE and result.committed is not None:
                        partition = (result.topic, result.partition)
                        self.acknowledged[partition] = max(self.acknowledged.get(partition, 0), result.committed)
                del member.asked[correlation_id]

    def _check_finished(self, request: Advance, response: AdvanceResponse) -> None:
        for claim, result in zip(request.finished, response.finished, strict=True):
            if result.error is ErrorCode.NONE and claim.from_offset != claim.until_offset:
                partition = (claim.topic, claim.partition)
                known = (partition, claim.owner_epoch, claim.from_offset, claim.until_offset)
                done = (partition, claim.owner_epoch, claim.until_offset)
                assert known in self.reader.offered or done in self.reader.owner_commits, (
                    f"a range that was never claimed was committed: {claim}"
                )

    def _check_acknowledged(self) -> None:
        """What was acknowledged is durable; that only a reset or a deletion undoes it is the log reader's to hold."""
        durable = LogReader()
        durable.read_on(self.world.written[0][: self.world.synced[0]])
        for partition, offset in self.acknowledged.items():
            highest = durable.highest.get(partition, -1)
            assert highest >= offset, f"{partition} was acknowledged at {offset} and is durable at {highest}"

    def teardown(self) -> None:
        """After the faults have stopped, a group must settle: the last member gets everything."""
        world = self.world
        world.is_durable_at_once = True
        world.sync()
        world.kafka.is_away = False
        for member in list(self.current.values()):
            member.close()
        world.poll_topics()
        tool = world.connect()
        tool.send(ChangePause("g", None, is_paused=False, who="ann", is_dry_run=False))
        tool.send(ChangePause("g", PARTITIONS, is_paused=False, who="ann", is_dry_run=False))
        world.advance(12_000)
        last = world.join(
            "last", topics=("t", "u"), session_timeout_ms=60_000, instance_id="instance-of-last", **self.handover
        )
        world.poll_topics()
        world.advance(2_000)
        everything = {(topic, number) for topic, count in world.kafka.topics.items() for number in range(count)}
        assert (set(last.owned), last.is_complete, world.describe().state) == (everything, True, "Stable")
        self.reader.read_on(world.written[0])


TestShard = ShardMachine.TestCase
TestShard.settings = settings(
    max_examples=150, stateful_step_count=50, deadline=None, suppress_health_check=list(HealthCheck)
)
