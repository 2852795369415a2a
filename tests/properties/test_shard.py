"""A shard under random events against a model that reads its log: two dicts, who owns and what is committed."""

from collections.abc import Sequence

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from coordinator.core.groups.hard.account import bytes_of, principal_of, recount
from coordinator.core.groups.hard.journal import Journal
from coordinator.core.groups.hard.replay.replay import replay
from coordinator.core.groups.hard.snapshot import records_of
from coordinator.core.groups.hard.state import ShardState
from coordinator.core.groups.partitions.partition_table import TopicPartition
from coordinator.core.limits import Limits
from coordinator.protocol.claim_columns import advance_of, claims_in_columns, claims_of
from coordinator.protocol.columns import OffsetToCommit, in_columns, one_by_one, results_of
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.ids import EARLIEST, LATEST
from coordinator.protocol.messages import (
    Advance,
    AdvanceResponse,
    BeginClaims,
    CommitOffsets,
    CommitOffsetsResponse,
    ConfirmClaims,
    FetcherStopped,
    FetcherStoppedResponse,
    FinishClaims,
    FinishClaimsResponse,
    LeaveGroup,
    Ping,
    ReportOutOfRange,
)
from coordinator.protocol.messages.operators import (
    CancelResets,
    ChangeDrain,
    ChangePause,
    DeleteGroup,
    DeleteOffsets,
    ReleaseClaims,
    ResetOffsets,
)
from coordinator.protocol.parts import (
    Claim,
    FinalOffset,
    LostPosition,
    PartitionResult,
    ResetPolicy,
    ResetTarget,
    StartHint,
)
from coordinator.protocol.vocabulary import IsolationLevel
from tests.helpers.claim_answers import advanced, finished_results
from tests.helpers.examples import examples
from tests.helpers.loading import load
from tests.helpers.log_reader import LogReader
from tests.helpers.node_member import Member
from tests.helpers.node_world import NodeWorld

NAMES = ("m1", "m2", "m3")
PARTITIONS = tuple((topic, number) for topic, count in (("t", 3), ("u", 4)) for number in range(count))
WHICH = st.integers(0, len(NAMES) - 1)
"""Stands for one of the members that are connected."""

OPTIONS = st.builds(
    lambda partition, offset: StartHint(partition[0], "", partition[1], offset, from_checkpoint=False),
    st.sampled_from(PARTITIONS),
    st.sampled_from([EARLIEST, LATEST, 0, 55]),
)
CHECKPOINTS = st.builds(
    lambda partition, has_id, offset, owner_epoch: StartHint(
        partition[0], f"id-{partition[0]}" if has_id else "", partition[1], offset, True, owner_epoch
    ),
    st.sampled_from(PARTITIONS),
    st.booleans(),
    st.integers(0, 120),
    st.none() | st.integers(0, 60),
)
EXTRAS = st.fixed_dictionaries(
    {},
    optional={
        "hints": st.lists(OPTIONS | CHECKPOINTS, max_size=7),
        "is_returning": st.booleans(),
        "application": st.just("program"),
        "shares_application": st.booleans(),
        "isolation_level": st.sampled_from([IsolationLevel.READ_UNCOMMITTED, IsolationLevel.READ_COMMITTED]),
    },
)
"""Facts of members beyond those that they need to say."""

READERS_POLICIES = st.none() | st.sampled_from([ResetPolicy("earliest"), ResetPolicy("latest"), ResetPolicy("none")])


