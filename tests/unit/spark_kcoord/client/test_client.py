"""A client says to a coordinator what the command line says, and returns values or raises what a program can act on."""

import asyncio
import pickle
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest

from coordinator.client.security import SECURITY_SETTINGS
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.ids import MAX_NAMED
from coordinator.protocol.messages import (
    DescribeGroup,
    DescribeGroupResponse,
    ErrorResponse,
    FetchOffsets,
    FetchOffsetsResponse,
    ListGroupEvents,
    ListGroupEventsResponse,
    ListGroups,
    ListGroupsResponse,
)
from coordinator.protocol.messages.operators import (
    ChangeDrain,
    ChangeDrainResponse,
    ChangePause,
    ChangePauseResponse,
    DeleteGroup,
    DeleteGroupResponse,
    DeleteOffsets,
    DeleteOffsetsResponse,
    DescribeControls,
    DescribeControlsResponse,
    ResetOffsets,
    ResetOffsetsResponse,
)
from coordinator.protocol.parts import (
    Claim,
    ClaimState,
    CommittedOffset,
    ControlDescription,
    GroupEvent,
    GroupSummary,
    MemberDescription,
    PartitionDescription,
    PartitionResult,
    ResetResult,
    ResetTarget,
)
from coordinator.protocol.text.addresses import format_address
from kcoord import AsyncClient, Client, client_errors, client_values
from tests.helpers.scripted_cluster import Script, bootstrap, scripted_cluster
from tests.helpers.scripted_coordinator import CLOSES, ScriptedCoordinator

AT_MS = 1_767_225_600_000
AT = datetime(2026, 1, 1, tzinfo=UTC)
GROUP = DescribeGroupResponse(
    group_id="g",
    state="Stable",
    group_epoch=4,
    assignor="sticky",
    members=(MemberDescription("m1", None, "c1", "h1", 7, "Stable", 4, 2, True, 1, 1),),
    partitions=(
        PartitionDescription(
            "t", 0, 5, 9, "m1", 41, claim=Claim("t", "i", 0, 41, 5, 8), claim_state=ClaimState.RUNNING
        ),
        PartitionDescription("t", 1, None, 9),
    ),
    bytes=300,
)
DRAINED = ControlDescription("member-drained", "ann@h", "new disk", AT_MS, member_id="m1")
KNOWN = {
    ListGroups: ListGroupsResponse((GroupSummary("a", "Stable", 1, 2, 10), GroupSummary("b", "Empty", 1, 0, 10))),
    DescribeGroup: GROUP,
    DescribeControls: DescribeControlsResponse(controls=(DRAINED,)),
}


def asked_of(call, answers=None):
    """Return what comes of a call, and what the coordinator was asked for it."""
    with ScriptedCoordinator({**KNOWN, **(answers or {})}) as coordinator:
        returned = call(Client(format_address(coordinator.address), timeout=20))
    return returned, coordinator.asked


def failed(call, answers, kind):
    """Return the error of a call, and what the coordinator was asked for it."""
    with ScriptedCoordinator({**KNOWN, **answers}) as coordinator, pytest.raises(kind) as raised:
        call(Client(format_address(coordinator.address), timeout=20))
    return raised.value, coordinator.asked


