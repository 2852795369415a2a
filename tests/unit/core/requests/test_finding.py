"""A node of a cluster holds a question for a coordinator until it knows more than whoever asks, or for its time."""

import random
from collections.abc import Callable

import pytest

from coordinator.core import effects as e
from coordinator.core.events import (
    ConnectionClosed,
    ConnectionOpened,
    LeadershipGiven,
    LeadershipTaken,
    RequestArrived,
    ShardRecovered,
    ShardServes,
    ShardStalled,
    Ticked,
)
from coordinator.core.limits import Limits
from coordinator.core.node import Node
from coordinator.core.requests.finding import DOUBT_MS, PATIENCE_EACH_MS, Neighbours
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import FindCoordinator, FindCoordinatorResponse, RegisterConsumer
from coordinator.protocol.parts import NodeAddress, Subscription

HERE, SECOND, THIRD = (NodeAddress(number, f"n{number}", 9191) for number in (1, 2, 3))
HOLD_MS = 1_000


class Asking:
    """A node of a cluster, and those who ask it who coordinates group `g`, each on a connection of its own."""

    def __init__(self, hold_ms: int = HOLD_MS) -> None:
        self.node = Node(Limits(), 1, HERE, ("broker:9092",))
        self.now_ms = 0
        self.answers: dict[int, FindCoordinatorResponse] = {}
        self.wake_ms: int | None = None
        self._asked = 0
        self.node.join(0, 1_000, "life-1", hold_ms)

    def take(self, effects: list[e.Effect]) -> None:
        for effect in effects:
            if isinstance(effect, e.Respond) and isinstance(effect.response, FindCoordinatorResponse):
                assert effect.connection_id not in self.answers, "a question is answered once"
                self.answers[effect.connection_id] = effect.response
            elif isinstance(effect, e.WakeAt):
                self.wake_ms = effect.now_ms

    def happen(self, *happened: object) -> None:
        for event in happened:
            self.take(self.node.step(event, self.now_ms))  # type: ignore[arg-type]

    def ask(self, leader_epoch: int | None = None) -> int:
        self._asked += 1
        self.happen(ConnectionOpened(self._asked, "h"))
        self.happen(RequestArrived(self._asked, 1, FindCoordinator("g", leader_epoch)))
        return self._asked

    def know(
        self,
        leader: NodeAddress | None,
        leader_epoch: int = 0,
        *unheard: int,
        live: tuple[NodeAddress, ...] = (HERE, SECOND, THIRD),
        replicas: tuple[int, ...] = (),
    ) -> None:
        leaders = {} if leader is None else {0: (leader_epoch, leader)}
        known = Neighbours(leaders, live, frozenset(unheard), {0: replicas})
        self.take(self.node.know(known, self.now_ms))

    def hear(self, node: int) -> None:
        self.take(self.node.hear(node, self.now_ms))

    def pass_ms(self, ms: int) -> None:
        self.now_ms += ms
        self.happen(Ticked(1_000 + self.now_ms))

    def lead(self, leader_epoch: int) -> None:
        self.happen(LeadershipGiven(0, leader_epoch))

    def load(self, leader_epoch: int) -> None:
        self.happen(ShardRecovered(0, leader_epoch, 0, iter(())))
        self.pass_ms(1)


def said(answer: FindCoordinatorResponse) -> tuple[NodeAddress | None, int]:
    assert answer.error is ErrorCode.NONE
    return answer.coordinator, answer.leader_epoch


def test_leader_that_is_known_is_told_at_once_with_all_nodes() -> None:
    asking = Asking()
    asking.know(SECOND, 4)
    answer = asking.answers[asking.ask()]
    assert said(answer) == (SECOND, 4)
    assert answer.nodes == (HERE, SECOND, THIRD)


def test_leader_that_does_not_answer_is_told_again_once_it_was_heard_after_the_question() -> None:
    asking = Asking()
    asking.know(SECOND, 4)
    asking.hear(2)
    first, second = asking.ask(4), asking.ask(4)
    asking.hear(3)
    asking.know(SECOND, 4)
    assert asking.answers == {}
    asking.hear(2)
    assert {number: said(answer) for number, answer in asking.answers.items()} == {
        first: (SECOND, 4),
        second: (SECOND, 4),
    }


