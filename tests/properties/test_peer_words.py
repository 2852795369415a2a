"""All that nodes say to each other comes out as it went in, and nothing that a wild one says trips a replica."""

from dataclasses import fields
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.core.cluster import effects as cluster_fx
from coordinator.core.cluster import events as cluster_ev
from coordinator.core.cluster.znodes import NodeState
from coordinator.core.log.entry import Batch, batch_bytes
from coordinator.core.log.snapshot import SnapshotPiece
from coordinator.core.peers.control_words import (
    answer_in,
    commands_of,
    peer_address,
    step_down_in,
    step_down_of,
    told,
    told_of,
)
from coordinator.core.peers.effects import PeerAddress
from coordinator.core.peers.events import PeerSaid
from coordinator.core.peers.words import (
    PUSH_BYTES,
    PeerError,
    answer_of,
    fetch_of,
    heard,
    piece_in,
    piece_of,
    progress_of,
    records_of,
    refusal_of,
    stop_of,
)
from coordinator.core.replica import effects as fx
from coordinator.core.replica import events as ev
from coordinator.core.replica.replicas import Replicas
from coordinator.core.replica.step import step
from coordinator.protocol import peer_messages as wire
from coordinator.protocol.peer_messages.session import PeerSession
from tests.helpers.examples import examples
from tests.helpers.peer_examples import HELLO
from tests.helpers.replica_builder import SETTINGS, after, asks, command, follower, has, leader, opened

PEER, LIFE, NOW = 2, 5, 70


def over_the_wire(message: wire.PeerMessage) -> wire.PeerMessage:
    """Return what the other end hears when one says this."""
    one, other = PeerSession(), PeerSession()
    list(other.receive(one.greet(HELLO)))
    list(one.receive(other.greet(HELLO)))
    (said,) = other.receive(one.say(message))
    return said  # type: ignore[return-value]


def heard_of(message: wire.PeerMessage) -> tuple[ev.Event, ...]:
    return heard(PeerSaid(PEER, LIFE, over_the_wire(message)), NOW)


counts = st.integers(0, 2**62)
shards = st.integers(0, 99_999)
epochs = st.integers(0, 2**32 - 1)
offsets = st.integers(0, 2**48 - 1)
answers = st.one_of(
    st.just(ev.Streaming()),
    st.builds(ev.Diverged, st.integers(-1, 2**32 - 1), offsets),
    st.builds(ev.BelowLogStart, offsets),
    st.just(ev.Fenced()),
    st.just(ev.UnknownEpoch()),
)


@given(shards, epochs, counts, offsets, st.data())
def test_a_follower_s_words(shard: int, epoch: int, fetch: int, end: int, data: Any) -> None:
    last = data.draw(st.integers(-1, epoch))
    asked = heard_of(fetch_of(fx.AskFetch(shard, PEER, epoch, fetch, end, last)))
    assert asked == (ev.FetchAsked(NOW, shard, PEER, LIFE, epoch, fetch, end, last),)
    assert heard_of(stop_of(fx.EndFetch(shard, 1, epoch))) == (ev.FetchEnded(NOW, shard, PEER, LIFE, epoch),)
    assert heard_of(refusal_of(fx.RefuseCut(shard, 1, epoch, end))) == (ev.CutRefused(NOW, shard, PEER, epoch, end),)


@given(counts, st.lists(st.builds(fx.ReportProgress, shards, st.just(1), epochs, counts, offsets), max_size=5))
def test_progress(round_: int, reports: list[fx.ReportProgress]) -> None:
    assert heard_of(progress_of(round_, reports)) == tuple(
        ev.ProgressMade(NOW, it.shard, PEER, LIFE, it.leader_epoch, it.fetch, it.durable_end, round_) for it in reports
    )


@given(shards, epochs, counts, answers)
def test_answers(shard: int, epoch: int, fetch: int, answer: ev.FetchAnswer) -> None:
    said = heard_of(answer_of(fx.AnswerFetch(shard, 9, epoch, fetch, answer)))
    assert said == (ev.FetchAnswered(NOW, shard, epoch, fetch, answer),)