class TestReading:
    @pytest.mark.parametrize(
        ("arguments", "ids"),
        [({}, ["a", "b"]), ({"match": "a*"}, ["a"]), ({"states": "empty"}, ["b"]), ({"match": "x", "states": []}, [])],
    )
    def test_groups(self, arguments, ids):
        groups, _ = asked_of(lambda client: client.groups(**arguments))
        assert [group.group for group in groups] == ids
        assert ids != ["a"] or groups == (client_values.Group("a", "Stable", 2, 1, 10),)

    def test_groups_that_no_node_serves_are_missed_and_not_passed_over(self, monkeypatch):
        monkeypatch.setattr("coordinator.client.every_node.LIST_AGAIN_S", 0.0)
        script = Script({0: 1, 1: None}, {0: ("a",)})
        unserved = pytest.raises(client_errors.CoordinatorUnavailableError, match="Groups of shards 1 are not known")
        with scripted_cluster(script), unserved as raised:
            Client(bootstrap(script), timeout=20).groups()
        assert [group.group for group in raised.value.result] == ["a"]
        assert raised.value.is_retriable

    def test_a_group_with_all_of_it(self):
        group, _ = asked_of(lambda client: client.describe("g"))
        assert (group.group, group.state, group.group_epoch, group.bytes) == ("g", "Stable", 4, 300)
        assert [(member.member_id, member.is_drained, member.owned) for member in group.members] == [("m1", True, 1)]
        assert group.controls == (
            client_values.Control("member-drained", "ann@h", "new disk", AT, None, None, "m1", None),
        )
        claim = client_values.Claim(5, 8, 41, "RUNNING")
        assert group.partitions == (
            client_values.Partition("t", 0, 5, 9, 4, "m1", 41, False, claim),
            client_values.Partition("t", 1, None, 9, None, None, None, False, None),
        )

    def test_its_parts_are_the_same_as_of_all_of_it(self):
        def parts(client):
            return client.members("g"), client.partitions("g"), client.lag("g")

        (members, partitions, lag), _ = asked_of(parts)
        group, _ = asked_of(lambda client: client.describe("g"))
        assert (members, partitions) == (group.members, group.partitions)
        assert lag == client_values.GroupLag("g", 4, 1, (client_values.TopicLag("t", 2, 4, 4, 1),))

    def test_committed_offsets(self):
        answers = {FetchOffsets: FetchOffsetsResponse(offsets=(CommittedOffset("t", "i", 0, 5, None, "m", AT_MS),))}
        committed, _ = asked_of(lambda client: client.committed("g"), answers)
        assert committed == {("t", 0): client_values.CommittedOffset(5, AT, "m", None, "i")}

    def test_events_are_asked_for_as_they_are_wanted(self):
        event = GroupEvent(17, AT_MS, "rebalance", "", "m1 joined", 4, (("t", 0),), 12, 9)
        answers = {ListGroupEvents: ListGroupEventsResponse(events=(event,), last_sequence=17)}
        events, asked = asked_of(lambda client: client.events("g", AT, ["rebalance", "Rebalance"], after=3), answers)
        assert events == (client_values.Event(17, AT, "rebalance", None, "m1 joined", 4, (("t", 0),), 9, 12),)
        assert asked == [ListGroupEvents("g", 3, AT_MS, ("rebalance",))]

    def test_nodes_and_shards(self):
        script = Script({0: 1, 1: 2})
        with scripted_cluster(script, (1, 2)):
            client = Client(bootstrap(script, 1), timeout=20)
            nodes, shards = client.nodes(), client.shards()
        assert [(node.node_id, node.is_controller, node.leads) for node in nodes] == [(1, True, 1), (2, False, 1)]
        assert [(shard.shard, shard.leader, shard.isr) for shard in shards] == [(0, 1, (1, 2)), (1, 2, (1, 2))]

    def test_a_wait_returns_the_group(self):
        waited, _ = asked_of(lambda client: client.wait("g", state="stable", members=1))
        assert waited == client_values.Group("g", "Stable", 1, 4, 300)

    def test_a_wait_whose_time_is_over_says_what_is_missing(self, monkeypatch):
        monkeypatch.setattr("coordinator.client.operating.waiting._LEAST_LOOK_S", 60.0)  # it is looked once
        monkeypatch.setattr("coordinator.client.operating.waiting.LOOK_TIMEOUT_S", 60.0)
        error, _ = failed(lambda client: client.wait("g", lag_below=1, timeout=0.1), {}, client_errors.WaitTimeoutError)
        assert "the lag of 1 of its 2 partitions is not known" in str(error)
        assert (error.code, error.is_retriable, isinstance(error, TimeoutError)) == ("WAIT_TIMED_OUT", True, True)