def test_question_waits_for_a_silent_leader_s_successor_and_not_only_for_the_silence() -> None:
    asking = Asking()
    asking.know(SECOND, 4)
    number = asking.ask(4)
    asking.pass_ms(DOUBT_MS // 2)
    asking.know(SECOND, 4, 2)
    asking.pass_ms(DOUBT_MS // 2 - 1)
    assert asking.answers == {}
    asking.know(THIRD, 5, 2)
    assert said(asking.answers[number]) == (THIRD, 5)


def test_leader_of_which_nothing_is_heard_though_the_contact_lasts_is_told_when_the_time_is_over() -> None:
    asking = Asking()
    asking.know(SECOND, 4)
    number = asking.ask(4)
    asking.pass_ms(DOUBT_MS - 1)
    assert asking.answers == {}
    asking.pass_ms(1)
    assert said(asking.answers[number]) == (SECOND, 4)


def test_questions_about_a_leader_before_and_after_its_silence_have_their_own_times() -> None:
    asking = Asking()
    asking.know(SECOND, 4)
    before = asking.ask(4)
    asking.know(SECOND, 4, 2)
    after = asking.ask(4)
    asking.pass_ms(HOLD_MS)
    assert set(asking.answers) == {after}
    asking.pass_ms(DOUBT_MS - HOLD_MS)
    assert set(asking.answers) == {after, before}
    assert asking.answers[before].error is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_leader_that_neither_member_nor_node_hears_is_not_told_before_there_is_news() -> None:
    asking = Asking()
    asking.know(SECOND, 4, 2)
    first, second = asking.ask(4), asking.ask(4)
    assert asking.answers == {}
    asking.know(SECOND, 4, 2)
    asking.pass_ms(100)
    assert asking.answers == {}
    asking.know(THIRD, 5, 2)
    assert {number: said(answer) for number, answer in asking.answers.items()} == {
        first: (THIRD, 5),
        second: (THIRD, 5),
    }


def test_leader_that_is_heard_again_is_told() -> None:
    asking = Asking()
    asking.know(SECOND, 4, 2)
    number = asking.ask(4)
    asking.know(SECOND, 4)
    asking.hear(2)
    assert said(asking.answers[number]) == (SECOND, 4)


def test_leader_of_an_epoch_before_the_one_that_did_not_answer_is_no_news() -> None:
    asking = Asking()
    asking.know(SECOND, 3)
    number = asking.ask(4)
    assert asking.answers == {}
    asking.know(THIRD, 5)
    assert said(asking.answers[number]) == (THIRD, 5)


def test_question_without_any_known_leader_is_held_and_refused_when_its_time_is_over() -> None:
    asking = Asking()
    asking.know(None)
    number = asking.ask()
    asking.pass_ms(HOLD_MS - 1)
    assert asking.answers == {}
    asking.pass_ms(1)
    answer = asking.answers[number]
    assert (answer.error, answer.coordinator) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, None)
    assert answer.nodes == (HERE, SECOND, THIRD)


@pytest.mark.parametrize(("leader_epoch", "unheard"), [(4, (2,)), (3, ())])
def test_leader_that_did_not_answer_is_not_named_again_without_news(
    leader_epoch: int, unheard: tuple[int, ...]
) -> None:
    asking = Asking()
    asking.know(SECOND, leader_epoch, *unheard)
    number = asking.ask(4)
    asking.pass_ms(HOLD_MS)
    answer = asking.answers[number]
    assert (answer.error, answer.coordinator) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, None)
    assert f"node 2, its leader in epoch {leader_epoch}, is not heard" in answer.message


def test_node_asks_to_be_woken_when_the_time_of_a_question_is_over() -> None:
    asking = Asking(hold_ms=40)
    asking.know(None)
    number = asking.ask()
    assert asking.wake_ms == 40
    asking.pass_ms(40)
    assert asking.answers[number].error is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_each_question_has_its_own_time() -> None:
    asking = Asking()
    asking.know(None)
    first = asking.ask()
    asking.pass_ms(600)
    second = asking.ask()
    asking.pass_ms(400)
    assert set(asking.answers) == {first}
    asking.pass_ms(600)
    assert set(asking.answers) == {first, second}


def test_node_that_leads_answers_the_moment_it_serves() -> None:
    asking = Asking()
    asking.know(SECOND, 4, 2)
    number = asking.ask(4)
    asking.lead(5)
    assert asking.answers == {}
    asking.load(5)
    assert said(asking.answers[number]) == (HERE, 5)


def test_node_that_leads_and_is_stalled_answers_when_it_serves_again() -> None:
    asking = Asking()
    asking.lead(5)
    asking.load(5)
    assert said(asking.answers[asking.ask()]) == (HERE, 5)
    asking.happen(ShardStalled(0))
    number = asking.ask(5)
    assert number not in asking.answers
    asking.happen(ShardServes(0))
    assert said(asking.answers[number]) == (HERE, 5)


