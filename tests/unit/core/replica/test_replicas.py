"""Whom a node obeys, and what it then has."""

from msgspec.structs import replace

from coordinator.core.replica import effects as o
from coordinator.core.replica import events as i
from coordinator.core.replica.effects import Effect
from coordinator.core.replica.replica import Absent
from coordinator.core.replica.replicas import Commands, Replicas
from tests.helpers.replica_builder import LOG, SETTINGS, asks


def node() -> Replicas:
    return Replicas(node=1, node_epoch=5, settings=SETTINGS, controller_epoch=7)


def leads(shard: int, leader: int, epoch: int = 2) -> i.LeaderAndIsr:
    return i.LeaderAndIsr(0, shard, epoch, leader, (1, 2, 3), (1, 2, 3), 10, leader_node_epoch=5)


def told(replicas: Replicas, *commands: i.LeaderAndIsr, **how: object) -> list[Effect]:
    numbers = {"controller_epoch": 7, "node_epoch": 5, **how}
    return replicas.obey(Commands(0, commands=commands, **numbers))  # type: ignore[arg-type]


def test_a_controller_that_was_replaced_and_a_command_for_a_former_life_are_not_obeyed() -> None:
    replicas = node()
    assert told(replicas, leads(0, 1), controller_epoch=6) == []
    assert told(replicas, leads(0, 1), node_epoch=4) == []
    assert isinstance(replicas[0].role, Absent)


def test_a_greater_controller_epoch_is_durable_before_anything_it_commands() -> None:
    replicas = node()
    assert told(replicas, leads(0, 1), controller_epoch=8) == [o.Remember(8), o.OpenReplica(0, 0)]
    assert told(replicas, leads(1, 1), controller_epoch=7) == [], "the old one has been replaced"


def test_a_full_list_moves_aside_what_it_does_not_name_but_not_what_could_not_be_read() -> None:
    replicas = node()
    told(replicas, leads(0, 1), leads(1, 2), leads(2, 2))
    effects = told(replicas, leads(0, 1), is_init=True, unreadable=frozenset({1}))
    assert effects == [o.DropReplica(2, deletes=True)]


def test_an_equal_leader_epoch_is_a_repetition() -> None:
    replicas = node()
    told(replicas, leads(0, 1))
    assert told(replicas, leads(0, 1)) == []


def test_a_round_is_confirmed_for_what_the_peer_is_followed_in_and_nothing_else() -> None:
    replicas = node()
    told(replicas, leads(0, 1), leads(1, 2), leads(2, 3))
    for shard in range(3):
        replicas.step(shard, i.ReplicaOpened(0, shard, LOG))
    replicas.step(0, asks(2))
    assert (replicas.led, replicas.confirmed(2)) == ((0,), ((1, 2, 1),))
    told(replicas, leads(1, 1, epoch=3))
    replicas.step(1, replace(asks(2), shard=1, leader_epoch=3))
    assert (replicas.led, replicas.confirmed(2)) == ((0, 1), ())


def test_a_peer_that_comes_up_concerns_every_shard_followed_there() -> None:
    replicas = node()
    told(replicas, leads(0, 2), leads(1, 2), leads(2, 3))
    for shard in range(3):
        replicas.step(shard, i.ReplicaOpened(0, shard, LOG))
    asked = [effect for effect in replicas.step_all(i.PeerUp(0, 2)) if isinstance(effect, o.AskFetch)]
    assert [effect.shard for effect in asked] == [0, 1]


def test_a_log_that_no_command_has_named_is_moved_aside_by_a_full_list_without_it() -> None:
    replicas = Replicas(node=1, node_epoch=5, settings=SETTINGS, controller_epoch=7, on_disk=(0, 1, 2))
    effects = told(replicas, leads(0, 1), is_init=True, unreadable=frozenset({1}))
    assert effects == [o.OpenReplica(0, 0), o.DropReplica(2, deletes=True)]
    assert told(replicas, leads(0, 1), is_init=True, unreadable=frozenset({1})) == [], "it is aside"


def test_a_log_is_moved_aside_also_when_its_replica_was_stopped_before() -> None:
    replicas = Replicas(node=1, node_epoch=5, settings=SETTINGS, controller_epoch=7, on_disk=(3,))
    told(replicas, leads(3, 1))
    assert replicas.step(3, i.StopReplica(0, 3, 2, deletes=False)) == [o.DropReplica(3, deletes=False)]
    assert replicas.step(3, i.StopReplica(0, 3, 2, deletes=True)) == [o.DropReplica(3, deletes=True)]
    assert replicas.step(3, i.StopReplica(0, 3, 2, deletes=True)) == []


def test_a_node_that_is_registered_anew_obeys_what_is_told_to_this_life_and_asks_its_fetches_again() -> None:
    replicas = node()
    told(replicas, leads(0, 2))
    replicas.step(0, i.ReplicaOpened(0, 0, LOG))
    (asked,) = replicas.registered(0, 6)
    assert isinstance(asked, o.AskFetch)
    assert told(replicas, leads(1, 2)) == [], "that was meant for the former life"
    assert told(replicas, leads(1, 2), node_epoch=6) == [o.OpenReplica(1, 0)]


def test_what_a_former_life_was_elected_for_is_not_led_and_what_was_led_in_it_is_given_up() -> None:
    replicas = node()
    told(replicas, leads(0, 1), leads(1, 1))
    replicas.step(0, i.ReplicaOpened(0, 0, LOG))
    replicas.step(0, asks(2))
    replicas.registered(0, 6)
    assert told(replicas, leads(0, 1, epoch=3), node_epoch=6) == [o.Resign(0, 2)]
    assert told(replicas, replace(leads(0, 1, epoch=4), leader_node_epoch=6), node_epoch=6)[0] == o.BeginEpoch(
        0, 4, 3 + 1, goes_on=False
    )