class TestChanging:
    def test_a_reset_is_a_dry_run_with_old_new_and_delta(self):
        results = (ResetResult("t", 0, old_offset=5, new_offset=0, is_pending=True), ResetResult("t", 1, new_offset=3))
        answers = {ResetOffsets: ResetOffsetsResponse(results=results)}
        reset, asked = asked_of(lambda client: client.reset_offsets("g", "earliest", reason="bad"), answers)
        assert reset.partitions == (
            client_values.PartitionReset("t", 0, 5, 0, -5, "would-wait", None, ""),
            client_values.PartitionReset("t", 1, None, 3, None, "would-set", None, ""),
        )
        assert (reset.is_dry_run, reset.delta) == (True, -5)
        assert (asked[-1].why, asked[-1].is_dry_run, "@" in asked[-1].who) == ("bad", True, True)
        assert asked[-1].targets == (ResetTarget("t", 0, "earliest"), ResetTarget("t", 1, "earliest"))

    @pytest.mark.parametrize(
        ("arguments", "target"),
        [
            ({"to": 7}, ("offset", 7)),
            ({"to": AT}, ("timestamp", AT_MS)),
            ({"to": timedelta(minutes=15)}, ("duration", 900_000)),
            ({"shift_by": -10}, ("shift", -10)),
            ({"to": "Current"}, ("current", None)),
        ],
    )
    def test_every_place_to_which_a_reset_leads(self, arguments, target):
        answers = {ResetOffsets: ResetOffsetsResponse()}
        _, asked = asked_of(
            lambda client: client.reset_offsets("g", partitions="t:3", execute=True, **arguments), answers
        )
        assert asked[-1].targets == (ResetTarget("t", 3, *target),)
        assert asked[-1].is_dry_run is False

    def test_offsets_by_partition_ask_for_no_description(self):
        answers = {ResetOffsets: ResetOffsetsResponse()}
        _, asked = asked_of(lambda client: client.reset_offsets("g", {("t", 0): 5, ("u", 2): 0}), answers)
        (request,) = asked
        assert request.targets == (ResetTarget("t", 0, "offset", 5), ResetTarget("u", 2, "offset", 0))

    def test_partitions_that_are_refused_are_no_success(self):
        results = (
            ResetResult("t", 0, old_offset=5, new_offset=9),
            ResetResult("t", 1, ErrorCode.PARTITION_OWNED, "a claim is running"),
        )
        answers = {ResetOffsets: ResetOffsetsResponse(results=results)}
        error, _ = failed(
            lambda client: client.reset_offsets("g", "latest", execute=True),
            answers,
            client_errors.PartitionsRefusedError,
        )
        assert (error.code, error.refusal, error.partitions) == ("PARTITION_OWNED", "PARTITION_OWNED", (("t", 1),))
        assert [row.state for row in error.result.partitions] == ["set", "refused"]
        assert str(error) == (
            "The coordinator refused 1 of 2 partitions of group 'g', and the others are done: t-1: a claim is running "
            "(PARTITION_OWNED)."
        )

    def test_what_is_done_of_very_many_partitions_is_said(self):
        answers = {ResetOffsets: [ResetOffsetsResponse(), ResetOffsetsResponse(ErrorCode.INVALID_REQUEST, "no")]}
        offsets = {("t", number): 0 for number in range(MAX_NAMED + 1)}
        error, _ = failed(
            lambda client: client.reset_offsets("g", offsets, execute=True), answers, client_errors.CallRefusedError
        )
        assert str(error).endswith(f"The first {MAX_NAMED} of {MAX_NAMED + 1} partitions are done all the same.")

    def test_offsets_are_deleted_where_there_are_some(self):
        answers = {DeleteOffsets: DeleteOffsetsResponse(results=(PartitionResult("t", 0, committed=5),))}
        deleted, asked = asked_of(lambda client: client.delete_offsets("g"), answers)
        assert deleted == client_values.DeletedOffsets("g", True, (client_values.DeletedOffset("t", 0, 5, None, ""),))
        assert asked[-1].partitions == (("t", 0),)

    def test_a_pause_of_a_group_is_done_and_its_dry_run_is_not(self):
        answers = {ChangePause: ChangePauseResponse(partitions=(("t", 0),), partition_count=3)}
        moved, asked = asked_of(lambda client: client.pause("g", reason="disk"), answers)
        assert moved == client_values.MovedPartitions("g", False, (("t", 0),), 3)
        assert [(one.partitions, one.is_paused, one.is_dry_run, one.why) for one in asked] == [
            (None, True, False, "disk")
        ]
        moved, asked = asked_of(lambda client: client.resume("g", ["t"], execute=False), answers)
        assert (moved.is_dry_run, asked[-1].is_paused, asked[-1].partitions) == (True, False, (("t", 0), ("t", 1)))

    def test_a_member_is_drained_and_undrained(self):
        answers = {ChangeDrain: ChangeDrainResponse(partitions=(("t", 0),))}
        moved, asked = asked_of(lambda client: (client.drain("g", "m1"), client.undrain("g", "m1")), answers)
        assert moved[0] == client_values.MovedPartitions("g", False, (("t", 0),), 1)
        assert [(one.member_id, one.is_drained, one.is_dry_run) for one in asked] == [
            ("m1", True, False),
            ("m1", False, False),
        ]

    def test_a_group_is_deleted_when_that_is_said(self):
        answers = {DeleteGroup: DeleteGroupResponse()}
        deleted, asked = asked_of(lambda client: (client.delete("g"), client.delete("g", execute=True)), answers)
        assert deleted == (client_values.DeletedGroup("g", True), client_values.DeletedGroup("g", False))
        assert [one.is_dry_run for one in asked] == [True, False]