class ShardMachine(RuleBasedStateMachine):
    @initialize(
        is_durable_at_once=st.booleans(),
        snapshot_interval=st.sampled_from([5, 15, 1_000]),
        slices=st.sampled_from([(1, 1, 1), (2, 1, 300), (500, 100, 65_536)]),
        members=st.integers(0, 2),
        handover=st.sampled_from(["takeover", "hold"]),
        policy=st.sampled_from([None, ResetPolicy("earliest")]),
        retention_ms=st.sampled_from([3_000, 3_600_000]),
        extras=st.just({}) | EXTRAS,
        readers=st.sampled_from([0, 0, 1, 2]),
    )
    def begin(
        self,
        is_durable_at_once: bool,
        snapshot_interval: int,
        slices: tuple[int, int, int],
        members: int,
        handover: str,
        policy: ResetPolicy | None,
        retention_ms: int,
        extras: dict[str, object],
        readers: int,
    ) -> None:
        self.handover: dict[str, object] = {"handover": handover}
        if handover == "hold":
            self.handover["claim_timeout_ms"] = 5_000
        self.policy = policy
        self.world = NodeWorld(
            {"t": 3, "u": 2},
            shards=1,
            limits=Limits(
                snapshot_interval_records=snapshot_interval,
                slice_partitions=slices[0],
                slice_members=slices[1],
                slice_bytes=slices[2],
                offsets_retention_ms=retention_ms,
                empty_group_retention_ms=retention_ms,
                lived_interval_ms=2_000,
            ),
            is_durable_at_once=is_durable_at_once,
        )
        self.looked_at_snapshot = 0
        self.reader = LogReader()
        self.acknowledged: dict[TopicPartition, int] = {}
        self.current: dict[str, Member] = {}
        self.incarnations = 0
        self.claims: dict[str, dict[TopicPartition, Claim]] = {name: {} for name in NAMES}
        self.stale: list[tuple[str, Claim]] = []
        for number, name in enumerate(NAMES[:members]):
            self.register(
                name,
                is_new_process=False,
                lists_claims=False,
                extras=extras,
                reads_only=number < readers,
                own_policy=None,
            )
            self.world.sync()
            self.world.settle()
            self.world.sync()

    # ---- members ----

    @rule(
        name=st.sampled_from(NAMES),
        is_new_process=st.booleans(),
        lists_claims=st.booleans(),
        extras=st.just({}) | EXTRAS,
        reads_only=st.sampled_from([False, False, True]),
        own_policy=READERS_POLICIES,
    )
    def register(
        self,
        name: str,
        is_new_process: bool,
        lists_claims: bool,
        extras: dict[str, object],
        reads_only: bool,
        own_policy: ResetPolicy | None,
    ) -> None:
        if is_new_process:
            self.incarnations += 1
        if reads_only:
            self.claims[name] = {}
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
            commits=not reads_only,
            reset_policy=own_policy if reads_only else self.policy,
            **self.handover,  # type: ignore[arg-type]
            **extras,  # type: ignore[arg-type]
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

    @rule(which=WHICH, positions=st.lists(st.none() | st.integers(0, 160), min_size=1, max_size=3))
    def report_out_of_range(self, which: int, positions: list[int | None]) -> None:
        """Report all that a member has, more than once when several positions are given."""
        for _, member in self._chosen(which):
            lost = tuple(
                LostPosition(*partition, part.owner_epoch, position)
                for position in positions
                for partition, part in member.owned.items()
            )
            member.send(ReportOutOfRange(lost))

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

    @rule(which=WHICH, size=st.integers(0, 9))
    def add_to_what_is_offered(self, which: int, size: int) -> None:
        """Claim once more what is claimed, and as much behind it, as a second part of one micro-batch may."""
        for name, member in self._chosen(which):
            more = tuple(
                Claim(one.topic, one.topic_id, one.partition, one.owner_epoch, one.from_offset, one.until_offset + size)
                for one in self.claims[name].values()
            )
            member.send(advance_of((), more, keeps_offered=True))

    @rule(name=st.sampled_from(NAMES), finishes=st.booleans(), is_question=st.booleans())
    def speak_for(self, name: str, finishes: bool, is_question: bool) -> None:
        """Begin or finish the claims of a member that may be gone, on a connection that is not its own."""
        columns, other = claims_in_columns(self.claims[name].values()), self.world.connect()
        other.send(FinishClaims("g", name, columns) if finishes else BeginClaims("g", name, columns, is_question))

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
        member.send(advance_of(finished, claims, tuple(released) if releases else ()))
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
        member.send(ConfirmClaims(claims_in_columns(self.claims[name].values())))

    @precondition(lambda self: self.stale)
    @rule(data=st.data())
    def replay_an_old_advance(self, data: st.DataObject) -> None:
        name, claim = data.draw(st.sampled_from(self.stale))
        if name in self.current:
            self.current[name].send(advance_of((claim,), ()))

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

    @rule()
    def delete_the_group(self) -> None:
        self.world.connect().send(DeleteGroup("g", "ann", is_dry_run=False))

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

    @rule(is_late=st.booleans())
    def answers_come_late_or_at_last(self, is_late: bool) -> None:
        self.world.kafka.is_late = is_late
        self.world.answer_late()

    @rule(partition=st.sampled_from(PARTITIONS), begin=st.integers(0, 60), length=st.integers(0, 100))
    def log_moves(self, partition: TopicPartition, begin: int, length: int) -> None:
        kafka = self.world.kafka
        kafka.begins[partition], kafka.ends[partition] = begin, begin + length
        kafka.stable[partition] = begin + length // 2

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
        self._written_snapshot_equals_its_place_in_the_log()
        self._account_equals_a_recount()

    def _account_equals_a_recount(self) -> None:
        state = self.world.state(0)
        for group in state.groups.values():
            assert bytes_of(group) == group.counted_bytes == recount(group)
        total = sum(map(recount, state.groups.values()))
        assert sum(state.bytes_of.values()) == total
        assert set(state.bytes_of) == {principal_of(group) for group in state.groups.values()}

    def _live_state_is_what_the_model_read(self) -> None:
        for group in self.world.state(0).groups.values():
            owners = {partition: (grant.member_id, grant.owner_epoch) for partition, grant in group.grants.items()}
            assert owners == self.reader.owners
            assert {partition: offset.offset for partition, offset in group.offsets.items()} == self.reader.committed
            for partition, grant in group.grants.items():
                assert grant.member_id in group.members or group.claims.is_running(partition), (
                    f"{partition} is nobody's"
                )

    def _replay_equals_live_state(self) -> None:
        journal = Journal(0)
        load(journal, None, 0, [(0, self.world.written[0])])
        assert journal.state == self.world.state(0)

    def _snapshot_equals_live_state(self) -> None:
        rebuilt = ShardState()
        for record in records_of(self.world.state(0)):
            replay(rebuilt, record, None)
        assert rebuilt == self.world.state(0)

    def _written_snapshot_equals_its_place_in_the_log(self) -> None:
        """A snapshot that grows while the shard goes on is the state as of where it was begun."""
        end_offset, records = self.world.snapshots.get(0, (0, ()))
        if end_offset == self.looked_at_snapshot:
            return
        self.looked_at_snapshot = end_offset
        loaded, from_log = Journal(0), Journal(0)
        load(loaded, records, end_offset, [])
        load(from_log, None, 0, [(0, self.world.written[0][:end_offset])])
        assert loaded.state == from_log.state

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
                        done = tuple(claims_of(request.finished))
                        answer = advanced(response, done, claims_of(request.claims), request.released)
                        results = answer.finished + answer.released
                        if answer.error is ErrorCode.NONE:
                            self._check_finished(done, answer.finished)
                    case FinishClaimsResponse():
                        assert isinstance(request, FinishClaims)
                        results = finished_results(response, tuple(claims_of(request.claims)))
                    case FetcherStoppedResponse():
                        results = response.results
                    case _:
                        continue
                for result in results:
                    if result.error is ErrorCode.NONE and result.committed is not None:
                        partition = (result.topic, result.partition)
                        self.acknowledged[partition] = max(self.acknowledged.get(partition, 0), result.committed)
                del member.asked[correlation_id]

    def _check_finished(self, finished: Sequence[Claim], results: Sequence[PartitionResult]) -> None:
        for claim, result in zip(finished, results, strict=True):
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
        world.kafka.is_away = world.kafka.is_late = False
        world.answer_late()
        for member in list(self.current.values()):
            member.close()
        world.poll_topics()
        tool = world.connect()
        tool.send(ChangePause("g", None, is_paused=False, who="ann", is_dry_run=False))
        tool.send(ChangePause("g", PARTITIONS, is_paused=False, who="ann", is_dry_run=False))
        world.advance(12_000)
        last = world.join(
            "last",
            topics=("t", "u"),
            session_timeout_ms=60_000,
            instance_id="instance-of-last",
            reset_policy=self.policy,
            **self.handover,
        )
        world.poll_topics()
        world.advance(2_000)
        everything = {(topic, number) for topic, count in world.kafka.topics.items() for number in range(count)}
        assert (set(last.owned), last.is_complete, world.describe().state) == (everything, True, "Stable")
        self.reader.read_on(world.written[0])


TestShard = ShardMachine.TestCase
TestShard.settings = settings(
    max_examples=examples(40, 150), stateful_step_count=50, deadline=None, suppress_health_check=list(HealthCheck)
)