@st.composite
def pushes(draw: st.DrawFn) -> tuple[fx.PushRecords, tuple[Batch, ...]]:
    begin = end = draw(st.integers(0, 2**47))
    epoch, batches = draw(st.integers(0, 5)), []
    for _ in range(draw(st.integers(0, 4))):
        records = tuple(draw(st.lists(st.sampled_from((b"r", bytes(100), bytes(1_500_000))), min_size=1, max_size=5)))
        batches.append(Batch(end, epoch, records))
        end, epoch = end + len(records), epoch + draw(st.integers(0, 1))
    push = fx.PushRecords(draw(shards), 9, draw(st.integers(epoch, 2**32 - 1)), draw(counts), begin, end, draw(offsets))
    return push, tuple(batches)


@settings(max_examples=50)
@given(counts, st.lists(pushes(), max_size=4))
def test_records_come_whole_in_messages_that_are_not_long(
    round_: int, pushed: list[tuple[fx.PushRecords, tuple[Batch, ...]]]
) -> None:
    messages = records_of(round_, pushed)
    assert all(message.round == round_ for message in messages)
    sizes = [sum(batch_bytes(batch.records) for it in message.shards for batch in it.batches) for message in messages]
    assert all(size <= PUSH_BYTES for size in sizes)
    came = [event for message in messages for event in heard_of(message)]
    for push, batches in pushed:
        rest = [
            (at, batch.leader_epoch, record)
            for batch in batches
            for at, record in enumerate(batch.records, batch.base_offset)
        ]
        while True:
            event = came.pop(0)
            assert isinstance(event, ev.RecordsPushed)
            assert (event.shard, event.leader_epoch, event.fetch) == (push.shard, push.leader_epoch, push.fetch)
            assert event.high_watermark == push.high_watermark
            for batch in event.batches:
                for at, record in enumerate(batch.records, batch.base_offset):
                    assert rest.pop(0) == (at, batch.leader_epoch, record)
            if not rest:
                break
    assert came == []


@given(shards, epochs, counts, offsets.filter(bool), epochs, counts, counts, st.booleans())
def test_pieces(
    shard: int, epoch: int, number: int, end: int, last: int, index: int, position: int, is_last: bool
) -> None:
    piece = SnapshotPiece(end, last, (b"one", b"two"), index, is_last)
    said = over_the_wire(piece_of(shard, epoch, number, piece, position))
    assert isinstance(said, wire.SnapshotPiece)
    assert piece_in(said) == piece
    assert (said.shard, said.leader_epoch, said.log_number, said.next_position) == (shard, epoch, number, position)


# ---- the controller's ------------------------------------------------------------------------------------------------

node_ids = st.integers(0, 2**31 - 1)


@st.composite
def states(draw: st.DrawFn, shard: int) -> cluster_fx.ShardState:
    replicas = (*draw(st.lists(node_ids.filter(lambda it: it != 1), unique=True, max_size=3)), 1)
    isr = tuple(draw(st.lists(st.sampled_from(replicas), unique=True)))
    leader = draw(st.sampled_from(isr)) if isr and draw(st.booleans()) else None
    return cluster_fx.ShardState(
        shard, leader, draw(epochs), isr, replicas, draw(counts), None if leader is None else draw(counts)
    )


@st.composite
def tellings(draw: st.DrawFn) -> cluster_fx.TellNode:
    numbers = draw(st.lists(shards, unique=True, max_size=6))
    cut = draw(st.integers(0, len(numbers)))
    leaders = tuple(cluster_fx.ShardLeader(it, draw(st.none() | node_ids), draw(epochs)) for it in numbers[cut:])
    infos = st.builds(
        cluster_fx.NodeInfo,
        node_ids,
        counts,
        st.just((("members", "n:1"), ("peers", "n:2"))),
        counts,
        st.sampled_from(NodeState),
    )
    return cluster_fx.TellNode(
        node_id=1,
        controller_id=draw(node_ids),
        controller_epoch=draw(counts),
        node_epoch=draw(counts),
        number=draw(counts),
        is_init=draw(st.booleans()),
        states=tuple(draw(states(it)) for it in numbers[:cut]),
        leaders=leaders,
        stops=tuple(cluster_fx.ShardStop(it.shard, it.leader_epoch) for it in leaders[:2]),
        unreadable=tuple(draw(st.lists(shards, max_size=3))),
        nodes=tuple(draw(st.lists(infos, unique_by=lambda it: it.node_id, max_size=3))),
    )