class TestErrors:
    @pytest.mark.parametrize(
        ("code", "kind", "is_retriable"),
        [
            (ErrorCode.GROUP_ID_NOT_FOUND, client_errors.NotFoundError, False),
            (ErrorCode.NON_EMPTY_GROUP, client_errors.RefusedByStateError, False),
            (ErrorCode.REBALANCE_IN_PROGRESS, client_errors.RefusedByStateError, True),
            (ErrorCode.GROUP_AUTHORIZATION_FAILED, client_errors.UnauthorisedError, False),
            (ErrorCode.INVALID_REQUEST, client_errors.CallRefusedError, False),
        ],
    )
    def test_a_refusal_is_an_error_of_its_kind(self, code, kind, is_retriable):
        error, _ = failed(lambda client: client.lag("g"), {DescribeGroup: ErrorResponse(code, "so it is")}, kind)
        assert type(error) is kind
        assert (error.code, error.refusal, error.is_retriable) == (code.name, code.name, is_retriable)
        assert isinstance(error, client_errors.KcoordError)
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again), again.code) == (kind, str(error), code.name)

    def test_a_change_that_may_be_done_says_so_and_is_not_to_be_repeated(self):
        error, _ = failed(
            lambda client: client.delete("g", execute=True),
            {DeleteGroup: CLOSES},
            client_errors.CoordinatorUnavailableError,
        )
        assert (error.may_be_done, error.is_retriable) == (True, False)

    def test_a_dry_run_and_a_question_may_be_repeated(self):
        for call, answers in (
            (lambda client: client.delete("g"), {DeleteGroup: CLOSES}),
            (lambda client: client.lag("g"), {DescribeGroup: CLOSES}),
        ):
            error, _ = failed(call, answers, client_errors.CoordinatorUnavailableError)
            assert (error.may_be_done, error.is_retriable) == (False, True)

    def test_a_call_of_two_requests_has_one_time_out(self):
        def slowly(answer):
            return lambda _: time.sleep(0.7) or answer

        answers = {DescribeGroup: slowly(GROUP), DescribeControls: slowly(KNOWN[DescribeControls])}
        with ScriptedCoordinator(answers) as coordinator, pytest.raises(client_errors.CallTimeoutError) as raised:
            Client(format_address(coordinator.address), timeout="1s").describe("g")
        assert (raised.value.code, raised.value.is_retriable, isinstance(raised.value, TimeoutError)) == (
            "REQUEST_TIMED_OUT",
            True,
            True,
        )

    def test_a_closed_client_is_closed(self):
        with Client("127.0.0.1:1") as client:
            pass
        with pytest.raises(client_errors.ClientClosedError):
            client.groups()