def test_node_that_leads_and_is_not_served_in_time_names_itself() -> None:
    asking = Asking()
    asking.lead(5)
    number = asking.ask()
    asking.pass_ms(HOLD_MS)
    assert said(asking.answers[number]) == (HERE, 5)


def test_question_held_by_a_leader_that_resigns_is_answered_with_the_next_one() -> None:
    asking = Asking()
    asking.lead(5)
    number = asking.ask()
    asking.happen(LeadershipTaken(0, "n3 leads it"))
    asking.know(THIRD, 6)
    assert said(asking.answers[number]) == (THIRD, 6)


def test_question_of_a_connection_that_is_gone_gets_no_answer() -> None:
    asking = Asking()
    asking.know(None)
    number = asking.ask()
    asking.happen(ConnectionClosed(number, "it closed it"))
    asking.know(SECOND, 4)
    assert asking.answers == {}


@pytest.mark.parametrize("know", [lambda asking: asking.know(None), lambda asking: asking.know(SECOND, 4, 2)])
def test_node_without_time_to_hold_answers_at_once(know: Callable[[Asking], None]) -> None:
    asking = Asking(hold_ms=0)
    know(asking)
    assert asking.ask(4) in asking.answers


def test_group_id_that_is_not_allowed_is_refused_at_once() -> None:
    asking = Asking()
    asking.happen(ConnectionOpened(1, "h"), RequestArrived(1, 1, FindCoordinator("", 4)))
    assert asking.answers[1].error is ErrorCode.INVALID_GROUP_ID


def test_very_many_held_questions_are_answered_in_one_step_with_one_look_at_each_shard() -> None:
    asking = Asking()
    asking.know(SECOND, 4, 2)
    numbers = [asking.ask(4) for _ in range(5_000)]
    asking.know(THIRD, 5)
    assert {said(asking.answers[number]) for number in numbers} == {(THIRD, 5)}


class Counted(dict[int, tuple[int, NodeAddress]]):
    """Leaders by shard that count how often somebody looks at them."""

    def __init__(self, leaders: dict[int, tuple[int, NodeAddress]]) -> None:
        super().__init__(leaders)
        self.looks = 0

    def get(self, shard: int, default: object = None) -> object:  # type: ignore[override]
        self.looks += 1
        return super().get(shard, default)


@pytest.mark.parametrize("happens", [lambda asking: asking.hear(3), lambda asking: asking.pass_ms(1)])
def test_epochs_that_were_made_up_are_not_looked_at_when_a_peer_speaks_or_time_passes(
    happens: Callable[[Asking], None],
) -> None:
    asking = Asking()
    leaders = Counted({0: (4, SECOND)})
    asking.take(asking.node.know(Neighbours(leaders, (HERE, SECOND, THIRD)), 0))
    honest = asking.ask(4)
    for number in range(1_000):
        asking.ask(1_000_000 + number)
    happens(asking)
    leaders.looks = 0
    happens(asking)
    assert leaders.looks < 5
    asking.hear(2)
    assert list(asking.answers) == [honest]
    asking.know(THIRD, 1_000_500)
    assert len(asking.answers) == 501


def test_question_that_a_shard_held_after_it_had_served_is_answered_when_it_serves_again() -> None:
    asking = serving()
    for epoch in (5, 6):
        asking.happen(ShardStalled(0))
        number = asking.ask(epoch)
        assert number not in asking.answers
        asking.happen(ShardServes(0))
        assert said(asking.answers[number]) == (HERE, 5)


def test_questions_are_answered_as_when_all_of_them_are_looked_at_each_time() -> None:
    chance = random.Random(7)
    for _ in range(100):
        asking, held = Asking(), dict[int, tuple[int | None, int]]()
        known, unheard = (SECOND, 3), frozenset[int]()
        asking.know(*known)
        for _ in range(60):
            heard, before = None, set(asking.answers)
            match chance.randrange(6):
                case 0 | 1:
                    epoch = chance.choice([None, *range(known[1] - 2, known[1] + 4)])
                    number = asking.ask(epoch)
                    is_doubted = epoch == known[1] and known[0].node_id not in unheard
                    held[number] = epoch, asking.now_ms + (DOUBT_MS if is_doubted else HOLD_MS)
                case 2:
                    known = chance.choice([SECOND, THIRD]), known[1] + chance.randrange(3)
                    asking.know(*known, *unheard)
                case 3:
                    unheard = frozenset(chance.sample([2, 3], chance.randrange(3)))
                    asking.know(*known, *unheard)
                case 4:
                    heard = chance.choice([2, 3])
                    asking.hear(heard)
                case _:
                    asking.pass_ms(chance.choice([1, 100, 500, HOLD_MS, DOUBT_MS]))
            is_now = {
                number
                for number, (epoch, until_ms) in held.items()
                if epoch is None
                or epoch < known[1]
                or (epoch, heard) == (known[1], known[0].node_id)
                or until_ms <= asking.now_ms
            }
            assert asking.answers.keys() - before == is_now
            held = {number: each for number, each in held.items() if number not in is_now}