@given(tellings())
def test_what_a_controller_tells_is_what_a_node_is_told(effect: cluster_fx.TellNode) -> None:
    said = over_the_wire(told_of(effect))
    assert isinstance(said, wire.TellNode)
    assert told(said, 1) == effect
    commands = commands_of(effect, NOW)
    assert (commands.controller_epoch, commands.node_epoch) == (effect.controller_epoch, effect.node_epoch)
    assert [it.shard for it in commands.commands] == [it.shard for it in effect.states]
    names = {field.name for field in fields(cluster_fx.ShardState)}
    for command_, state in zip(commands.commands, effect.states, strict=True):
        assert {name: getattr(command_, name) for name in names} == {name: getattr(state, name) for name in names}
    assert all(stop.deletes for stop in commands.stops)
    assert all(peer_address(node) == PeerAddress((("n", 2),), node.node_epoch) for node in effect.nodes)


@pytest.mark.parametrize(
    ("wish", "reason"),
    [
        (fx.StepDown(3, 4, "x" * 9_000), cluster_ev.StepDownReason.STALLED),
        (fx.StepDown(3, 4, "", cannot_load=True), cluster_ev.StepDownReason.CANNOT_LOAD),
        (fx.StepDown(3, 4, "", lacks_committed=True), cluster_ev.StepDownReason.LACKS_RECORDS),
        (fx.StepDown(3, 4, "", wants_epoch=True), cluster_ev.StepDownReason.SPOILT_EPOCH),
    ],
)
def test_a_wish_to_be_replaced_keeps_its_reason(wish: fx.StepDown, reason: cluster_ev.StepDownReason) -> None:
    said = over_the_wire(step_down_of(wish))
    assert isinstance(said, wire.StepDown)
    assert step_down_in(said, 5, 6) == cluster_ev.StepDown(3, 4, reason, 5, 6)


def test_an_acknowledgement_counts_for_the_controller_that_it_is_given_to() -> None:
    said = PeerSaid(PEER, LIFE, over_the_wire(wire.NodeAnswered(8, 2)))
    assert answer_in(said, 8) == cluster_ev.NodeAnswered(PEER, LIFE, 2)
    assert answer_in(said, 7) is None


def test_an_address_that_cannot_be_read_is_none() -> None:
    node = cluster_fx.NodeInfo(2, 5, (("peers", "nonsense"),), 1, NodeState.READY)
    assert peer_address(node) is None
    assert peer_address(cluster_fx.NodeInfo(2, 5, (), 1, NodeState.READY)) is None


# ---- wild ------------------------------------------------------------------------------------------------------------

REPLICAS = (
    follower(),
    leader(),
    after(leader(), asks(2), has(2, 4, 1))[0],
    opened(1, command(2, 2))[0],
    opened(1, command(2, None))[0],
    after(follower(), ev.FetchAnswered(0, 0, 2, 1, ev.Diverged(1, 2)))[0],
    after(opened(1, command(2, 2))[0], ev.FetchAnswered(0, 0, 2, 1, ev.BelowLogStart(2)))[0],
)
"""Node 1 in every role, shard 0, epoch 2."""

small = st.integers(-1, 6)
wild_batches = st.lists(
    st.tuples(small, small, st.lists(st.sampled_from((b"r", b"s")), max_size=3)).map(list), max_size=3
)
wild_messages = st.one_of(
    st.tuples(st.just(310), st.just(0), small, small, small, small),
    st.tuples(st.just(311), small, st.lists(st.tuples(st.just(0), small, small, small), max_size=3)),
    st.tuples(st.just(312), st.just(0), small),
    st.tuples(st.just(313), st.just(0), small, small),
    st.tuples(
        st.just(320),
        st.just(0),
        small,
        small,
        st.one_of(
            st.tuples(st.sampled_from((0, 3, 4, 5))), st.tuples(st.just(1), small, small), st.tuples(st.just(2), small)
        ),
    ),
    st.tuples(st.just(321), small, st.lists(st.tuples(st.just(0), small, small, small, wild_batches), max_size=2)),
)
_any = msgspec.msgpack.Decoder(wire.PeerMessage)