class TestSettings:
    @pytest.mark.parametrize(
        ("call", "said"),
        [
            (lambda: Client("localhost"), "'coordinators' cannot be used"),
            (lambda: Client("a:1", timeout="1h"), "'timeout' cannot be used: '1h' is not from 0.1 s to 10 m"),
            (lambda: Client("a:1", timeout=True), "'timeout' cannot be used: True is neither"),
            (
                lambda: Client("a:1", security={"kcoord.security.protocoll": "SSL"}),
                "'kcoord.security.protocoll' is unknown; the nearest is 'kcoord.security.protocol'",
            ),
            (lambda: Client("a:1").groups(states="Stabel"), "is 'Stable' meant?"),
            (lambda: Client("a:1").events("g", kinds="rebalanced"), "is 'rebalance' meant?"),
            (lambda: Client("a:1").events("g", datetime(2026, 1, 1)), "has no time zone"),  # noqa: DTZ001
            (lambda: Client("a:1").events("g", "yesterday"), "neither a duration such as 15m nor a time"),
            (lambda: Client("a:1").events("g", after=2**63), "'after' is 9223372036854775808"),
            (lambda: Client("a:1").lag(""), "'group' cannot be used: it is empty"),
            (lambda: Client("a:1").wait("g"), "Nothing is waited for"),
            (lambda: Client("a:1").wait("g", lag_below=0), "'lag_below' is 0"),
            (lambda: Client("a:1").pause("g", []), "'partitions' is empty"),
            (lambda: Client("a:1").pause("g", ("t", 0)), "'partitions' has 0"),
            (lambda: Client("a:1").pause("g", ["t:"]), "'t:' is not TOPIC or TOPIC:0,1,2"),
            (lambda: Client("a:1").reset_offsets("g"), "one of 'to' and 'shift_by'"),
            (lambda: Client("a:1").reset_offsets("g", "earlyest"), "is 'earliest' meant?"),
            (lambda: Client("a:1").reset_offsets("g", -1), "'to' has -1"),
            (lambda: Client("a:1").reset_offsets("g", {}), "'to' names no partition"),
            (lambda: Client("a:1").reset_offsets("g", {"t": 1}), "in the place of a partition"),
            (lambda: Client("a:1").reset_offsets("g", {("t", 0): 1}, "t"), "leave out 'partitions'"),
        ],
    )
    def test_what_cannot_be_is_refused_before_anybody_is_asked(self, call, said):
        with pytest.raises(client_errors.SettingError) as raised:
            call()
        assert said in str(raised.value)
        assert isinstance(raised.value, ValueError)

    def test_no_secret_is_shown(self):
        for setting in SECURITY_SETTINGS:
            if setting.is_secret:
                security = {
                    "kcoord.security.protocol": "SASL_SSL",
                    "kcoord.sasl.username": "ann",
                    "kcoord.sasl.password": "Canary1",
                    "kcoord.sasl.mechanism": "SCRAM-SHA-512",
                    setting.name: "Canary1",
                }
                for client in (Client("a:1", security=security), AsyncClient("a:1", security=security)):
                    assert "Canary1" not in repr(client) + repr(vars(client))
                    with pytest.raises(TypeError, match="cannot be pickled"):
                        pickle.dumps(client)

    def test_a_context_is_found_by_its_name(self, tmp_path, monkeypatch):
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
        (tmp_path / "kcoord").mkdir()
        (tmp_path / "kcoord" / "config.toml").write_text('[contexts.live]\ncoordinator = "a:1,b:2"\n')
        assert repr(Client.from_context("live", timeout=2)) == "Client('a:1,b:2', timeout=2)"
        assert repr(AsyncClient.from_context("live")) == "AsyncClient('a:1,b:2', timeout=10)"
        with pytest.raises(client_errors.SettingError, match="no context 'life'; the nearest is 'live'"):
            Client.from_context("life")
        for kind in (Client, AsyncClient):
            with pytest.raises(client_errors.SettingError, match="The name of the context is empty"):
                kind.from_context("")
        with pytest.raises(client_errors.SettingError, match="names no current context"):
            Client.from_context()


class TestAsync:
    def test_calls_are_awaited_beside_each_other(self):
        async def lags(client):
            return await asyncio.gather(client.lag("g"), client.partitions("g"), client.wait("g", members=1))

        with ScriptedCoordinator(KNOWN) as coordinator:
            lag, partitions, group = asyncio.run(lags(AsyncClient(format_address(coordinator.address), timeout=20)))
        assert (lag.lag, len(partitions), group.members) == (4, 2, 1)

    def test_every_call_of_the_one_is_a_call_of_the_other(self):
        def calls(kind):
            return {name for name in vars(kind) if not name.startswith("_")}

        assert calls(Client) - calls(AsyncClient) == {"waiting"}

    def test_errors_are_the_same(self):
        async def close_and_ask():
            async with AsyncClient("127.0.0.1:1") as client:
                with pytest.raises(client_errors.CoordinatorUnavailableError):
                    await client.groups()
            await client.groups()

        with pytest.raises(client_errors.ClientClosedError):
            asyncio.run(close_and_ask())

    def test_a_call_that_no_time_out_reaches_is_left_all_the_same(self, monkeypatch):
        """A name server that does not answer keeps the thread, and not the program."""
        monkeypatch.setattr("spark_kcoord.client.async_client._GRACE_S", 0.0)
        answers, answered = threading.Event(), []

        def hang(*_):
            answers.wait(60)
            answered.append(1)
            return GROUP

        monkeypatch.setattr("spark_kcoord.client.call.ask", hang)

        async def ask():
            try:
                with pytest.raises(client_errors.CallTimeoutError, match=r"not over after 0.1 s") as raised:
                    await AsyncClient("a:1", timeout=0.1).pause("g")
                return raised.value.may_be_done, list(answered)
            finally:
                answers.set()

        assert asyncio.run(ask()) == (True, [])

    def test_a_wait_that_is_cancelled_looks_no_more(self):
        async def cancelled(client):
            waiting = asyncio.create_task(client.wait("g", members=9, every=0.01))
            while len(coordinator.asked) < 2:
                await asyncio.sleep(0.01)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting

        with ScriptedCoordinator(KNOWN) as coordinator:
            asyncio.run(cancelled(AsyncClient(format_address(coordinator.address), timeout=20)))
            looks = len(coordinator.asked)
            Client(format_address(coordinator.address), timeout=20).lag("g")
        assert len(coordinator.asked) == looks + 1