# ---- who would lead next --------------------------------------------------------------------------------------------


def test_leader_names_the_other_replicas_in_the_order_in_which_they_are_elected() -> None:
    asking = Asking()
    asking.know(None, replicas=(3, 1, 2))
    asking.lead(5)
    asking.load(5)
    assert asking.answers[asking.ask()].successors == (3, 2)


@pytest.mark.parametrize(("unheard", "live"), [((3,), (HERE, SECOND, THIRD)), ((), (HERE, SECOND))])
def test_replica_that_is_not_heard_or_does_not_live_is_named_last(
    unheard: tuple[int, ...], live: tuple[NodeAddress, ...]
) -> None:
    asking = Asking()
    asking.know(None, 0, *unheard, live=live, replicas=(3, 1, 2))
    asking.lead(5)
    asking.load(5)
    assert asking.answers[asking.ask()].successors == (2, 3)


def test_node_that_does_not_lead_names_itself_where_it_is_a_replica() -> None:
    asking = Asking()
    asking.know(THIRD, 4, replicas=(2, 1, 3))
    answer = asking.answers[asking.ask()]
    assert (said(answer), answer.successors) == ((THIRD, 4), (2, 1))


def test_node_that_was_not_told_who_has_the_log_names_nobody() -> None:
    asking = Asking()
    asking.know(THIRD, 4)
    assert asking.answers[asking.ask()].successors == ()


def test_nodes_that_live_are_named_by_shard_in_the_order_of_an_election_and_who_is_not_heard_last() -> None:
    known = Neighbours(
        nodes=(HERE, SECOND, THIRD), unheard=frozenset({3}), replicas={0: (3, 1, 2), 1: (9, 2, 1), 2: ()}
    )
    told: list[tuple[NodeAddress, ...] | None] = [None, None, None, None]
    known.renew_successors(told, 1)
    assert told == [(SECOND, THIRD), (SECOND,), (), None]
    first = told[0]
    known.renew_successors(told, 1)
    assert told[0] is first


# ---- how long a registration may take -------------------------------------------------------------------------------


def serving() -> Asking:
    asking = Asking()
    asking.lead(5)
    asking.load(5)
    return asking


def test_each_member_that_is_to_register_here_is_asked_for_more_patience_than_the_one_before() -> None:
    asking = serving()
    asked = [asking.answers[asking.ask()].patience_ms for _ in range(3)]
    assert asked == [PATIENCE_EACH_MS, 2 * PATIENCE_EACH_MS, 3 * PATIENCE_EACH_MS]


def test_questions_that_were_held_together_are_asked_for_it_one_by_one() -> None:
    asking = Asking()
    asking.lead(5)
    numbers = [asking.ask() for _ in range(3)]
    asking.load(5)
    assert [asking.answers[number].patience_ms // PATIENCE_EACH_MS for number in numbers] == [1, 2, 3]


def test_who_registers_or_hangs_up_is_waited_for_no_longer() -> None:
    asking = serving()
    registers, goes, asking_again = (asking.ask() for _ in range(3))
    request = RegisterConsumer(
        "g", "", "i1", Subscription(("t",)), "c", 1, 10_000, rebalance_timeout_ms=10_000, reset_policy=None
    )
    asking.happen(RequestArrived(registers, 2, request, "m1"), ConnectionClosed(goes, "it closed it"))
    asking.happen(ConnectionClosed(asking_again, "it closed it"))
    assert asking.answers[asking.ask()].patience_ms == PATIENCE_EACH_MS


def test_whoever_is_sent_elsewhere_is_asked_for_no_patience() -> None:
    asking = Asking()
    asking.know(SECOND, 4)
    assert asking.answers[asking.ask()].patience_ms == 0