def read(fields_: object) -> wire.PeerMessage | None:
    try:
        return _any.decode(msgspec.msgpack.encode(fields_))
    except msgspec.ValidationError:
        return None


@settings(max_examples=examples(250, 1_000))
@given(st.sampled_from(REPLICAS), st.lists(wild_messages, min_size=1, max_size=4))
def test_no_replica_trips_over_what_a_wild_peer_says(replica: Any, said: list[object]) -> None:
    for message in filter(None, map(read, said)):
        try:
            events = heard(PeerSaid(PEER, LIFE, message), NOW)
        except PeerError:
            continue
        for event in events:
            replica, _ = step(replica, event)


wild_shards = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.none() | small,
        small,
        st.lists(small, max_size=3),
        st.lists(small, max_size=3),
        small,
        st.none() | small,
    ),
    max_size=3,
)
wild_tellings = st.tuples(
    st.just(330),
    small,
    small,
    st.just(LIFE),
    small,
    st.booleans(),
    wild_shards,
    st.lists(st.tuples(st.integers(0, 2), st.none() | small, small), max_size=2),
    st.lists(st.tuples(st.integers(0, 2), small), max_size=2),
    st.lists(small, max_size=2),
    st.lists(
        st.tuples(small, small, st.lists(st.tuples(st.just("peers"), st.text()), max_size=2), small, st.booleans()),
        max_size=2,
    ),
)


@settings(max_examples=examples(125, 500))
@given(st.lists(wild_tellings, min_size=1, max_size=3))
def test_no_node_trips_over_what_a_wild_controller_tells_it(said: list[object]) -> None:
    replicas = Replicas(1, LIFE, SETTINGS, 0, on_disk=(0, 1))
    for message in filter(None, map(read, said)):
        assert isinstance(message, wire.TellNode)
        try:
            effect = told(message, 1)
        except PeerError:
            continue
        for node in effect.nodes:
            peer_address(node)
        replicas.obey(commands_of(effect, NOW))


@pytest.mark.parametrize(
    ("batches", "why"),
    [
        (((0, 1, (b"r",)), (2, 1, (b"r",))), "do not follow one another at 1"),
        (((0, 2, (b"r",)), (1, 1, (b"r",))), "epoch 1 comes after 2"),
        (((0, 4, (b"r",)),), "records of epoch 4 in epoch 3"),
        (((0, 1, (bytes(9_000_000),)),), "larger than a frame of a log"),
        (((2**48 - 1, 1, (b"r", b"r")),), "which no log does"),
    ],
)
def test_records_that_make_no_log_are_refused_with_the_reason(batches: Any, why: str) -> None:
    said = wire.ReplicaRecords(0, (wire.ShardRecords(7, 3, 1, 0, tuple(wire.RecordBatch(*it) for it in batches)),))
    with pytest.raises(PeerError, match=f"shard 7: .*{why}"):
        heard(PeerSaid(PEER, LIFE, said), NOW)


STATE = wire.ShardState(7, 2, 4, (2, 1), (1, 2), 9, 5)
TELLING = wire.TellNode(1, 1, 5, 1, False, (STATE,), (), (), (), ())


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"states": (STATE, STATE)}, "a shard is named twice: 7"),
        ({"leaders": (wire.ShardLeader(7, 1, 4),)}, "a shard is named twice: 7"),
        ({"stops": (wire.ShardStop(7, 4),)}, "is to have a replica here and to have none"),
        ({"states": (msgspec.structs.replace(STATE, replicas=(2, 3)),)}, "has no replica on node 1"),
        ({"states": (msgspec.structs.replace(STATE, isr=(1, 3)),)}, "is no part of its replicas"),
        ({"states": (msgspec.structs.replace(STATE, isr=(1,)),)}, "has a leader 2 that is not in its ISR"),
        ({"states": (msgspec.structs.replace(STATE, replicas=(1, 2, 2)),)}, "a node is named twice: 2"),
        ({"states": (msgspec.structs.replace(STATE, leader_node_epoch=None),)}, "a leader without a life"),
    ],
)
def test_commands_that_contradict_themselves_are_refused_with_the_reason(change: dict[str, Any], why: str) -> None:
    assert told(TELLING, 1).states[0].leader == 2
    with pytest.raises(PeerError, match=why):
        told(msgspec.structs.replace(TELLING, **change), 1)
